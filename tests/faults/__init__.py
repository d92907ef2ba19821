"""Crashes, kills and several processes at once: a file is always whole."""
