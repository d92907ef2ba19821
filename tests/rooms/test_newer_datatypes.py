"""Datatypes that only HDF5 2.0 and newer know: an older library is not asked to open them, since that breaks it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import colonnade as cn
from colonnade.errors import FormatError
from colonnade.h5 import capi

FILE = Path(__file__).parents[1] / "golden" / "h5col" / "wrong_2_rules.h5"


def test_an_older_library_is_not_asked_to_open_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = tmp_path / "t.h5"
    shutil.copy(FILE, copy)
    with cn.open(copy) as file:
        path = "/order_misses"
        rows = file[path].to_arrow()
    monkeypatch.setattr(capi, "hdf5_version", lambda: "1.14.6")
    with cn.open(copy) as file:
        assert file[path].to_arrow() == rows
    with cn.open(copy, "r+") as file:
        assert path in file.tables()
        with pytest.raises(FormatError, match=r"'b'.*cannot be opened"):
            file[path].truncate(1)
        assert file[path].select("a").to_arrow() == rows.select(["a"])
    with cn.open(copy) as file:
        assert file[path].to_arrow() == rows
