"""Inflating by libdeflate and by zlib: exactly the bytes that are expected, or an error, whatever the stream holds."""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from colonnade.filters import codecs
from colonnade.filters.codecs import inflate, inflate_all
from colonnade.filters.undo import Pipeline
from colonnade.model import FilterInfo

STRATEGIES = [zlib.Z_DEFAULT_STRATEGY, zlib.Z_FILTERED, zlib.Z_HUFFMAN_ONLY, zlib.Z_RLE, zlib.Z_FIXED]
shared_fixture = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(params=["libdeflate", "zlib"], autouse=True)
def inflater(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    if request.param == "libdeflate":
        pytest.importorskip("deflate")
    else:
        monkeypatch.setattr(codecs, "_libdeflate", lambda: None)
    yield


def deflated(plain: bytes, level: int, strategy: int = zlib.Z_DEFAULT_STRATEGY) -> bytes:
    packer = zlib.compressobj(level, zlib.DEFLATED, 15, 8, strategy)
    return packer.compress(plain) + packer.flush()


@st.composite
def repetitive_bytes(draw: st.DrawFn) -> bytes:
    """Bytes that repeat themselves at several distances, of few or many values."""
    chance = random.Random(draw(st.integers(0, 2**32)))
    made = bytearray(draw(st.binary(max_size=400)))
    for _ in range(draw(st.integers(0, 30))):
        if made and chance.random() < 0.7:
            begin = chance.randrange(len(made))
            made += (made[begin:] * 8)[: chance.choice([3, 4, 5, 8, 16, 17, 33, 257, 258, 259, 700])]
        else:
            made += chance.randbytes(chance.randrange(60))
    return bytes(made)


@shared_fixture
@given(repetitive_bytes(), st.integers(0, 9), st.sampled_from(STRATEGIES))
def test_what_zlib_deflates(plain: bytes, level: int, strategy: int) -> None:
    stream = deflated(plain, level, strategy)
    for given_ in (stream, memoryview(stream), np.frombuffer(stream, "u1"), stream + b"whatever follows"):
        assert bytes(inflate(given_, len(plain))) == plain
    assert inflate_all(stream) == plain
    for size in {max(len(plain) - 1, 0), len(plain) + 1, len(plain) + 300} - {len(plain)}:
        with pytest.raises(ValueError):
            inflate(stream, size)


@shared_fixture
@given(st.data(), repetitive_bytes(), st.integers(0, 9), st.sampled_from(STRATEGIES))
def test_damaged_streams(data: st.DataObject, plain: bytes, level: int, strategy: int) -> None:
    stream = bytearray(deflated(plain, level, strategy))
    for cut in {data.draw(st.integers(0, len(stream) - 1)), len(stream) - 1, len(stream) - 5}:
        with pytest.raises(ValueError):
            inflate(bytes(stream[:cut]), len(plain))
    stream[data.draw(st.integers(0, len(stream) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    try:
        inflated = bytes(inflate(bytes(stream), len(plain)))
    except ValueError:
        return
    assert inflated == plain  # the checksum leaves only bits without a meaning


def test_more_than_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = zlib.compress(bytes(1000))
    assert inflate_all(stream, 1000) == bytes(1000)
    with pytest.raises(ValueError, match="more than a chunk"):
        inflate_all(stream, 999)


@shared_fixture
@given(st.integers(2, 5), st.integers(1, 300), st.sampled_from(["u1", "i2", "f4", "i8", "V3"]), st.integers(0, 9))
def test_several_chunks_in_one_call(n_chunks: int, n_rows: int, kind: str, level: int) -> None:
    size = np.dtype(kind).itemsize
    rows = np.random.default_rng(n_rows).integers(0, 9, (n_chunks, n_rows, size), dtype="u1")
    chunks = [zlib.compress(np.ascontiguousarray(part.T).tobytes(), level) for part in rows]
    shuffle = [FilterInfo(2, "shuffle", (size,), True)] if size > 1 else []
    pipeline = Pipeline([*shuffle, FilterInfo(1, "deflate", (level,), True)], n_rows * size)
    data, sizes = np.frombuffer(b"".join(chunks), "u1").copy(), np.array([len(chunk) for chunk in chunks])
    out = np.zeros(rows.size, "u1")
    assert pipeline.takes_many
    assert pipeline.undo_many(data, sizes, out, None) is None
    assert out.tobytes() == rows.tobytes()
    data[-1] ^= 1
    with pytest.raises(ValueError):
        pipeline.undo_many(data, sizes, out, None)
