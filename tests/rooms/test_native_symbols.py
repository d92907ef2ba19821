"""The names of the C form: none may meet a name of another library in the process.

An exported name binds to whatever the process has loaded before under that name: `adler32` to zlib's, where the
interpreter links libz. What is exported is read from the ELF file itself, so no binutils are needed.
"""

from __future__ import annotations

import ctypes.util
import os
import shutil
import struct
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import colonnade.kernels
from tests.laws.both_forms import HAS_C, native

KERNELS = Path(colonnade.kernels.__file__).parent
PREFIX = "colonnade_"
IN_DYNAMIC_TABLE, IN_OBJECT_TABLE = 11, 2  # section types SHT_DYNSYM and SHT_SYMTAB

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="reads ELF files"),
    pytest.mark.skipif(not HAS_C, reason="there is no C form here"),
]


def global_symbols(path: Path, table: int) -> set[str]:
    """Names that an ELF file of 64 bits defines for others: all that are not local to it."""
    data = path.read_bytes()
    assert data[:6] == b"\x7fELF\x02\x01", path
    (at,) = struct.unpack_from("<Q", data, 0x28)
    size, count = struct.unpack_from("<HH", data, 0x3A)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, at + i * size) for i in range(count)]
    names: set[str] = set()
    for _, kind, _, _, begin, length, strings, *_ in sections:
        for entry in range(begin, begin + length, 24) if kind == table else ():
            name_at, info, _, section = struct.unpack_from("<IBBH", data, entry)
            if info >> 4 and section:  # neither local nor undefined
                name_at += sections[strings][4]
                names.add(data[name_at : data.index(b"\0", name_at)].decode())
    return names


def test_only_the_init_function_is_exported() -> None:
    assert global_symbols(Path(native.__file__), IN_DYNAMIC_TABLE) == {"PyInit__native"}


@pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")
def test_names_that_files_share_carry_a_prefix_and_are_hidden_without_any_flag(tmp_path: Path) -> None:
    """As another build may compile them: without -fvisibility=hidden, and linked into one program with others."""
    include = f"-I{sysconfig.get_path('include')}"
    gcc = ["gcc", "-fPIC", "-O0", "-DPy_LIMITED_API=0x030B0000", include]
    sources = [str(path) for path in sorted(KERNELS.glob("*.c"))]
    if not sources or not Path(include[2:], "Python.h").exists():
        pytest.skip("needs the sources and Python's headers")
    subprocess.run([*gcc, "-c", *sources], cwd=tmp_path, check=True)
    objects = sorted(tmp_path.glob("*.o"))
    names = {name for path in objects for name in global_symbols(path, IN_OBJECT_TABLE)}
    assert {name for name in names if not name.startswith(PREFIX)} == {"PyInit__native"}
    subprocess.run([*gcc, "-shared", *map(str, objects), "-o", "_native.so", "-lm"], cwd=tmp_path, check=True)
    assert global_symbols(tmp_path / "_native.so", IN_DYNAMIC_TABLE) == {"PyInit__native"}


WRITE_AND_READ = """
import sys
import numpy as np
import colonnade as cn
from colonnade import kernels

assert kernels.FORM == "c"
rows = {"quiet": np.arange(200_000) // 7, "noise": np.random.default_rng(1).normal(size=200_000).round(2)}
for filters in ("shuffle+deflate", None):
    options = {name: cn.column(filters=filters) for name in rows} if filters else None
    cn.write(sys.argv[1], rows, columns=options, mode="replace")
    table = cn.read(sys.argv[1])
    assert all((table[name].to_numpy() == values).all() for name, values in rows.items())
with cn.open(sys.argv[1], "r+") as file:
    table = file[file.tables()[0]]
    table.append(rows)
    assert table.where("quiet == 3").count() == 14
"""


def test_a_write_and_a_read_in_a_process_that_loaded_zlib_first(tmp_path: Path) -> None:
    libz = ctypes.util.find_library("z")
    if libz is None:
        pytest.skip("no libz here")
    script = [sys.executable, "-c", WRITE_AND_READ, str(tmp_path / "a.h5")]
    environment = {**os.environ, "LD_PRELOAD": libz, "COLONNADE_KERNELS": "c"}
    ran = subprocess.run(script, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, f"exit {ran.returncode}: {ran.stderr}"
    assert "cannot be preloaded" not in ran.stderr
