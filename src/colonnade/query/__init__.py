"""Plans and runs reads: rows of columns as Arrow batches."""
