"""The rules A1, A2 and A13: the encoding attributes of all elements, AnnData objects and mappings."""

from __future__ import annotations

from collections.abc import Iterator

from colonnade.errors import ColonnadeError
from colonnade.layouts.anndata import names
from colonnade.layouts.anndata.describe import describe
from colonnade.layouts.anndata.raw import RawElement, is_old_anndata
from colonnade.layouts.raw_node import stored_as
from colonnade.model import Breach

KNOWN_TYPES = {pair[0] for pair in (*names.OF_GROUPS, *names.OF_DATASETS)}
ROOT_MEMBERS = ("X", "layers", "obs", "obsm", "obsp", "raw", "uns", "var", "varm", "varp")
# For each mapping: the axes of its members in order, which must be as long as obs (0) or var (1).
AXES = {"layers": (0, 1), "obsm": (0,), "varm": (1,), "obsp": (0, 0), "varp": (1, 1)}


# -- A1 --


def pair_is_known(node: RawElement) -> Iterator[Breach]:
    """A1: encoding-type and encoding-version are strings, and a known pair for a group or for a dataset."""
    kind, version = node.encoding
    if not node.is_marked or _is_of_hep001(node):
        return
    known = names.OF_GROUPS if node.kind == "group" else names.OF_DATASETS
    if kind is None:
        yield from _no_text(node, names.ENCODING_TYPE)
    elif version is None and kind in KNOWN_TYPES:
        yield from _no_text(node, names.ENCODING_VERSION)
    elif version is not None and (kind, version) not in known:
        expected = (
            ", ".join(sorted(pair[1] for pair in known if pair[0] == kind)) or f"an element that is a {node.kind}"
        )
        message = f"a {node.kind} of encoding-type {kind!r} and version {version!r} is unknown: readers refuse it"
        yield Breach("error", node.path, message, f"{kind!r}, {version!r}", expected)


def _is_of_hep001(node: RawElement) -> bool:
    """Whether these are the categories of a HEP001 table, which are also marked "categorical", but without version."""
    return node.kind == "dataset" and node.type == "categorical" and node.attribute(names.ENCODING_VERSION) is None


def _no_text(node: RawElement, name: str) -> Iterator[Breach]:
    message = f"{name} is missing, or is not a scalar string"
    yield Breach("error", node.path, message, stored_as(node.attribute(name)), "a scalar string")


def members_are_marked(node: RawElement) -> Iterator[Breach]:
    """A13: members of an AnnData object, a mapping or a frame have encoding attributes."""
    frame = node.is_a(("dataframe", "0.2.0"))
    if (node.type not in names.HOLDING and not frame) or _is_of_before(node):
        return
    for name, member in node.members():
        if not member.is_marked and not (frame and name.startswith("_") and member.kind == "group"):
            message = f"it is in a {node.type} without encoding attributes: readers guess what it is, and warn"
            yield Breach("warning", member.path, message, "no encoding-type", "encoding-type and encoding-version")


def _is_of_before(node: RawElement) -> bool:
    """Whether an AnnData object, or raw, was written before 0.8, when only some members had encoding attributes."""
    frame = node.member("var") if node.type in ("anndata", "raw") else None
    return frame is not None and frame.is_a(("dataframe", "0.1.0"))


# -- A2 --


def anndata_has_its_members(node: RawElement) -> Iterator[Breach]:
    """A2: obs and var are frames; there are no members that readers do not know."""
    if node.type not in ("anndata", "MuData"):
        return
    for name in ("obs", "var"):
        member = node.member(name)
        if member is None:
            yield Breach("error", node.path, f"there is no {name}", "no such member", "a data frame")
        elif member.type != names.DATAFRAME:
            yield Breach("error", member.path, f"{name} is not a data frame", repr(member.type), "a data frame")
    if node.type == "MuData":
        return
    for child in node.children:
        if child.name not in ROOT_MEMBERS and not child.name.startswith("raw."):
            message = "an AnnData object has no member of this name: anndata.read_h5ad refuses the file"
            where = f"{node.path.rstrip('/')}/{child.name}"
            yield Breach("warning", where, message, repr(child.name), ", ".join(ROOT_MEMBERS))


def raw_has_its_members(node: RawElement) -> Iterator[Breach]:
    """A2: raw has a matrix X and a frame var, whose lengths agree."""
    if node.type != "raw":
        return
    var, matrix = node.member("var"), node.member("X")
    if var is None or var.type != names.DATAFRAME:
        yield Breach("error", node.path, "raw has no data frame var", "no such member", "a data frame")
    elif matrix is not None:
        yield from _agreeing(matrix, (1,), (None, frame_length(var)), first=1)


def axes_agree(node: RawElement) -> Iterator[Breach]:
    """A2: X, layers, obsm and the others are as long as obs and var."""
    if node.type == "anndata" or is_old_anndata(node):
        yield from disagreeing(node, tuple(frame_length(node.member(name)) for name in ("obs", "var")))


def disagreeing(node: RawElement, lengths: tuple[int | None, ...]) -> Iterator[Breach]:
    """The members of an AnnData object whose axes are not as long as obs and var. A length of None is not checked."""
    yield from _agreeing(node.member("X"), (0, 1), lengths)
    raw = node.member("raw")
    if raw is not None and raw.type == "raw":
        yield from _agreeing(raw.member("X"), (0,), lengths)
    for name, axes in AXES.items():
        mapping = node.member(name)
        for _, member in mapping.members() if mapping is not None else ():
            yield from _agreeing(member, axes, lengths)


def _agreeing(
    node: RawElement | None, axes: tuple[int, ...], lengths: tuple[int | None, ...], first: int = 0
) -> Iterator[Breach]:
    """The breach if the axes of a member, from `first` on, do not have these lengths."""
    found = None if node is None else shape_of(node)
    if node is None or found is None:
        return
    expected = [lengths[axis] for axis in axes]
    shape: list[int | None] = list(found[first : first + len(axes)])
    if any(want is not None and (place >= len(shape) or shape[place] != want) for place, want in enumerate(expected)):
        words = " x ".join("?" if want is None else str(want) for want in expected)
        which = f"axes from {first}" if first else "first axes"
        yield Breach("error", node.path, f"its {which} must be {words} long", f"shape {found}", words)


def frame_length(node: RawElement | None) -> int | None:
    if node is None or node.type != names.DATAFRAME:
        return None
    try:
        return describe(node.as_group, node.path).n_rows
    except ColonnadeError:
        return None  # reported by A1


def shape_of(node: RawElement) -> tuple[int, ...] | None:
    """The shape of an array, matrix or frame; None if it has none or does not state it."""
    if node.kind == "dataset":
        return node.stored.shape if node.stored is not None else None
    if node.is_a(*names.MATRICES):
        return matrix_shape(node)
    if node.type == "awkward-array":
        attribute = node.attribute("length")
        return attribute.integers if attribute is not None and len(attribute.integers) == 1 else None
    length = frame_length(node)
    return None if length is None else (length,)


def matrix_shape(node: RawElement) -> tuple[int, int] | None:
    """The shape that a sparse matrix states; None if it is not a valid shape."""
    attribute = node.attribute("shape") or node.attribute(names.OLD_SHAPE)
    if attribute is None or len(attribute.integers) != 2 or min(attribute.integers) < 0:
        return None
    return attribute.integers[0], attribute.integers[1]
