"""Plain data in pickles: strings, numbers, booleans, None, and lists, tuples and dicts of them. Nothing is executed.

The table format of pandas keeps the names of columns nowhere but in pickles such as `(lp0\\nVa\\np1\\na.`, which is
["a"]. A pickle is a program for a machine with a stack. This reader knows the instructions that make plain data, of all
protocols, and no others: one that names a class, calls it, or asks for an object from elsewhere ends the reading, so no
module is imported and no function is called. Sizes are bounded: bytes, digits, and how deep data is nested. What is put
aside to be used again must be a scalar or a short tuple of scalars, so that what is read is not larger than the pickle.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from math import isfinite

from colonnade.model import is_utf8

PlainScalar = None | bool | int | float | str
PlainData = PlainScalar | list["PlainData"] | tuple["PlainData", ...] | dict["PlainScalar", "PlainData"]

LARGEST_PICKLE = 64 << 20  # bytes
MOST_DIGITS = 20
MOST_NESTED = 8
HIGHEST_PROTOCOL = 5


class NotPlain(Exception):
    """Why a pickle is not plain data."""


def read_literal(data: bytes) -> PlainData:
    """The plain data that a pickle holds; a NotPlain for any other pickle, and for what is none."""
    if len(data) > LARGEST_PICKLE:
        raise NotPlain(f"it has {len(data):,} bytes")
    try:
        return _Machine(data).run()
    except (struct.error, UnicodeError, ValueError, IndexError) as error:
        raise NotPlain(f"it is damaged: {error}") from None


class _Entry:
    """A value on the stack, and how many levels of lists, tuples and dicts it has."""

    __slots__ = ("depth", "value")

    def __init__(self, value: PlainData, depth: int = 0) -> None:
        if depth > MOST_NESTED:
            raise NotPlain("it is nested too deeply")
        self.value, self.depth = value, depth


class _Machine:
    """The stack, the values put aside, and where in the pickle the next instruction is."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0
        self.stack: list[_Entry] = []
        self.marks: list[int] = []
        self.memo: dict[int, _Entry] = {}
        self.repeated = 0  # characters of strings that were used again

    def run(self) -> PlainData:
        while True:
            code = self.take(1)
            if code == b".":
                break
            instruction = INSTRUCTIONS.get(code)
            if instruction is None:
                raise NotPlain(f"byte {self.at - 1} is the instruction {code!r}, which does not make plain data")
            instruction(self)
        if len(self.stack) != 1 or self.marks:
            raise NotPlain("it does not end with one value")
        return self.stack[0].value

    # -- the bytes --

    def take(self, count: int) -> bytes:
        if not 0 <= count <= len(self.data) - self.at:
            raise NotPlain("it ends too early")
        self.at += count
        return self.data[self.at - count : self.at]

    def skip(self, count: int) -> None:
        self.take(count)

    def line(self) -> bytes:
        end = self.data.index(b"\n", self.at)
        return self.take(end - self.at + 1)[:-1]

    def number(self, form: str) -> int:
        value: int = struct.unpack(form, self.take(struct.calcsize(form)))[0]
        return value

    def decimal(self) -> int:
        text = self.line().removesuffix(b"L")
        if len(text) > MOST_DIGITS or not text.removeprefix(b"-").isdigit():
            raise NotPlain(f"{text[:40]!r} is not an integer")
        return int(text)

    # -- the stack --

    def push(self, value: PlainData, depth: int = 0) -> None:
        self.stack.append(_Entry(value, depth))

    def push_text(self, text: str) -> None:
        if not is_utf8(text):
            raise NotPlain("a string is not Unicode")
        self.push(text)

    def pop(self) -> _Entry:
        if len(self.stack) <= (self.marks[-1] if self.marks else 0):
            raise NotPlain("it takes a value that is not there")
        return self.stack.pop()

    def pop_marked(self) -> list[_Entry]:
        """The values since the last mark."""
        if not self.marks:
            raise NotPlain("it ends a list that has not begun")
        mark = self.marks.pop()
        entries = self.stack[mark:]
        del self.stack[mark:]
        return entries

    def make_tuple(self, entries: list[_Entry]) -> None:
        self.push(tuple(entry.value for entry in entries), _depth_of(entries))

    def make_dict(self, entries: list[_Entry]) -> None:
        self.push({}, 1)
        self.set_items(entries)

    def append(self, entries: list[_Entry]) -> None:
        """Append values to the list on the top of the stack."""
        target = self._top()
        if not isinstance(target.value, list):
            raise NotPlain("it appends to what is not a list")
        self._deepen(target, entries)
        target.value.extend(entry.value for entry in entries)

    def set_items(self, entries: list[_Entry]) -> None:
        """Set keys and values, in turn, of the dict on the top of the stack."""
        target = self._top()
        if not isinstance(target.value, dict) or len(entries) % 2:
            raise NotPlain("it sets items of what is not a dict")
        self._deepen(target, entries)
        for key, item in zip(entries[::2], entries[1::2], strict=True):
            if not _is_scalar(key.value):
                raise NotPlain("a key is not a string or number")
            target.value[key.value] = item.value  # type: ignore[index] # `_is_scalar` has checked it

    def _top(self) -> _Entry:
        if len(self.stack) <= (self.marks[-1] if self.marks else 0):
            raise NotPlain("it changes a value that is not there")
        return self.stack[-1]

    def _deepen(self, target: _Entry, entries: list[_Entry]) -> None:
        target.depth = max(target.depth, _depth_of(entries))
        if target.depth > MOST_NESTED:
            raise NotPlain("it is nested too deeply")

    # -- values put aside --

    def put(self, key: int) -> None:
        if not 0 <= key <= len(self.data):
            raise NotPlain("it puts a value aside under a number that is too large")
        self.memo[key] = self._top()

    def get(self, key: int) -> None:
        entry = self.memo.get(key)
        if entry is None:
            raise NotPlain("it uses a value that was not put aside")
        is_flat = isinstance(entry.value, tuple) and all(map(_is_scalar, entry.value))
        if not is_flat and not _is_scalar(entry.value):
            raise NotPlain("it uses a list or dict twice")
        if is_flat and len(entry.value) > MOST_NESTED:  # type: ignore[arg-type] # it is a tuple
            raise NotPlain("it uses a long tuple twice")
        self.repeated += sum(len(text) for text in _strings_in(entry.value))
        if self.repeated > LARGEST_PICKLE:
            raise NotPlain("it uses too many long strings twice")
        self.stack.append(_Entry(entry.value, entry.depth))


def _strings_in(value: PlainData) -> list[str]:
    return [item for item in (value if isinstance(value, tuple) else (value,)) if isinstance(item, str)]


def _is_scalar(value: PlainData) -> bool:
    return value is None or isinstance(value, (bool, int, float, str))


def _depth_of(entries: list[_Entry]) -> int:
    return 1 + max((entry.depth for entry in entries), default=0)


# -- the instructions --

Instruction = Callable[[_Machine], None]


def _begin(machine: _Machine) -> None:
    machine.marks.append(len(machine.stack))


def _protocol(machine: _Machine) -> None:
    if machine.number("<B") > HIGHEST_PROTOCOL:
        raise NotPlain("its protocol is not known")


def _integer(machine: _Machine) -> None:
    """An integer as a line; protocol 0 writes booleans as 00 and 01."""
    if machine.data[machine.at : machine.at + 3] in (b"00\n", b"01\n"):
        machine.push(machine.line() == b"01")
    else:
        machine.push(machine.decimal())


def _float(machine: _Machine) -> None:
    text = machine.line()
    value = float(text) if len(text) <= 2 * MOST_DIGITS else float("inf")
    if not isfinite(value) and text not in (b"inf", b"-inf", b"nan"):
        raise NotPlain("a number is not one")
    machine.push(value)


def _long(machine: _Machine) -> None:
    size = machine.number("<B")
    if size > 9:
        raise NotPlain("an integer is too large")
    machine.push(int.from_bytes(machine.take(size), "little", signed=True))


def _old_string(machine: _Machine) -> None:
    """A string of Python 2, in quotes. One with escapes is left out: no name of a column needs them."""
    text = machine.line()
    if len(text) < 2 or text[:1] not in (b"'", b'"') or text[-1:] != text[:1] or b"\\" in text:
        raise NotPlain("a string of Python 2 has escapes")
    machine.push_text(text[1:-1].decode("ascii"))


def _sized_text(form: str) -> Instruction:
    return lambda machine: machine.push_text(machine.take(machine.number(form)).decode("utf-8"))


def _constant(value: PlainScalar) -> Instruction:
    return lambda machine: machine.push(value)


def _packed(form: str) -> Instruction:
    return lambda machine: machine.push(machine.number(form))


def _tuple_of(count: int) -> Instruction:
    return lambda machine: machine.make_tuple([machine.pop() for _ in range(count)][::-1])


def _set_item(machine: _Machine) -> None:
    item, key = machine.pop(), machine.pop()
    machine.set_items([key, item])


def _make_list(machine: _Machine) -> None:
    entries = machine.pop_marked()
    machine.push([entry.value for entry in entries], _depth_of(entries))


INSTRUCTIONS: dict[bytes, Instruction] = {
    b"(": _begin,
    b"\x80": _protocol,
    b"\x95": lambda machine: machine.skip(8),  # a frame: how many bytes follow
    b"N": _constant(None),
    b"\x88": _constant(True),
    b"\x89": _constant(False),
    b"I": _integer,
    b"L": lambda machine: machine.push(machine.decimal()),
    b"J": _packed("<i"),
    b"K": _packed("<B"),
    b"M": _packed("<H"),
    b"\x8a": _long,
    b"F": _float,
    b"G": _packed(">d"),
    b"V": lambda machine: machine.push_text(machine.line().decode("raw-unicode-escape")),
    b"X": _sized_text("<I"),
    b"\x8c": _sized_text("<B"),
    b"\x8d": _sized_text("<Q"),
    b"S": _old_string,
    b"l": _make_list,
    b"]": lambda machine: machine.push([], 1),
    b"a": lambda machine: machine.append([machine.pop()]),
    b"e": lambda machine: machine.append(machine.pop_marked()),
    b"t": lambda machine: machine.make_tuple(machine.pop_marked()),
    b")": _tuple_of(0),
    b"\x85": _tuple_of(1),
    b"\x86": _tuple_of(2),
    b"\x87": _tuple_of(3),
    b"d": lambda machine: machine.make_dict(machine.pop_marked()),
    b"}": lambda machine: machine.push({}, 1),
    b"s": _set_item,
    b"u": lambda machine: machine.set_items(machine.pop_marked()),
    b"p": lambda machine: machine.put(machine.decimal()),
    b"q": lambda machine: machine.put(machine.number("<B")),
    b"r": lambda machine: machine.put(machine.number("<I")),
    b"\x94": lambda machine: machine.put(len(machine.memo)),
    b"g": lambda machine: machine.get(machine.decimal()),
    b"h": lambda machine: machine.get(machine.number("<B")),
    b"j": lambda machine: machine.get(machine.number("<I")),
}
