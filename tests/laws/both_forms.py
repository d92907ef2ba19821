"""Kernels in both forms side by side: the same arguments, the same answer, the same output, the same refusals.

The other form of a kernel that exists in C only is in `plain_codecs` or `plain_heap`.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
from hypothesis import strategies as st

from colonnade.kernels import plain
from tests.laws import plain_codecs, plain_heap

C_ONLY = {
    plain_codecs: (
        "bit_unshuffle",
        "decode_scaleoffset_chunks",
        "decode_scaleoffset_rows",
        "pick_packed_rows",
        "read_packed_rows",
        "unpack_blosclz",
        "unpack_lz4",
        "unpack_lzf",
    ),
    plain_heap: ("heap_data", "heap_objects", "heap_offsets", "heap_slots"),
}
reference: Any = SimpleNamespace(
    **{name: getattr(plain, name) for name in plain.__all__ if not name.isupper()},
    **{name: getattr(module, name) for module, names in C_ONLY.items() for name in names},
)

try:
    from colonnade.kernels import _native

    native: Any = _native
except ImportError:  # a machine without a compiler has one form
    native = reference

Draw = Callable[..., Any]  # `draw` of a composite strategy, or of `data()`
HAS_C = native is not reference
KINDS = [*(f"{sign}{size}" for sign in "iu" for size in (1, 2, 4, 8)), "f4", "f8"]
REFUSED = "refused"
LOOKING = ("decode_scaleoffset_chunks", "read_pieces")  # say whether an item is there: False is no refusal


def own(argument: Any) -> Any:
    """A copy that one form may write to; whether it can be written is kept."""
    if isinstance(argument, np.ndarray):
        copied = argument.copy() if argument.flags.aligned and argument.flags.c_contiguous else argument
        copied.flags.writeable = argument.flags.writeable
        return copied
    return bytearray(argument) if isinstance(argument, bytearray) else argument


def call(form: Any, name: str, arguments: list[Any]) -> Any:
    try:
        return getattr(form, name)(*arguments)
    except ValueError:
        return REFUSED


def agree(name: str, *arguments: Any, exact: bool = True) -> Any:
    """Run a kernel in both forms, compare everything, and give its answer; outputs come back in the arguments."""
    mine, theirs = [own(a) for a in arguments], [own(a) for a in arguments]
    answer, truth = call(native, name, mine), call(reference, name, theirs)
    if isinstance(answer, str) or isinstance(truth, str):
        assert answer == truth, f"C: {answer!r}, NumPy: {truth!r}"
        return REFUSED
    if exact:
        assert repr(answer) == repr(truth)
        if answer is False and name not in LOOKING:  # there is nothing in the output
            return False
        if (
            not isinstance(answer, bool) and name.endswith("_rows") and isinstance(answer, int)
        ):  # behind the rows, anything may stand
            mine[-1][answer:] = theirs[-1][answer:] = 0
        for place, (a, b) in enumerate(zip(mine, theirs, strict=True)):
            if isinstance(a, np.ndarray):
                assert a.tobytes() == b.tobytes(), (place, a, b)
    for given, made in zip(arguments, mine, strict=True):
        if isinstance(given, np.ndarray) and given.flags.writeable:
            given[...] = made
    return answer


def edges(kind: str) -> list[Any]:
    """The values of a type where mistakes are made."""
    if kind[0] == "f":
        info = np.finfo(kind)
        ends = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, info.max, info.min, info.tiny, 0.1]
        return [np.dtype(kind).type(value) for value in ends]
    whole = np.iinfo(kind)
    return [np.dtype(kind).type(v) for v in (whole.min, whole.min + 1, 0, 1, 2, whole.max - 1, whole.max)]


@st.composite
def numbers(draw: st.DrawFn, kind: str, most: int = 70) -> np.ndarray[Any, Any]:
    """Edge values, any bits at all (NaN payloads too), or many random rows of a small range."""
    how = draw(st.sampled_from(["edges", "bits", "many"]))
    if how == "edges":
        return np.array(draw(st.lists(st.sampled_from(edges(kind)), max_size=most)), dtype=kind)
    if how == "bits":
        data = draw(st.binary(max_size=most * int(kind[1])))
        return np.frombuffer(data[: len(data) // int(kind[1]) * int(kind[1])], dtype=kind).copy()
    rng = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    found: np.ndarray[Any, Any] = rng.integers(0, 100, draw(st.integers(0, 5000))).astype(kind)
    return found


@st.composite
def kinds_and_numbers(draw: st.DrawFn, kinds: tuple[str, ...] = tuple(KINDS)) -> np.ndarray[Any, Any]:
    return draw(numbers(draw(st.sampled_from(kinds))))


def bytes_of(draw: Draw, most: int = 300) -> np.ndarray[Any, Any]:
    """A few bytes, or a few thousand random ones."""
    if draw(st.booleans()):
        return np.frombuffer(draw(st.binary(max_size=most)), dtype="u1").copy()
    rng = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    return np.frombuffer(rng.bytes(draw(st.integers(0, 9000))), dtype="u1").copy()


def masks(draw: Draw, count: int) -> np.ndarray[Any, Any]:
    """A mask of rare, many or all true rows; true is any byte but 0."""
    rng = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    share = draw(st.sampled_from([0.0, 0.02, 0.5, 1.0]))
    return ((rng.random(count) < share) * rng.choice(np.array([1, 1, 255], dtype="u1"), count)).astype("u1")
