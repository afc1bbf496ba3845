"""The router's compiled modules: in use where they fit the sources, and then no different."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import pytest
from click.testing import CliRunner

from hypertier.cli import router
from hypertier.router import compile as compiling
from hypertier.router import compiled

HERE = Path(__file__).parent
OF_SEVERAL = {"admin", "clients", "hostile", "routes"}
WHOLE = {"access", "capture", "strategies"}
"""Packages whose tests are of compiled modules, or, `capture`, of a subclass of a compiled class."""


def file_of(module: str) -> Path:
    """The file of tests of a module below `router`, where it has one of its name."""
    *packages, name = module.split(".")
    return HERE.joinpath(*packages, f"test_{name}.py")


def can_compile() -> bool:
    compiler = str(sysconfig.get_config_var("CC") or "cc").split()[0]
    return shutil.which(compiler) is not None and find_spec("mypyc") is not None


def test_every_hot_module_is_there() -> None:
    missing = [
        name for name in compiled.HOT if not (compiled.ROUTER / f"{name.replace('.', '/')}.py").is_file()
    ]

    assert missing == []


def test_no_hot_class_is_abstract() -> None:
    """Compiled subclasses of an abstract class share one cache of their instances: `isinstance` errs."""
    paths = [compiled.ROUTER / f"{name.replace('.', '/')}.py" for name in compiled.HOT]

    assert [path.name for path in paths if re.search(r"\bABC\b|\bABCMeta\b", path.read_text())] == []


def test_modules_compiled_of_other_sources_are_left_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiled, "FOLDER", tmp_path)
    before = compiled.fits()
    (tmp_path / compiled.STAMP).write_text(compiled.stamp())
    made = compiled.fits()
    (tmp_path / compiled.STAMP).write_bytes(b"of other sources, or none: \xff")

    assert (before, made, compiled.fits()) == (False, True, False)


@pytest.mark.parametrize(
    ("in_use", "switch", "is_made", "said"),
    [
        pytest.param(True, "1", True, "compiled", id="compiled"),
        pytest.param(False, "0", True, "sources: HYPERTIER_COMPILED=0 ", id="switched-off"),
        pytest.param(False, "1", True, "sources: compiled modules are there, made of other", id="others"),
        pytest.param(False, "1", False, "sources: no compiled modules are there", id="none"),
    ],
)
def test_the_version_says_which_modules_run_and_why(
    in_use: bool, switch: str, is_made: bool, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiled, "IN_USE", in_use)
    monkeypatch.setattr(compiled, "FOLDER", tmp_path)
    monkeypatch.setenv(compiled.SWITCH, switch)
    if is_made:
        (tmp_path / compiled.STAMP).write_text("of other sources")

    result = CliRunner().invoke(router.command, ["--version"])

    assert result.exit_code == 0
    assert result.output.startswith(f"hypertier router, version {version('hypertier')}, {said}")
    would_help = not in_use and switch != "0"
    assert ("python3 -m hypertier.router.compile makes them" in result.output) == would_help


def test_compiled_modules_are_put_there_whole_or_not_at_all(tmp_path: Path) -> None:
    """Two that compile at once, and a disk that is full, leave no mixture under a stamp."""
    folder = tmp_path / "_compiled"
    for number, name in enumerate(("first.so", "second.so")):
        (tmp_path / f"made{number}").mkdir()
        (tmp_path / f"made{number}" / name).touch()
        (tmp_path / f"beside{number}").mkdir()
        compiling.put(tmp_path / f"made{number}", folder, "a stamp", beside=tmp_path / f"beside{number}")

    with pytest.raises(OSError, match="No such file"):
        compiling.put(tmp_path / "not made", folder, "another", beside=tmp_path)

    assert {one.name for one in folder.iterdir()} == {"second.so", compiled.STAMP}
    assert (folder / compiled.STAMP).read_text() == "a stamp"


def test_a_package_looks_among_the_compiled_modules_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "IN_USE", True)
    with_them = compiled.path(["/a"], "access")
    monkeypatch.setattr(compiled, "IN_USE", False)

    assert with_them == [str(compiled.FOLDER / "access"), "/a"]
    assert compiled.path(["/a"], "access") == ["/a"]


def test_where_nothing_can_be_compiled_one_line_says_so(tmp_path: Path) -> None:
    """As on a machine without a C compiler: the sources, copied, so that nothing of this checkout changes."""
    shutil.copytree(
        compiled.ROUTER.parent,
        tmp_path / "hypertier",
        ignore=shutil.ignore_patterns("_compiled", "__pycache__"),
    )
    program = "import sys; sys.modules['mypyc.build'] = None\n"
    program += "from hypertier.router.compile import main; sys.exit(main())"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}

    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False
    )

    assert done.returncode == 1
    assert done.stderr.startswith("the router runs uncompiled")
    assert done.stderr.count("\n") == 1


@pytest.mark.cli
@pytest.mark.skipif(not can_compile(), reason="there is no C compiler, or no mypyc")
def test_the_compiled_router_passes_the_tests_of_its_sources() -> None:
    assert compiled.fits(), (
        "not compiled of these sources: scripts/setup.sh compiled, or see .venv/compile.log"
    )
    named = {file_of(name) for name in OF_SEVERAL.union(compiled.HOT)}
    folders = {HERE / name for name in WHOLE}
    files = sorted(str(file) for file in named | folders if file.exists() and file.parent not in folders)
    assert {Path(file).parent.name for file in files} >= {"http", "kv", "migration", "peers", "replicas"}
    options = ["-q", "--durations=0", "-m", "not engine", "-p", "no:cacheprovider"]
    environment = {**os.environ, compiled.SWITCH: "1"}

    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *files],
        cwd=HERE.parents[2],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout[-5000:]
