"""A simulated engine, for machines that cannot have vLLM: `hypertier lab up --engine simulated`.

No model computes: text and prefill times are made up. Real are the paged prefix cache, L1, L2 with the code
that vLLM loads, OpenAI's HTTP API, and the names of vLLM's metrics.
"""
