"""Commands for those who work on colonnade itself."""
