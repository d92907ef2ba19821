"""The rule A4 for sparse matrices. SciPy trusts the arrays it is given, so every bound is checked here."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from colonnade.layouts.anndata import names
from colonnade.layouts.anndata.raw import RawElement, is_old_matrix
from colonnade.layouts.anndata.rules_elements import matrix_shape
from colonnade.layouts.anndata.rules_values import number_blocks, read_all
from colonnade.layouts.raw_node import stored_as
from colonnade.model import Breach

PARTS = ("data", "indices", "indptr")
DATA_MEMBER = ("integer", "float", "boolean", "complex")


def is_matrix(node: RawElement) -> bool:
    return node.kind == "group" and (node.is_a(*names.MATRICES) or is_old_matrix(node))


def is_by_rows(node: RawElement) -> bool:
    """Whether the matrix is stored by rows (CSR), not by columns (CSC)."""
    return (node.type or node.text(names.OLD_FORMAT) or "").startswith("csr")


def matrix_has_its_parts(node: RawElement) -> Iterator[Breach]:
    """A4: shape is two lengths; data, indices and indptr have rank 1 and the right lengths."""
    if not is_matrix(node):
        return
    shape = matrix_shape(node)
    if shape is None:
        attribute = node.attribute("shape") or node.attribute(names.OLD_SHAPE)
        yield Breach("error", node.path, "shape is not two lengths", stored_as(attribute), "two integers from 0")
    if is_old_matrix(node) and node.text(names.OLD_FORMAT) not in ("csr", "csc"):
        found = repr(node.text(names.OLD_FORMAT))
        yield Breach("error", node.path, "h5sparse_format is not a matrix format", found, "'csr' or 'csc'")
    for name in PARTS:
        yield from _part(node, name)
    yield from _lengths(node, shape)


def _part(node: RawElement, name: str) -> Iterator[Breach]:
    part, kinds = node.member(name), DATA_MEMBER if name == "data" else ("integer",)
    expected = f"{'numbers' if name == 'data' else 'integers'} of rank 1"
    if part is None:
        yield Breach("error", node.path, f"the matrix has no {name}", "no such member", expected)
    elif not part.is_flat or part.stored is None or part.stored.type.kind not in kinds:
        found = part.shape_text if part.stored is None else f"{part.shape_text} of {part.stored.type}"
        yield Breach("error", part.path, f"{name} is not {expected}", found, expected)


def _lengths(node: RawElement, shape: tuple[int, int] | None) -> Iterator[Breach]:
    data, indices, indptr = (node.member(name) for name in PARTS)
    if data is not None and indices is not None and data.is_flat and indices.is_flat and data.length != indices.length:
        message = "the numbers of indices and of data differ"
        yield Breach("error", indices.path, message, str(indices.length), str(data.length))
    n_lines = None if shape is None else shape[0 if is_by_rows(node) else 1]
    if indptr is not None and indptr.is_flat and n_lines is not None and indptr.length != n_lines + 1:
        message = "indptr does not have one entry more than the matrix has lines"
        yield Breach("error", indptr.path, message, str(indptr.length), str(n_lines + 1))


def bounds_are_kept(node: RawElement) -> Iterator[Breach]:
    """A4 (deep): indptr increases from 0 to the number of data; every index is within the matrix."""
    if not node.deep or not is_matrix(node):
        return
    shape, parts = matrix_shape(node), [node.member(name) for name in PARTS]
    data, indices, indptr = parts
    if data is not None and data.is_flat:
        read_all(data)
        if indptr is not None and _is_integers(indptr):
            yield from _starts(indptr, data.length)
    if indices is not None and _is_integers(indices) and shape is not None:
        yield from _indices(indices, shape[1 if is_by_rows(node) else 0])
    node.bytes_read += sum(part.bytes_read for part in parts if part is not None)


def _is_integers(node: RawElement) -> bool:
    return node.is_flat and node.stored is not None and node.stored.type.kind == "integer"


def _starts(indptr: RawElement, n_stored: int) -> Iterator[Breach]:
    before = 0
    for start, block in number_blocks(indptr):
        if start == 0 and len(block) and int(block[0]) != 0:
            yield Breach("error", indptr.path, "indptr does not begin with 0", str(block[0]), "0")
            return
        falls = np.concatenate([block[:1] < before, block[1:] < block[:-1]])
        if falls.any():
            place = int(falls.argmax())
            message = f"entry {start + place} of indptr is less than the one before it"
            yield Breach("error", indptr.path, message, str(block[place]), "numbers that do not decrease")
            return
        before = int(block[-1])
    if indptr.length and before != n_stored:
        message = "indptr does not end with the number of data"
        yield Breach("error", indptr.path, message, str(before), str(n_stored))


def _indices(indices: RawElement, length: int) -> Iterator[Breach]:
    for start, block in number_blocks(indices):
        if len(block) and (int(block.min()) < 0 or int(block.max()) >= length):
            place = int(((block < 0) | (block >= length)).argmax())
            message = f"index {start + place} is outside the matrix: SciPy would write past its memory"
            yield Breach("error", indices.path, message, str(block[place]), f"0 to {length - 1}")
            return
