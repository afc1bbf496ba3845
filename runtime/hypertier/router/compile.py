"""Compile the router's hot modules by mypyc: `python -m hypertier.router.compile`.

Needs a C compiler, Python's headers, mypy and setuptools (`pip install 'hypertier[router,compile]'`), and a
minute. Where they can't be had, the router runs as it is.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from hypertier.errors import CompileError
from hypertier.router import compiled

GROUP = "hypertier.router.hot"
_CONFIG = """[mypy]
namespace_packages = true
explicit_package_bases = true
ignore_missing_imports = true
mypy_path = {root}
cache_dir = {cache}
"""


def compile_hot(folder: Path = compiled.FOLDER) -> None:
    """Compile, and put the modules below `folder` with the stamp of their sources.

    Raises:
        CompileError: there is no C compiler, or no mypyc, or they fail, or `folder` can't be written.
    """
    stamp = compiled.stamp()
    try:
        with tempfile.TemporaryDirectory() as made, _beside(folder) as beside:
            _build(Path(made))
            put(Path(made) / "lib" / "hypertier" / "router", folder, stamp, beside=Path(beside))
    except OSError as error:
        raise CompileError(str(error)) from error


def put(made: Path, folder: Path, stamp: str, *, beside: Path) -> None:
    """Have `folder` be a copy of `made` with its stamp: at once and whole, or as it was. Raises OSError.

    `beside` is a folder on the same disk, for what is on its way: two that compile don't mix what they made.
    """
    whole = beside / "new"
    shutil.copytree(made, whole)
    (whole / compiled.STAMP).write_text(stamp, encoding="ascii")
    with suppress(FileNotFoundError):
        folder.rename(beside / "old")
    whole.rename(folder)


def _beside(folder: Path) -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(dir=folder.parent, prefix="._compiled-")


def _build(made: Path) -> None:
    try:
        from mypyc.build import mypycify
        from setuptools import Distribution
        from setuptools.errors import BaseError, CCompilerError
    except ModuleNotFoundError as error:
        raise CompileError(f"{error.name} is not installed: pip install 'hypertier[compile]'") from error
    root = compiled.ROUTER.parents[1]
    config = made / "mypy.ini"
    config.write_text(_CONFIG.format(root=root, cache=made / "cache"), encoding="utf-8")
    sources = [f"hypertier/router/{name.replace('.', '/')}.py" for name in compiled.HOT]
    before = Path.cwd()
    os.chdir(root)  # module names follow from paths
    try:
        modules = mypycify(
            [f"--config-file={config}", *sources],
            opt_level="2",
            debug_level="0",
            group_name=GROUP,
            target_dir=str(made / "c"),
        )
        command = Distribution({"name": "hot", "ext_modules": modules}).get_command_obj("build_ext")
        command.build_lib, command.build_temp = str(made / "lib"), str(made / "o")
        command.ensure_finalized()
        command.run()
    except (BaseError, CCompilerError, SystemExit) as error:
        raise CompileError(str(error)) from error
    finally:
        os.chdir(before)


def main() -> int:
    """Compile where that is not done; say in one line what came of it."""
    if compiled.fits():
        return 0
    try:
        compile_hot()
    except CompileError as error:
        print(f"the router runs uncompiled, about half as fast: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
