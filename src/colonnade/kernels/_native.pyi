"""The C form of the kernels: what `plain` says, in C."""

from colonnade.kernels.plain import *  # noqa: F403
