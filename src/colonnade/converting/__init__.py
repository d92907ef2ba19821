"""Files whose tables are written in another layout; all else in them is copied as it is.

`INTO` is the closed set of layouts that tables can be turned into, one file of this room each: a function that looks at
a table, refuses by name what its layout cannot hold, and gives what will write it.
"""

from colonnade.converting.files import INTO, Converted, convert

__all__ = ["INTO", "Converted", "convert"]
