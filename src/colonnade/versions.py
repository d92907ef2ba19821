"""What is installed: colonnade, the form of its kernels, and the versions of the packages it works with."""

from __future__ import annotations

import platform
from importlib import metadata

from colonnade import __version__

REQUIRED = ("numpy", "h5py", "pyarrow", "click", "rich")
OPTIONAL = (
    "hdf5plugin",
    "deflate",
    "isal",
    "pandas",
    "polars",
    "fsspec",
    "scipy",
    "anndata",
    "awkward",
    "dask",
    "duckdb",
)
NOT_INSTALLED = "not installed"


def show_versions() -> None:
    """Print the versions of colonnade, Python, HDF5 and the packages it works with: what a bug report needs.

    >>> cn.show_versions()  # doctest: +ELLIPSIS
    colonnade   ...
    kernels     ...
    """
    print(versions_text())


def versions_text() -> str:
    """One line per version; optional packages that are not installed share the last line."""
    found = versions()
    absent = [name for name in OPTIONAL if found[name] == NOT_INSTALLED]
    width = max(len(name) for name in found) + 2
    lines = [f"{name:{width}}{version}" for name, version in found.items() if name not in absent]
    if absent:
        lines.append(f"Optional packages that are not installed: {', '.join(absent)}")
    return "\n".join(lines)


def versions() -> dict[str, str]:
    """The version of everything colonnade works with, by name. What is not installed, or cannot be loaded, is
    reported as such: nothing is raised."""
    system = f"{platform.python_implementation()}, {platform.system()} {platform.machine()}"
    packages = {name: _version(name) for name in (*REQUIRED, *OPTIONAL)}
    return {
        "colonnade": __version__,
        "kernels": _kernels(),
        "Python": f"{platform.python_version()} ({system})",
        "HDF5": _hdf5(),
        **packages,
    }


def _kernels() -> str:
    try:
        from colonnade import kernels
    except ImportError as error:
        return f"cannot be loaded: {error}"
    if kernels.FORM == "c":
        return "C"
    return f"NumPy, which is slower: {kernels.REASON}"


def _hdf5() -> str:
    try:
        from colonnade.h5.capi import hdf5_version
    except ImportError as error:
        return f"cannot be loaded: {error}"
    return hdf5_version()


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return NOT_INSTALLED
