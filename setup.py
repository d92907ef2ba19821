"""The C form of the kernels. Optional: where it cannot be compiled, colonnade installs and runs on the NumPy form."""

from __future__ import annotations

import os
from pathlib import Path

from setuptools import Extension, setup

ROOM = Path("src/colonnade/kernels")
FLAGS = (
    ["/O2"]
    if os.name == "nt"
    else ["-O3", "-fvisibility=hidden", "-Wall", "-Wextra", "-Wno-type-limits", "-fno-math-errno"]
)

native = Extension(
    "colonnade.kernels._native",
    sources=sorted(str(path) for path in ROOM.glob("*.c")),
    depends=[str(ROOM / "native.h")],
    define_macros=[("Py_LIMITED_API", "0x030B0000")],
    extra_compile_args=FLAGS,
    py_limited_api=True,
    optional=True,
)

setup(ext_modules=[native], options={"bdist_wheel": {"py_limited_api": "cp311"}})
