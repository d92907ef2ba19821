"""Benchmarks: ratios to peers measured in one run, and limits on memory. They are not part of the tests."""
