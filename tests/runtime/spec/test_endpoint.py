"""Endpoint manifests as typed values: nothing lost, wrong kinds refused by path."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from fakes_manifests import REMOVED, changed, endpoint, jumpstart
from hypothesis import given, settings
from hypothesis import strategies as st

from hypertier.errors import ConfigError
from hypertier.spec.codec import fields_by_name, without_none
from hypertier.spec.endpoint import InferenceEndpointConfig
from hypertier.spec.jumpstart import JumpStartModel
from hypertier.spec.structure import required_names

REFERENCE = Path(__file__).parents[3] / "examples" / "reference" / "llama-70b.yaml"
NAMES = st.text("abcdefghij", min_size=1, max_size=6)
RAW = st.dictionaries(NAMES, st.integers(0, 9) | NAMES | st.lists(NAMES, max_size=2), max_size=3)


def manifests(hint: Any) -> st.SearchStrategy[Any]:
    """Plain data that a field of this type reads, with unknown fields here and there."""
    hint = without_none(hint)
    if dataclasses.is_dataclass(hint):
        return objects(typing.cast(type, hint))
    if typing.get_origin(hint) is tuple:
        return st.lists(manifests(typing.get_args(hint)[0]), max_size=2)
    if isinstance(typing.get_origin(hint), type) and issubclass(typing.get_origin(hint), Mapping):
        return RAW
    scalars = {bool: st.booleans(), int: st.integers(0, 99), float: st.floats(0, 9), str: NAMES}
    return scalars.get(hint, RAW)


def objects(cls: type) -> st.SearchStrategy[dict[str, Any]]:
    required = required_names(cls)
    known = {
        name: st.deferred(lambda h=hint: manifests(h)) for name, (_, hint) in fields_by_name(cls).items()
    }
    unknown = st.dictionaries(NAMES.map("x-{}".format), RAW, max_size=1)
    fixed = st.fixed_dictionaries(
        {name: known[name] for name in required},
        optional={name: known[name] for name in known if name not in required},
    )
    return st.builds(lambda fields, more: {**fields, **more}, fixed, unknown)


def of_kind(kind: str) -> st.SearchStrategy[dict[str, Any]]:
    cls = InferenceEndpointConfig if kind == "InferenceEndpointConfig" else JumpStartModel
    return objects(cls).map(lambda data: {**data, "kind": kind, "apiVersion": "a/v1"})


@settings(max_examples=40, deadline=None)
@given(of_kind("InferenceEndpointConfig"))
def test_an_endpoint_is_written_as_it_was_read(manifest: dict[str, Any]) -> None:
    assert InferenceEndpointConfig.from_manifest(manifest).to_manifest() == manifest


@settings(max_examples=40, deadline=None)
@given(of_kind("JumpStartModel"))
def test_a_jumpstart_model_is_written_as_it_was_read(manifest: dict[str, Any]) -> None:
    assert JumpStartModel.from_manifest(manifest).to_manifest() == manifest


def test_the_reference_is_written_as_it_was_read() -> None:
    manifest = yaml.safe_load(REFERENCE.read_text(encoding="utf-8"))

    assert InferenceEndpointConfig.from_manifest(manifest).to_manifest() == manifest


def test_what_a_manifest_must_have_is_written_before_what_it_may_have() -> None:
    manifest = yaml.safe_load(REFERENCE.read_text(encoding="utf-8"))

    written = InferenceEndpointConfig.from_manifest(manifest).to_manifest()

    assert list(written) == ["apiVersion", "kind", "metadata", "spec"]
    assert list(written["spec"])[:3] == ["modelName", "modelSourceConfig", "worker"]


def test_a_field_that_nobody_knows_survives() -> None:
    manifest = changed(endpoint(), {"spec.kvCacheSpec.futureField": {"deep": [1, 2]}})

    config = InferenceEndpointConfig.from_manifest(manifest)

    assert config.spec.kv_cache_spec is not None
    assert config.spec.kv_cache_spec.unknown == {"futureField": {"deep": [1, 2]}}
    assert config.to_manifest() == manifest


@pytest.mark.parametrize(
    ("changes", "setting"),
    [
        pytest.param({"kind": "Service"}, "kind", id="kind"),
        pytest.param({"spec.replicas": "two"}, "spec.replicas", id="text-for-a-number"),
        pytest.param({"spec.replicas": True}, "spec.replicas", id="truth-for-a-number"),
        pytest.param({"spec.worker.args": "--port 8000"}, "spec.worker.args", id="text-for-a-list"),
        pytest.param({"spec.worker.args.1": 8}, "spec.worker.args[1]", id="number-in-a-list-of-text"),
        pytest.param({"spec.kvCacheSpec": True}, "spec.kvCacheSpec", id="truth-for-a-mapping"),
        pytest.param({"spec.modelName": REMOVED}, "spec.modelName", id="required"),
        pytest.param({"spec.worker.image": REMOVED}, "spec.worker.image", id="required-deep"),
    ],
)
def test_a_wrong_kind_is_refused_by_its_path(changes: dict[str, Any], setting: str) -> None:
    with pytest.raises(ConfigError) as refused:
        InferenceEndpointConfig.from_manifest(changed(endpoint(), changes))

    assert refused.value.setting == setting


def test_a_jumpstart_model_of_another_kind_is_refused() -> None:
    with pytest.raises(ConfigError, match="kind is 'InferenceEndpointConfig'"):
        JumpStartModel.from_manifest(endpoint())


def test_values_cannot_be_changed() -> None:
    config = InferenceEndpointConfig.from_manifest(endpoint())

    with pytest.raises(dataclasses.FrozenInstanceError):
        config.spec.replicas = 3  # type: ignore[misc]


@pytest.mark.parametrize(
    ("cache", "l1", "l2"),
    [
        pytest.param(REMOVED, False, None, id="no-spec"),
        pytest.param({}, True, None, id="l1-by-default"),
        pytest.param({"enableL1Cache": False}, False, None, id="l1-off"),
        pytest.param(
            {"enableL2Cache": True, "l2CacheSpec": {"l2CacheBackend": "redis"}}, True, "redis", id="l2"
        ),
        pytest.param({"l2CacheSpec": {"l2CacheBackend": "redis"}}, True, None, id="l2-not-switched-on"),
    ],
)
def test_the_tiers_in_force_follow_the_crd_s_defaults(cache: Any, l1: bool, l2: str | None) -> None:
    config = InferenceEndpointConfig.from_manifest(changed(endpoint(), {"spec.kvCacheSpec": cache}))

    assert (config.kv_cache.l1_enabled, config.kv_cache.l2_backend) == (l1, l2)


@pytest.mark.parametrize(
    ("routing", "strategy"),
    [
        pytest.param(REMOVED, None, id="no-spec"),
        pytest.param({"routingStrategy": "kvaware"}, None, id="off-by-default"),
        pytest.param({"enabled": True}, "prefixaware", id="prefixaware-by-default"),
        pytest.param({"enabled": True, "routingStrategy": "session"}, "session", id="named"),
    ],
)
def test_the_strategy_in_force_follows_the_crd_s_defaults(routing: Any, strategy: str | None) -> None:
    config = InferenceEndpointConfig.from_manifest(
        changed(endpoint(), {"spec.intelligentRoutingSpec": routing})
    )

    assert config.routing_strategy == strategy


def test_the_gateway_that_an_endpoint_joins_may_have_a_name() -> None:
    joins = {"enabled": True, "name": "shared"}

    config = InferenceEndpointConfig.from_manifest(changed(endpoint(), {"spec.inferenceGateway": joins}))

    assert config.spec.inference_gateway is not None
    assert config.spec.inference_gateway.name == "shared"
    assert config.spec.inference_gateway.unknown == {}


def test_a_jumpstart_model_knows_its_parts() -> None:
    model = JumpStartModel.from_manifest(jumpstart())

    assert model.spec.server.instance_type == "ml.g6.48xlarge"
    assert model.spec.model.accept_eula is False
