"""`hypertier schema`: valid JSON Schema that takes valid files and refuses wrong ones, with descriptions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from click.testing import CliRunner
from fakes_manifests import changed, deployment, endpoint, jumpstart

from hypertier.cli.schema import command
from hypertier.spec.json_schema import DEPLOYMENT_KEYS, KINDS

ROOT = Path(__file__).parents[3]
BASES = {"endpoint": endpoint, "jumpstart": jumpstart, "deployment": deployment}


def schema(kind: str) -> Any:
    return json.loads(CliRunner().invoke(command, [kind]).output)


def fields(node: Any, where: str = "") -> Iterator[tuple[str, Any]]:
    inner = node.get("items", node)
    for name, field in inner.get("properties", {}).items():
        yield f"{where}.{name}", field
        yield from fields(field, f"{where}.{name}")


@pytest.mark.parametrize("kind", KINDS)
def test_a_schema_is_one_and_takes_the_valid_file(kind: str) -> None:
    jsonschema.Draft7Validator.check_schema(schema(kind))

    jsonschema.Draft7Validator(schema(kind)).validate(BASES[kind]())


@pytest.mark.parametrize(
    ("kind", "file"), [("deployment", "deployment.yaml"), ("endpoint", "llama-70b.yaml")]
)
def test_the_reference_is_valid(kind: str, file: str) -> None:
    data = yaml.safe_load((ROOT / "examples" / "reference" / file).read_text(encoding="utf-8"))

    jsonschema.Draft7Validator(schema(kind)).validate(data)


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        pytest.param("endpoint", {"kind": "JumpStartModel"}, id="kind"),
        pytest.param("endpoint", {"spec.instanceTipe": "x"}, id="unknown-field"),
        pytest.param("endpoint", {"spec.replicas": "2"}, id="type"),
        pytest.param("endpoint", {"spec.intelligentRoutingSpec": {"routingStrategy": "random"}}, id="choice"),
        pytest.param("deployment", {"serving": "both"}, id="serving"),
        pytest.param("deployment", {"cache": {"l2": {"backend": "valkey"}}}, id="backend"),
        pytest.param("jumpstart", {"spec.server.instanceType": "g5"}, id="pattern"),
    ],
)
def test_what_the_types_refuse_is_refused(kind: str, changes: dict[str, Any]) -> None:
    broken = changed(BASES[kind](), changes)

    assert not jsonschema.Draft7Validator(schema(kind)).is_valid(broken)


@pytest.mark.parametrize("backend", ["redis", "Redis", "tieredstorage"])
def test_a_pattern_without_case_is_one_in_json_schema_too(backend: str) -> None:
    manifest = changed(endpoint(), {"spec.kvCacheSpec": {"l2CacheSpec": {"l2CacheBackend": backend}}})

    assert jsonschema.Draft7Validator(schema("endpoint")).is_valid(manifest)


@pytest.mark.parametrize("kind", ["endpoint", "jumpstart"])
def test_every_field_of_a_manifest_has_a_description(kind: str) -> None:
    assert [where for where, field in fields(schema(kind)) if not field.get("description")] == []


def test_later_fields_say_since_when() -> None:
    described = dict(fields(schema("endpoint")))

    assert "Since operator 3.7." in described[".spec.kubernetes.tolerations"]["description"]


@pytest.mark.parametrize("key", [key for key in DEPLOYMENT_KEYS if key not in ("apiVersion", "kind")])
def test_every_key_of_the_deployment_file_is_in_its_page(key: str) -> None:
    page = (ROOT / "docs" / "deployment-file.md").read_text(encoding="utf-8")

    assert key.replace("instanceGroups[].", "").split(".")[-1] in page


@pytest.mark.parametrize("kind", KINDS)
def test_the_schema_in_the_repository_is_what_is_printed(kind: str) -> None:
    """scripts/write_schemas.py writes it."""
    file = ROOT / "docs" / "schemas" / f"{kind}.schema.json"

    assert file.read_text(encoding="utf-8") == CliRunner().invoke(command, [kind]).output


def test_editors_find_the_schema_of_every_example() -> None:
    settings = json.loads((ROOT / ".vscode" / "settings.json").read_text(encoding="utf-8"))
    schemas = settings["yaml.schemas"]
    matched = {file for pattern in schemas.values() for file in ROOT.glob(pattern)}

    assert all((ROOT / name).is_file() for name in schemas)
    # Prometheus' rules are nothing that hypertier reads.
    assert matched == set(ROOT.glob("examples/*/*.yaml")) - set(ROOT.glob("examples/prometheus/*.yaml"))
