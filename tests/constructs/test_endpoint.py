"""An endpoint in the cluster: what is applied, after what, and who may do what."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk.assertions import Annotations, Match
from fakes_adopted import adopt_network
from fakes_templates import depends_on, new_stack, permissions, properties, resources, template_of

from hypertier.errors import ConfigError
from hypertier.spec.cluster import Cluster
from hypertier.spec.deployment import Deployment, Images, Scaling, load_deployment
from hypertier.spec.endpoint import (
    AutoScalingSpec,
    CloudWatchDimension,
    CloudWatchTrigger,
    CustomCertificateConfig,
    TlsConfig,
)
from hypertier.spec.verify import Verify
from hypertier_cdk import CacheStore, EksCluster, HyperPodCluster, InferenceEndpoint, Network
from hypertier_cdk.review.templates import text_of

ROOT = Path(__file__).parents[2]
MANIFEST = "Custom::AWSCDK-EKS-KubernetesResource"
IMAGES = Images(engine="registry.example/engine:1", router="registry.example/router:1")


@pytest.fixture(scope="module")
def reference_deployment() -> Deployment:
    return load_deployment(ROOT / "examples" / "reference" / "deployment.yaml")


def cluster_of(stack: cdk.Stack, deployment: Deployment) -> HyperPodCluster:
    network = Network(stack, "Network", availability_zone_ids=["usw2-az2"])
    return HyperPodCluster(
        stack,
        "Cluster",
        network=network,
        kubernetes_version="1.35",
        instance_groups=deployment.instance_groups,
        name="endpoint",
    )


def store_of(stack: cdk.Stack, cluster: HyperPodCluster) -> CacheStore:
    return CacheStore(
        stack, "L2", vpc=cluster.network.vpc, bandwidth_bytes_per_second=10**9, size_bytes=2**30
    )


@pytest.fixture(scope="module")
def template(reference_deployment: Deployment) -> dict[str, Any]:
    stack = new_stack("Endpoint")
    cluster = cluster_of(stack, reference_deployment)
    InferenceEndpoint(
        stack,
        "Endpoint",
        cluster=cluster,
        deployment=reference_deployment,
        cache_store=store_of(stack, cluster),
    )
    return template_of(stack)


@pytest.fixture(scope="module")
def with_operator(reference_deployment: Deployment) -> dict[str, Any]:
    deployment = replace(reference_deployment, serving="operator")
    stack = new_stack("Operator")
    cluster = cluster_of(stack, deployment)
    addon = cdk.CfnResource(stack, "Addon", type="AWS::EKS::Addon")
    InferenceEndpoint(
        stack,
        "Endpoint",
        cluster=cluster,
        deployment=deployment,
        operator_ready=addon,
    )
    return template_of(stack)


def manifests(template: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """The objects of every manifest, by logical id."""
    return {
        logical_id: json.loads(text_of(resource["Properties"]["Manifest"]))
        for logical_id, resource in resources(template, MANIFEST).items()
    }


def manifest_with(template: dict[str, Any], kind: str) -> tuple[str, list[dict[str, Any]]]:
    (found,) = [
        (logical_id, objects)
        for logical_id, objects in manifests(template).items()
        if kind in {entry["kind"] for entry in objects} and not logical_id.startswith("ClusterNodeAgents")
    ]
    return found


def engine(template: dict[str, Any]) -> dict[str, Any]:
    _, objects = manifest_with(template, "Deployment")
    deployments = [entry for entry in objects if entry["kind"] == "Deployment"]
    (found,) = [entry for entry in deployments if entry["metadata"]["name"] == "llama-70b-engine"]
    return found


def container(deployment: dict[str, Any]) -> dict[str, Any]:
    """The engine's container in its Deployment."""
    containers: list[dict[str, Any]] = deployment["spec"]["template"]["spec"]["containers"]
    return containers[0]


def environment(deployment: dict[str, Any]) -> dict[str, str]:
    return {entry["name"]: entry.get("value", "") for entry in container(deployment)["env"]}


def granted(template: dict[str, Any], role_id: str) -> dict[str, Any]:
    """action -> resource of a role's own policy."""
    return {
        action: statement["Resource"]
        for policy in properties(template, "AWS::IAM::Policy")
        if {"Ref": role_id} in policy["Roles"]
        for statement in policy["PolicyDocument"]["Statement"]
        for action in (
            statement["Action"] if isinstance(statement["Action"], list) else [statement["Action"]]
        )
    }


def role_of(template: dict[str, Any], service_account: str) -> str:
    """The logical id of the role that the pods of a service account get."""
    (association,) = [
        entry
        for entry in properties(template, "AWS::EKS::PodIdentityAssociation")
        if entry["ServiceAccount"] == service_account
    ]
    role_id: str = association["RoleArn"]["Fn::GetAtt"][0]
    return role_id


def test_the_engine_is_told_the_store_s_address_and_where_its_password_lies(template: dict[str, Any]) -> None:
    (store_id,) = resources(template, "AWS::ElastiCache::ReplicationGroup")
    (secret_id,) = resources(template, "AWS::SecretsManager::Secret")

    env = environment(engine(template))

    assert env["HYPERTIER_L2_URL"] == f"rediss://${{{store_id}.ConfigurationEndPoint.Address}}:6379"
    assert env["HYPERTIER_L2_SECRET_ARN"] == f"${{{secret_id}}}"


def test_the_engines_may_read_the_key_of_encryption(reference_deployment: Deployment) -> None:
    arn = "arn:aws:secretsmanager:us-west-2:123456789012:secret:kv-key-AbCdEf"
    l2 = replace(reference_deployment.cache.l2, encryption_secret=arn)
    wanted = replace(reference_deployment, cache=replace(reference_deployment.cache, l2=l2))
    stack = new_stack("Encrypted")
    InferenceEndpoint(stack, "Endpoint", cluster=cluster_of(stack, wanted), deployment=wanted)

    found = template_of(stack)

    assert granted(found, role_of(found, "llama-70b-engine")) == {"secretsmanager:GetSecretValue": arn}
    assert environment(engine(found))["HYPERTIER_L2_KEY_SECRET_ARN"] == arn


def test_no_placeholder_is_left_for_a_person_to_fill_in(template: dict[str, Any]) -> None:
    text = json.dumps(manifests(template))

    assert "hypertier.dev/placeholders" not in text
    assert "placeholder.invalid" not in text


def test_images_are_built_where_none_is_named(template: dict[str, Any]) -> None:
    assert ".dkr.ecr." in container(engine(template))["image"]


def test_images_that_are_named_are_used_and_nothing_is_built(reference_deployment: Deployment) -> None:
    stack = new_stack("Images")
    deployment = replace(reference_deployment, images=IMAGES)
    InferenceEndpoint(stack, "Endpoint", cluster=cluster_of(stack, deployment), deployment=deployment)

    found = template_of(stack)

    assert container(engine(found))["image"] == IMAGES.engine
    assert not [child for child in stack.node.find_all() if "BuildContext" in child.node.id]


def test_the_engine_s_role_may_read_the_password_and_nothing_else(template: dict[str, Any]) -> None:
    (secret_id,) = resources(template, "AWS::SecretsManager::Secret")

    actions = granted(template, role_of(template, "llama-70b-engine"))

    assert set(actions) == {"secretsmanager:GetSecretValue", "kms:Decrypt"}
    assert actions["secretsmanager:GetSecretValue"] == {"Ref": secret_id}


def test_the_exporter_s_role_may_write_into_one_namespace(template: dict[str, Any]) -> None:
    role_id = role_of(template, "llama-70b-exporter")

    (policy,) = [
        entry for entry in properties(template, "AWS::IAM::Policy") if {"Ref": role_id} in entry["Roles"]
    ]

    (statement,) = policy["PolicyDocument"]["Statement"]
    assert statement["Action"] == "cloudwatch:PutMetricData"
    assert statement["Condition"] == {"StringEquals": {"cloudwatch:namespace": "Hypertier"}}


@pytest.fixture(scope="module")
def verified(reference_deployment: Deployment) -> dict[str, Any]:
    deployment = replace(reference_deployment, verify=Verify())
    stack = new_stack("Verified")
    cluster = cluster_of(stack, deployment)
    InferenceEndpoint(stack, "Endpoint", cluster=cluster, deployment=deployment, engine_image="e.example/e:1")
    return template_of(stack)


def test_the_verification_s_role_may_do_as_much_as_the_exporter_s(verified: dict[str, Any]) -> None:
    def statements(account: str) -> list[Any]:
        role = {"Ref": role_of(verified, account)}
        policies = properties(verified, "AWS::IAM::Policy")
        return [entry["PolicyDocument"] for entry in policies if role in entry["Roles"]]

    assert statements("llama-70b-verify") == statements("llama-70b-exporter")
    assert role_of(verified, "llama-70b-verify") != role_of(verified, "llama-70b-exporter")


def test_the_verification_comes_after_its_role(verified: dict[str, Any]) -> None:
    workloads, _ = manifest_with(verified, "CronJob")

    assert role_of(verified, "llama-70b-verify") in depends_on(verified, workloads)


def test_the_router_gets_no_role(template: dict[str, Any]) -> None:
    accounts = {entry["ServiceAccount"] for entry in properties(template, "AWS::EKS::PodIdentityAssociation")}

    assert accounts == {"llama-70b-engine", "llama-70b-exporter"}


def test_a_router_that_captures_may_add_below_its_prefix_by_its_key_and_nothing_else(
    reference_deployment: Deployment,
) -> None:
    key = "arn:aws:kms:us-west-2:123456789012:key/12345678-1234-1234-1234-123456789012"
    capture = {"s3Uri": "s3://ours/x", "modelPod": {"enabled": True, "kmsKeyId": key}}
    stack = new_stack("Captured")
    (endpoint,) = reference_deployment.endpoints
    captured = replace(endpoint, spec=replace(endpoint.spec, data_capture=capture))
    deployment = replace(reference_deployment, endpoints=(captured,), images=IMAGES)
    InferenceEndpoint(stack, "Endpoint", cluster=cluster_of(stack, deployment), deployment=deployment)
    template = template_of(stack)

    role_id = role_of(template, "llama-70b-router")
    granted = {
        entry["Action"]: text_of(entry["Resource"]).removeprefix("arn:aws")
        for entry in permissions(template, role_id)
    }

    workloads, _ = manifest_with(template, "Deployment")
    assert role_id in depends_on(template, workloads)
    assert set(granted) == {"s3:PutObject", "kms:GenerateDataKey"}
    assert granted["s3:PutObject"].endswith(":s3:::ours/x/llama-70b/*")
    assert granted["kms:GenerateDataKey"] == key.removeprefix("arn:aws")


def test_nodes_may_reach_the_store_on_its_port(template: dict[str, Any]) -> None:
    rules = [
        rule
        for rule in properties(template, "AWS::EC2::SecurityGroupIngress")
        if rule.get("FromPort") == 6379
    ]

    assert len(rules) == 1
    assert rules[0]["ToPort"] == 6379


def test_pods_come_after_their_roles_permissions_their_namespace_and_the_store(
    template: dict[str, Any],
) -> None:
    workloads, _ = manifest_with(template, "Deployment")
    namespace, _ = manifest_with(template, "Namespace")

    before = depends_on(template, workloads)

    assert namespace in before
    assert set(resources(template, "AWS::ElastiCache::ReplicationGroup")) <= before
    assert set(resources(template, "AWS::EKS::PodIdentityAssociation")) <= before
    assert {
        logical_id
        for logical_id, policy in resources(template, "AWS::IAM::Policy").items()
        if {"Ref": role_of(template, "llama-70b-engine")} in policy["Properties"]["Roles"]
    } <= before
    assert set(resources(template, "AWS::SageMaker::Cluster")) <= before


def test_two_endpoints_of_one_namespace_share_it(reference_deployment: Deployment) -> None:
    first = reference_deployment.endpoints[0]
    second = replace(first, metadata=replace(first.metadata, name="llama-70b-next"))
    deployment = replace(reference_deployment, endpoints=(first, second), images=IMAGES)
    stack = new_stack("Two")
    cluster = cluster_of(stack, deployment)
    for endpoint in deployment.endpoints:
        InferenceEndpoint(stack, endpoint.name, cluster=cluster, deployment=deployment, endpoint=endpoint)

    found = template_of(stack)

    namespaces = [
        entry["metadata"]["name"]
        for objects in manifests(found).values()
        for entry in objects
        if entry["kind"] == "Namespace"
    ]
    assert namespaces.count(first.namespace) == 1


def test_with_the_operator_the_manifest_is_applied_as_it_was_written(
    with_operator: dict[str, Any], reference_deployment: Deployment
) -> None:
    _, (applied,) = manifest_with(with_operator, "InferenceEndpointConfig")

    applied["metadata"].pop("labels")  # by which kubectl finds what to delete
    assert applied == reference_deployment.endpoints[0].to_manifest()


def test_a_store_whose_password_the_operator_cannot_hand_on_is_refused(
    reference_deployment: Deployment,
) -> None:
    deployment = replace(reference_deployment, serving="operator")
    stack = new_stack("Password")
    cluster = cluster_of(stack, deployment)

    with pytest.raises(ConfigError, match=r"cache_store is .*serving: operator"):
        InferenceEndpoint(
            stack,
            "Endpoint",
            cluster=cluster,
            deployment=deployment,
            cache_store=store_of(stack, cluster),
            operator_ready=cdk.CfnResource(stack, "Addon", type="AWS::EKS::Addon"),
        )


def test_with_the_operator_the_manifest_comes_after_the_operator(with_operator: dict[str, Any]) -> None:
    endpoint, _ = manifest_with(with_operator, "InferenceEndpointConfig")

    assert "Addon" in depends_on(with_operator, endpoint)
    assert properties(with_operator, "AWS::EKS::PodIdentityAssociation") == []


def test_a_store_that_the_manifest_does_not_use_is_refused(reference_deployment: Deployment) -> None:
    endpoint = reference_deployment.endpoints[0]
    without_l2 = replace(
        endpoint,
        spec=replace(endpoint.spec, kv_cache_spec=replace(endpoint.kv_cache, enable_l2_cache=False)),
    )
    deployment = replace(reference_deployment, endpoints=(without_l2,))
    stack = new_stack("Unused")
    cluster = cluster_of(stack, deployment)

    with pytest.raises(ConfigError, match=r"llama-70b: spec\.kvCacheSpec\.l2CacheSpec\.l2CacheBackend"):
        InferenceEndpoint(
            stack,
            "Endpoint",
            cluster=cluster,
            deployment=deployment,
            cache_store=store_of(stack, cluster),
        )


@pytest.mark.parametrize(
    ("serving", "spec", "argument"),
    [
        pytest.param("operator", {}, "operator_ready", id="AWS's operator"),
        pytest.param(
            "selfhosted",
            {
                "auto_scaling_spec": AutoScalingSpec(
                    cloud_watch_trigger=CloudWatchTrigger(
                        namespace="Hypertier",
                        metric_name="QueuedRequests",
                        target_value=1.0,
                        dimensions=(CloudWatchDimension(name="Endpoint", value="llama-70b"),),
                    )
                )
            },
            "keda_ready",
            id="KEDA",
        ),
        pytest.param(
            "selfhosted",
            {
                "tls_config": TlsConfig(
                    custom_certificate_config=CustomCertificateConfig(
                        acm_arn="arn:aws:acm:us-west-2:123456789012:certificate/1",
                        domain_name="llm.example.com",
                    )
                )
            },
            "load_balancer_controller_ready",
            id="the load balancer's controller",
        ),
    ],
)
def test_what_a_manifest_needs_beside_itself_must_be_there(
    serving: str, spec: dict[str, Any], argument: str, reference_deployment: Deployment
) -> None:
    endpoint = reference_deployment.endpoints[0]
    deployment = replace(
        reference_deployment,
        serving=serving,
        images=IMAGES,
        scaling=Scaling(min=2, max=2),
        endpoints=(replace(endpoint, spec=replace(endpoint.spec, **spec)),),
    )
    stack = new_stack("Missing")
    cluster = cluster_of(stack, deployment)

    with pytest.raises(ConfigError) as refused:
        InferenceEndpoint(stack, "Endpoint", cluster=cluster, deployment=deployment)

    assert refused.value.setting == argument
    InferenceEndpoint(
        stack,
        "Ready",
        cluster=cluster,
        deployment=deployment,
        **{argument: cdk.CfnResource(stack, "Controller", type="AWS::EKS::Addon")},
    )


def test_weights_in_s3_can_be_mounted_before_the_pods_start(template: dict[str, Any]) -> None:
    workloads, _ = manifest_with(template, "Deployment")
    drivers = {
        logical_id
        for logical_id, addon in resources(template, "AWS::EKS::Addon").items()
        if addon["Properties"]["AddonName"] == "aws-mountpoint-s3-csi-driver"
    }

    assert len(drivers) == 1
    assert drivers <= depends_on(template, workloads)


def test_of_several_endpoints_one_must_be_named(reference_deployment: Deployment) -> None:
    stack = new_stack("Several")
    first = reference_deployment.endpoints[0]
    deployment = replace(
        reference_deployment,
        endpoints=(first, replace(first, metadata=replace(first.metadata, name="other"))),
    )

    with pytest.raises(ConfigError, match=r"endpoint is not set.*llama-70b, other"):
        InferenceEndpoint(stack, "Endpoint", cluster=cluster_of(stack, deployment), deployment=deployment)


@pytest.mark.parametrize(
    ("cidrs", "clients", "is_said"),
    [
        pytest.param((), (), True, id="nothing is known"),
        pytest.param(("10.0.0.0/16",), (), False, id="the VPC is"),
        pytest.param((), ("192.0.2.0/24",), False, id="clients are"),
    ],
)
def test_an_endpoint_that_admits_anybody_says_so(
    cidrs: tuple[str, ...], clients: tuple[str, ...], is_said: bool, reference_deployment: Deployment
) -> None:
    deployment = replace(reference_deployment, images=IMAGES, cluster=Cluster(client_cidrs=clients))
    stack = new_stack("Adopted")
    network = adopt_network(stack, vpc_cidrs=cidrs)
    eks_cluster = EksCluster.from_cluster_attributes(
        stack,
        "Eks",
        network=network,
        cluster_name="my-eks",
        kubernetes_version="1.35",
        security_group_id="sg-eks",
        oidc_provider_arn="arn:aws:iam::123456789012:oidc-provider/oidc.eks.us-west-2.amazonaws.com/id/ABC",
    )
    adopted = HyperPodCluster.from_cluster_attributes(
        stack,
        "Cluster",
        network=network,
        eks_cluster=eks_cluster,
        cluster_name="mine",
        cluster_arn="arn:aws:sagemaker:us-west-2:123456789012:cluster/abcdefghijkl",
        node_security_group_id="sg-nodes",
    )

    InferenceEndpoint(
        stack,
        "Endpoint",
        cluster=adopted,
        deployment=deployment,
        cache_store=CacheStore(
            stack, "L2", vpc=network.vpc, bandwidth_bytes_per_second=10**9, size_bytes=2**30
        ),
    )

    said = Match.string_like_regexp("whoever reaches the network")
    found = Annotations.from_stack(stack).find_warning("/Adopted/Endpoint", said)
    assert bool(found) is is_said
