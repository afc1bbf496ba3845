"""Whether the cache of a running endpoint works, found out from outside as its clients see it."""
