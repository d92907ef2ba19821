"""Values without a datatype of their own: JSON documents and cells. For annotations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Union

Json = Union[None, bool, int, float, str, Sequence["Json"], Mapping[str, "Json"]]  # noqa: UP007 - it names itself
JsonObject = dict[str, Json]
Cell = object
"""The value of a row as Python has it: which type that is, the column knows, and a type checker does not."""
