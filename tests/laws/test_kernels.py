"""Both forms of every kernel compute the same, to the bit, and refuse the same; and what they compute is right."""

from __future__ import annotations

import itertools
import math
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from colonnade import kernels
from colonnade.kernels import plain
from tests.laws import plain_heap
from tests.laws.both_forms import (
    HAS_C,
    KINDS,
    REFUSED,
    Draw,
    agree,
    bytes_of,
    edges,
    kinds_and_numbers,
    masks,
    native,
    reference,
)
from tests.laws.raw_chunks import raw_chunk

# -- which form --


def test_the_c_form_is_built_where_it_must_be() -> None:
    if os.environ.get("COLONNADE_KERNELS") == "numpy":
        assert kernels.FORM == "numpy"
    elif os.environ.get("COLONNADE_NEEDS_C"):
        assert kernels.FORM == "c"
    if HAS_C:
        assert {*vars(reference)} == {name for name in dir(native) if not name.startswith("_")}


def test_an_extension_that_is_older_than_the_sources_lacks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(kernels, "deflate_even")
    assert kernels.deflate_even is plain.deflate_even
    assert not hasattr(kernels, "no_such_kernel")


def test_the_environment_chooses() -> None:
    code = "from colonnade import kernels; print(kernels.FORM)"
    environment = {**os.environ, "COLONNADE_KERNELS": "numpy"}
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert run.stdout.strip() == "numpy"


# -- filters --


@given(st.data(), st.sampled_from([1, 2, 3, 4, 5, 8, 16, 31]))
def test_shuffle_and_back(data: st.DataObject, size: int) -> None:
    source = bytes_of(data.draw)
    out, back = np.empty_like(source), np.empty_like(source)
    agree("shuffle", source, out, size)
    agree("unshuffle", out, back, size)
    assert back.tobytes() == source.tobytes()


@pytest.mark.parametrize("size", [2, 4, 8, 7])
def test_shuffle_is_that_of_hdf5(tmp_path: Path, size: int) -> None:
    rows = np.random.default_rng(size).integers(0, 256, 1000 * size, dtype="u1").view(f"V{size}")
    raw = raw_chunk(tmp_path, rows, shuffle=True)
    out = np.empty(len(raw), dtype="u1")
    agree("unshuffle", raw, out, size)
    assert out.tobytes() == rows.tobytes()


@given(st.data())
def test_fletcher32(data: st.DataObject) -> None:
    agree("fletcher32", bytes_of(data.draw))


@pytest.mark.parametrize("n", [1, 2, 7, 1001, 300_000])
def test_fletcher32_is_that_of_hdf5(tmp_path: Path, n: int) -> None:
    rows = np.random.default_rng(n).integers(0, 256, n, dtype="u1")
    for values in (rows, np.zeros(n, "u1"), np.full(n, 255, "u1")):
        raw = raw_chunk(tmp_path, values, fletcher32=True)
        assert agree("fletcher32", raw[:-4]) == int.from_bytes(raw[-4:], "little")


@given(st.data())
def test_lookup3(data: st.DataObject) -> None:
    agree("lookup3", bytes_of(data.draw))


LOOKUP3 = {  # as published, and as HDF5 files hold them
    b"": 0xDEADBEEF,
    b"a": 0x58D68708,
    b"abc": 0x0E397631,
    b"message digest": 0x95C45535,
    b"Four score and seven years ago": 0x17770551,
    bytes(range(12)): 0x5E4AA593,
    bytes(range(13)): 0xBC9D6816,
    bytes(4): 0x049396B8,
    b"OHDR": 0x33BD5D0A,
    bytes.fromhex(
        "894844460d0a1a0a030808000000000000000000ffffffffffffffffec6f0c00000000003000000000000000"
    ): 0x38801C47,
}


@pytest.mark.parametrize("given", LOOKUP3, ids=range(len(LOOKUP3)))
def test_lookup3_is_that_of_jenkins(given: bytes) -> None:
    assert agree("lookup3", given) == LOOKUP3[given]


# -- comparing --


def bounds(draw: Draw, values: np.ndarray[Any, Any]) -> list[Any]:
    """Two bounds, and whether each is open: near the values, at the ends of the type, beyond it, or none."""
    kind = values.dtype.str[1:]
    near = [v for v in [*edges(kind), *values[:20]] if v == v]  # noqa: PLR0124
    if kind[0] == "f":
        bound = st.one_of(st.none(), st.sampled_from(near).map(float), st.floats(allow_nan=False))
    else:
        bound = st.one_of(st.none(), st.sampled_from(near).map(int), st.integers(-(2**65), 2**65))
    return [draw(bound), draw(bound), draw(st.booleans()), draw(st.booleans())]


@given(st.data(), kinds_and_numbers())
def test_whether_an_item_is_there(data: st.DataObject, values: np.ndarray[Any, Any]) -> None:
    items = [item.tobytes() for item in values]
    look = data.draw(st.sampled_from([*items, bytes(values.itemsize)]))
    assert agree("has_item", values, look) == (look in items)
    assert agree("has_item", values, bytes(3)) == agree("has_item", values, None) == REFUSED
    if values.nbytes % 8:
        assert agree("has_item", values, bytes(8)) == REFUSED


@given(st.data(), kinds_and_numbers())
def test_ranges(data: st.DataObject, values: np.ndarray[Any, Any]) -> None:
    asked = bounds(data.draw, values)
    mask = np.full(len(values), 9, dtype="u1")
    agree("range_mask", values, *asked, mask)
    assert mask.tolist() == [in_bounds(value, *asked) for value in values.tolist()]
    assert agree("range_count", values, *asked) == mask.sum()


def in_bounds(value: Any, low: Any, high: Any, low_open: bool, high_open: bool) -> bool:
    """Python compares whole numbers and floats exactly."""
    if value != value:  # noqa: PLR0124
        return False
    above = low is None or (value > low if low_open else value >= low)
    return above and (high is None or (value < high if high_open else value <= high))


@given(st.data(), kinds_and_numbers())
def test_wanted_values(data: st.DataObject, values: np.ndarray[Any, Any]) -> None:
    pool = np.array([*edges(values.dtype.str[1:]), *values[:40]], dtype=values.dtype)
    chosen = data.draw(st.lists(st.integers(0, len(pool) - 1), max_size=60))
    wanted = np.unique(pool[chosen])
    wanted = wanted[wanted == wanted]  # noqa: PLR0124
    mask = np.zeros(len(values), dtype="u1")
    agree("among_mask", values, wanted, mask)
    known = set(wanted.tolist())
    assert mask.tolist() == [value in known and value == value for value in values.tolist()]  # noqa: PLR0124
    agree("among_mask", values, pool, mask)  # mostly refused: it does not increase


@given(st.data(), st.integers(0, 3000))
def test_masks(data: st.DataObject, count: int) -> None:
    a = masks(data.draw, count)
    changes = np.zeros(count + 1, "i8")
    found = agree("mask_edges", a, 5, changes)
    truth = np.zeros(count, "u1")
    for start, stop in changes[:found].reshape(-1, 2).tolist():
        truth[start - 5 : stop - 5] = 1
    assert (truth == (a != 0)).all()
    assert (np.diff(changes[:found]) > 0).all()
    assert agree("mask_edges", a, 5, np.empty(found, "i8")) == found
    assert not found or agree("mask_edges", a, 5, np.empty(found - 1, "i8")) == REFUSED
    starts, stops = np.sort(changes[:found])[0::2].copy(), np.sort(changes[:found])[1::2].copy()
    rows = np.empty(int(a.astype(bool).sum()), "i8")
    assert agree("ranges_rows", starts, stops, rows) is None
    np.testing.assert_array_equal(rows, np.flatnonzero(a) + 5)
    assert agree("ranges_rows", starts, stops, np.empty(len(rows) + 1, "i8")) == REFUSED
    for wrong in (stops[::-1].copy(), stops - 2**62, stops[:-1].copy()) if len(rows) else ():
        if not np.array_equal(wrong, stops):
            assert agree("ranges_rows", starts, wrong, rows) == REFUSED


# -- gathering and adding --


@given(st.data(), st.sampled_from([1, 2, 3, 4, 8, 12, 16]))
def test_take(data: st.DataObject, size: int) -> None:
    source = bytes_of(data.draw)
    source = source[: len(source) // size * size].copy()
    n = len(source) // size
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    rows = rng.integers(0, n, 50 if n else 0)
    out = np.empty(len(rows) * size, "u1")
    assert agree("take", source, size, rows, out) is None
    assert (out.reshape(-1, size) == source.reshape(-1, size)[rows]).all()
    for wrong in (-1, n, 2**62, -(2**63)):
        assert agree("take", source, size, np.array([wrong]), np.empty(size, "u1")) == REFUSED


@given(st.data(), kinds_and_numbers())
def test_least_greatest_and_total(data: st.DataObject, values: np.ndarray[Any, Any]) -> None:
    missing = data.draw(st.sampled_from([None, masks(data.draw, len(values))]))
    agree("least_greatest", values, missing)
    present = values if missing is None else values[missing == 0]
    present = present[present == present]  # noqa: PLR0124
    if values.dtype.kind != "f":
        answer = agree("total", values, missing)
        assert answer == (sum(present.tolist()), len(present), 0)
        return
    present = present.astype("f8")
    if (abs(present) > 1e300).any():
        agree("total", values, missing, exact=False)
        return
    found, n_present, _ = agree("total", values, missing, exact=False)
    truth = math.fsum(present.tolist())
    scale = math.fsum(abs(present).tolist())
    for sum_ in (found, plain.total(values, missing)[0]):
        assert abs(sum_ - truth) <= 2e-16 * abs(truth) + 1e-30 * scale
    assert n_present == len(present)


def test_total_of_infinities() -> None:
    for values, wanted in (([1.0, np.inf], np.inf), ([-np.inf, 1.0], -np.inf), ([np.inf, -np.inf], np.nan)):
        for form in (plain, native):
            assert form.total(np.array(values), None)[0] == pytest.approx(wanted, nan_ok=True)


@pytest.mark.parametrize("kind", ["f4", "f8"])
@pytest.mark.parametrize("strange", [[], [np.nan], [np.inf], [np.nan, np.inf], [np.inf, -np.inf], [1e38] * 4])
@pytest.mark.parametrize("with_missing", [False, True])
def test_total_of_many(kind: str, strange: list[float], with_missing: bool) -> None:
    """What is strange in one block of rows changes nothing in the others, before it and behind it."""
    rng = np.random.default_rng(len(strange))
    for first in (0, 2047, 2048, 5000, 9990):  # of blocks of 2048
        values = rng.normal(size=10_000).astype(kind)
        values[first : first + len(strange)] = strange
        missing = (rng.random(10_000) < 0.01).astype("u1") if with_missing else None
        kept = values if missing is None else values[missing == 0]
        present = kept[~np.isnan(kept)].astype("f8")
        for form in (plain, native):
            found, n_present, n_nan = form.total(values, missing)
            assert (n_present, n_nan) == (len(present), len(kept) - len(present))
            with np.errstate(invalid="ignore"):
                wanted = math.fsum(present.tolist()) if np.isfinite(present).all() else float(present.sum())
            assert found == pytest.approx(wanted, rel=1e-12, abs=1e-9, nan_ok=True)


@given(st.data(), kinds_and_numbers())
def test_group_totals(data: st.DataObject, values: np.ndarray[Any, Any]) -> None:
    n_groups = data.draw(st.integers(1, 9))
    if values.dtype.kind == "f":
        values = values[~(abs(values) > 1e30)]
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    codes = rng.integers(-1, n_groups, len(values)).astype(data.draw(st.sampled_from(["i1", "i2", "i4", "i8"])))
    if data.draw(st.booleans()):
        codes = abs(codes).astype(f"u{codes.itemsize}") % n_groups
    missing = data.draw(st.sampled_from([None, masks(data.draw, len(values))]))
    totals = np.zeros((n_groups, 2), "f8" if values.dtype.kind == "f" else "i8")
    counts, nans = np.zeros(n_groups, "i8"), np.zeros(n_groups, "i8")
    least, greatest = (np.zeros(n_groups, values.dtype) if data.draw(st.booleans()) else None for _ in range(2))
    arguments = [codes, values, missing, totals, counts, nans, least, greatest]
    agree("group_totals", *arguments, exact=values.dtype.kind != "f")
    agree("group_totals", *arguments, exact=values.dtype.kind != "f")  # twice: it adds
    for group in range(n_groups):
        mine = (codes == group) if missing is None else (codes == group) & (missing == 0)
        present = values[mine & (values == values)]  # noqa: PLR0124
        assert counts[group] == 2 * len(present)
        assert nans[group] == 2 * (mine.sum() - len(present))
        if len(present):
            assert least is None or least[group] == present.min()
            assert greatest is None or greatest[group] == present.max()
        if values.dtype.kind == "f":
            assert totals[group].sum() == pytest.approx(2 * math.fsum(present.tolist()), rel=1e-12, abs=1e-3)
        else:
            whole = (int(totals[group, 1]) << 64) + (int(totals[group, 0]) & (2**64 - 1))
            assert whole == 2 * sum(present.tolist())
    if len(codes) and missing is None:
        codes[-1] = n_groups
        assert agree("group_totals", *arguments) == REFUSED


@pytest.mark.parametrize("kind", ["f4", "f8"])
@pytest.mark.parametrize("n_groups", [1, 16, 64, 65])
def test_group_totals_without_ends(kind: str, n_groups: int) -> None:
    """Of a few groups several sums are kept at a time: none is lost, and they are as exact as one."""
    rng = np.random.default_rng(n_groups)
    values = (rng.normal(size=5000) * 10.0 ** rng.integers(-8, 8, 5000)).astype(kind)
    values[rng.integers(0, 5000, 50)] = np.nan
    codes, missing = rng.integers(-1, n_groups, 5000).astype("i1"), (rng.random(5000) < 0.1).astype("u1")
    totals, counts, nans = np.zeros((n_groups, 2)), np.zeros(n_groups, "i8"), np.zeros(n_groups, "i8")
    agree("group_totals", codes, values, missing, totals, counts, nans, None, None, exact=False)
    for group in range(n_groups):
        mine = values[(codes == group) & (missing == 0)]
        present = mine[~np.isnan(mine)].tolist()
        assert (counts[group], nans[group]) == (len(present), len(mine) - len(present))
        assert totals[group].sum() == pytest.approx(math.fsum(present), rel=1e-15, abs=1e-15)


# -- strings --


@given(
    st.lists(st.one_of(st.just(b""), st.binary(max_size=12), st.binary(min_size=28, max_size=70)), max_size=30),
    st.integers(1, 72),
    st.integers(0, 9),
)
def test_padded_strings(texts: list[bytes], width: int, skipped: int) -> None:
    """Arrow's strings as bytes of one length: where they fit, and what the encoder asks about them."""
    data = b"x" * skipped + b"".join(texts)
    ends = np.cumsum([skipped, *map(len, texts)]).astype("i4")
    out = np.full(width * len(texts), 9, "u1")
    sizes = [len(text) for text in texts] or [0]
    assert agree("arrow_to_fixed", ends, data, width, out) == (min(sizes), max(sizes), any(b"\0" in t for t in texts))
    if max(sizes) <= width:
        assert out.tobytes() == b"".join(text.ljust(width, b"\0") for text in texts)


@given(
    st.data(),
    st.integers(1, 40),
    st.sampled_from([0, 1, 2]),
    st.sampled_from([0, 1, 2]),
    st.sampled_from(["<i4", "<i8"]),
)
def test_fixed_strings(data: st.DataObject, width: int, padding: int, check: int, offset: str) -> None:
    pad = b" " if padding == kernels.SPACES else b"\0"
    texts = data.draw(
        st.lists(st.one_of(st.text("aé€😀 \0x", max_size=20).map(str.encode), st.binary(max_size=40)), max_size=20)
    )
    source = b"".join(text[:width].ljust(width, pad) for text in texts)
    missing = data.draw(st.sampled_from([None, masks(data.draw, len(texts))]))
    offsets, out = np.zeros(len(texts) + 1, offset), np.zeros(len(source), "u1")
    n_bytes, bad = agree("fixed_to_arrow", source, width, padding, check, missing, offsets, out, exact=False)
    both = [np.zeros(len(texts) + 1, offset) for _ in range(2)], [np.zeros(len(source), "u1") for _ in range(2)]
    answers = [
        form.fixed_to_arrow(source, width, padding, check, missing, o, d)
        for form, o, d in zip((plain, native), *both, strict=True)
    ]
    assert answers[0] == answers[1] == (n_bytes, bad)
    assert both[0][0].tobytes() == both[0][1].tobytes()
    assert both[1][0][:n_bytes].tobytes() == both[1][1][:n_bytes].tobytes()
    assert agree("check_text", offsets, out[:n_bytes].copy(), check, missing) == bad
    for row, text in enumerate(texts):
        text = text[:width]
        text = text.split(b"\0")[0] if padding == 0 else text.rstrip(pad)
        left_out = missing is not None and missing[row]
        assert out[offsets[row] : offsets[row + 1]].tobytes() == (b"" if left_out else text)


@given(st.data(), st.sampled_from(["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"]))
def test_strings_by_codes(data: st.DataObject, kind: str) -> None:
    texts = data.draw(st.lists(st.binary(max_size=40), min_size=1, max_size=9))
    known = np.cumsum([0, *map(len, texts)], dtype="i4")
    strings = np.frombuffer(b"".join(texts), "u1")
    codes = np.array(data.draw(st.lists(st.integers(0, len(texts) - 1), max_size=60)), kind)
    missing = data.draw(st.sampled_from([None, masks(data.draw, len(codes))]))
    if missing is not None:
        codes[missing.astype(bool)] = np.array(-1).astype(kind)
    offsets = np.zeros(len(codes) + 1, "i4")
    assert agree("code_offsets", known, codes, missing, offsets) is None
    out = np.zeros(int(offsets[-1]), "u1")
    assert agree("code_data", known, strings, codes, missing, offsets, out) is None
    for row, code in enumerate(codes.tolist()):
        left_out = missing is not None and missing[row]
        assert out[offsets[row] : offsets[row + 1]].tobytes() == (b"" if left_out else texts[code])
    if len(codes) and not (missing is not None and missing[-1]):
        codes[-1] = len(texts)
        assert agree("code_offsets", known, codes, missing, offsets, exact=False) == REFUSED
        assert agree("code_data", known, strings, codes, missing, offsets, out, exact=False) == REFUSED


TEXTS = st.one_of(st.none(), st.binary(max_size=20), st.sampled_from([b"a", b"", b"aa"]))


@given(st.lists(st.lists(TEXTS, max_size=60)))
def test_strings_to_codes(batches: list[list[bytes | None]]) -> None:
    """Batch by batch, both forms number strings in the order in which they are met."""
    expected: dict[bytes, int] = {}
    for form in (plain, native):
        known: list[bytes] = []
        slots = np.zeros(1 << (2 * sum(map(len, batches)) + 2).bit_length(), "u8")
        for batch in batches:
            given, missing = [text or b"" for text in batch], np.array([text is None for text in batch], "u1")
            codes, fresh = np.zeros(len(batch), "i4"), np.zeros(len(batch), "i8")
            buffers = [*as_arrow(known), *as_arrow(given)]
            n_new = form.code_strings(*buffers, missing if missing.any() else None, slots, codes, fresh)
            for row, text in enumerate(batch):
                code = -1 if text is None else expected.setdefault(text, len(expected))
                assert codes[row] == code
            known += [given[row] for row in fresh[:n_new].tolist()]
        assert known == list(expected)


def test_many_strings_to_codes() -> None:
    """More than are looked at ahead, the last of them fewer."""
    rng = np.random.default_rng(5)
    texts = [b"x" * int(n) + str(n).encode() for n in rng.integers(0, 90, 1003)]
    missing = (rng.random(1003) < 0.1).astype("u1")
    answers = []
    for form in (plain, native):
        slots, codes, fresh = np.zeros(4096, "u8"), np.zeros(1003, "i4"), np.zeros(1003, "i8")
        n_new = form.code_strings(*as_arrow([]), *as_arrow(texts), missing, slots, codes, fresh)
        answers.append((codes.tolist(), fresh[:n_new].tolist()))
    numbers: dict[bytes, int] = {}
    wanted = [-1 if gone else numbers.setdefault(text, len(numbers)) for text, gone in zip(texts, missing, strict=True)]
    assert answers[0] == answers[1] and answers[0][0] == wanted


@pytest.mark.parametrize("length", [*range(1, 36), 100])
def test_strings_of_one_hash_are_not_taken_for_the_same(length: int) -> None:
    """The slot of one string is put where another is known that differs in one byte, wherever that is."""
    for place in range(length):
        one, other = bytearray(b"x" * length), bytes(b"x" * length)
        one[place] = ord("y")
        slots, codes, fresh = np.zeros(8, "u8"), np.zeros(1, "i4"), np.zeros(1, "i8")
        assert native.code_strings(*as_arrow([]), *as_arrow([bytes(one)]), None, slots, codes, fresh) == 1
        assert native.code_strings(*as_arrow([other]), *as_arrow([bytes(one)]), None, slots, codes, fresh) == 1
        assert codes[0] == 1


def as_arrow(texts: list[bytes]) -> tuple[Any, Any]:
    return np.cumsum([0, *map(len, texts)], dtype="i4"), np.frombuffer(b"".join(texts), "u1")


@given(st.data())
def test_strings_to_codes_refuse_what_they_cannot(data: st.DataObject) -> None:
    """Offsets out of the data, slots that were not left so, room that is too small: an answer or a refusal."""
    offsets = np.array(data.draw(st.lists(st.integers(-3, 30), min_size=1, max_size=9)), "i4")
    text = np.frombuffer(data.draw(st.binary(max_size=30)), "u1")
    slots = np.array(data.draw(st.lists(st.integers(0, 2**64 - 1), min_size=8, max_size=8)), "u8")
    codes, fresh = np.zeros(len(offsets) - 1, "i4"), np.zeros(data.draw(st.integers(0, 9)), "i8")
    for form in (plain, native):
        with suppress(ValueError):
            n_new = form.code_strings(np.zeros(1, "i4"), text, offsets, text, None, slots.copy(), codes, fresh)
            assert 0 <= n_new <= len(fresh) and (codes < n_new).all() and (fresh[:n_new] < len(codes)).all()


@given(st.data(), st.lists(st.integers(-3, 30), min_size=1, max_size=9))
def test_codes_of_offsets_that_are_not_believed(data: st.DataObject, known: list[int]) -> None:
    text = np.frombuffer(data.draw(st.binary(max_size=30)), "u1")
    codes = np.array(data.draw(st.lists(st.integers(-1, 9), max_size=9)), "i4")
    offsets = np.array(data.draw(st.lists(st.integers(-5, 60), min_size=len(codes) + 1, max_size=len(codes) + 1)), "i4")
    places = np.array(known, "i4")
    agree("code_offsets", places, codes, None, offsets.copy(), exact=False)
    agree("code_data", places, text, codes, None, offsets, np.zeros(40, "u1"), exact=False)


@given(st.data(), st.lists(st.integers(-3, 30), min_size=1, max_size=9))
def test_offsets_are_not_believed(data: st.DataObject, offsets: list[int]) -> None:
    text = np.frombuffer(data.draw(st.binary(max_size=30)), "u1")
    for kind in ("i4", "i8"):
        ends = np.array(offsets, kind)
        agree("check_text", ends, text, 2, None)


@given(st.binary(max_size=12))
def test_utf8_is_what_python_says(text: bytes) -> None:
    try:
        text.decode("utf-8")
        wanted = -1
    except UnicodeDecodeError:
        wanted = 0
    assert agree("check_text", np.array([0, len(text)], "i4"), text, kernels.UTF8, None) == wanted


# -- the global heap --


def make_collection(objects: dict[int, bytes], size: int = 4096) -> bytes:
    parts = [
        index.to_bytes(2, "little")
        + b"\1\0\0\0\0\0"
        + len(data).to_bytes(8, "little")
        + data.ljust(-(-len(data) // 8) * 8, b"\0")
        for index, data in objects.items()
    ]
    whole = b"".join(parts)
    return (b"GCOL\1\0\0\0" + size.to_bytes(8, "little") + whole).ljust(size, b"\0")


def read_heap(
    heap: bytes, places: list[int], addresses: list[int], references: bytes, cut: bool, kind: str = "i4"
) -> Any:
    """All steps, in both forms: the offsets and the data, or REFUSED."""
    where = np.array(places, "i8")
    slots = np.zeros(len(where), "i8")
    if agree("heap_slots", heap, where, slots) == REFUSED:
        return REFUSED
    firsts = np.concatenate(([0], np.cumsum(slots)))
    starts, sizes = np.zeros(firsts[-1], "i8"), np.zeros(firsts[-1], "i8")
    assert agree("heap_objects", heap, where, firsts, starts, sizes) is None
    offsets = np.zeros(len(references) // 16 + 1, kind)
    common = [heap, np.array(addresses, "u8"), firsts, starts, sizes, references, 1, cut, offsets]
    if agree("heap_offsets", *common) == REFUSED:
        return REFUSED
    data = np.zeros(int(offsets[-1]), "u1")
    assert agree("heap_data", *common, data) is None
    return offsets, data


def test_heap_of_a_file(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    texts = ["x" * int(n) + "é" * (n % 3) for n in rng.integers(0, 40, 3000)]
    with h5py.File(tmp_path / "v.h5", "w") as file:
        file.create_dataset("s", data=texts, dtype=h5py.string_dtype(), chunks=(3000,))
    with h5py.File(tmp_path / "v.h5") as file:
        references = file["s"].id.read_direct_chunk((0,))[1]
    rows = np.frombuffer(references, plain_heap.REFERENCE)
    addresses = np.unique(rows["address"][rows["length"] > 0])
    whole = (tmp_path / "v.h5").read_bytes()
    offsets, data = read_heap(whole, addresses.astype("i8").tolist(), addresses.tolist(), references, False, "i4")
    found = [data[a:b].tobytes().decode() for a, b in itertools.pairwise(offsets)]
    assert found == texts


@given(st.data())
def test_heap_of_any_bytes(data: st.DataObject) -> None:
    """Collections with a few bytes changed, references that lead anywhere: an answer, or a refusal, in both forms."""
    objects = data.draw(st.dictionaries(st.integers(1, 70), st.binary(max_size=40), max_size=8))
    heap = bytearray(make_collection(objects, 512) + make_collection({1: b"hello\0you"}, 64))
    for _ in range(data.draw(st.integers(0, 2))):
        heap[data.draw(st.integers(0, len(heap) - 1))] = data.draw(st.sampled_from([0, 1, 8, 127, 255]))
    references = b"".join(
        data.draw(st.sampled_from([0, 1, 5, 9, 4096])).to_bytes(4, "little")
        + data.draw(st.sampled_from([100, 100, 200, 300, 2**64 - 1])).to_bytes(8, "little")
        + data.draw(st.sampled_from([1, *objects, 0, 70, 2**31])).to_bytes(4, "little")
        for _ in range(data.draw(st.integers(0, 5)))
    )
    read_heap(bytes(heap), [0, 512], [100, 200], references, data.draw(st.booleans()), "i8")
    cut = data.draw(st.integers(0, len(heap)))
    read_heap(bytes(heap[:cut]), [data.draw(st.integers(-1, cut))], [100], references, False, "i4")


# -- refusals --

i8 = np.arange(4, dtype="i8")
u1 = np.zeros(4, "u1")
ends = np.zeros(2, "i4")
nowhere = np.zeros(0, "u8")


def one() -> Any:
    return np.zeros(1, "i8")


MALFORMED = {
    "out too short": ("shuffle", u1, u1[:3].copy(), 2),
    "out over source": ("shuffle", u1[:3], u1[1:], 1),
    "item size 0": ("unshuffle", u1, u1.copy(), 0),
    "item size below 0": ("take", u1, -4, i8, u1.copy()),
    "not contiguous": ("fletcher32", np.arange(20, dtype="u1")[::2]),
    "no buffer": ("fletcher32", 3),
    "no buffer to sum": ("lookup3", 3),
    "objects": ("fletcher32", np.array([None])),
    "read-only": ("range_mask", u1, 0, 1, False, False, b"abcd"),
    "big-endian": ("range_count", np.arange(3, dtype=">i4"), 0, 1, False, False),
    "unaligned": ("range_count", np.frombuffer(bytes(17), "u1")[1:].view("i8"), 0, 1, False, False),
    "complex": ("range_count", np.zeros(3, "c16"), 0, 1, False, False),
    "float16": ("range_count", np.zeros(3, "f2"), 0, 1, False, False),
    "float bound of integers": ("range_count", i8, 0.5, None, False, False),
    "whole bound of floats": ("range_count", np.zeros(3), 1, None, False, False),
    "NaN bound": ("range_count", np.zeros(3), None, math.nan, False, False),
    "wide mask": ("mask_edges", i8, 0, np.zeros(5, "i8")),
    "mask of another length": ("range_mask", u1, 0, 1, False, False, u1[:2].copy()),
    "rows of another type": ("mask_edges", u1, 0, np.zeros(5, "i4")),
    "base below 0": ("mask_edges", u1, -1, np.zeros(5, "i8")),
    "base too large": ("mask_edges", u1, 2**63 - 2, np.zeros(5, "i8")),
    "wanted of another type": ("among_mask", i8, np.zeros(1, "i4"), u1.copy()),
    "wanted decreasing": ("among_mask", i8, i8[::-1].copy(), u1.copy()),
    "wanted twice": ("among_mask", i8, np.zeros(2, "i8"), u1.copy()),
    "wanted NaN": ("among_mask", np.zeros(3), np.array([np.nan]), u1[:3].copy()),
    "missing of another length": ("total", i8, u1[:3].copy()),
    "codes that are floats": ("group_totals", np.zeros(4), i8, None, np.zeros(2, "i8"), one(), one(), None, None),
    "totals too few": ("group_totals", i8 * 0, i8, None, np.zeros(1, "i8"), one(), one(), None, None),
    "totals of another type": ("group_totals", i8 * 0, i8, None, np.zeros(2), one(), one(), None, None),
    "offsets empty": ("check_text", i8[:0].copy(), b"", 2, None),
    "offsets unsigned": ("check_text", np.zeros(1, "u4"), b"", 2, None),
    "check unknown": ("check_text", np.zeros(1, "i4"), b"", 3, None),
    "padding unknown": ("fixed_to_arrow", b"abcd", 4, 3, 0, None, np.zeros(2, "i4"), np.zeros(4, "u1")),
    "width 0": ("fixed_to_arrow", b"", 0, 0, 0, None, np.zeros(2, "i4"), np.zeros(4, "u1")),
    "data too short": ("fixed_to_arrow", b"abcd", 4, 0, 0, None, np.zeros(2, "i4"), np.zeros(3, "u1")),
    "width of no bytes": ("arrow_to_fixed", np.zeros(1, "i4"), b"", 0, np.empty(0, "u1")),
    "wide offsets": ("arrow_to_fixed", np.zeros(1, "i8"), b"", 1, np.empty(0, "u1")),
    "no offsets": ("arrow_to_fixed", np.zeros(0, "i4"), b"", 1, np.empty(0, "u1")),
    "room for fewer strings": ("arrow_to_fixed", np.array([0, 1], "i4"), b"a", 2, np.empty(1, "u1")),
    "offsets after the data": ("arrow_to_fixed", np.array([0, 2], "i4"), b"a", 2, np.empty(2, "u1")),
    "offsets before the data": ("arrow_to_fixed", np.array([-1, 1], "i4"), b"a", 2, np.empty(2, "u1")),
    "offsets that decrease": ("arrow_to_fixed", np.array([0, 2, 1], "i4"), b"abc", 2, np.empty(4, "u1")),
    "out over the data": ("arrow_to_fixed", np.array([0, 1], "i4"), u1[:4], 4, u1[:4]),
    "reference cut": ("heap_offsets", b"", nowhere, one(), i8, i8, bytes(15), 1, False, ends),
    "firsts too few": ("heap_offsets", b"", nowhere, i8[:0].copy(), i8, i8, b"", 1, False, ends[:1].copy()),
    "item size too large": ("heap_offsets", b"", nowhere, one(), i8, i8, b"", 2**31, False, ends[:1].copy()),
}  # fmt: skip


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_input_is_refused(name: str) -> None:
    kernel, *arguments = MALFORMED[name]
    for form in (reference, native):
        with pytest.raises(ValueError):
            getattr(form, kernel)(*arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", KINDS)
def test_empty_input(kind: str) -> None:
    none, mask = np.empty(0, kind), np.empty(0, "u1")
    agree("range_mask", none, None, None, False, False, mask)
    assert agree("least_greatest", none, None) == (None, None, 0, 0)
    assert agree("range_count", none, None, None, False, False) == 0
    agree("shuffle", mask, mask.copy(), 3)
