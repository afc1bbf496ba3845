"""The EKS cluster below HyperPod."""

from __future__ import annotations

from typing import Any

import pytest
from fakes_templates import new_stack, resources, synthesize, the

from hypertier.errors import ConfigError, MissingPackageError
from hypertier.spec.cluster import KUBERNETES_VERSIONS
from hypertier_cdk import Network
from hypertier_cdk.eks import kubectl_layer, new_eks_cluster


def test_the_cluster_is_a_native_resource(reference: Any) -> None:
    assert len(resources(reference.template, "AWS::EKS::Cluster")) == 1
    assert not resources(reference.template, "Custom::AWSCDK-EKS-Cluster")


def test_access_is_by_access_entries_alone(reference: Any) -> None:
    cluster = the(reference.template, "AWS::EKS::Cluster")

    assert cluster["AccessConfig"]["AuthenticationMode"] == "API"
    assert cluster["AccessConfig"]["BootstrapClusterCreatorAdminPermissions"] is False


def test_the_control_plane_writes_every_log(reference: Any) -> None:
    enabled = the(reference.template, "AWS::EKS::Cluster")["Logging"]["ClusterLogging"]["EnabledTypes"]

    assert {entry["Type"] for entry in enabled} == {
        "api",
        "audit",
        "authenticator",
        "controllerManager",
        "scheduler",
    }


def test_secrets_are_encrypted_with_a_key_of_the_cluster_s_own_that_rotates(reference: Any) -> None:
    (encryption,) = the(reference.template, "AWS::EKS::Cluster")["EncryptionConfig"]

    key = reference.template["Resources"][encryption["Provider"]["KeyArn"]["Fn::GetAtt"][0]]
    assert encryption["Resources"] == ["secrets"]
    assert key["Properties"]["EnableKeyRotation"] is True


def test_hyperpod_brings_the_nodes_not_auto_mode(reference: Any) -> None:
    cluster = the(reference.template, "AWS::EKS::Cluster")

    assert cluster.get("ComputeConfig", {}).get("Enabled", False) is False
    assert not resources(reference.template, "AWS::EKS::Nodegroup")


@pytest.mark.parametrize("version", ["1.29", "1.36", "1.37", "latest", ""])
def test_a_version_that_hyperpod_does_not_support_is_refused_with_those_it_does(version: str) -> None:
    stack = new_stack()

    with pytest.raises(ConfigError) as refused:
        new_eks_cluster(stack, "Eks", network=Network(stack, "Network"), kubernetes_version=version)

    assert refused.value.setting == "kubernetes_version"
    assert all(supported in str(refused.value) for supported in KUBERNETES_VERSIONS)


@pytest.mark.parametrize("version", ["1.34", "1.35"])
def test_the_layer_at_hand_serves_its_version_and_the_one_below(version: str) -> None:
    layer = kubectl_layer(new_stack(), version)

    assert type(layer).__name__ == "KubectlV35Layer"


def test_a_layer_that_is_not_installed_is_named_by_what_installs_it() -> None:
    with pytest.raises(
        MissingPackageError, match=r"1\.31 .* pip install 'aws-cdk\.lambda-layer-kubectl-v31'"
    ):
        kubectl_layer(new_stack(), "1.31")


@pytest.mark.parametrize(
    ("closed", "api_cidrs", "public", "ranges"),
    [
        pytest.param(False, None, True, None, id="everybody, behind IAM"),
        pytest.param(False, [], False, None, id="nobody outside"),
        pytest.param(False, ["192.0.2.0/24"], True, ["192.0.2.0/24"], id="some"),
        pytest.param(True, None, False, None, id="a closed network"),
        pytest.param(True, ["192.0.2.0/24"], False, None, id="a closed network, whatever is said"),
    ],
)
def test_the_kubernetes_api_answers_whom_it_is_to_answer(
    closed: bool, api_cidrs: list[str] | None, public: bool, ranges: list[str] | None
) -> None:
    template = synthesize(
        lambda stack: new_eks_cluster(
            stack,
            "Eks",
            network=Network(stack, "Network", closed=closed),
            kubernetes_version="1.35",
            api_cidrs=api_cidrs,
        )
    )

    vpc = the(template, "AWS::EKS::Cluster")["ResourcesVpcConfig"]
    assert vpc["EndpointPrivateAccess"] is True
    assert (vpc["EndpointPublicAccess"], vpc.get("PublicAccessCidrs")) == (public, ranges)


@pytest.mark.parametrize("cidr", ["192.0.2.1/24", "everywhere", "2001:db8::/32"])
def test_an_address_range_that_is_none_is_refused(cidr: str) -> None:
    stack = new_stack()

    with pytest.raises(ConfigError) as refused:
        new_eks_cluster(
            stack, "Eks", network=Network(stack, "Network"), kubernetes_version="1.35", api_cidrs=[cidr]
        )

    assert (refused.value.setting, refused.value.got) == ("api_cidrs", cidr)
