"""What to read, and reading it: rows of columns as Arrow batches."""
