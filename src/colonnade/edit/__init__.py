"""Everything that makes or changes a table: written, appended to, changed, indexed, rewritten."""
