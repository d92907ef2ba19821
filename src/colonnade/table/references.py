"""References in rows: what they lead to, and its values, read on request."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Self, Union, cast

import numpy as np
import pyarrow as pa

from colonnade.columns.arrow_types import RawType, ReferenceType, python_values
from colonnade.errors import ConflictError, CorruptError, FormatError, UsageError
from colonnade.exchange.targets import Referring
from colonnade.nodes.paths import join_path
from colonnade.nodes.protocols import ReferenceKind, ReferenceTarget
from colonnade.nodes.regions import (
    Chosen,
    Region,
    check_selection,
    chosen_of,
    read_chosen,
    selection_of,
)
from colonnade.sealed import Sealed
from colonnade.stored_dtypes import NEW_REFERENCE

if TYPE_CHECKING:
    import numpy.typing as npt

    from colonnade.nodes import Dataset, Group, Node
    from colonnade.table.file import Asked, File
    from colonnade.table.table import Table
    from colonnade.values import Cell

Referenced = Union["ReferencedArray", "ReferencedGroup", "Table", list["Referenced"], dict[str, "Referenced"], None]
"""What the references of a cell lead to."""
FromCell = Callable[["Cell"], "Cell"]


class Reference(Referring):
    """What a cell refers to: an array, a selected part of one, a group or an attribute. Nothing is read before `read`.

    Rows of tables have references as values (`t["roi"][5]`, `t[5]["roi"]`). `Reference(path, selection)` makes one to
    write: the selection is what NumPy would take, slices and integers, one per dimension (`np.s_[0:2, 5]`); without
    one, it refers to the whole object.

    >>> import h5py, numpy as np
    >>> with h5py.File("run.h5", "w") as file:
    ...     file["image"] = np.arange(12).reshape(3, 4)
    >>> cn.write("run.h5", {"roi": [cn.Reference("/image", np.s_[0:2, ::3]), None]}, "events")
    >>> roi = cn.open_table("run.h5", "events")["roi"][0]
    >>> roi
    <Reference /image[0:2, 0:4:3]>
    >>> roi.path, roi.read()
    ('/image', array([[0, 3],
           [4, 7]]))
    """

    def __init__(self, path: str, selection: object = None) -> None:
        if not isinstance(path, str) or (not path.strip("/") and selection is not None):
            raise UsageError(f"a reference takes the path of an array, such as '/image', not {path!r}")
        if selection is not None:
            check_selection(selection)
        self._path: str | None = path if path.startswith("/") else f"/{path}"
        self._asked = selection
        self._origin: _Origin | None = None
        self._stored: tuple[ReferenceKind, bytes] | None = None

    @classmethod
    def _of_cell(cls, origin: _Origin, kind: ReferenceKind, data: bytes) -> Self:
        reference = cls("/")
        reference._path, reference._origin, reference._stored = None, origin, (kind, data)
        return reference

    @classmethod
    def _at(cls, origin: _Origin, path: str, selection: object = None) -> Self:
        reference = cls(path, selection)
        reference._origin = origin
        return reference

    @property
    def path(self) -> str:
        """The path of the object that it leads to."""
        if self._path is None:
            path = self._file._consistent(lambda: _path_of(self._target().node))
            self._path = path
        return self._path

    @property
    def selection(self) -> tuple[object, ...] | None:
        """The part of the array: `array[reference.selection]` is what `read` returns. None if it is the whole object.

        Slices if they describe it; else arrays of positions: a grid, as `np.ix_` makes it, or points, one array per
        dimension.
        """
        if self._origin is None:
            asked = self._asked
            return None if asked is None else asked if isinstance(asked, tuple) else (asked,)
        chosen = self._file._consistent(lambda: self._chosen(self._target()))
        return None if chosen is None else selection_of(chosen)

    @property
    def attribute(self) -> str | None:
        """The name of the attribute that it leads to, if it leads to one."""
        if self._stored is None or self._stored[0] != "reference":
            return None
        return self._file._consistent(lambda: self._target().attribute)

    def read(self) -> Cell:
        """The values: an array, or the selected part of it.

        A regular region has the dimensions of its array; points, and other regions, are one-dimensional. Of a group:
        the Table if it is one, else a ReferencedGroup.
        """
        return self._file._consistent(lambda: self._read(self._target()))

    def _read(self, target: ReferenceTarget) -> Cell:
        if target.attribute is not None:
            value = target.node.read_attribute(target.attribute)
            if value is None:
                raise CorruptError(f"the reference leads nowhere: there is no attribute {target.attribute!r} to read")
            return value
        node = target.node
        if _is_group(node):
            return _group_or_table(self._file, _path_of(node))
        dataset = _as_dataset(node)
        chosen = self._chosen(target)
        if chosen is None:
            chosen = tuple(range(length) for length in dataset.shape)
        values = read_chosen(dataset, chosen)
        return values if values.ndim else values[()]

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise ValueError("the array is read from the file, which makes a copy")
        return np.asarray(self.read(), dtype=dtype)

    # -- where it leads --

    @property
    def _file(self) -> File:
        if self._origin is None:
            raise UsageError(f"{self!r} belongs to no file yet: read it from a row")
        return self._origin.file

    def _target(self) -> ReferenceTarget:
        assert self._origin is not None  # _file has checked it
        root = self._origin.file._handle.root
        if self._stored is None:
            assert self._path is not None  # given
            node = _node_at(root, self._path)
            if node is None:
                raise CorruptError(f"there is no object {self._path} any more", path=self._path)
            return ReferenceTarget(node)
        self._origin.check()
        target = root.find_target(*self._stored)
        assert target is not None  # null references are None
        return target

    def _chosen(self, target: ReferenceTarget) -> Chosen | None:
        region: Region | None = target.region
        if region is not None:
            return region.chosen(_as_dataset(target.node).shape)
        if self._asked is None:
            return None
        try:
            return chosen_of(self._asked, _as_dataset(target.node).shape)
        except ValueError as error:
            raise UsageError(f"{self._path}: {error}", path=self._path) from error

    def _parts(self) -> tuple[str, str]:
        """The path, and the selection or the attribute as text."""
        attribute = self.attribute
        if attribute is not None:
            return self.path, f".attrs[{attribute!r}]"
        selection = self.selection
        return self.path, "" if selection is None else f"[{_selection_text(selection)}]"

    def __repr__(self) -> str:
        try:
            return f"<Reference {''.join(self._parts())}>"
        except (FormatError, UsageError, OSError) as error:
            return f"<Reference: {error}>"

    def _key(self) -> tuple[object, ...]:
        name = None if self._origin is None else self._origin.file.name
        items = tuple(
            (item.shape, item.tobytes()) if isinstance(item, np.ndarray) else str(item) for item in self.selection or ()
        )
        return name, self.path, self.selection is None, items, self.attribute

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, Reference) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key())

    def __reduce__(self) -> tuple[object, ...]:
        if self._origin is None:
            return Reference, (self._path, self._asked)
        if self.attribute is not None:
            raise UsageError(f"cannot pickle {self!r}: it leads to an attribute")
        file = self._origin.file
        return _opened_again, (reopened_from(file, f"{self!r}"), file._asked, self.path, self.selection)


def reopened_from(file: File, what: str) -> str:
    """What another process opens to have this file; a UsageError if it cannot, so that `what` cannot be pickled."""
    name = file._opened_by
    target = name if "://" in name else str(Path(name).absolute())
    if file._handle.is_foreign_stream and target != name and not Path(target).is_file():
        raise UsageError(
            f"cannot pickle {what}: its file was opened from a file object, which another process does not have. Open "
            "the file by its path"
        )
    return target


def _opened_again(name: str, asked: Asked, path: str, selection: object) -> Reference:
    """A pickled reference, with its file opened again for reading."""
    from colonnade.table import open

    return Reference._at(_Origin(open(name, **asked)), path, selection)


def _selection_text(selection: tuple[object, ...]) -> str:
    arrays = [item for item in selection if isinstance(item, np.ndarray)]
    if not arrays or len(arrays) != len(selection):
        return ", ".join(map(_item_text, selection))
    if arrays[0].ndim > 1:
        return " x ".join(f"{array.size}" for array in arrays) + " elements"
    return f"{len(arrays[0]):,} points"


def _item_text(item: object) -> str:
    if not isinstance(item, slice):
        return "..." if item is Ellipsis else str(item)
    ends = f"{'' if item.start is None else item.start}:{'' if item.stop is None else item.stop}"
    return ends if item.step is None else f"{ends}:{item.step}"


class _Origin:
    """The file that references were read from, as it was: a rewritten file has its objects at other addresses."""

    def __init__(self, file: File) -> None:
        self.file = file
        self._identity = _identity(file)

    def check(self) -> None:
        """Raise if the file was rewritten since."""
        if _identity(self.file) != self._identity:
            raise ConflictError(
                f"{self.file.name} was rewritten since this reference was read: read its row again", path=self.file.name
            )


def _identity(file: File) -> tuple[int, int] | None:
    path = file._handle.path
    try:
        facts = None if path is None else Path(path).stat()
    except OSError:
        return None
    return None if facts is None else (facts.st_dev, facts.st_ino)


def _is_group(node: Node) -> bool:
    return hasattr(node, "open_group")


def _as_dataset(node: Node) -> Dataset:
    if not getattr(node, "is_dataset", False):
        raise UsageError("the reference leads to a datatype or a group, which has no values to read")
    return node  # type: ignore[return-value]


def _path_of(node: Node) -> str:
    path = node.full_path()
    if path is None:
        raise FormatError("the reference leads to an object that no link of the file leads to")
    return path


def _node_at(root: Group, path: str) -> Node | None:
    return root if path == "/" else root.open_dataset(path) or root.open_group(path)


def _group_or_table(file: File, path: str) -> Table | ReferencedGroup:
    return file[path] if file._has_table(path) else ReferencedGroup(file, path)


class ReferencedGroup(Sealed, Mapping[str, "Table | ReferencedGroup | Reference"]):
    """A group that a reference leads to: the names in it, and for each the Table, the group, or a Reference to the
    array.

    >>> import h5py
    >>> with h5py.File("run.h5", "w") as file:
    ...     file["scans/first"] = [1, 2]
    >>> cn.write("run.h5", {"scan": [cn.Reference("/scans")]}, "events")
    >>> group = cn.open_table("run.h5", "events")["scan"][0].read()
    >>> group, list(group), group["first"].read()
    (<ReferencedGroup /scans>, ['first'], array([1, 2]))
    """

    def __init__(self, file: File, path: str) -> None:
        self._file = file
        self._path = path

    @property
    def path(self) -> str:
        """The path of the group."""
        return self._path

    @property
    def attrs(self) -> dict[str, object]:
        """The attributes of the group, by name."""

        def read() -> dict[str, object]:
            group = self._group()
            return {name: group.read_attribute(name) for name in group.attribute_names()}

        return self._file._consistent(read)

    def _group(self) -> Group:
        root = self._file._handle.root
        group = root if self._path == "/" else root.open_group(self._path)
        if group is None:
            raise CorruptError(f"there is no group {self._path} any more", path=self._path)
        return group

    def __getitem__(self, name: str) -> Table | ReferencedGroup | Reference:
        def find() -> Table | ReferencedGroup | Reference:
            path, node = join_path(self._path, name), _node_at(self._group(), name)
            if node is None:
                if name not in self._group().link_names():
                    raise KeyError(name)
                raise UsageError(f"cannot open {path}: it is not an array or a group, or leads to nothing", path=path)
            if _is_group(node):
                return _group_or_table(self._file, path)
            return Reference._at(_Origin(self._file), path)

        return self._file._consistent(find)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._file._consistent(lambda: name in self._group().link_names())

    def __iter__(self) -> Iterator[str]:
        return iter(self._file._consistent(lambda: self._group().link_names()))

    def __len__(self) -> int:
        return len(self._file._consistent(lambda: self._group().link_names()))

    def __repr__(self) -> str:
        return f"<ReferencedGroup {self._path}>"


class ReferencedArray(np.ndarray):
    """An array that `Query.dereference` has read: a NumPy array that also knows where it is from.

    >>> import h5py
    >>> with h5py.File("run.h5", "w") as file:
    ...     file["pixels"] = [1, 2, 3]
    >>> cn.write("run.h5", {"image": [cn.Reference("/pixels", np.s_[1:])]}, "events")
    >>> for array in cn.open_table("run.h5", "events")[:].dereference("image"):
    ...     print(array, array.path, array.selection)
    [2 3] /pixels (slice(1, 3, None),)
    """

    _reference: Reference | None = None

    def __array_finalize__(self, other: object) -> None:
        self._reference = None  # arrays that are computed from this one are not from there

    def __setattr__(self, name: str, value: object) -> None:
        if not name.startswith("_") and not hasattr(np.ndarray, name):
            raise AttributeError(f"cannot set attribute {name!r} of a ReferencedArray")
        super().__setattr__(name, value)

    @property
    def reference(self) -> Reference | None:
        """The reference that led to it; None of an array that was computed from it."""
        return self._reference

    @property
    def path(self) -> str | None:
        """The path of the array in the file."""
        return None if self._reference is None else self._reference.path

    @property
    def selection(self) -> tuple[object, ...] | None:
        """The part of the array, as `Reference.selection`."""
        return None if self._reference is None else self._reference.selection

    def read(self) -> np.ndarray:
        """The values as a plain NumPy array."""
        return np.asarray(self)


def followed(cell: Cell) -> Referenced:
    """A cell with what its references lead to instead of them, also inside lists and structs; other parts as they
    are."""
    if isinstance(cell, list):
        return [followed(item) for item in cell]
    if isinstance(cell, dict):
        return {name: followed(value) for name, value in cell.items()}
    if not isinstance(cell, Reference):
        return cast("None", cell)  # missing, or another field of a struct
    value = cell.read()
    if isinstance(value, ReferencedGroup) or not isinstance(value, (np.ndarray, np.generic, str, bytes, int, float)):
        return cast("Table | ReferencedGroup", value)
    array = np.asarray(value).view(ReferencedArray)
    array._reference = cell
    return array


# -- the cells of rows --


def python_cells(array: pa.Array | pa.ChunkedArray, file: File) -> list[Cell]:
    """The values as Python objects, with references that can be followed; None for missing values."""
    convert = cell_converter(array.type, file)
    values = python_values(array)
    return values if convert is None else [None if value is None else convert(value) for value in values]


def python_rows(table: pa.Table | pa.RecordBatch, file: File) -> list[dict[str, Cell]]:
    """The rows of a table as dicts, with references that can be followed."""
    if not table.num_columns:
        return [{} for _ in range(table.num_rows)]
    columns, names = [python_cells(column, file) for column in table.columns], table.schema.names
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def cell_converter(kind: pa.DataType, file: File) -> FromCell | None:
    """What makes references of the bytes in cells of this type; None if it holds none."""
    return _converter(kind, _Origin(file)) if _holds_references(kind) else None


def _reference_kind(kind: pa.DataType) -> ReferenceKind | None:
    if isinstance(kind, ReferenceType):
        return "object_reference" if kind.kind == "object_reference" else "region_reference"
    return "reference" if isinstance(kind, RawType) and kind.hdf5_type.startswith(NEW_REFERENCE) else None


def _holds_references(kind: pa.DataType) -> bool:
    if _reference_kind(kind) is not None:
        return True
    if pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
        return _holds_references(kind.value_type)
    return pa.types.is_struct(kind) and any(_holds_references(field.type) for field in kind)


def _converter(kind: pa.DataType, origin: _Origin) -> FromCell | None:
    reference = _reference_kind(kind)
    if reference is not None:
        return lambda cell: _from_bytes(cell, origin, reference)
    if pa.types.is_struct(kind):
        inside = {field.name: convert for field in kind if (convert := _converter(field.type, origin)) is not None}
        return None if not inside else lambda cell: _with_fields(cell, inside)
    if pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
        item = _converter(kind.value_type, origin)
        return None if item is None else lambda cell: _with_items(cell, item)
    return None


def _from_bytes(cell: Cell, origin: _Origin, kind: ReferenceKind) -> Reference | None:
    """The reference that bytes are; None if it is null. One in the form of HDF5 1.12 begins with its kind and flags."""
    assert isinstance(cell, bytes)
    return Reference._of_cell(origin, kind, cell) if any(cell[2:] if kind == "reference" else cell) else None


def _with_items(cell: Cell, convert: FromCell) -> Cell:
    assert isinstance(cell, list)
    return [None if value is None else convert(value) for value in cell]


def _with_fields(cell: Cell, inside: Mapping[str, FromCell]) -> Cell:
    assert isinstance(cell, dict)
    return {
        name: inside[name](value) if name in inside and value is not None else value for name, value in cell.items()
    }
