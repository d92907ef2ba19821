"""A `pyarrow.compute.Expression` as a tree of plain objects, and back.

`Expression.__reduce__` returns a function and its argument: an Arrow IPC file in memory with one batch of one row. Its
columns are the literals, with their types. The metadata of its schema are a program in prefix order:

    field_ref NAME | nested_field_ref N ... | literal COLUMN | call FUNCTION ... [options COLUMN] end FUNCTION

Keys repeat, and `Schema.metadata` is a dict, so the pairs are read from the Arrow C schema of the same batch. Nothing
is unpickled, and the bytes come from the object in this process, never from a file.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator

import pyarrow as pa

from colonnade import compute as pc
from colonnade.dataclass import dataclass

MOST_PAIRS = 100_000  # of metadata; a filter of an engine has a few


@dataclass(frozen=True, slots=True)
class FieldNode:
    """A column, or a field inside one: the names that lead to it."""

    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LiteralNode:
    """A value with its type."""

    scalar: pa.Scalar


@dataclass(frozen=True, slots=True)
class CallNode:
    """A function of Arrow, its arguments and its options."""

    function: str
    arguments: tuple[ArrowNode, ...]
    options: pa.Scalar | None

    def option(self, name: str) -> object:
        """One option as a Python value; None where the function has no such option."""
        return None if self.options is None else self.options.as_py().get(name)


ArrowNode = FieldNode | LiteralNode | CallNode


class _CSchema(ctypes.Structure):
    """The begin of `struct ArrowSchema` of the Arrow C data interface."""

    _fields_ = (("format", ctypes.c_char_p), ("name", ctypes.c_char_p), ("metadata", ctypes.c_void_p))


def _metadata_pairs(schema: pa.Schema) -> Iterator[tuple[str, str]]:
    """Keys and values of the metadata, in their order, repeated keys too.

    The C data interface stores the number of pairs, then for each key and value its length and bytes; numbers are
    int32 in native order.
    """
    capsule = schema.__arrow_c_schema__()  # owns the memory that is read here
    pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
    pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    address = _CSchema.from_address(pointer_of(capsule, b"arrow_schema")).metadata
    if not address:
        return

    def int32_at(position: int) -> int:
        number: int = struct.unpack("=i", ctypes.string_at(position, 4))[0]
        return number

    n_pairs, address = int32_at(address), address + 4
    if not 0 <= n_pairs <= MOST_PAIRS:
        raise ValueError("too many parts in a pyarrow expression")
    for _ in range(n_pairs):
        pair = []
        for _ in range(2):
            length = int32_at(address)
            pair.append(ctypes.string_at(address + 4, length).decode())
            address += 4 + length
        yield pair[0], pair[1]
    del capsule


def expression_tree(expression: pc.Expression) -> ArrowNode:
    """The tree of an expression; a ValueError if this version of pyarrow stores it in another way."""
    buffer = expression.__reduce__()[1][0]
    row = pa.ipc.open_file(buffer).get_batch(0)
    program = _metadata_pairs(row.schema)
    try:
        return _node(program, row, *next(program))
    except (StopIteration, RecursionError, IndexError) as error:
        raise ValueError("a pyarrow expression in an unknown form") from error


def _node(program: Iterator[tuple[str, str]], row: pa.RecordBatch, key: str, value: str) -> ArrowNode:
    if key == "literal":
        return LiteralNode(row.column(int(value))[0])
    if key in ("field_ref", "nested_field_ref"):
        return FieldNode(_path(program, key, value))
    if key != "call":
        raise ValueError(f"an unknown word in a pyarrow expression: {key!r}")
    arguments: list[ArrowNode] = []
    options: pa.Scalar | None = None
    for inner_key, inner in program:
        if inner_key == "end":
            return CallNode(value, tuple(arguments), options)
        if inner_key == "options":
            options = row.column(int(inner))[0]
        else:
            arguments.append(_node(program, row, inner_key, inner))
    raise ValueError("a pyarrow expression ends inside a call")


def _path(program: Iterator[tuple[str, str]], key: str, value: str) -> tuple[str, ...]:
    if key == "field_ref":
        return (value,)
    if key != "nested_field_ref":
        raise ValueError(f"an unknown word in the name of a field: {key!r}")
    return tuple(name for _ in range(int(value)) for name in _path(program, *next(program)))


def columns_of_tree(tree: ArrowNode) -> set[str]:
    """The columns that an expression reads."""
    if isinstance(tree, FieldNode):
        return {tree.path[0]}
    if isinstance(tree, LiteralNode):
        return set()
    return {name for argument in tree.arguments for name in columns_of_tree(argument)}
