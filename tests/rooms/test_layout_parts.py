"""Layouts find their modules by name. Here they are named, so that mypy sees whether they satisfy the protocols."""

from __future__ import annotations

from typing import Any

import colonnade.layouts.anndata.convert
import colonnade.layouts.anndata.describe
import colonnade.layouts.anndata.rules
import colonnade.layouts.anndata.search
import colonnade.layouts.anndata.write
import colonnade.layouts.artifactdb.convert
import colonnade.layouts.artifactdb.describe
import colonnade.layouts.artifactdb.publish
import colonnade.layouts.artifactdb.rules
import colonnade.layouts.artifactdb.search
import colonnade.layouts.artifactdb.sidecars
import colonnade.layouts.artifactdb.write
import colonnade.layouts.columns.convert
import colonnade.layouts.columns.describe
import colonnade.layouts.columns.rules
import colonnade.layouts.columns.search
import colonnade.layouts.compound.describe
import colonnade.layouts.compound.rules
import colonnade.layouts.h5col.convert
import colonnade.layouts.h5col.describe
import colonnade.layouts.h5col.rules
import colonnade.layouts.h5col.search
import colonnade.layouts.h5col.write
import colonnade.layouts.hdmf.convert
import colonnade.layouts.hdmf.describe
import colonnade.layouts.hdmf.rules
import colonnade.layouts.hdmf.search
import colonnade.layouts.hep001.convert
import colonnade.layouts.hep001.describe
import colonnade.layouts.hep001.rules
import colonnade.layouts.hep001.search
import colonnade.layouts.hep001.write
import colonnade.layouts.pandas.convert
import colonnade.layouts.pandas.describe
import colonnade.layouts.pandas.rules
import colonnade.layouts.pandas.search
import colonnade.layouts.pytables.convert
import colonnade.layouts.pytables.create
import colonnade.layouts.pytables.describe
import colonnade.layouts.pytables.rules
import colonnade.layouts.pytables.write
import colonnade.layouts.records.convert
import colonnade.layouts.records.search
import colonnade.layouts.records.write
from colonnade.layouts import LAYOUTS
from colonnade.layouts.contract import Create, Describe, Edit, IndexHome, NewTables, Rules, Sidecars
from colonnade.layouts.conversion import Conversion

DESCRIBE: dict[str, Describe] = {
    "anndata": colonnade.layouts.anndata.describe,
    "artifactdb": colonnade.layouts.artifactdb.describe,
    "columns": colonnade.layouts.columns.describe,
    "compound": colonnade.layouts.compound.describe,
    "h5col": colonnade.layouts.h5col.describe,
    "hdmf": colonnade.layouts.hdmf.describe,
    "hep001": colonnade.layouts.hep001.describe,
    "pandas": colonnade.layouts.pandas.describe,
    "pytables": colonnade.layouts.pytables.describe,
}
CREATE: dict[str, Create] = {
    "anndata": colonnade.layouts.anndata.write,
    "h5col": colonnade.layouts.h5col.write,
    "hep001": colonnade.layouts.hep001.write,
}
NEW_TABLES: dict[str, NewTables] = {
    "artifactdb": colonnade.layouts.artifactdb.publish.PART,
    "pytables": colonnade.layouts.pytables.create.PART,
}
EDIT: dict[str, Edit] = {
    "anndata": colonnade.layouts.anndata.write,
    "artifactdb": colonnade.layouts.artifactdb.write,
    "compound": colonnade.layouts.records.write,
    "h5col": colonnade.layouts.h5col.write,
    "hep001": colonnade.layouts.hep001.write,
    "pytables": colonnade.layouts.pytables.write,
}
INDEXES: dict[str, IndexHome] = {
    "anndata": colonnade.layouts.anndata.search.PART,
    "artifactdb": colonnade.layouts.artifactdb.search.PART,
    "columns": colonnade.layouts.columns.search.PART,
    "compound": colonnade.layouts.records.search.PART,
    "h5col": colonnade.layouts.h5col.search,
    "hdmf": colonnade.layouts.hdmf.search.PART,
    "hep001": colonnade.layouts.hep001.search,
    "pandas": colonnade.layouts.pandas.search.PART,
    "pytables": colonnade.layouts.records.search.PART,
}
RULES: dict[str, Rules[Any]] = {
    "anndata": colonnade.layouts.anndata.rules.PART,
    "artifactdb": colonnade.layouts.artifactdb.rules.PART,
    "columns": colonnade.layouts.columns.rules.PART,
    "compound": colonnade.layouts.compound.rules.PART,
    "h5col": colonnade.layouts.h5col.rules,
    "hdmf": colonnade.layouts.hdmf.rules.PART,
    "hep001": colonnade.layouts.hep001.rules,
    "pandas": colonnade.layouts.pandas.rules.PART,
    "pytables": colonnade.layouts.pytables.rules.PART,
}
CONVERSION: dict[str, Conversion] = {
    "anndata": colonnade.layouts.anndata.convert.PART,
    "artifactdb": colonnade.layouts.artifactdb.convert.PART,
    "columns": colonnade.layouts.columns.convert.PART,
    "compound": colonnade.layouts.records.convert.PART,
    "h5col": colonnade.layouts.h5col.convert.PART,
    "hdmf": colonnade.layouts.hdmf.convert.PART,
    "hep001": colonnade.layouts.hep001.convert.PART,
    "pandas": colonnade.layouts.pandas.convert.PART,
    "pytables": colonnade.layouts.pytables.convert.PART,
}
SIDECARS: dict[str, Sidecars] = {"artifactdb": colonnade.layouts.artifactdb.sidecars}


def test_the_parts_of_layouts_are_those_that_mypy_has_seen() -> None:
    assert {name: layout.reading for name, layout in LAYOUTS.items()} == DESCRIBE
    assert {name: layout.indexes for name, layout in LAYOUTS.items()} == INDEXES
    assert {name: layout.rules for name, layout in LAYOUTS.items()} == RULES
    assert {name: layout.conversion for name, layout in LAYOUTS.items()} == CONVERSION
    assert {name: part for name, layout in LAYOUTS.items() if (part := layout.find("write"))} == EDIT
    created = {name: layout.find(layout.creates_in) for name, layout in LAYOUTS.items() if layout.creates_in}
    assert created == CREATE | NEW_TABLES
    assert {name: part for name, layout in LAYOUTS.items() if (part := layout.sidecars)} == SIDECARS
