"""Tables of outside facts, each with its source and the date it was read."""
