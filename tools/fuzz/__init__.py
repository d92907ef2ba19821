"""Files spoiled in many ways, each put through every reader, in child processes with limits of time and memory.

`seeds` makes good files, `spoil_bytes` and `spoil_structure` spoil them, `readers` asks one file for everything,
`turns` says who reads what, `children` runs that aside and says what became of it, `report` adds it up.
"""

from __future__ import annotations

import os

# Arrow's own pool reserves a gigabyte at once, which children with limits are refused.
os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
