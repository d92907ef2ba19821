"""The AnnData face of a HEP001 table: made, kept in step with the table, and compared with it."""
