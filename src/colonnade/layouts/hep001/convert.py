"""Converting tables into HEP001: categories, row labels and missing rows as HEP001 has them.

What HEP001 cannot express (that a column could have missing rows though it has none, what a missing string means, that
the row labels are also a column) is kept in marks, so that converting back is exact.
"""

from __future__ import annotations

from colonnade.layouts.hep001 import names
from colonnade.layouts.revision_tables import RevisionConversion

PART = RevisionConversion(names.GROUP_ATTRIBUTES, (*names.VALUE_ATTRIBUTES, names.ENCODING_TYPE))
