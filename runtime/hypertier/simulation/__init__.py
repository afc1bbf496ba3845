"""The router's strategies and the cache under a simulated clock, on recorded and generated traffic."""
