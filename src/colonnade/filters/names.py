"""Byte filters by name: strings such as "shuffle+deflate:4" to steps, and pipelines back to strings.

Built into every HDF5 library: shuffle, deflate, fletcher32, scale-offset, n-bit; in h5py: lzf; in most libraries: szip.
With the package hdf5plugin installed also: zstd, lz4, blosc, blosc2, bitshuffle, bzip2, and zfp, sz and sz3, which
change floats. Options follow a colon.
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
OF_H5PY = ("lzf", "szip")
PLUGINS = ("zstd", "lz4", "blosc", "blosc2", "bitshuffle", "bzip2", "zfp", "sz", "sz3")
OF_IMAGES = ("fcidecomp", "lzo")  # read where they are installed; not written
LOSSY = ("zfp", "sz", "sz3")
_SPELLINGS = {"gzip": "deflate", "zlib": "deflate", "scaleoffset": "scale-offset", "nbit": "n-bit", "zstandard": "zstd"}


PORTABLE = "portable"  # chosen by trial among shuffle and deflate, which readers without the HDF5 library support too
_SZIP_NN = 32  # a bit of its first option
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
        if name not in BUILT_IN + OF_H5PY + PLUGINS:
            known = ", ".join(BUILT_IN + OF_H5PY + PLUGINS)
            if name in OF_IMAGES:
                reason = "is not for columns" if name == "fcidecomp" else "is not offered by hdf5plugin"
                raise UsageError(f"cannot write with filter {name!r}: it {reason}. Known: {known}, none.", filter=name)
            raise UsageError(f"unknown filter {name!r} in {text!r}. Known: {known}, none.", filter=name)
        steps.append((name, tuple(options)))
    return tuple(steps)


def filters_text(filters: tuple[FilterInfo, ...]) -> str:
    """The pipeline as a string that `parse_filters` accepts, with the options that matter."""
    return "+".join(_step_text(step) for step in filters) or "none"


def _step_text(step: FilterInfo) -> str:
    if step.name in ("deflate", "zstd", "bzip2") and step.options:
        return f"{step.name}:{step.options[0]}"
    if step.name == "szip" and len(step.options) > 1:
        return f"szip:{'nn' if step.options[0] & _SZIP_NN else 'ec'}:{step.options[1]}"
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


def is_lossy(text: str | None) -> bool:
    """Whether the filters of a string change values, other than scale-offset, whose changes are checked."""
    if text is None or text in (PORTABLE, "auto"):
        return False
    return any(name in LOSSY and options != ("reversible",) for name, options in parse_filters(text))


def has_lossy(filters: tuple[FilterInfo, ...]) -> bool:
    """Whether a pipeline may change values again whenever its chunks are written."""
    return any(step.name in LOSSY for step in filters)


def without_scale_offset(text: str) -> str:
    """The filters of a string without scale-offset, which cannot represent all values."""
    steps = [step for step in text.split("+") if parse_filters(step)[0][0] != "scale-offset"]
    return "+".join(steps) or "shuffle+deflate"


def known_filters(filters: tuple[FilterInfo, ...]) -> str:
    """The pipeline as a string, for a similar dataset; shuffle+deflate if it has filters we cannot set."""
    text = filters_text(filters)
    try:
        names = [name for name, _ in parse_filters(text)]
    except UsageError:
        return "shuffle+deflate"
    if any(name in LOSSY for name in names):
        return "shuffle+deflate"  # their options are not in the text, and values are not to change again
    return text
