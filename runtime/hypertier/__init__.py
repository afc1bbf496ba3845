"""LLM inference with a two-tier KV cache and a router that knows it: what runs in pods and on laptops."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("hypertier")
except PackageNotFoundError:  # a checkout on PYTHONPATH, not installed
    __version__ = "0.0.0"
