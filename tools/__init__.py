"""Commands for developers of colonnade."""
