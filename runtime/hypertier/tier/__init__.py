"""L2 inside vLLM: a secondary tier that keeps blocks in Valkey or Redis, shared by every replica."""
