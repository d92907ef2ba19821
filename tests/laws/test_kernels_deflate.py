"""Deflating by literals and runs: whatever either form makes, zlib reads as what was given."""

from __future__ import annotations

import zlib
from itertools import product
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from colonnade.kernels import plain

FORMS: list[ModuleType] = [plain]
try:
    from colonnade.kernels import _native

    FORMS.append(_native)
except ImportError:  # test_kernels.py fails where it must be there
    pass
GUARD = 32
SIZES = [0, 1, 2, 3, 8, 9, 16, 17, 257, 258, 259, 260, 261, 262, 520, 32_767, 32_768, 32_769, 65_536, 150_000]


WAYS = ("deflate", "deflate_even")


def deflated(form: ModuleType, data: Any, room: int | None = None, way: str = "deflate") -> bytes | None:
    """The stream, or None where it has no room; nothing behind the room may be touched."""
    size = len(data) + len(data) // 100 + 100 if room is None else room
    out = np.full(size + GUARD, 0xA5, dtype=np.uint8)
    made = getattr(form, way)(data, out[:size])
    assert (out[size:] == 0xA5).all()
    assert 0 <= made <= size
    return out[:made].tobytes() if made else None


def check(data: np.ndarray[Any, np.dtype[np.uint8]]) -> None:
    for form, way in product(FORMS, WAYS):
        stream = deflated(form, data, way=way)
        assert stream is not None
        assert zlib.decompress(stream) == data.tobytes()
        assert deflated(form, data, len(stream) - 1, way) is None
        tight = deflated(form, data, len(stream), way)  # a form may ask for a little room behind
        assert tight in (None, stream)


@pytest.mark.parametrize("size", SIZES)
def test_every_kind_of_bytes(size: int) -> None:
    rng = np.random.default_rng(size)
    check(np.zeros(size, np.uint8))
    check(rng.integers(0, 256, size).astype(np.uint8))
    check(rng.integers(97, 123, size).astype(np.uint8))
    check((rng.random(size) < 0.3).astype(np.uint8))
    check(np.arange(size).astype(np.uint8))
    check(np.repeat(rng.integers(0, 256, size // 20 + 1), 20)[:size].astype(np.uint8))
    check(np.sort(rng.integers(0, 256, size)).astype(np.uint8))


@pytest.mark.parametrize("length", [*range(1, 40), *range(250, 275), 515, 516, 517, 518, 519, 776, 5000])
def test_runs_of_every_length(length: int) -> None:
    noise = np.random.default_rng(length).integers(1, 256, 50).astype(np.uint8)
    for place in range(9):  # a run may begin anywhere in a word
        check(np.concatenate((noise[: 20 + place], np.zeros(length, np.uint8), noise[20 + place :])))


def test_codes_that_would_be_too_long() -> None:
    """Counts that grow as Fibonacci's numbers make a tree that is as deep as it can be."""
    counts = [1, 1]
    while sum(counts) < 30_000:
        counts.append(counts[-1] + counts[-2])
    for extra in (0, 50, 200):
        symbols = [*range(len(counts)), *range(50, 50 + extra)]
        data = np.repeat(symbols, [*counts, *([1] * extra)]).astype(np.uint8)
        np.random.default_rng(extra).shuffle(data)
        check(data)


@given(st.lists(st.tuples(st.integers(0, 255), st.integers(1, 600)), max_size=60), st.integers(0, 2**32 - 1))
def test_runs_and_noise(parts: list[tuple[int, int]], seed: int) -> None:
    rng = np.random.default_rng(seed)
    pieces = [
        np.full(length, byte) if byte % 3 else rng.integers(0, byte + 1, length)  # a third is noise
        for byte, length in parts
    ]
    check(np.concatenate([*pieces, np.zeros(0)]).astype(np.uint8))


def test_it_pays_where_nothing_repeats_but_single_bytes() -> None:
    """Text of one length, shuffled: no longer than what a search for matches makes of it."""
    rng = np.random.default_rng(1)
    texts = rng.integers(97, 123, (65_536, 24)).astype(np.uint8)
    texts[np.arange(24) >= rng.integers(5, 21, 65_536)[:, None]] = 0
    planes = np.ascontiguousarray(texts.T).ravel()
    for form in FORMS:
        stream = deflated(form, planes)
        assert stream is not None and len(stream) < len(zlib.compress(planes, 1))  # type: ignore[arg-type]


def test_bytes_of_one_kind_share_their_codes() -> None:
    """The bits of a rare value: one set of codes for many bytes takes less room than one for each few."""
    bits = np.packbits(np.random.default_rng(2).random(8 * 65_536) < 0.02)
    for form in FORMS[1:]:
        even, parts = deflated(form, bits, way="deflate_even"), deflated(form, bits)
        assert even is not None and parts is not None and len(even) < len(parts)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
def test_bad_arguments(form: ModuleType) -> None:
    data = np.zeros(100, np.uint8)
    with pytest.raises(ValueError, match="out"):
        form.deflate(data, data[50:])
    with pytest.raises((ValueError, TypeError, BufferError)):
        form.deflate(data, bytes(200))
    with pytest.raises((ValueError, TypeError)):
        form.deflate(None, data)
    assert form.deflate(data, np.zeros(0, np.uint8)) == 0
