"""Pickles of plain data are read without loading them; every other pickle is refused, and nothing is executed."""

from __future__ import annotations

import builtins
import os
import pickle
import pickletools
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colonnade.layouts.pandas import literals
from colonnade.layouts.pandas.literals import INSTRUCTIONS, MOST_NESTED, NotPlain, read_literal

SCALARS = st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False) | st.text(max_size=20)
DATA = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(st.text(max_size=3) | st.integers(0, 9), inner, max_size=3)
    ),
    max_leaves=12,
)


def depth(value: Any) -> int:
    items = list(value.values()) if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else None
    return 0 if items is None else 1 + max(map(depth, items), default=0)


def alike(value: Any, other: Any) -> bool:
    return repr(value) == repr(other)


@given(DATA, st.integers(0, pickle.HIGHEST_PROTOCOL))
def test_plain_data_is_what_pickle_makes_of_it(value: Any, protocol: int) -> None:
    data = pickle.dumps(value, protocol)
    try:
        found = read_literal(data)
    except NotPlain:  # nested too deeply, or one list is in it twice
        assert depth(value) > MOST_NESTED or pickletools_has_get(data)
    else:
        assert alike(found, value)


def pickletools_has_get(data: bytes) -> bool:
    return any(opcode.name in ("GET", "BINGET", "LONG_BINGET") for opcode, _, _ in pickletools.genops(data))


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_the_attributes_of_pandas(protocol: int) -> None:
    names = ["a", "ä b", "a\\b", "\u2603", "a" * 300]
    info = {1: {"names": [None], "type": "Index"}, "index": {"index_name": "x"}, "values_block_0": {"tz": "Asia/Tokyo"}}
    for value in (names, [(1, names)], [(0, "index")], info, [("a", 1), ("a", 2)], [1.5, -2], [True, None], []):
        assert read_literal(pickle.dumps(value, protocol)) == value


class Trap:
    """Makes a folder when it is loaded."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.mkdir, (str(self.path),)


HOSTILE = {
    "GLOBAL and REDUCE": b"cos\nsystem\n(Vtouch trap\ntR.",
    "a class that is not called": b"cos\nsystem\n.",
    "STACK_GLOBAL": b"\x80\x04\x8c\x02os\x8c\x06system\x93.",
    "INST": b"(Vtouch trap\nios\nsystem\n.",
    "OBJ": b"(cos\nsystem\nVtouch trap\no.",
    "NEWOBJ": b"\x80\x02cbuiltins\nobject\n)\x81.",
    "NEWOBJ_EX": b"\x80\x04cbuiltins\nobject\n)}\x92.",
    "BUILD": b"(lp0\n(dp1\nb.",
    "EXT1": b"\x80\x02\x82\x01.",
    "EXT4": b"\x80\x02\x84\x01\x00\x00\x00.",
    "PERSID": b"Pobject\n.",
    "BINPERSID": b"NQ.",
    "a buffer from outside": b"\x80\x05\x97.",
    "bytes": b"\x80\x03C\x01a.",
    "a set": b"\x80\x04\x8f.",
    "a later protocol": b"\x80\x06N.",
    "lists in lists": b"]" * 100_000 + b"a" * 99_999 + b".",
    "tuples in tuples": b"N" + b"\x85" * 1_000_000 + b".",
    "lists of protocol 0": b"(" * 100_000 + b"l" * 100_000 + b".",
    "a list that is in itself": b"]q\x00h\x00a.",
    "a list that is used twice, again and again": b"]q\x00"
    + b"".join(b"(h%ch%clq%c" % (n, n, n + 1) for n in range(60))
    + b".",
    "a long string again and again": b"X\x00\x00\x10\x00" + b"a" * (1 << 20) + b"q\x00(" + b"h\x00" * 1000 + b"l.",
    "a long tuple again and again": b"(" + b"N" * 1000 + b"tq\x00(" + b"h\x00" * 1000 + b"l.",
    "a string longer than the pickle": b"X\xff\xff\xff\x7fa.",
    "a string of 2**63 bytes": b"\x8d" + b"\xff" * 8 + b".",
    "an integer of many digits": b"L" + b"9" * 100_000 + b"L\n.",
    "an integer of many bytes": b"\x8a\xff" + b"\x01" * 255 + b".",
    "an integer of billions of bytes": b"\x8b\xff\xff\xff\x7f.",
    "a float of many digits": b"F1." + b"0" * 100_000 + b"\n.",
    "not a float": b"Fx\n.",
    "put aside under a large number": b"Np99999999999\n.",
    "never put aside": b"g3\n.",
    "nothing to put aside": b"p0\n.",
    "a string with half a character": b"V\\ud800\n.",
    "an escape that is cut off": b"V\\u12\n.",
    "not UTF-8": b"X\x01\x00\x00\x00\xff.",
    "a string of Python 2 with escapes": b"S'\\x41'\n.",
    "a list as a key": b"(d]Ns.",
    "a key without a value": b"}(Nu.",
    "an item of what is not a dict": b"](NNu.",
    "an item of what is not a list": b"}Na.",
    "more than one value": b"NN.",
    "no value": b".",
    "a mark that is left": b"N(.",
    "no mark": b"Nt.",
    "a value below the mark": b"]((Na.",
    "no end": b"N",
    "nothing": b"",
    "a line without an end": b"Vabc",
    "text": b"a plain string.",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_other_pickles_are_refused(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is imported or called, and the only error is ours."""
    monkeypatch.chdir(tmp_path)
    b"a".decode("raw-unicode-escape")  # Python imports a codec when it is first used
    modules = set(sys.modules)

    def imported(*names: object, **__: object) -> object:
        raise AssertionError(f"a module is imported: {names[0]}")

    with monkeypatch.context() as patched:
        patched.setattr(builtins, "__import__", imported)
        try:
            read_literal(HOSTILE[name])
        except NotPlain as error:
            message = str(error)
        else:
            message = ""
    assert message
    assert set(sys.modules) == modules and list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_trap_inside_plain_data_is_not_sprung(tmp_path: Path, protocol: int) -> None:
    data = pickle.dumps({"index": ["a", Trap(tmp_path / "trap")]}, protocol)
    with pytest.raises(NotPlain):
        read_literal(data)
    assert list(tmp_path.iterdir()) == []
    pickle.loads(data)
    assert (tmp_path / "trap").exists()  # the trap works


EXECUTING = {
    "GLOBAL", "STACK_GLOBAL", "REDUCE", "BUILD", "INST", "OBJ", "NEWOBJ", "NEWOBJ_EX", "EXT1", "EXT2", "EXT4",
    "PERSID", "BINPERSID", "NEXT_BUFFER", "READONLY_BUFFER",
}  # fmt: skip


def test_no_instruction_that_executes_or_imports_is_known() -> None:
    codes = {opcode.name: opcode.code.encode("latin-1") for opcode in pickletools.opcodes}
    assert set(codes) > EXECUTING
    assert {name for name in EXECUTING if codes[name] in INSTRUCTIONS} == set()
    known = {name for name, code in codes.items() if code in INSTRUCTIONS}
    assert {pickletools_name for pickletools_name in known if pickletools_name.endswith(("GLOBAL", "OBJ"))} == set()
    text = Path(literals.__file__).read_text()
    for word in ("import pickle", "importlib", "__import__", "eval(", "exec(", "getattr("):
        assert word not in text


@given(st.binary(max_size=60))
def test_any_bytes_are_data_or_refused(data: bytes) -> None:
    try:
        read_literal(data)
    except NotPlain:
        return


@given(st.lists(st.sampled_from([*INSTRUCTIONS, b"0\n", b"1\n", b"a\n", b"\x00", b"."]), max_size=40))
def test_any_instructions_are_data_or_refused(parts: list[bytes]) -> None:
    try:
        value = read_literal(b"".join(parts) + b".")
    except NotPlain:
        return
    assert depth(value) <= MOST_NESTED
