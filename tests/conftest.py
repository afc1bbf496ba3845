"""Tests run the sources as they are; `test_compiled` runs the router's once more in compiled form."""

from __future__ import annotations

import os

os.environ.setdefault("HYPERTIER_COMPILED", "0")
