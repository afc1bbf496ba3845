"""Writes docs/schemas anew: what `hypertier schema` prints, for editors to read from the repository."""

from __future__ import annotations

import json
from pathlib import Path

from hypertier.spec.json_schema import KINDS, json_schema

FOLDER = Path(__file__).parent.parent / "docs" / "schemas"

if __name__ == "__main__":
    for kind in KINDS:
        text = json.dumps(json_schema(kind), indent=2, ensure_ascii=False)
        (FOLDER / f"{kind}.schema.json").write_text(f"{text}\n", encoding="utf-8")
