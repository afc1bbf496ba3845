"""What assets are told apart by."""

from __future__ import annotations

from pathlib import Path

from hypertier_cdk.assets import fingerprint


def test_a_fingerprint_changes_with_a_file_s_content_and_with_its_name(tmp_path: Path) -> None:
    file = tmp_path / "package" / "module.py"
    file.parent.mkdir()
    file.write_text("a = 1\n", encoding="utf-8")
    first = fingerprint(tmp_path)

    file.write_text("a = 2\n", encoding="utf-8")
    second = fingerprint(tmp_path)
    file.rename(file.with_name("other.py"))
    third = fingerprint(tmp_path)

    assert len({first, second, third}) == 3


def test_a_fingerprint_leaves_out_what_is_made_of_the_sources_and_what_a_file_manager_leaves_behind(
    tmp_path: Path,
) -> None:
    (tmp_path / "module.py").write_text("a = 1\n", encoding="utf-8")
    before = fingerprint(tmp_path)

    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "_compiled").mkdir()
    for name in ("__pycache__/module.txt", "_compiled/module.so", "module.pyc", ".DS_Store"):
        (tmp_path / name).write_bytes(b"left behind")

    assert fingerprint(tmp_path) == before
