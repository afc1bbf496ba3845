"""Our types against what AWS publishes: the CRDs where they are at hand, and its packages' templates always.

HYPERTIER_CRDS names a folder with the CRDs of `aws/sagemaker-hyperpod-cli`, operator 3.2.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from jinja2 import Environment, meta

from hypertier.spec.endpoint import InferenceEndpointConfig
from hypertier.spec.jumpstart import JumpStartModel
from hypertier.spec.structure import faults, required_names, typed_fields
from hypertier.spec.tree import Path as Place

CRDS = os.environ.get("HYPERTIER_CRDS")
KINDS = {"inferenceendpointconfigs": InferenceEndpointConfig, "jumpstartmodels": JumpStartModel}
# Subtrees of Kubernetes' own kinds, which are handed on and not looked into.
FOREIGN = {
    "nodeAffinity",
    "initContainers",
    "volumes",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "valueFrom",
    "claims",
    "requests",
    "limits",
    "nodeSelector",
}
# The API server fills a default in before it asks whether a required field is there.
DEFAULTED = {"acceptEula"}

needs_crds = pytest.mark.skipif(CRDS is None, reason="HYPERTIER_CRDS names no folder with AWS's CRDs")


def crd_schema(plural: str, version: str) -> Any:
    file = Path(CRDS or "") / f"inference.sagemaker.aws.amazon.com_{plural}.yaml"
    versions = yaml.load(file.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)["spec"]["versions"]
    return next(
        entry["schema"]["openAPIV3Schema"]["properties"]["spec"]
        for entry in versions
        if entry["name"] == version
    )


def published(schema: Mapping[str, Any], where: Place = ()) -> Iterator[tuple[Place, Mapping[str, Any]]]:
    """Every field of an OpenAPI schema with its path; list entries count as their list."""
    inner = schema.get("items", schema)
    for name, field in inner.get("properties", {}).items():
        yield (*where, name), field
        if name not in FOREIGN:
            yield from published(field, (*where, name))


def ours(cls: type, where: Place = ()) -> Iterator[tuple[Place, Any, Mapping[str, Any]]]:
    """Every field of our type with its path, type and metadata, but for those of later operators."""
    for name, (hint, about) in typed_fields(cls).items():
        if "since" in about:
            continue
        yield (*where, name), hint, about
        inner = hint
        while hasattr(inner, "__args__") and not dataclasses.is_dataclass(inner):
            inner = inner.__args__[0]
        if dataclasses.is_dataclass(inner) and isinstance(inner, type):
            yield from ours(inner, (*where, name))


@needs_crds
@pytest.mark.parametrize("plural", KINDS)
def test_our_types_have_the_crd_s_fields_and_no_others(plural: str) -> None:
    spec = typed_fields(KINDS[plural])["spec"][0]

    mine = {where for where, _, _ in ours(spec)}

    assert mine == {where for where, _ in published(crd_schema(plural, "v1"))}


@needs_crds
@pytest.mark.parametrize("plural", KINDS)
def test_our_types_have_the_crd_s_bounds(plural: str) -> None:
    names = {
        "choices": "enum",
        "pattern": "pattern",
        "minimum": "minimum",
        "maximum": "maximum",
        "max_length": "maxLength",
        "max_items": "maxItems",
    }
    spec = typed_fields(KINDS[plural])["spec"][0]
    mine = {where: about for where, _, about in ours(spec)}

    differences = []
    for where, field in published(crd_schema(plural, "v1")):
        for name, theirs in names.items():
            said, expected = mine[where].get(name), field.get(theirs)
            if name == "choices":
                said, expected = set(said or ()), set(expected or ())
                if field.get("pattern") == "^http$|^grpc$":
                    expected = {"http", "grpc"}
            if name == "pattern" and field.get("pattern") == "^http$|^grpc$":
                continue
            if said != expected:
                differences.append((where, name, said, expected))

    assert differences == []


@needs_crds
@pytest.mark.parametrize("plural", KINDS)
def test_our_types_require_what_the_crd_requires(plural: str) -> None:
    def required(schema: Any, where: Place = ()) -> set[Place]:
        inner = schema.get("items", schema)
        found = {(*where, name) for name in inner.get("required", []) if name not in DEFAULTED}
        for name, field in inner.get("properties", {}).items():
            if name not in FOREIGN:
                found |= required(field, (*where, name))
        return found

    def ours_required(cls: type, where: Place = ()) -> set[Place]:
        found = {(*where, name) for name in required_names(cls)}
        for name, (hint, about) in typed_fields(cls).items():
            inner = hint.__args__[0] if hasattr(hint, "__args__") else hint
            if dataclasses.is_dataclass(inner) and isinstance(inner, type) and "since" not in about:
                found |= ours_required(inner, (*where, name))
        return found

    spec = typed_fields(KINDS[plural])["spec"][0]

    assert ours_required(spec) == required(crd_schema(plural, "v1"))


@needs_crds
@pytest.mark.parametrize("plural", KINDS)
def test_our_types_know_what_v1alpha1_lacks(plural: str) -> None:
    alpha = {where for where, _ in published(crd_schema(plural, "v1alpha1"))}
    v1 = {where for where, _ in published(crd_schema(plural, "v1"))}
    spec = typed_fields(KINDS[plural])["spec"][0]
    marked = {where for where, _, about in ours(spec) if about.get("alpha") is False}

    missing = {where for where in v1 - alpha if where[:-1] in alpha or len(where) == 1}

    assert {where for where in marked if where[:-1] in alpha or len(where) == 1} == missing


def template(package: str, version: str) -> str:
    """AWS's template of a manifest, read without importing its package."""
    spec = importlib.util.find_spec(package)
    assert spec is not None
    assert spec.submodule_search_locations
    file = Path(spec.submodule_search_locations[0]) / version / "template.py"
    loaded = importlib.util.spec_from_file_location(f"{package}_{version}", file)
    assert loaded is not None
    assert loaded.loader is not None
    module = importlib.util.module_from_spec(loaded)
    loaded.loader.exec_module(module)
    content: str = module.TEMPLATE_CONTENT
    return content


MAPPINGS = ("tags", "env", "resources_limits", "resources_requests", "dimensions")
JSON_VALUES: dict[str, Any] = {
    "probes": {"readinessProbe": {"timeoutSeconds": 5}},
    "kubernetes": {"serviceAccountName": "models"},
    "node_affinity": {"requiredDuringSchedulingIgnoredDuringExecution": {}},
    "data_capture": {"s3Uri": "s3://hyperpod-tls-bucket/x"},
    "auto_scaling_spec": {},
}


def sample(name: str) -> Any:
    """A value that a variable of the template can have."""
    if name in MAPPINGS:
        return {"NAME": "text"}
    if name in JSON_VALUES:
        return JSON_VALUES[name]
    if name.endswith(("_cache", "_enabled", "_metrics", "accept_eula", "_validation")):
        return "true"
    if any(
        part in name
        for part in ("port", "seconds", "count", "replicas", "max_", "period", "_time", "value", "code")
    ):
        return 300
    return "text"


@pytest.mark.parametrize("source", ["s3", "fsx", "huggingface", "kubernetesVolume"])
@pytest.mark.parametrize(
    ("package", "version", "cls"),
    [
        ("hyperpod_custom_inference_template", "v1_0", InferenceEndpointConfig),
        ("hyperpod_custom_inference_template", "v1_1", InferenceEndpointConfig),
        ("hyperpod_custom_inference_template", "v1_2", InferenceEndpointConfig),
        ("hyperpod_jumpstart_inference_template", "v1_0", JumpStartModel),
        ("hyperpod_jumpstart_inference_template", "v1_1", JumpStartModel),
        ("hyperpod_jumpstart_inference_template", "v1_2", JumpStartModel),
    ],
)
def test_our_types_know_every_field_that_aws_s_templates_write(
    package: str, version: str, cls: type, source: str
) -> None:
    text, environment = template(package, version), Environment()
    values = {name: sample(name) for name in meta.find_undeclared_variables(environment.parse(text))}
    values |= {"model_source_type": source, "namespace": "text"}

    manifest = yaml.safe_load(environment.from_string(text).render(values))

    unknown = [fault for fault in faults(cls, manifest) if fault.kind in ("unknown", "missing")]
    assert unknown == []


@pytest.mark.parametrize(
    ("package", "names", "cls"),
    [
        (
            "hyperpod_custom_inference_template",
            {
                "model_name": "spec.modelName",
                "model_source_type": "spec.modelSourceConfig.modelSourceType",
                "container_port": "spec.worker.modelInvocationPort.containerPort",
                "routing_strategy": "spec.intelligentRoutingSpec.routingStrategy",
                "tls_certificate_output_s3_uri": "spec.tlsConfig.tlsCertificateOutputS3Uri",
                "custom_certificate_domain_name": "spec.tlsConfig.customCertificateConfig.domainName",
                "custom_certificate_acm_arn": "spec.tlsConfig.customCertificateConfig.acmArn",
                "dns_hosted_zone_id": "spec.dnsConfig.hostedZoneId",
                "instance_type": "spec.instanceType",
            },
            InferenceEndpointConfig,
        ),
        (
            "hyperpod_jumpstart_inference_template",
            {
                "model_id": "spec.model.modelId",
                "instance_type": "spec.server.instanceType",
                "accelerator_partition_type": "spec.server.acceleratorPartitionType",
                "routing_strategy": "spec.intelligentRoutingSpec.routingStrategy",
            },
            JumpStartModel,
        ),
    ],
)
def test_our_bounds_are_those_of_aws_s_own_schema(package: str, names: dict[str, str], cls: type) -> None:
    spec = importlib.util.find_spec(package)
    assert spec is not None
    assert spec.submodule_search_locations
    folder = Path(spec.submodule_search_locations[0])
    schema = json.loads((folder / "v1_2" / "schema.json").read_text(encoding="utf-8"))
    mine = {".".join(str(part) for part in where): about for where, _, about in ours(cls)}

    for name, where in names.items():
        field = schema["properties"][name]
        theirs = next((kind for kind in field.get("anyOf", []) if kind["type"] != "null"), field)
        assert set(mine[where].get("choices", ())) == set(theirs.get("enum", ())), name
        assert mine[where].get("max_length") == theirs.get("maxLength"), name
        assert mine[where].get("minimum") == theirs.get("minimum"), name
        assert mine[where].get("maximum") == theirs.get("maximum"), name
        assert (mine[where].get("pattern") or "").rstrip("$") == theirs.get("pattern", "").rstrip("$"), name
