"""Files checked against the rules of their layouts, and mended where that needs no data.

`check` looks, `mend` plans and does. What the rules are, and what can be mended, is the layout's.
"""

from colonnade.checking.check import ALL_RULES, RULES, Check, Checked, Findings, not_hdf5, not_located
from colonnade.checking.fix import Mended, mend_file, plan_repairs

__all__ = [
    "ALL_RULES",
    "RULES",
    "Check",
    "Checked",
    "Findings",
    "Mended",
    "mend_file",
    "not_hdf5",
    "not_located",
    "plan_repairs",
]
