"""LLM inference with a two-tier KV cache and a router that knows it: what runs in pods and on laptops."""

from __future__ import annotations


def __getattr__(name: str) -> str:
    """`__version__`, read from the installed package when it is asked for: reading is slower than a lint."""
    if name != "__version__":
        raise AttributeError(name)
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("hypertier")
    except PackageNotFoundError:  # a checkout on PYTHONPATH, not installed
        return "0.0.0"
