"""What a row must satisfy: the tree of a predicate, its parser, and its leaves bound to the keys of a column."""
