"""Inflating: both forms agree with each other, and so with zlib, on every kind of stream and on spoiled ones."""

from __future__ import annotations

import random
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.laws.both_forms import REFUSED, agree

STRATEGIES = [zlib.Z_DEFAULT_STRATEGY, zlib.Z_FILTERED, zlib.Z_HUFFMAN_ONLY, zlib.Z_RLE, zlib.Z_FIXED]
HEAD = b"\x78\x9c"


def deflated(plain: bytes, level: int = 6, strategy: int = zlib.Z_DEFAULT_STRATEGY, flush: int = 0) -> bytes:
    """A stream; with `flush`, of several blocks that end as it says."""
    packer = zlib.compressobj(level, zlib.DEFLATED, 15, 8, strategy)
    if not flush:
        return packer.compress(plain) + packer.flush()
    step = max(1, len(plain) // 3)
    parts = [packer.compress(plain[at : at + step]) + packer.flush(flush) for at in range(0, len(plain), step)]
    return b"".join(parts) + packer.flush()


def inflated(stream: bytes, size: int) -> bytes | str:
    """What both forms make of it."""
    out = np.zeros(size, "u1")
    return REFUSED if agree("inflate", stream, out, exact=False) == REFUSED else out.tobytes()


@st.composite
def texts(draw: st.DrawFn) -> bytes:
    """Bytes that repeat themselves at several distances, of few or many values."""
    part = draw(st.binary(max_size=400))
    chance = random.Random(draw(st.integers(0, 2**32)))
    made = bytearray(part)
    for _ in range(draw(st.integers(0, 30))):
        if made and chance.random() < 0.7:
            begin = chance.randrange(len(made))
            made += (made[begin:] * 8)[: chance.choice([3, 4, 5, 8, 16, 17, 33, 257, 258, 259, 700])]
        else:
            made += chance.randbytes(chance.randrange(60))
    return bytes(made)


@given(
    texts(), st.integers(0, 9), st.sampled_from(STRATEGIES), st.sampled_from([0, zlib.Z_SYNC_FLUSH, zlib.Z_FULL_FLUSH])
)
def test_what_zlib_deflates(plain: bytes, level: int, strategy: int, flush: int) -> None:
    stream = deflated(plain, level, strategy, flush)
    assert inflated(stream, len(plain)) == plain
    assert inflated(stream + b"whatever follows", len(plain)) == plain
    for size in {max(len(plain) - 1, 0), len(plain) + 1, len(plain) + 300} - {len(plain)}:
        assert inflated(stream, size) == REFUSED


@given(st.data(), texts(), st.integers(0, 9), st.sampled_from(STRATEGIES))
def test_spoiled_streams(data: st.DataObject, plain: bytes, level: int, strategy: int) -> None:
    stream = bytearray(deflated(plain, level, strategy))
    for cut in {data.draw(st.integers(0, len(stream))), len(stream) - 1, len(stream) - 4, len(stream) - 5}:
        assert inflated(bytes(stream[: max(cut, 0)]), len(plain)) in (REFUSED, plain)
    for _ in range(data.draw(st.integers(1, 3))):
        stream[data.draw(st.integers(0, len(stream) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    inflated(bytes(stream), len(plain))


@pytest.mark.parametrize("kind", ["sorted", "normal", "rounded", "few", "zeros", "noise", "text"])
@pytest.mark.parametrize("n", [1, 7, 255, 256, 257, 65_536])
def test_columns_as_they_are_kept(kind: str, n: int) -> None:
    """Whole chunks, shuffled and not: thousands of codes in the quick loop, several blocks, codes over 11 bits."""
    rng = np.random.default_rng(n)
    rows = {
        "sorted": np.cumsum(rng.integers(0, 50, n)),
        "normal": rng.normal(size=n),
        "rounded": np.round(rng.normal(50, 20, n), 2).astype("f4"),
        "few": rng.integers(0, 1000, n).astype("i4"),
        "zeros": np.zeros(n),
        "noise": rng.integers(0, 256, n).astype("u1"),
        "text": rng.choice(np.frombuffer(b"eeeeeeeeeeeeeeeeettttttttaaaaoooinshrdlucmfw", "u1"), n),
    }[kind]
    shuffled = np.ascontiguousarray(rows.view("u1").reshape(n, -1).T)
    for plain in (rows.tobytes(), shuffled.tobytes()):
        for level in (0, 1, 4, 9):
            assert inflated(deflated(plain, level), len(plain)) == plain


def test_long_codes() -> None:
    """Frequencies that fall by halves make codes of up to 15 bits, which take a second table."""
    plain = b"".join(bytes([value]) * (1 << max(0, 16 - value)) for value in range(60))
    chance = random.Random(3)
    mixed = bytes(chance.sample(plain, len(plain)))
    assert inflated(deflated(mixed, 9, zlib.Z_HUFFMAN_ONLY), len(mixed)) == mixed


@pytest.mark.parametrize("distance", [*range(1, 40), 100, 32_767, 32_768])
def test_copies(distance: int) -> None:
    """Each distance with lengths around those that are copied at once, inside and at the very end."""
    begin = random.Random(distance).randbytes(32_768)
    for length in (3, 4, 7, 8, 9, 15, 16, 17, 31, 32, 33, 258):
        copied = (begin[-distance:] * (length // distance + 1))[:length]
        for rest in (b"", b"z" * 600):
            bits = Bits().code_of_fixed(length, distance).literals(rest)
            plain = begin + copied + rest
            assert inflated(stream_of(stored(begin), bits.block(), plain=plain), len(plain)) == plain
    for length in (3, 258):  # one byte farther back than there are bytes
        plain = begin[:distance] if distance < 40 else begin[:100]
        bits = Bits().code_of_fixed(length, len(plain) + 1)
        assert inflated(stream_of(stored(plain), bits.block(), plain=plain), len(plain) + length) == REFUSED


class Bits:
    """Codes that the standard fixes, one after the other."""

    def __init__(self) -> None:
        self.text = ""

    def number(self, value: int, n: int) -> Bits:
        self.text += "".join(str(value >> place & 1) for place in range(n))
        return self

    def code(self, value: int, n: int) -> Bits:
        self.text += format(value, f"0{n}b")
        return self

    def literals(self, data: bytes) -> Bits:
        for value in data:
            self.code(0x30 + value, 8) if value < 144 else self.code(0x190 + value - 144, 9)
        return self

    def code_of_fixed(self, length: int, distance: int) -> Bits:
        symbol, base, extra = last_of([(257 + k, k + 3, 0) for k in range(8)] + LENGTHS, length)
        self.code(symbol - 256, 7) if symbol < 280 else self.code(0xC0 + symbol - 280, 8)
        self.number(length - base, extra)
        symbol, base, extra = last_of(DISTANCES, distance)
        return self.code(symbol, 5).number(distance - base, extra)

    def block(self) -> str:
        return "110" + self.text + "0000000"


LENGTHS = [(261 + 4 * extra + k, (4 + k) * 2**extra + 3, extra) for extra in range(1, 6) for k in range(4)] + [
    (285, 258, 0)
]
DISTANCES = [(k, k + 1, 0) for k in range(4)] + [
    (2 * extra + 2 + k, (2 + k) * 2**extra + 1, extra) for extra in range(1, 14) for k in range(2)
]


def last_of(table: list[tuple[int, int, int]], value: int) -> tuple[int, int, int]:
    return [entry for entry in table if entry[1] <= value][-1]


def stored(data: bytes) -> str:
    """Blocks of bytes as they are; each but the last is followed by another."""
    made = ""
    for at in range(0, len(data), 60_000):
        part = data[at : at + 60_000]
        made += "000".ljust(8, "0") + bits_of(
            len(part).to_bytes(2, "little") + (len(part) ^ 0xFFFF).to_bytes(2, "little")
        )
        made += bits_of(part)
    return made


def bits_of(data: bytes) -> str:
    return "".join(format(value, "08b")[::-1] for value in data)


def stream_of(*parts: str, plain: bytes = b"") -> bytes:
    bits = "".join(parts)
    bits = bits.ljust(-(-len(bits) // 8) * 8, "0")
    made = bytes(int(bits[at : at + 8][::-1], 2) for at in range(0, len(bits), 8))
    return HEAD + made + zlib.adler32(plain).to_bytes(4, "big")


def own_codes(literals: dict[int, int], distances: dict[int, int], *codes: str) -> str:
    """A block of codes of its own, by their lengths, which are told one by one by codes of 5 bits (16: of 4)."""
    n_literals, n_distances = max(literals, default=256) + 1, max(distances, default=0) + 1
    n_literals = max(n_literals, 257)
    bits = Bits().number(1, 1).number(2, 2).number(n_literals - 257, 5).number(n_distances - 1, 5).number(15, 4)
    order = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15]
    for symbol in order:
        bits.number(0 if symbol > 15 else 4, 3)
    for lengths, n in ((literals, n_literals), (distances, n_distances)):
        for symbol in range(n):
            bits.code(lengths.get(symbol, 0), 4)
    return bits.text + "".join(codes)


def test_codes_that_are_not_complete() -> None:
    """As zlib: one code of one bit may stand alone, and none at all; fewer than all, or more, may not."""
    end, a = "1", "0"
    two = {97: 1, 256: 1}
    assert inflated(stream_of(own_codes(two, {}, a, end), plain=b"a"), 1) == b"a"
    assert inflated(stream_of(own_codes(two, {0: 1}, a, end), plain=b"a"), 1) == b"a"
    three = {97: 1, 256: 2, 257: 2}  # a, the end, a copy of 3
    copied = own_codes(three, {0: 1}, "0", "11", "0", "10")
    assert inflated(stream_of(copied, plain=b"aaaa"), 4) == b"aaaa"
    wrong = [
        own_codes(three, {0: 1}, "0", "11", "1", "10"),  # the distance that has no code
        own_codes(three, {}, "0", "11", "0", "10"),  # no distances
        own_codes({97: 1, 256: 2}, {}, "0", "10"),  # not all bits mean something
        own_codes({97: 1, 98: 1, 256: 1}, {}, "0", "1"),  # too many
        own_codes({97: 1, 98: 1}, {}, "0"),  # no end
        own_codes(three, {0: 1, 1: 1, 2: 1}, "0", "10"),
        own_codes({97: 1, 256: 2, 286: 2}, {}, "0", "10"),  # more symbols than there are
        own_codes(two, {30: 1}, "0", "1"),
    ]
    for block in wrong:
        for size in (1, 4):
            assert inflated(stream_of(block, plain=b"a" * size), size) == REFUSED
    assert inflated(stream_of(own_codes({256: 1}, {}, "0")), 0) == b""


def test_heads_and_sums() -> None:
    good = deflated(b"abcabcabc" * 50)
    for at, value in ((0, 0x79), (0, 0x88), (1, good[1] ^ 1), (1, good[1] | 0x20), (len(good) - 1, good[-1] ^ 1)):
        bad = bytearray(good)
        bad[at] = value
        assert inflated(bytes(bad), 450) == REFUSED
    dictionary = zlib.compressobj(zdict=b"abc")
    assert inflated(dictionary.compress(b"abcabc") + dictionary.flush(), 6) == REFUSED
    for n in range(7):
        assert inflated(good[:n], 450) == REFUSED
    assert inflated(stream_of("111"), 0) == REFUSED  # the fourth kind of block
    assert inflated(stream_of(stored(b"abc")[:32], bits_of(b"abc"), plain=b"abc"), 3) == REFUSED
    assert inflated(deflated(b""), 0) == b""


@pytest.mark.parametrize("n", [0, 1, 31, 32, 33, 703, 704, 705, 1_000_000])
def test_the_sum_of_large_bytes(n: int) -> None:
    """The greatest bytes there are: sums that are joined too late would run over."""
    plain = b"\xff" * n
    assert inflated(deflated(plain), n) == plain
