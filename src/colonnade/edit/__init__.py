"""Everything that creates or changes a table: write, append, change, index, repack."""
