"""The filters of a dataset in its creation property list: set by the text of `filters/names.py`, and described.

Filters that may make a chunk larger are marked optional, because HDF5 fails the write otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from h5py import h5f, h5g, h5p, h5t, h5z

from colonnade.errors import UnsupportedError, UsageError
from colonnade.filters.names import BUILT_IN, NAMES, OF_H5PY, PLUGINS, parse_filters
from colonnade.model import FilterInfo, StoredType

NEVER_SKIPPED = (1, 2, 3, 5)  # filters that the library applies to every chunk: deflate, shuffle, fletcher32, n-bit
_LOSSY_OPTIONS = {
    "zfp": ("rate", "precision", "accuracy"),
    "sz": ("absolute", "relative", "pointwise_relative"),
    "sz3": ("absolute", "relative", "norm2", "peak_signal_to_noise_ratio"),
}
_ENCODES = 1  # of H5Zget_filter_info
_SZIP_MODES = {"nn": 32, "ec": 4}
_COMPRESSORS = ("blosclz", "lz4", "lz4hc", "zlib", "zstd")


def set_filters(creation: h5p.PropDCID, text: str, stored: StoredType) -> None:
    """Put the filters of `text` into a dataset creation property list, in their order."""
    steps = parse_filters(text)
    for name, options in steps:
        if name in PLUGINS:
            if [other for other, _ in steps].count(name) > 1:  # HDF5 then completes the options of the first only
                raise UsageError(f"cannot use filter {name} twice in {text!r}. Name it once.", filter=name)
            if name in ("blosc", "blosc2", "bitshuffle") and stored.has_pointers:
                # Their code divides by an element size that variable-length data does not have.
                raise UsageError(f"filter {name} does not work on {stored}: use shuffle+deflate or zstd", filter=name)
            _set_plugin(creation, name, options, stored)
        elif name in OF_H5PY:
            _set_of_h5py(creation, name, options, stored)
        else:
            _set_built_in(creation, name, options, stored)


def _number(name: str, options: tuple[str, ...], default: int, low: int, high: int) -> int:
    text = options[0] if options else str(default)
    if not text.lstrip("-").isdigit() or not low <= int(text) <= high or len(options) > 1:
        given = ":".join(options)
        raise UsageError(f"filter {name} takes one number from {low} to {high}, not {given!r}", filter=name)
    return int(text)


def _set_built_in(creation: h5p.PropDCID, name: str, options: tuple[str, ...], stored: StoredType) -> None:
    if name == "shuffle":
        creation.set_shuffle()
    elif name == "deflate":
        creation.set_deflate(_number(name, options, 1, 0, 9))
    elif name == "fletcher32":
        if stored.has_pointers or "reference" in str(stored):
            raise UsageError(f"filter fletcher32 does not work on {stored}: HDF5 refuses it", filter=name)
        creation.set_fletcher32()
    elif name == "n-bit":
        _require_kind(name, stored, ("integer", "float", "boolean", "enum", "array", "compound"))
        creation.set_filter(h5z.FILTER_NBIT, h5z.FLAG_OPTIONAL, ())
    else:
        _require_kind(name, stored, ("integer", "float"))
        if stored.kind == "float":
            if not options:
                raise UsageError(
                    "scale-offset keeps only some decimals of a float: say how many, as in 'scale-offset:3'",
                    filter=name,
                )
            creation.set_scaleoffset(h5z.SO_FLOAT_DSCALE, _number(name, options, 0, 0, 30))
        else:
            _number(name, options, 0, 0, stored.size * 8)
            creation.set_scaleoffset(h5z.SO_INT, 0)  # as many bits as are needed: HDF5 cuts off those above a number


def _require_kind(name: str, stored: StoredType, kinds: tuple[str, ...]) -> None:
    if stored.kind not in kinds:
        raise UsageError(f"filter {name} does not work on {stored}; it takes {', '.join(kinds)}", filter=name)


def _set_of_h5py(creation: h5p.PropDCID, name: str, options: tuple[str, ...], stored: StoredType) -> None:
    """lzf, and szip[:nn|ec[:PIXELS]], if the library can compress with it."""
    if name == "lzf":
        if options:
            raise UsageError("filter lzf takes no options", filter=name)
        creation.set_filter(h5z.FILTER_LZF, h5z.FLAG_OPTIONAL, ())
        return
    if not h5z.filter_avail(h5z.FILTER_SZIP) or not h5z.get_filter_info(h5z.FILTER_SZIP) & _ENCODES:
        raise UsageError(
            "filter szip: the HDF5 library of h5py cannot compress with it here. Install h5py from conda-forge, or use "
            "shuffle+deflate",
            filter=name,
        )
    _require_kind(name, stored, ("integer", "float"))
    mode = options[0] if options else "nn"
    pixels = _number(name, options[1:], min(16, creation.get_chunk()[0] // 2 * 2), 2, 32)
    if mode not in _SZIP_MODES or pixels % 2 or pixels > creation.get_chunk()[0]:
        raise UsageError(
            "filter szip is written szip:nn or szip:ec, and an even number of elements from 2 to 32, not more than a "
            "chunk has, as in 'szip:nn:16'",
            filter=name,
        )
    creation.set_szip(_SZIP_MODES[mode], pixels)


def _lossy_options(name: str, options: tuple[str, ...], stored: StoredType) -> dict[str, float]:
    """The options of zfp, sz and sz3 as hdf5plugin takes them: zfp:rate=8, sz:absolute=0.01."""
    if options == ("reversible",) and name == "zfp":
        _require_kind(name, stored, ("float", "integer"))
        if stored.size not in (4, 8) or (stored.kind == "integer" and not stored.signed):
            raise UsageError(
                f"filter zfp does not work on {stored}: it takes signed numbers of 4 or 8 bytes", filter=name
            )
        return {"reversible": True}
    key, _, text = options[0].partition("=") if len(options) == 1 else ("", "", "")
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if key not in _LOSSY_OPTIONS[name] or not 0 < number < float("inf") or (key == "precision" and number % 1):
        known = ", ".join(f"{name}:{word}=NUMBER" for word in _LOSSY_OPTIONS[name])
        exact = " or zfp:reversible, which keeps them" if name == "zfp" else ""
        raise UsageError(f"filter {name} changes values: add by how much, as {known}{exact}", filter=name)
    if stored.kind != "float" or stored.size not in (4, 8):
        raise UsageError(
            f"filter {name} changes values, so it takes floats of 4 or 8 bytes only, not {stored}", filter=name
        )
    return {key: int(number) if key == "precision" else number}


def _set_plugin(creation: h5p.PropDCID, name: str, options: tuple[str, ...], stored: StoredType) -> None:
    plugin = import_plugins()
    if plugin is None:
        raise UsageError(
            f"filter {name} needs the package hdf5plugin (pip install 'colonnade[filters]'); "
            f"built in are {', '.join(BUILT_IN)}, and lzf",
            filter=name,
        )
    if name == "zstd":
        chosen = plugin.Zstd(clevel=_number(name, options, 1, 1, 22))
    elif name == "lz4":
        chosen = plugin.LZ4(nbytes=_number(name, options, 0, 0, 1 << 30))
    elif name == "bzip2":
        chosen = plugin.BZip2(blocksize=_number(name, options, 9, 1, 9))
    elif name in _LOSSY_OPTIONS:
        kind = {"zfp": plugin.Zfp, "sz": plugin.SZ, "sz3": plugin.SZ3}[name]
        chosen = kind(**_lossy_options(name, options, stored))
    elif name == "bitshuffle":
        inner = options[0] if options else "lz4"
        if inner not in ("lz4", "zstd", "none") or len(options) > 1:
            raise UsageError("filter bitshuffle is followed by lz4, zstd or none, as in 'bitshuffle:zstd'", filter=name)
        chosen = plugin.Bitshuffle(cname=inner)
    else:
        chosen = _blosc(plugin.Blosc if name == "blosc" else plugin.Blosc2, name, options)
    creation.set_filter(chosen.filter_id, h5z.FLAG_OPTIONAL, tuple(chosen.filter_options))


def _blosc(kind: Any, name: str, options: tuple[str, ...]) -> Any:
    """blosc[:compressor[:level[:noshuffle|shuffle|bitshuffle]]]"""
    compressor = options[0] if options else "zstd"
    level = options[1] if len(options) > 1 else "1"
    shuffle = options[2] if len(options) > 2 else "shuffle"
    modes = {"noshuffle": kind.NOFILTER if name == "blosc2" else kind.NOSHUFFLE}
    modes |= {"shuffle": kind.SHUFFLE, "bitshuffle": kind.BITSHUFFLE}
    if compressor not in _COMPRESSORS or not level.isdigit() or int(level) > 9 or shuffle not in modes:
        raise UsageError(
            f"filter {name} is written {name}:COMPRESSOR:LEVEL:SHUFFLE with a compressor of "
            f"{', '.join(_COMPRESSORS)}, a level 0..9 and a shuffle of {', '.join(modes)}",
            filter=name,
        )
    if name == "blosc2":
        return kind(cname=compressor, clevel=int(level), filters=modes[shuffle])
    return kind(cname=compressor, clevel=int(level), shuffle=modes[shuffle])


def import_plugins() -> Any:
    """The module hdf5plugin, which registers its filters on import; None when not installed."""
    try:
        import hdf5plugin
    except ImportError:
        return None
    return hdf5plugin


def describe_filters(creation: h5p.PropDCID) -> tuple[FilterInfo, ...]:
    """The pipeline of a dataset creation property list."""
    found = []
    for position in range(creation.get_nfilters()):
        number, flags, options, name = creation.get_filter(position)
        word = NAMES.get(number) or name.decode("utf-8", "replace") or f"filter {number}"
        found.append(FilterInfo(number, word, tuple(options), bool(flags & h5z.FLAG_OPTIONAL)))
    return tuple(found)


def load_filters(filters: tuple[FilterInfo, ...]) -> None:
    """Import hdf5plugin when a filter needs it."""
    if not all(h5z.filter_avail(step.id) for step in filters):
        import_plugins()


def require_filters(filters: tuple[FilterInfo, ...], path: str) -> None:
    """An UnsupportedError that names the filter which cannot be undone here, if there is one.

    Asked after a read has failed: a chunk may have skipped a filter that is marked optional.
    """
    for step in filters:
        if h5z.filter_avail(step.id):
            continue
        raise UnsupportedError(
            f"{path} is stored with the HDF5 filter {step.name} ({step.id}), which is not installed here. "
            "The package hdf5plugin holds most of them: pip install 'colonnade[filters]'.",
            feature=step.name,
            path=path,
        )


def creation_list() -> h5p.PropDCID:
    """An empty dataset creation property list that records no times, so that equal input gives equal bytes."""
    creation = h5p.create(h5p.DATASET_CREATE)
    creation.set_obj_track_times(False)
    return creation


def may_skip(filters: Sequence[FilterInfo]) -> bool:
    """Whether the library may store chunks without one of these filters."""
    return any(step.id not in NEVER_SKIPPED for step in filters)


def creation_like(source: h5f.FileID) -> h5p.PropFCID:
    """The creation properties of a new file that is to hold what the source file holds."""
    creation = source.get_create_plist()
    root = h5g.open(source, b"/").get_create_plist()
    creation.set_link_creation_order(root.get_link_creation_order())
    creation.set_attr_creation_order(root.get_attr_creation_order())
    creation.set_attr_phase_change(*root.get_attr_phase_change())
    return creation


def link_list(path: str) -> h5p.PropLCID:
    """How a link is made: marked as UTF-8 only where it must be, since that costs the oldest file form."""
    links = h5p.create(h5p.LINK_CREATE)
    links.set_create_intermediate_group(True)
    if not path.isascii():
        links.set_char_encoding(h5t.CSET_UTF8)
    return links
