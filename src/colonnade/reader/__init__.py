"""Files read from their bytes: groups, datasets and attributes as `nodes.protocols` wants them, without libhdf5.

`format/nodes.py` finds the objects and parses them; this room answers what the rooms above ask. What it does not know
is left to libhdf5: `ReadFile.library` opens the same object there, which answers the same questions. Without it such an
object is an UnsupportedError when it is described or read.
"""
