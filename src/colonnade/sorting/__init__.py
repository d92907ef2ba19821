"""Rows in the order of keys: what rows are sorted by, and sorting them in bounded memory."""
