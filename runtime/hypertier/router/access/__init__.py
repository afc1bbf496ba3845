"""Who may ask, how much, and when it is their turn: keys, JWTs, tenants, limits and the queue."""
