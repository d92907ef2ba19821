"""Checks files against the rules of their layouts, and repairs them where that needs no data.

`check` runs the rules, `fix` plans and applies repairs. The layouts define the rules and the repairs.
"""

from colonnade.checking.check import ALL_RULES, RULES, Check, Checked, Findings, layout_rules, not_hdf5, not_located
from colonnade.checking.fix import Fixed, apply_repairs, plan_repairs

__all__ = [
    "ALL_RULES",
    "RULES",
    "Check",
    "Checked",
    "Findings",
    "Fixed",
    "apply_repairs",
    "layout_rules",
    "not_hdf5",
    "not_located",
    "plan_repairs",
]
