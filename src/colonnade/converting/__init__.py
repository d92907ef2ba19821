"""Writes the tables of a file in another layout; everything else in the file is copied unchanged.

`INTO` is the closed set of target layouts, one module each: a function that checks a table, refuses by name what its
layout cannot hold, and returns a draft that writes it.
"""

from colonnade.converting.files import INTO, Converted, convert

__all__ = ["INTO", "Converted", "convert"]
