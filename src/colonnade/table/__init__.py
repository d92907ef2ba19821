"""The front room: open a file, take a table, take columns and rows out of it, change it.

`File`, `Table`, `Column` and `Query` hold handles and remember nothing else of importance: what a
table is stands in its `TableInfo`, described once a commit; what is to be read stands in the Query.
"""

from colonnade.table.at_once import open_table, read, write
from colonnade.table.column import Column
from colonnade.table.file import File, open
from colonnade.table.rows import Query
from colonnade.table.table import Table

__all__ = ["Column", "File", "Query", "Table", "open", "open_table", "read", "write"]
