"""The reference deployment for a lab, with what its engines are asked beside."""

from __future__ import annotations

from pathlib import Path

REFERENCE = Path(__file__).parent.parent / "examples" / "reference"
TOOLS = ("--enable-auto-tool-choice", "--tool-call-parser", "hermes")
"""What an engine needs to call tools."""


def write_reference(folder: Path, *arguments: str) -> Path:
    """Write the reference deployment into the folder, its engines with further arguments; the file's path."""
    for file in REFERENCE.glob("*.yaml"):
        text = file.read_text(encoding="utf-8")
        more = "".join(f"      - {each}\n" for each in arguments)
        (folder / file.name).write_text(text.replace("      - --port\n", f"{more}      - --port\n"), "utf-8")
    return folder / "deployment.yaml"
