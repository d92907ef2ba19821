"""HEP001, revision of April 2026 (VERSION "1.0"): a table is a group, a column is a dataset."""
