"""Tables and queries as sources for query engines: their filters, columns and limits reach the file."""
