"""Files spoiled in many ways, each put through every reader, in child processes with limits of time and memory.

`seeds` makes good files, `spoil_bytes` and `spoil_structure` spoil them, `readers` asks one file for everything,
`children` runs that aside and says what became of it, `report` adds it up.
"""
