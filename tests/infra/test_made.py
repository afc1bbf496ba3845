"""What `hypertier.planning.made` says of a deployment is what its templates make."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from fakes_stacks import ROOT, on_what_exists, synthesized

from hypertier.catalog.addons import INFERENCE_OPERATOR
from hypertier.planning import made
from hypertier.spec.deployment import Deployment, load_deployment
from hypertier_cdk.review.quotas import quotas_of
from hypertier_cdk.review.templates import Assembly, read_assembly


def example(name: str) -> Deployment:
    return load_deployment(ROOT / "examples" / name / "deployment.yaml")


def served_by_the_operator(name: str = "small") -> Deployment:
    found = example(name)
    return replace(found, serving="operator", scaling=replace(found.scaling, max=found.scaling.min))


def on_an_operator_of_theirs() -> Deployment:
    there = served_by_the_operator("adopt-existing")
    told = there.cluster.attributes
    assert told is not None
    attributes = replace(told, addons=(INFERENCE_OPERATOR,))
    return replace(there, cluster=replace(there.cluster, attributes=attributes))


def closed() -> Deployment:
    return example("closed-network")


CASES = {
    "reference": lambda: example("reference"),
    "small": lambda: example("small"),
    "closed-network": closed,
    "adopt-existing": lambda: example("adopt-existing"),
    "operator": lambda: served_by_the_operator(),
    "existing-vpc": lambda: on_what_exists(example("reference"), eks=None),
    "existing-operator": on_an_operator_of_theirs,
    "existing-eks": lambda: on_what_exists(example("reference"), eks="platform"),
}


@cache
def case(name: str) -> tuple[Deployment, Assembly]:
    deployment = CASES[name]()
    return deployment, read_assembly(synthesized(deployment))


def of_kind(assembly: Assembly, kind: str) -> list[Any]:
    return list(assembly.of_type(kind))


@pytest.mark.parametrize("name", CASES)
def test_the_stacks_have_these_names(name: str) -> None:
    deployment, assembly = case(name)

    assert sorted(made.stack_names(deployment)) == sorted(assembly.stacks)


@pytest.mark.parametrize("name", CASES)
def test_a_network_a_cluster_and_its_addresses_are_counted(name: str) -> None:
    deployment, assembly = case(name)

    assert made.makes_network(deployment) == bool(of_kind(assembly, "AWS::EC2::VPC"))
    assert made.makes_eks(deployment) == bool(of_kind(assembly, "AWS::EKS::Cluster"))
    assert made.makes_hyperpod(deployment) == bool(of_kind(assembly, "AWS::SageMaker::Cluster"))
    assert made.num_elastic_ips(deployment) == len(of_kind(assembly, "AWS::EC2::EIP"))


@pytest.mark.parametrize("name", CASES)
def test_interface_endpoints_are_those_of_the_services(name: str) -> None:
    deployment, assembly = case(name)

    endpoints = [found.get("ServiceName") for found in of_kind(assembly, "AWS::EC2::VPCEndpoint")]
    interfaces = [str(service) for service in endpoints if not str(service).endswith(".s3")]

    assert sorted(service.partition("us-west-2.")[2] for service in interfaces) == list(
        made.interface_services(deployment)
    )


@pytest.mark.parametrize("name", CASES)
def test_addons_and_their_versions_are_those_of_the_templates(name: str) -> None:
    deployment, assembly = case(name)

    addons = {
        found.get("AddonName"): found.get("AddonVersion") for found in of_kind(assembly, "AWS::EKS::Addon")
    }

    assert made.addon_versions(deployment) == addons


@pytest.mark.parametrize("name", CASES)
def test_the_review_asks_for_the_same_quotas(name: str) -> None:
    deployment, assembly = case(name)

    assert made.hyperpod_quotas(deployment) == quotas_of(assembly)


@pytest.mark.parametrize("name", ["reference", "small", "closed-network", "operator"])
def test_the_subnets_of_a_new_vpc_lie_in_these_zones(name: str) -> None:
    deployment, assembly = case(name)

    zones = {found.get("AvailabilityZoneId") for found in of_kind(assembly, "AWS::EC2::Subnet")}

    assert zones == (set(made.zone_ids(deployment)) or {None})
