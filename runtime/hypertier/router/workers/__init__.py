"""One router in several processes: a supervisor that owns its sockets, and workers that serve on them."""
