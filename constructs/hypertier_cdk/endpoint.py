"""An inference endpoint on a HyperPod cluster: what its manifest asks for, and the access that it needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct, IDependable

from hypertier.errors import ConfigError
from hypertier.spec.capturing import RouterCapture, router_capture
from hypertier.spec.deployment import Deployment, Scaling
from hypertier.spec.endpoint import API_GROUP, InferenceEndpointConfig
from hypertier.spec.roles import DECODE, PREFILL, WHOLE
from hypertier_cdk.adopted_store import AdoptedCacheStore
from hypertier_cdk.arguments import check_image, checked
from hypertier_cdk.cache_store import CacheStore
from hypertier_cdk.charts.exporter import is_exported
from hypertier_cdk.charts.images import image_build
from hypertier_cdk.charts.inputs import ChartInputs
from hypertier_cdk.charts.names import names_of
from hypertier_cdk.charts.objects import endpoint_objects, namespace_objects
from hypertier_cdk.cluster_base import ClusterBase
from hypertier_cdk.image_assets import image_uris
from hypertier_cdk.metrics import NAMESPACE
from hypertier_cdk.nag import accept_wildcards
from hypertier_cdk.roles import let_read_secret
from hypertier_cdk.tiered_storage import TieredStorage

POD_ROLES = ("EngineRole", "ExporterRole", "RouterRole", "VerifyRole")
CLIENTS_FROM_ANYWHERE = (
    "whoever reaches the network may send requests: of an existing one name all ranges, by vpc_cidrs of "
    "Network (cluster.attributes.vpcCidrs), or the clients, by cluster.clientCidrs"
)


class InferenceEndpoint(Construct):
    """One endpoint of `deployment`: by default its only one.

    With `serving: selfhosted` engines, router and exporter run as Deployments, each under a role of its own:
    the engines' may read the L2 store's password, the exporter's may write metrics into one namespace, as may
    that of the verification, where the deployment has a `verify`. The router has one where the manifest's
    `dataCapture` asks for it, which may put objects below one prefix, and use one key for that. With
    `serving: operator` the manifest goes to AWS's operator. What it needs in the cluster is handed in:
    `operator_ready`, `keda_ready` (for `autoScalingSpec`) and `load_balancer_controller_ready`
    (for `tlsConfig`) are what the endpoint then waits for.

    `cache_store` is the endpoint's L2; the nodes are let in to it, unless it is an adopted one. Without one
    the address in the manifest is used. Images are `engine_image` and `router_image`, else the deployment's
    `images`, else they are built on deployment from hypertier's own Containerfile: synth needs no Docker.

    Attributes:
        workloads: the manifest in the cluster; depend on it for what needs the endpoint.
        deployment_names: the engines' Deployments, which scaling steps, by role: `engine`, or with `pdSpec`
            `prefill` and `decode`; none with the operator.
    """

    @checked
    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        cluster: ClusterBase,
        deployment: Deployment,
        endpoint: InferenceEndpointConfig | None = None,
        cache_store: CacheStore | AdoptedCacheStore | TieredStorage | None = None,
        engine_image: str | None = None,
        router_image: str | None = None,
        operator_ready: IDependable | None = None,
        keda_ready: IDependable | None = None,
        load_balancer_controller_ready: IDependable | None = None,
    ) -> None:
        super().__init__(scope, construct_id)
        check_image("engine_image", engine_image)
        check_image("router_image", router_image)
        self.config = endpoint or _only_endpoint(deployment)
        selfhosted = deployment.serving == "selfhosted"
        wanted = (self.config.kv_cache.l2_backend or "").lower()
        if cache_store is not None and wanted != cache_store.backend:
            raise ConfigError(
                f"{self.config.name}: spec.kvCacheSpec.l2CacheSpec.l2CacheBackend",
                self.config.kv_cache.l2_backend,
                f"{cache_store.backend}, with enableL2Cache: true, to use the cache_store; else leave it out",
            )
        # The daemon on the nodes is the cluster's, and asks for no password.
        store = None if isinstance(cache_store, TieredStorage) else cache_store
        if store is not None and not selfhosted:
            raise ConfigError(
                "cache_store",
                store.node.path,
                "none with serving: operator, which cannot give engines the store's password; take "
                "tieredstorage, or a store of your own in l2CacheLocalUrl",
            )
        if selfhosted and not cluster.network.cidrs and not deployment.cluster.client_cidrs:
            cdk.Annotations.of(self).add_warning_v2("hypertier:clients-from-anywhere", CLIENTS_FROM_ANYWHERE)
        names = names_of(deployment, self.config)

        self.engine_role: iam.Role | None = None
        self.exporter_role: iam.Role | None = None
        self.router_role: iam.Role | None = None
        self.verify_role: iam.Role | None = None
        roles = (PREFILL, DECODE) if self.config.spec.pd_spec else (WHOLE,)
        self.deployment_names = {role: names.of(role) for role in roles} if selfhosted else {}
        if selfhosted:
            self.engine_role = cluster.pod_role(
                "EngineRole", names.namespace, names.role("engine"), scope=self
            )
        if selfhosted and is_exported(self.config):
            self.exporter_role = cluster.pod_role(
                "ExporterRole", names.namespace, names.role("exporter"), scope=self
            )
            _let_write_metrics(self.exporter_role)
        capture = router_capture(self.config) if selfhosted else None
        if capture is not None:
            self.router_role = cluster.pod_role(
                "RouterRole", names.namespace, names.role("router"), scope=self
            )
            _let_capture(self.router_role, capture)
        if deployment.verify is not None:
            self.verify_role = cluster.pod_role(
                "VerifyRole", names.namespace, names.role("verify"), scope=self
            )
            _let_write_metrics(self.verify_role)
        if store is not None:
            store.let_in(cluster.node_security_group, f"engines of {self.config.name}")
            assert self.engine_role is not None
            store.grant_read_secret(self.engine_role)
        key_arn = deployment.cache.l2.encryption_secret_arn
        if self.engine_role is not None and key_arn is not None and self.config.kv_cache.l2_enabled:
            key = secretsmanager.Secret.from_secret_complete_arn(self, "EncryptionKey", key_arn)
            let_read_secret(self.engine_role, key)

        for setting, image in (
            ("engine_image", engine_image),
            ("router_image", router_image),
            ("images.engine", deployment.images.engine if selfhosted else None),
            ("images.router", deployment.images.router if selfhosted else None),
        ):
            cluster.network.refuse_unreachable_image(setting, image)
        engine, router = self._images(deployment, engine_image, router_image)
        inputs = ChartInputs(
            l2_url=store.url if store else None,
            l2_in_vpc=store is None or store.is_in_vpc,
            l2_secret_arn=store.secret.secret_arn if store else None,
            engine_image=engine,
            router_image=router,
            vpc_cidrs=cluster.network.cidrs,
        )
        objects = endpoint_objects(deployment, self.config, inputs)
        before: list[IDependable] = [*_namespace(self, cluster, deployment, self.config)]
        # A pod gets its credentials when it starts: role, permissions and association come first.
        before += [owner for owner in self.node.children if owner.node.id in POD_ROLES]
        before += [store] if store is not None else []
        before += _weights(cluster, self.config)
        before += _controllers(
            objects,
            {
                "operator_ready": operator_ready,
                "keda_ready": keda_ready,
                "load_balancer_controller_ready": load_balancer_controller_ready,
            },
        )
        self.workloads = cluster.add_manifest(
            "Workloads",
            objects,
            *before,
            scope=self,
            plain=(inputs.l2_url, inputs.l2_secret_arn, engine, router, *cluster.network.cidrs),
        )

    def _images(
        self, deployment: Deployment, engine_image: str | None, router_image: str | None
    ) -> tuple[str | None, str | None]:
        """The images given, else those of the deployment, else built from hypertier's own Containerfile."""
        if deployment.serving == "operator":
            return None, None
        own = replace(deployment, endpoints=(self.config,), scaling=Scaling())
        given = {
            "engine": engine_image or deployment.images.engine,
            "router": router_image or deployment.images.router,
        }
        to_build = {target: image_build(own, target) for target, image in given.items() if image is None}
        images = {**given, **(image_uris(self, to_build) if to_build else {})}
        return images["engine"], images["router"]


def _weights(cluster: ClusterBase, endpoint: InferenceEndpointConfig) -> list[IDependable]:
    """What lets pods mount the weights; nothing where they are fetched."""
    source = endpoint.spec.model_source_config
    if source.model_source_type == "s3" and source.s3_storage is not None:
        return [cluster.read_bucket(source.s3_storage.bucket_name)]
    if source.model_source_type == "fsx":
        return [cluster.mount_fsx()]
    return []


def _controllers(
    objects: Sequence[Mapping[str, Any]], ready: Mapping[str, IDependable | None]
) -> list[IDependable]:
    """Who must be in the cluster before `objects`: without its controller an object does nothing.

    Raises:
        ConfigError: an object's controller is not there; names the argument that says it is.
    """
    needed: dict[str, str] = {}
    for entry in objects:
        group = entry["apiVersion"].partition("/")[0]
        for argument, is_needed, what in (
            ("operator_ready", group == API_GROUP, "what installs AWS's inference operator"),
            ("keda_ready", group == "keda.sh", "what installs KEDA, for the manifest's autoScalingSpec"),
            (
                "load_balancer_controller_ready",
                entry["kind"] == "Ingress",
                "what installs the AWS Load Balancer Controller, for the manifest's tlsConfig",
            ),
        ):
            if is_needed:
                needed[argument] = what
    found = []
    for argument, what in needed.items():
        controller = ready[argument]
        if controller is None:
            raise ConfigError(argument, None, what)
        found.append(controller)
    return found


def _only_endpoint(deployment: Deployment) -> InferenceEndpointConfig:
    if len(deployment.endpoints) != 1:
        raise ConfigError(
            "endpoint",
            None,
            "one of the deployment's endpoints, which are "
            + ", ".join(endpoint.name for endpoint in deployment.endpoints),
        )
    return deployment.endpoints[0]


def _namespace(
    scope: Construct, cluster: ClusterBase, deployment: Deployment, endpoint: InferenceEndpointConfig
) -> list[IDependable]:
    """The endpoint's namespace, made once a stack; none for Kubernetes' own `default`, or one that exists."""
    if cluster.adopted is not None and endpoint.namespace in cluster.adopted.existing_namespaces:
        return []
    found = [
        entry for entry in namespace_objects(deployment) if entry["metadata"]["name"] == endpoint.namespace
    ]
    if not found:
        return []
    stack = cdk.Stack.of(scope)
    construct_id = f"Namespace-{cluster.node.addr}-{endpoint.namespace}"
    existing: Any = stack.node.try_find_child(construct_id)
    return [existing or cluster.add_manifest(construct_id, found, scope=stack)]


def _let_capture(role: iam.Role, capture: RouterCapture) -> None:
    """Add objects below the endpoint's prefix, encrypted by the key; read or remove none."""
    below = f"arn:{cdk.Aws.PARTITION}:s3:::{capture.bucket}/{capture.prefix}/*"
    role.add_to_policy(iam.PolicyStatement(actions=["s3:PutObject"], resources=[below]))
    accept_wildcards(role, "captured files are named by when they were written", below)
    if capture.kms_key_arn is not None:
        role.add_to_policy(
            iam.PolicyStatement(actions=["kms:GenerateDataKey"], resources=[capture.kms_key_arn])
        )


def _let_write_metrics(role: iam.Role) -> None:
    """PutMetricData knows no resource; the condition narrows it to one namespace.

    https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/iam-cw-condition-keys-namespace.html
    """
    role.add_to_policy(
        iam.PolicyStatement(
            actions=["cloudwatch:PutMetricData"],
            resources=["*"],
            conditions={"StringEquals": {"cloudwatch:namespace": NAMESPACE}},
        )
    )
    narrowed = "PutMetricData knows no resource; a condition narrows it to one namespace"
    accept_wildcards(role, narrowed, "*")
