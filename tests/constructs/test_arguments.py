"""An argument of a wrong type is refused by its name, in every construct and dataclass that is public."""

from __future__ import annotations

import dataclasses
import inspect
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ec2 as ec2
from constructs import IDependable
from fakes_templates import new_stack

import hypertier_cdk
from hypertier.errors import ConfigError
from hypertier.spec.instance_group import PatchSchedule, Taint, Volume
from hypertier.spec.lifecycle import LifecycleScript
from hypertier_cdk import CacheStore, EksCluster, HyperPodCluster, InstanceGroup, Network, TieredStorage
from hypertier_cdk.arguments import checked

FACTORIES = [
    HyperPodCluster.from_cluster_attributes,
    CacheStore.from_cache_store_attributes,
    EksCluster.from_cluster_attributes,
    Network.from_vpc,
    Network.from_vpc_attributes,
]
PUBLIC = {
    name: getattr(import_module(module), name) for name, module in sorted(hypertier_cdk._MODULES.items())
}
CONSTRUCTS = [name for name, cls in PUBLIC.items() if not dataclasses.is_dataclass(cls)]
GROUP: dict[str, Any] = {"name": "gpu", "instance_type": "ml.g5.xlarge", "count": 1}
VALUES: dict[type, dict[str, Any]] = {
    InstanceGroup: GROUP,
    TieredStorage: {},
    hypertier_cdk.ChartInputs: {},
}
# Parts of a group, which checks them: they are plain values, and know no CDK.
PARTS: dict[type, tuple[str, dict[str, Any]]] = {
    Taint: ("taints", {"key": "a"}),
    PatchSchedule: ("patch_schedule", {"cron": "cron(0 3 ? * SUN *)"}),
    Volume: ("volume", {"size": "1Gi"}),
    LifecycleScript: ("lifecycle", {"source": "s3://sagemaker-a/", "file": "a.sh"}),
}
WRONG: tuple[Any, ...] = (object(), 5, "7", b"7", "", ["x", 5], {"x": object()}, 0.5, True)


def settings(name: str) -> Iterator[str]:
    for parameter in inspect.signature(PUBLIC[name].__init__).parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY:
            yield parameter.name


def is_wrong(value: Any, hint: Any) -> bool:
    """By hand and without the code under test: whether nobody would take this value for that hint."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return all(is_wrong(value, option) for option in inner)
    if hint is types.NoneType:
        return value is not None
    if origin is not None:
        wanted = dict if issubclass(origin, Mapping) else list
        return not isinstance(value, wanted)
    if hint is str:
        return not isinstance(value, str) or value == ""
    if hint is bool:
        return not isinstance(value, bool)
    if hint in (int, float):
        return isinstance(value, bool) or not isinstance(value, (int, float) if hint is float else int)
    return hint is not Any


@pytest.mark.parametrize(
    ("name", "setting"), [(name, setting) for name in CONSTRUCTS for setting in settings(name)]
)
def test_a_construct_names_the_argument(name: str, setting: str) -> None:
    hint = typing.get_type_hints(PUBLIC[name].__init__)[setting]
    stack = new_stack()
    tried = [value for value in WRONG if is_wrong(value, hint)]

    for value in tried:
        with pytest.raises(ConfigError) as refused:
            PUBLIC[name](stack, "It", **{setting: value})
        assert refused.value.setting == setting
        assert refused.value.expected

    assert object in map(type, tried)
    assert stack.node.children == []


@pytest.mark.parametrize("make", FACTORIES, ids=lambda make: make.__qualname__)
def test_what_adopts_names_its_arguments_too(make: Any) -> None:
    names = [name for name in inspect.signature(make).parameters if name not in ("scope", "construct_id")]

    for name in names:
        with pytest.raises(ConfigError) as refused:
            make(new_stack(), "It", **{name: object()})
        assert refused.value.setting == name
    with pytest.raises(ConfigError, match=f"{names[0]}, or another of the arguments of {make.__qualname__}"):
        make(new_stack(), "It", **{f"{names[0]}_": 1})
    with pytest.raises(ConfigError, match="is not set; expected a value"):
        make(new_stack(), "It")


@pytest.mark.parametrize("name", CONSTRUCTS)
@pytest.mark.parametrize(
    ("scope", "construct_id", "setting"),
    [pytest.param("x", "It", "scope", id="a scope"), pytest.param(None, 5, "construct_id", id="an id")],
)
def test_a_construct_s_place_is_checked_too(name: str, scope: Any, construct_id: Any, setting: str) -> None:
    with pytest.raises(ConfigError) as refused:
        PUBLIC[name](scope or new_stack(), construct_id)

    assert refused.value.setting == setting


@pytest.mark.parametrize(
    ("cls", "field"),
    [(cls, field.name) for cls in VALUES for field in dataclasses.fields(cls)],
    ids=lambda entry: getattr(entry, "__name__", entry),
)
def test_a_dataclass_names_the_field(cls: type, field: str) -> None:
    hint = typing.get_type_hints(cls)[field]

    for value in (value for value in WRONG if is_wrong(value, hint)):
        with pytest.raises(ConfigError) as refused:
            cls(**VALUES[cls] | {field: value})
        assert refused.value.setting.endswith(field)


@pytest.mark.parametrize(
    ("cls", "field"),
    [(cls, field.name) for cls in PARTS for field in dataclasses.fields(cls)],
    ids=lambda entry: getattr(entry, "__name__", entry),
)
def test_a_group_names_the_field_of_its_part(cls: type, field: str) -> None:
    place, values = PARTS[cls]
    hint = typing.get_type_hints(cls)[field]

    for value in (value for value in WRONG if is_wrong(value, hint)):
        part = cls(**values | {field: value})
        with pytest.raises(ConfigError) as refused:
            InstanceGroup(**GROUP, **{place: (part,) if place == "taints" else part})
        assert refused.value.setting.startswith(f"instance_groups.gpu.{place}.")
        assert refused.value.setting.endswith(field)


@pytest.mark.parametrize("name", CONSTRUCTS)
def test_a_construct_names_an_argument_that_it_does_not_have_and_the_nearest(name: str) -> None:
    first = next(settings(name))

    with pytest.raises(ConfigError) as unknown:
        PUBLIC[name](new_stack(), "It", **{f"{first}s_": 1})

    assert unknown.value.setting == f"{first}s_"
    assert unknown.value.expected.startswith(f"{first}, or another of the arguments of {name}: ")


@pytest.mark.parametrize("name", CONSTRUCTS)
def test_a_construct_names_the_argument_that_it_lacks(name: str) -> None:
    required = [
        parameter.name
        for parameter in inspect.signature(PUBLIC[name].__init__).parameters.values()
        if parameter.kind is parameter.KEYWORD_ONLY and parameter.default is parameter.empty
    ]

    if required:
        with pytest.raises(
            ConfigError, match=f"^{required[0]} is not set; expected a value: {name} needs it"
        ):
            PUBLIC[name](new_stack(), "It")


def test_an_argument_by_place_is_refused_where_it_has_a_name() -> None:
    with pytest.raises(ConfigError, match="arguments by name after construct_id"):
        Network(new_stack(), "Network", ["usw2-az1"])  # type: ignore[misc]


@pytest.mark.parametrize("cls", [*VALUES, *PARTS], ids=lambda cls: cls.__name__)
def test_a_dataclass_names_a_field_that_it_does_not_have_or_that_it_lacks(cls: type) -> None:
    fields = dataclasses.fields(cls)

    with pytest.raises(ConfigError) as unknown:
        cls(**{f"{fields[0].name}_": 1})
    with pytest.raises(ConfigError) as by_place:
        cls(1)

    assert unknown.value.setting == f"{fields[0].name}_"
    assert unknown.value.expected.startswith(f"{fields[0].name}, or another of")
    assert by_place.value.setting == cls.__name__


def test_a_dataclass_names_the_field_that_it_lacks() -> None:
    with pytest.raises(ConfigError, match=r"^count is not set; expected a value: InstanceGroup needs it"):
        InstanceGroup(name="gpu", instance_type="ml.g5.xlarge")  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("call", "setting"),
    [
        pytest.param(lambda: TieredStorage.of_gib("400", "ml.p5.48xlarge"), "gib_per_node", id="GiB"),  # type: ignore[arg-type]
        pytest.param(lambda: TieredStorage.of_tokens(5.5, 1, "ml.g5.xlarge"), "tokens_per_node", id="tokens"),  # type: ignore[arg-type]
    ],
)
def test_another_way_to_make_one_is_no_way_round(call: Any, setting: str) -> None:
    with pytest.raises(ConfigError) as refused:
        call()

    assert refused.value.setting == setting


def formed(hint: Any) -> Iterator[Callable[[Any], Any]]:
    """How a value stands in an argument of that kind, for each part of it that has a form."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        yield lambda value: value
    elif origin in (typing.Union, types.UnionType):
        for option in inner:
            yield from formed(option)
    elif origin is not None and issubclass(origin, Mapping):
        yield from ((lambda value, put=put: {put(value): "v1.2.3"}) for put in formed(inner[0]))
        yield from ((lambda value, put=put: {"vpc-cni": put(value)}) for put in formed(inner[1]))
    elif origin is not None and issubclass(origin, Sequence):
        yield from ((lambda value, put=put: [put(value)]) for put in formed(inner[0]))


def with_form() -> Iterator[Any]:
    makers = {make.__qualname__: make for make in FACTORIES} | {name: PUBLIC[name] for name in CONSTRUCTS}
    for name, make in makers.items():
        function = make.__init__ if isinstance(make, type) else make
        for setting, hint in typing.get_type_hints(function, include_extras=True).items():
            for number, put in enumerate(formed(hint)):
                is_number = "Number(" in str(hint)
                yield pytest.param(make, setting, put, is_number, id=f"{name}-{setting}-{number}")


FORMED = list(with_form())
NO_NAMES = ("²\0 ${x}", "x" * 3000, "a b", "-", "$(date)", "a\nb", "a\n", "한국", "")


@pytest.mark.parametrize(("make", "setting", "put", "is_number"), FORMED)
def test_a_value_of_the_right_type_that_is_none_is_named(
    make: Any, setting: str, put: Callable[[Any], Any], is_number: bool
) -> None:
    for value in (-1, 2**31, 10**30) if is_number else NO_NAMES:
        with pytest.raises(ConfigError) as refused:
            make(new_stack(), "It", **{setting: put(value)})
        assert refused.value.setting == setting, value


def test_a_text_that_is_known_at_deployment_alone_has_any_form() -> None:
    token = cdk.Fn.import_value("theirs")

    Network.from_vpc_attributes(
        new_stack(),
        "Network",
        vpc_id=token,
        availability_zones=[token, token],
        private_subnet_ids=[token, token],
    )


def test_what_is_told_of_others_has_a_form() -> None:
    named = {parameters.values[1] for parameters in FORMED}

    assert {
        "vpc_id",
        "availability_zones",
        "private_subnet_ids",
        "cluster_name",
        "kubernetes_version",
        "security_group_id",
        "existing_addons",
        "existing_namespaces",
        "addon_versions",
        "node_security_group_id",
        "secret_arn",
        "key_arn",
        "namespace",
        "deployment",
        "high_minutes",
        "read_buckets",
    } <= named


@pytest.mark.parametrize("image", ["", "a b", "bild-ü:1", "-", "$(date)", "a:1:2", "a@sha256:1"])
@pytest.mark.parametrize("setting", ["nvidia_plugin_image", "efa_plugin_image", "health_agent_image"])
def test_an_image_that_no_registry_has_is_refused(setting: str, image: str) -> None:
    stack = new_stack()

    with pytest.raises(ConfigError) as refused:
        HyperPodCluster(
            stack,
            "Cluster",
            network=Network(stack, "Network"),
            kubernetes_version="1.35",
            instance_groups=[InstanceGroup(name="gpu", instance_type="ml.g5.xlarge", count=1)],
            name="test",
            **{setting: image},
        )

    assert refused.value.setting == setting


def test_interfaces_take_what_is_imported_and_what_others_wrote() -> None:
    @checked
    def takes(*, vpc: ec2.IVpc, after: IDependable | None = None) -> str:
        return "taken"

    stack = new_stack()
    imported = ec2.Vpc.from_vpc_attributes(
        stack, "Imported", vpc_id="vpc-1", availability_zones=["us-west-2a"], private_subnet_ids=["subnet-1"]
    )

    assert takes(vpc=imported) == takes(vpc=ec2.Vpc(stack, "Own")) == "taken"
    with pytest.raises(ConfigError, match=r"vpc is .*IVpc"):
        takes(vpc=cdk.CfnResource(stack, "Other", type="AWS::SNS::Topic"))  # type: ignore[arg-type]
