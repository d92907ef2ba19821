"""Tables that are no tables in their file: frames of anndata before 0.7, and the features and barcodes of 10x files.

They are told by headers alone. Opened, they are read whole and become a table in memory, which is searched like any.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pyarrow as pa

from colonnade.dataclass import dataclass
from colonnade.elements.legacy import FRAMES, is_tenx, read_frame, read_plain
from colonnade.errors import ColonnadeError
from colonnade.h5.attributes import BROKEN
from colonnade.h5.nodes import dtype_of, find_member, kind_of, member_names, shape_of
from colonnade.table import File, Table
from colonnade.table import open as open_file
from colonnade.table import write as write_table

OLD, TENX = "anndata before 0.7", "10x"


@dataclass(frozen=True)
class TableView:
    """What could be read as a table: where it is, what wrote it, how large it is by its headers."""

    path: str
    kind: str
    n_rows: int
    n_columns: int
    stored_bytes: int
    read: Callable[[], tuple[pa.Table, list[str]]]

    def open(self) -> Table:
        """The table, in memory. Its labels are those of the frame."""
        rows, labels = self.read()
        held = io.BytesIO()
        title = f"{self.path} of a file of {self.kind}, read into memory"
        write_table(held, rows, table=self.path, labels=labels, title=title, allow_reserved=True)
        return open_file(held)[self.path]


def table_views(file: File) -> dict[str, TableView]:
    """Everything in a file that can be read as a table though it is none, by its path."""
    root, found = file.h5, {}
    for views in (_old_frames(root), _of_tenx(root)):
        try:
            found.update({view.path: view for view in views})
        except (*BROKEN, ColonnadeError):  # a header that cannot be read: told by who looks at the object itself
            continue
    return found


def _old_frames(root: Any) -> Iterator[TableView]:
    for name in FRAMES:
        node = find_member(root, name)
        if node is None or kind_of(node) != "dataset" or len(shape_of(node)) != 1:
            continue
        fields = dtype_of(node).names or ()
        if fields:
            size, read = node.id.get_storage_size(), partial(_read_old, node, find_member(root, "uns"), fields[0])
            yield TableView(f"/{name}", OLD, shape_of(node)[0], len(fields) - 1, size, read)


def _read_old(node: Any, uns: Any, index: str) -> tuple[pa.Table, list[str]]:
    return read_frame(node, uns), [index]


def _of_tenx(root: Any) -> Iterator[TableView]:
    for name in member_names(root):
        group = find_member(root, name)
        if group is None or not is_tenx(group):
            continue
        features = find_member(group, "features")
        if features is not None and kind_of(features) == "group":
            yield from _arrays(f"/{name}/features", features, member_names(features), "id")
        yield from _arrays(f"/{name}", group, ["genes", "gene_names"], "genes")
        yield from _arrays(f"/{name}/barcodes", group, ["barcodes"], "barcodes")


def _arrays(path: str, group: Any, names: list[str], leading: str) -> Iterator[TableView]:
    """Datasets of one length, that of the leading one, as the columns of a table."""
    flat = {name: node for name in names if (node := find_member(group, name)) is not None and _is_flat(node)}
    if leading not in flat:
        return
    n_rows = shape_of(flat[leading])[0]
    columns = {name: node for name, node in flat.items() if shape_of(node)[0] == n_rows}
    size = sum(node.id.get_storage_size() for node in columns.values())
    yield TableView(path, TENX, n_rows, len(columns), size, partial(_read_arrays, columns))


def _is_flat(node: Any) -> bool:
    return kind_of(node) == "dataset" and len(shape_of(node)) == 1


def _read_arrays(columns: dict[str, Any]) -> tuple[pa.Table, list[str]]:
    return pa.table({name: pa.array(read_plain(node)) for name, node in columns.items()}), []
