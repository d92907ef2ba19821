"""Tables that are datasets of a compound type: what the layouts `compound` and `pytables` share."""
