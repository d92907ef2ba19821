"""Measurements: ratios against peers in one run, and bounds on memory. Never part of the tests."""
