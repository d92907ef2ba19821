"""Byte filters by name: strings such as "shuffle+deflate:4" to steps, and pipelines back to strings.

Built into every HDF5 library: shuffle, deflate, fletcher32, scale-offset, n-bit. With the package hdf5plugin installed
also: zstd, lz4, blosc, blosc2, bitshuffle. Options follow a colon.
"""

from __future__ import annotations

from colonnade.errors import UsageError
from colonnade.model import FilterInfo

NAMES = {
    1: "deflate", 2: "shuffle", 3: "fletcher32", 4: "szip", 5: "n-bit", 6: "scale-offset", 305: "lzo",
    307: "bzip2", 32000: "lzf", 32001: "blosc", 32004: "lz4", 32008: "bitshuffle", 32013: "zfp",
    32015: "zstd", 32017: "sz", 32018: "fcidecomp", 32024: "sz3", 32026: "blosc2",
}  # fmt: skip
BUILT_IN = ("shuffle", "deflate", "fletcher32", "scale-offset", "n-bit")
PLUGINS = ("zstd", "lz4", "blosc", "blosc2", "bitshuffle")
_SPELLINGS = {"gzip": "deflate", "zlib": "deflate", "scaleoffset": "scale-offset", "nbit": "n-bit", "zstandard": "zstd"}


PORTABLE = "portable"  # chosen by trial among shuffle and deflate, which readers without the HDF5 library support too
_BY_DECIMALS, _OF_INTEGERS = 0, 2  # how scale-offset packs, its first option


def check_filters(text: str | None) -> None:
    """Raise if a string is neither a keyword for automatic choice nor a list of filters."""
    if text not in (None, PORTABLE):
        parse_filters(text)


def parse_filters(text: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The steps of a filter string: ("shuffle", ()), ("deflate", ("4",)). Empty for "none"."""
    if text.strip().lower() in ("", "none"):
        return ()
    steps = []
    for part in text.split("+"):
        name, *options = (word.strip().lower() for word in part.split(":"))
        name = _SPELLINGS.get(name, name)
        if name not in BUILT_IN + PLUGINS:
            known = ", ".join(BUILT_IN + PLUGINS)
            raise UsageError(f"unknown filter {name!r} in {text!r}. Known: {known}, none.", filter=name)
        steps.append((name, tuple(options)))
    return tuple(steps)


def filters_text(filters: tuple[FilterInfo, ...]) -> str:
    """The pipeline as a string that `parse_filters` accepts, with the options that matter."""
    return "+".join(_step_text(step) for step in filters) or "none"


def _step_text(step: FilterInfo) -> str:
    if step.name in ("deflate", "zstd") and step.options:
        return f"{step.name}:{step.options[0]}"
    if step.name == "scale-offset" and len(step.options) > 1:
        lossy = step.options[0] == _BY_DECIMALS
        return f"{step.name}:{step.options[1]}" if lossy or step.options[1] else step.name
    return step.name


def cuts_off_bits(filters: tuple[FilterInfo, ...]) -> bool:
    """Whether HDF5 would truncate integers that are written, because the options of scale-offset fix their bits."""
    return any(
        step.name == "scale-offset"
        and len(step.options) > 4
        and step.options[0] == _OF_INTEGERS
        and step.options[1] not in (0, 8 * step.options[4])
        for step in filters
    )


def without_scale_offset(text: str) -> str:
    """The filters of a string without scale-offset, which cannot represent all values."""
    steps = [step for step in text.split("+") if parse_filters(step)[0][0] != "scale-offset"]
    return "+".join(steps) or "shuffle+deflate"


def known_filters(filters: tuple[FilterInfo, ...]) -> str:
    """The pipeline as a string, for a similar dataset; shuffle+deflate if it has filters we cannot set."""
    text = filters_text(filters)
    try:
        parse_filters(text)
    except UsageError:
        return "shuffle+deflate"
    return text
