"""Rules for datasets of a compound type."""

from __future__ import annotations

from colonnade.layouts.compound.describe import describe
from colonnade.layouts.records.rules import RecordRules

PART = RecordRules("R", "HDF5 Table Specification", describe)
