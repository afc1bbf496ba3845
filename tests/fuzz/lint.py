"""Feeds lint whatever atheris thinks of: `pip install atheris`, then `python tests/fuzz/lint.py
tests/manifests`.

An input that raises, takes more than two seconds or more than 200 MB is saved as crash-… in the working
directory.
"""

from __future__ import annotations

import sys

import atheris

with atheris.instrument_imports(include=["hypertier"]):
    from hypertier.spec.fix import mended
    from hypertier.spec.lint import lint_text


def test_one_input(data: bytes) -> None:
    """Lint and mend one text."""
    mended(lint_text(data.decode("utf-8", errors="replace")))


if __name__ == "__main__":
    atheris.Setup([*sys.argv, "-timeout=2", "-rss_limit_mb=400"], test_one_input)
    atheris.Fuzz()
