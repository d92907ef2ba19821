"""Writes the tables of a file in another layout; everything else in the file is copied unchanged.

The layouts themselves decide what they can hold, and what must be recorded so that converting back is exact
(`layouts.conversion`).
"""

from colonnade.converting.files import Converted, convert

__all__ = ["Converted", "convert"]
