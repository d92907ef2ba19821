"""Good files to be spoiled: every type, filter, index and storage, each file small; and samples made by others."""

from __future__ import annotations

import contextlib
import datetime
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pandas as pd
import pyarrow as pa
from scipy import sparse

import colonnade as cn
from colonnade.anndata.values import Categorical, Nullable
from colonnade.errors import ColonnadeError
from colonnade.sparse import find_sparse
from tools.fuzz.layout_seeds import MAKERS as LAYOUT_MAKERS
from tools.fuzz.seed import Seed

TESTS = Path(__file__).resolve().parents[2] / "tests"
N_ROWS = 40
CHUNK_ROWS = 16
_SAMPLES = {
    "foreign": "golden/foreign",
    "kit": "conformance",
    "sparse": "golden/sparse",
    "elements": "golden/anndata",
    "h5col": "golden/h5col",
    "layouts": "golden/nwb",
}
_ENDINGS = (".h5", ".h5ad", ".hdf5", ".nwb", ".mat")
LARGEST = 64 << 10  # bytes of a sample: larger ones cost time and show little more
_LARGE = ("session.nwb", "wrong_3_hostile.h5", "07_indexes.h5")  # and these, of whose kind there is no smaller one
SIGNATURES = (
    b"TREE", b"SNOD", b"HEAP", b"GCOL", b"OHDR", b"OCHK", b"FRHP", b"FHDB", b"FHIB", b"BTHD", b"BTLF", b"BTIN",
    b"FSHD", b"FSSE", b"SMTB", b"FAHD", b"FADB", b"EAHD", b"EAIB", b"EASB", b"EADB",
)  # fmt: skip
_FLETCHER32 = 3
_CHECKED = {1, _FLETCHER32}  # deflate and fletcher32: a wrong byte in a chunk is told by its checksum


def _whole(kind: str) -> Any:
    numbers = np.arange(N_ROWS, dtype="i8") * 37 % 61 - (0 if kind.startswith("u") else 20)
    return numbers.astype(kind)


def _maybe(values: list[Any], kind: pa.DataType, every: int = 9) -> pa.Array:
    return pa.array([None if i % every == 4 else value for i, value in enumerate(values)], kind)


_WORDS = ["muon", "pion", "kaon", "élan", "", "electron neutrino"]
_TEXT = [_WORDS[i * 7 % 6] + (str(i) if i % 3 else "") for i in range(N_ROWS)]


def _write(path: Path, data: Any, filters: str | None = None, table: str = "t", **options: Any) -> None:
    columns = {}
    for name in data:
        one = options.get("columns", {}).get(name, {})
        storage = {} if filters is None or "filters" in one else {"filters": filters}
        columns[name] = cn.column(chunk_rows=CHUNK_ROWS, **storage, **one)  # type: ignore[arg-type]
    cn.write(path, data, table=table, **{**options, "columns": columns})


def _numbers(*kinds: str) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        _write(path, {kind: _whole(kind) for kind in kinds}, title="numbers", description="of many kinds")

    return make


def _missing(path: Path) -> None:
    data = {
        "whole": _maybe(list(range(N_ROWS)), pa.int32()),
        "float": _maybe([i / 3 for i in range(N_ROWS)], pa.float64()),
        "flag": _maybe([i % 2 == 0 for i in range(N_ROWS)], pa.bool_()),
        "text": _maybe(_TEXT, pa.string()),
        "bytes": _maybe([bytes([i, 0, i]) * (i % 4) for i in range(N_ROWS)], pa.binary()),
    }
    _write(path, data, "none", columns={"text": {"units": "word", "strings": "variable"}})


def _times(path: Path) -> None:
    day = datetime.datetime(2024, 2, 28, 23, 59)
    data = {
        "at": pa.array([day + datetime.timedelta(hours=i) for i in range(N_ROWS)], pa.timestamp("us", "UTC")),
        "day": pa.array(list(range(N_ROWS)), pa.date32()),
        "for": _maybe(list(range(N_ROWS)), pa.duration("ms")),
        "price": pa.array(_whole("i4")).cast(pa.decimal128(12, 2)),
        "z": np.arange(N_ROWS) * (1 + 2j),
    }
    _write(path, data, "shuffle+deflate")


def _nested(path: Path) -> None:
    data = {
        "list": pa.array([list(range(i % 4)) for i in range(N_ROWS)], pa.list_(pa.int16())),
        "texts": pa.array([_TEXT[i : i + i % 3] for i in range(N_ROWS)], pa.list_(pa.string())),
        "pair": pa.array([{"a": i, "b": i / 2} for i in range(N_ROWS)]),
        "three": pa.array([[i, i + 1, i + 2] for i in range(N_ROWS)], pa.list_(pa.int8(), 3)),
    }
    _write(path, data)


def _coded(path: Path) -> None:
    words = [_WORDS[i * 5 % 6] for i in range(N_ROWS)]
    data = {
        "kind": pa.array(words).dictionary_encode(),
        "word": pa.array(words),
        "size": pa.DictionaryArray.from_arrays(_maybe([i % 3 for i in range(N_ROWS)], pa.int8()), pa.array([1, 5, 9])),
        "id": np.arange(N_ROWS),
    }
    _write(path, data, "none", labels=["id"], columns={"word": {"strings": "categories"}})


def _indexed(path: Path) -> None:
    data = {
        "ts": np.arange(N_ROWS, dtype="i8") * 3,
        "energy": pa.array([None if i % 11 == 5 else (i * 29 % 31) / 4 for i in range(N_ROWS)]),
        "label": pa.array([_WORDS[i % 6] for i in range(N_ROWS)]).dictionary_encode(),
        "name": pa.array(_TEXT),
    }
    index = {
        "ts": ["chunk_minmax", "sorted_rows"],
        "energy": ["sorted_rows", "chunk_minmax", "chunk_bloom"],
        "label": ["bitmap"],
        "name": ["chunk_bloom", "sorted_rows"],
    }
    _write(path, data, index=index)


def _one_index(kind: str, filters: str) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        data = {"x": _whole("i4") % 12, "y": pa.array([f"k{i * 13 % 17}" for i in range(N_ROWS)])}
        _write(path, data, filters, index={"x": kind, "y": kind})

    return make


def _filtered(filters: str) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        text = np.array([word.encode("ascii", "ignore") for word in _TEXT], dtype="S20")
        data: dict[str, Any] = {"f8": _whole("f8"), "fixed": text}
        if filters in ("scale-offset", "n-bit"):
            data = {"i4": _whole("i4"), "u2": _whole("u2")}
        _write(path, data, filters)

    return make


def _text(filters: str) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        data = {"text": _TEXT, "bytes": pa.array([bytes(range(i % 9)) for i in range(N_ROWS)], pa.binary())}
        _write(path, data, filters, columns={"text": {"strings": "variable"}})

    return make


def _two_tables(path: Path) -> None:
    _write(path, {"a": _whole("i4"), "b": _whole("f4")}, "shuffle+deflate+fletcher32", table="deep/er/one")
    with cn.open(path, "r+", durability="fast") as file:
        file.create("two", {"a": _whole("u1"), "w": _TEXT})


def _foreign(path: Path) -> None:
    """A table as another library may write it: the newest file form, other storages, references, arrays beside it."""
    with h5py.File(path, "w", libver="latest") as file:
        group = file.create_group("t", track_order=True)
        group.attrs["CLASS"] = np.bytes_(b"COLUMN_TABLE")
        group.attrs["VERSION"] = np.bytes_(b"1.0")
        names = ["plain", "compact", "packed", "pixels", "part", "text", "enum"]
        group.attrs["column-order"] = np.array(names, "S8")
        group["plain"] = _whole("i4")
        compact = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        compact.set_layout(h5py.h5d.COMPACT)
        space = h5py.h5s.create_simple((N_ROWS,))
        small = h5py.h5d.create(group.id, b"compact", h5py.h5t.STD_I16BE, space, dcpl=compact)
        small.write(h5py.h5s.ALL, h5py.h5s.ALL, _whole("i2"))
        group.create_dataset(
            "packed", data=_whole("u4"), chunks=(16,), maxshape=(None,), compression=4, fletcher32=True
        )
        pixels = file.create_dataset("pixels", data=np.arange(40).reshape(8, 5))
        references = group.create_dataset("pixels", (N_ROWS,), h5py.ref_dtype, chunks=(16,))
        parts = group.create_dataset("part", (N_ROWS,), h5py.regionref_dtype)
        for row in range(0, N_ROWS, 5):
            references[row], parts[row] = pixels.ref, pixels.regionref[row % 8, 1:4]
        group.create_dataset("text", data=[w.encode() for w in _TEXT], dtype=h5py.string_dtype(), chunks=(16,))
        colours = h5py.enum_dtype({"red": 0, "green": 1, "blue": 7}, basetype="u1")
        group.create_dataset("enum", data=np.array([0, 1, 7] * 20, "u1")[:N_ROWS], dtype=colours, chunks=(16,))


def _many_attributes(path: Path) -> None:
    """Attributes in a fractal heap, links in a v2 B-tree."""
    _write(path, {"a": _whole("i4")})
    with h5py.File(path, "r+", libver="latest") as file:
        group = file.create_group("more", track_order=True)
        for number in range(20):
            group.create_group(f"g{number}").attrs["n"] = number
            group.attrs[f"a{number}"] = "x" * number


def _tiny(path: Path) -> None:
    cn.write(path, {"a": np.array([5], "i2")}, table="/")


def _elements(compression: str | None) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        whole = np.arange(N_ROWS)
        flags = whole % 4 == 1
        matrix = sparse.random_array((N_ROWS, 7), density=0.2, random_state=1)
        value = {
            "array": whole.reshape(8, 5) / 3, "texts": np.array(_TEXT, dtype=object), "text": "one", "none": None,
            "number": np.float32(1.5), "below": {"a": whole.astype("i2"), "b": {"c": np.array([True, False])}},
            "rows": matrix.tocsr(), "columns": matrix.tocsc(), "kinds": Categorical(whole % 3, np.array(_WORDS[:3])),
            "maybe": Nullable(whole, flags),
            "frame": pd.DataFrame({"x": whole, "kind": pd.Categorical(_TEXT)}, index=_TEXT),
        }  # fmt: skip
        with h5py.File(path, "w") as file:
            cn.write_element(file, "element", value, compression=compression)

    return make


def _anndata(path: Path) -> None:
    """The members of an AnnData group, few of them: most of such a file is names and marks."""
    value = {"X": sparse.csr_array(np.eye(6)), "obs": pd.DataFrame({"n": np.arange(6)}, index=list("abcdef"))}
    with h5py.File(path, "w") as file:
        for name, one in value.items():
            cn.write_element(file, name, one, compression="gzip")
        file.attrs["encoding-type"], file.attrs["encoding-version"] = "anndata", "0.1.0"


def _sparse(dialect: Any, filters: Any, shape: tuple[int, ...] = (N_ROWS, 30)) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        flat = np.arange(0, int(np.prod(shape)), 7)
        coords = np.stack(np.unravel_index(flat, shape), axis=1)
        cn.write_sparse(
            path, "group/cells", (coords, flat.astype("i4"), shape), chunks=tuple(max(1, n // 3) for n in shape),
            filters=filters, dialect=dialect,
        )  # fmt: skip

    return make


def _artifactdb(how: dict[str, Any]) -> Callable[[Path], None]:
    """A data frame of ArtifactDB with every kind of column; of one in a directory, its file."""

    def make(path: Path) -> None:
        n_rows = 300
        rows = pa.table(
            {
                "whole": pa.array([None if row % 7 == 0 else row for row in range(n_rows)], pa.int16()),
                "flag": pa.array([None if row % 5 == 0 else row % 2 == 0 for row in range(n_rows)]),
                "number": pa.array([None if row % 9 == 0 else row / 3 for row in range(n_rows)]),
                "day": pa.array([None if row % 11 == 0 else row * 31 for row in range(n_rows)], pa.date32()),
                "time": pa.array([row * 10**9 for row in range(n_rows)], pa.timestamp("us", "UTC")),
                "text": pa.array([None if row % 13 == 0 else "x" * (row % 40) for row in range(n_rows)]),
                "long": pa.array(["y" * (2000 if row == 5 else row % 3) for row in range(n_rows)]),
                "kind": pa.array(
                    [None if row % 4 == 0 else f"k{row % 6}" for row in range(n_rows)]
                ).dictionary_encode(),
            }
        )
        labels = {"id": [f"r{row}" for row in range(n_rows)]}
        index = {"day": "sorted_rows", "kind": "bitmap", "number": "chunk_minmax"}
        with tempfile.TemporaryDirectory() as folder:
            target = Path(folder) / ("d" if how.get("directory") else "x.h5")
            cn.write(target, rows, layout="artifactdb", labels=labels, index=index, **how)
            shutil.copy(target / "basic_columns.h5" if target.is_dir() else target, path)

    return make


MAKERS: dict[str, Callable[[Path], None]] = {
    "whole": _numbers("i1", "u2", "i8"), "numbers": _numbers("u8", "f4", ">i4"),
    "missing": _missing, "times": _times, "nested": _nested, "coded": _coded,
    "indexed": _indexed, "two-tables": _two_tables, "foreign": _foreign, "attributes": _many_attributes, "tiny": _tiny,
    **{f"index-{kind}": _one_index(kind, "shuffle+deflate")
       for kind in ("chunk_minmax", "sorted_rows", "bitmap", "chunk_bloom")},
    "index-plain": _one_index("sorted_rows", "none"),
    **{f"filter-{filters}": _filtered(filters)
       for filters in ("none", "deflate", "shuffle+deflate+fletcher32", "fletcher32", "scale-offset", "shuffle+zstd",
                       "lz4", "bitshuffle", "bitshuffle:lz4", "blosc", "blosc:zstd", "blosc2", "n-bit")},
    "frame": _artifactdb({}), "frame-heap": _artifactdb({"directory": True, "version": "1.1"}),
    "elements-all": _elements(None), "elements-packed": _elements("gzip"), "elements-anndata": _anndata,
    "sparse-sectioned": _sparse("sectioned", {0: "shuffle+deflate", 1: "deflate"}),
    "sparse-structured": _sparse("structured", "fletcher32"), "sparse-prototype": _sparse("prototype", None),
    "sparse-line": _sparse("sectioned", None, (500,)), "sparse-cube": _sparse("sectioned", "deflate", (8, 9, 10)),
    **{f"text-{filters}": _text(filters) for filters in ("none", "shuffle+deflate", "zstd")},
    **LAYOUT_MAKERS,
}  # fmt: skip


def make_seeds(folder: Path) -> list[Path]:
    """All seeds as files: those made here, the foreign samples, and the conformance kit if it is there."""
    folder.mkdir(parents=True, exist_ok=True)
    found = []
    for name, make in MAKERS.items():
        path = folder / f"{name.replace(':', '-')}.h5"
        make(path)
        found.append(path)
    for family, place in _SAMPLES.items():
        samples = [path for path in sorted((TESTS / place).rglob("*")) if path.suffix in _ENDINGS]
        for sample in samples:
            if sample.stat().st_size <= LARGEST or sample.name in _LARGE:
                name = sample.parent.name if sample.stem in ("x", "basic_columns") else sample.stem
                found.append(folder / f"{family}-{name}.h5")
                shutil.copy(sample, found[-1])
    return found


def load(path: Path) -> Seed:
    """A seed with the places of its parts."""
    data = path.read_bytes()
    structure, rows = [(0, 96)], list[tuple[int, int]]()
    covered, summed = list[tuple[int, int]](), list[tuple[int, int]]()
    for signature in SIGNATURES:
        at = data.find(signature)
        while at >= 0:
            structure.append((at, min(at + 160, len(data))))
            at = data.find(signature, at + 4)
    covered += _headers(data)
    for place, filters in _sparse_sections(path):
        rows.append(place)
        _note_checked(place, filters, covered, summed)
    with h5py.File(path, "r") as file:

        def note(_name: str, node: Any) -> None:
            at = h5py.h5o.get_info(node.id).addr
            structure.append((at, min(at + 320, len(data))))
            if isinstance(node, h5py.Dataset) and node.chunks and node.shape:
                creation = node.id.get_create_plist()
                filters = [creation.get_filter(i)[0] for i in range(creation.get_nfilters())]
                for chunk in map(node.id.get_chunk_info, range(node.id.get_num_chunks())):
                    place = (chunk.byte_offset, chunk.byte_offset + chunk.size)
                    rows.append(place)  # type: ignore[arg-type]
                    if h5py.check_vlen_dtype(node.dtype) is None:
                        _note_checked(place, _used(filters, chunk.filter_mask), covered, summed)  # type: ignore[arg-type]

        note("/", file["/"])
        with contextlib.suppress(KeyError, RuntimeError):  # an object of a sample that nobody can open
            file.visititems(note)
    return Seed(path.stem, data, tuple(structure), tuple(rows), tuple(covered), tuple(summed))


def _used(filters: Sequence[int], mask: int) -> set[int]:
    """The filters that a chunk went through: one that does not make it smaller is left out."""
    return {number for place, number in enumerate(filters) if not mask >> place & 1}


def _note_checked(
    place: tuple[int, int], filters: set[int], covered: list[tuple[int, int]], summed: list[tuple[int, int]]
) -> None:
    if filters & _CHECKED:
        covered.append(place)
    if filters & _CHECKED == {_FLETCHER32}:
        summed.append(place)


def _headers(data: bytes) -> list[tuple[int, int]]:
    """The new superblock and object headers: each with a checksum, which the library and our own walk look at."""
    found = []
    if data[8] >= 2:
        found.append((0, 48))
    at = data.find(b"OHDR\x02")
    while at >= 0:
        flags = data[at + 5]
        begin = at + 6 + 16 * bool(flags & 32) + 4 * bool(flags & 16)
        width = 1 << (flags & 3)
        found.append((at, begin + width + int.from_bytes(data[begin : begin + width], "little") + 4))
        at = data.find(b"OHDR\x02", at + 5)
    return found


def _sparse_sections(path: Path) -> Iterator[tuple[tuple[int, int], set[int]]]:
    """Where each section of each sparse chunk lies, and the filters that it went through."""
    try:
        for name in find_sparse(path):
            array = cn.open_sparse(path, name, n_threads=1)
            filters = [[one.id for one in section] for section in array.filters]
            for record in array.records():
                edges = pairwise(record.address + bound for bound in record.bounds)
                for place, section, mask in zip(edges, filters, record.masks, strict=False):
                    yield place, _used(section, mask)
    except ColonnadeError:
        return  # a broken file of the kit
