"""The tree as docs/architecture.md and the house style promise it."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE_ROOTS = {
    "hypertier": ROOT / "runtime" / "hypertier",
    "hypertier_cdk": ROOT / "constructs" / "hypertier_cdk",
    "hypertier_lambdas": ROOT / "lambdas" / "hypertier_lambdas",
    "infra": ROOT / "infra",
}
MAY_IMPORT = {
    "hypertier": set[str](),
    "hypertier_cdk": {"hypertier"},
    "hypertier_lambdas": set[str](),
    "infra": {"hypertier", "hypertier_cdk"},
}
NOT_IN_HYPERTIER = {"aws_cdk", "constructs", "cdk8s", "jsii"}
NOT_IN_LAMBDAS_BUT = {"boto3", "botocore"}


def imported_modules(file: Path) -> Iterator[str]:
    """Every module that `file` names in an import, wherever the import stands."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module


def top_level_imports(package: str) -> set[tuple[str, str]]:
    return {
        (str(file.relative_to(ROOT)), module.partition(".")[0])
        for file in SOURCE_ROOTS[package].rglob("*.py")
        for module in imported_modules(file)
    }


@pytest.mark.parametrize("package", SOURCE_ROOTS)
def test_imports_point_one_way(package: str) -> None:
    forbidden = set(SOURCE_ROOTS) - MAY_IMPORT[package] - {package}

    against_the_arrow = {(file, module) for file, module in top_level_imports(package) if module in forbidden}

    assert not against_the_arrow


def test_hypertier_never_imports_the_cdk() -> None:
    assert not {pair for pair in top_level_imports("hypertier") if pair[1] in NOT_IN_HYPERTIER}


def test_charts_need_cdk8s_alone() -> None:
    charts = str((SOURCE_ROOTS["hypertier_cdk"] / "charts").relative_to(ROOT))

    cdk_imports = {
        pair
        for pair in top_level_imports("hypertier_cdk")
        if pair[0].startswith(charts) and pair[1] == "aws_cdk"
    }

    assert not cdk_imports


def test_lambdas_need_boto3_and_the_standard_library_alone() -> None:
    allowed = set(sys.stdlib_module_names) | NOT_IN_LAMBDAS_BUT | {"hypertier_lambdas"}

    foreign = {pair for pair in top_level_imports("hypertier_lambdas") if pair[1] not in allowed}

    assert not foreign


@pytest.mark.parametrize("folder", ["constructs", "runtime", "lambdas"])
def test_source_roots_hold_packages_and_are_none(folder: str) -> None:
    assert not (ROOT / folder / "__init__.py").exists()


def test_no_test_folder_is_a_package() -> None:
    assert not list((ROOT / "tests").rglob("__init__.py"))


def test_every_error_stands_in_the_tree_on_top_of_errors() -> None:
    source = (SOURCE_ROOTS["hypertier"] / "errors.py").read_text(encoding="utf-8")
    module = ast.parse(source)
    drawn = ast.get_docstring(module) or ""

    classes = {node.name for node in module.body if isinstance(node, ast.ClassDef)}

    assert {name for name in classes if name not in drawn} == set()


def test_errors_are_defined_in_errors_alone() -> None:
    bases = {"Exception", "ValueError", "RuntimeError", "HypertierError", "ConfigError", "TierError"}

    elsewhere = {
        (str(file.relative_to(ROOT)), node.name)
        for file in SOURCE_ROOTS["hypertier"].rglob("*.py")
        if file.name != "errors.py"
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
        and any(isinstance(b, ast.Name) and b.id in bases for b in node.bases)
    }

    assert not elsewhere


def test_the_tests_of_hypertier_leave_the_cdk_out() -> None:
    cdk = {
        (str(file.relative_to(ROOT)), module)
        for file in (ROOT / "tests" / "runtime").rglob("*.py")
        for module in imported_modules(file)
        if module.partition(".")[0] == "aws_cdk"
    }

    assert not cdk
