"""The shared tier, L2: a Valkey store of ElastiCache, sized from what it must hold and deliver."""

from __future__ import annotations

import json
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cw
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_elasticache as elasticache
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct

from hypertier.catalog.cache_nodes import DEFAULT_FAMILY
from hypertier.errors import ConfigError
from hypertier.planning.store import RESERVED_MEMORY_PERCENT, plan_store
from hypertier_cdk.adopted_store import AdoptedCacheStore
from hypertier_cdk.arguments import checked
from hypertier_cdk.forms import KeyArn, SecretArn
from hypertier_cdk.metrics import MINUTE
from hypertier_cdk.nag import accept
from hypertier_cdk.plain import resource
from hypertier_cdk.roles import let_read_secret
from hypertier_cdk.runbooks import with_runbook

PORT = 6379
# https://docs.aws.amazon.com/AmazonElastiCache/latest/dg/ParameterGroups.Engine.html (read 2026-12-01)
ENGINE_VERSION = "8.1"
PARAMETER_FAMILY = "valkey8"
USER_NAME = "hypertier"
# A plan's settings are a deployment file's; a construct's arguments are called so.
ARGUMENTS = {
    "cache.l2.bandwidth": "bandwidth_bytes_per_second",
    "cache.l2.nodeFamily": "node_family",
    "cache.l2.size": "size_bytes",
    "cache.l2": "bandwidth_bytes_per_second, size_bytes",
}
# Read, write and connect, plus what a cluster's client must ask; nothing that stops or empties the store.
# https://docs.aws.amazon.com/AmazonElastiCache/latest/dg/Clusters.RBAC.html#Access-string (read 2026-12-01)
ACCESS = (
    "on ~* -@all +@read +@write +@connection -@dangerous +info +cluster|shards +cluster|slots +cluster|nodes"
)


class CacheStore(Construct):
    """One Valkey replication group in cluster mode, shared by every replica of an endpoint.

    Encrypted at rest and in transit; one user, whose password is generated and lies in Secrets Manager.
    Closed until `connections` opens it to a peer. Node type and shards follow from the bandwidth and the size
    asked for (`plan`), within one `node_family`. Full, it drops what was read longest ago (`allkeys-lru`):
    under `volatile-lru` one entry without an expiry would stay for good.

    Attributes:
        name: the replication group's, by which AWS knows it.
        url: `rediss://HOST:PORT`, without credentials.
        secret: `{"username", "password"}`.
    """

    backend = "redis"
    is_in_vpc = True

    @checked
    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        vpc: ec2.IVpc,
        bandwidth_bytes_per_second: int,
        size_bytes: int,
        replicas_per_shard: int = 1,
        node_family: str = DEFAULT_FAMILY,
        vpc_subnets: ec2.SubnetSelection | None = None,
    ) -> None:
        super().__init__(scope, construct_id)
        if replicas_per_shard < 1:
            raise ConfigError(
                "replicas_per_shard", replicas_per_shard, "1 or more, to outlive the loss of a zone"
            )
        try:
            self.plan = plan_store(
                bandwidth_bytes_per_second,
                size_bytes,
                replicas_per_shard=replicas_per_shard,
                family=node_family,
            )
        except ConfigError as error:
            setting = ARGUMENTS.get(error.setting, error.setting)
            raise ConfigError(setting, error.got, error.expected) from error

        group = ec2.SecurityGroup(
            self, "SecurityGroup", vpc=vpc, description="L2 cache", allow_all_outbound=False
        )
        self.connections = ec2.Connections(security_groups=[group], default_port=ec2.Port.tcp(PORT))
        self.key = kms.Key(self, "Key", description="L2 cache and its password", enable_key_rotation=True)
        self.secret: secretsmanager.ISecret = secretsmanager.Secret(
            self,
            "Secret",
            description="User of the L2 cache",
            encryption_key=self.key,
            generate_secret_string=secretsmanager.SecretStringGenerator(
                secret_string_template=json.dumps({"username": USER_NAME}),
                generate_string_key="password",
                password_length=64,
                exclude_punctuation=True,
            ),
        )
        accept(
            self.secret,
            "read once, when the user is made: a new password needs the user's update too",
            "SMG4",
        )
        name = cdk.Names.unique_resource_name(self, max_length=36, separator="-").lower()
        user = resource(
            self,
            "User",
            "AWS::ElastiCache::User",
            Engine="valkey",
            UserId=f"u-{name}",
            UserName=USER_NAME,
            AccessString=ACCESS,
            # A dynamic reference: CloudFormation reads the password when it creates the user.
            AuthenticationMode={
                "Type": "password",
                "Passwords": [self.secret.secret_value_from_json("password").unsafe_unwrap()],
            },
        )
        users = resource(
            self,
            "Users",
            "AWS::ElastiCache::UserGroup",
            Engine="valkey",
            UserGroupId=f"g-{name}",
            UserIds=[user.ref],
        )
        subnets = resource(
            self,
            "Subnets",
            "AWS::ElastiCache::SubnetGroup",
            Description="L2 cache",
            SubnetIds=vpc.select_subnets(
                subnets=(vpc_subnets.subnets if vpc_subnets else None)
                or [*vpc.private_subnets, *vpc.isolated_subnets]
            ).subnet_ids,
        )
        parameters = resource(
            self,
            "Parameters",
            "AWS::ElastiCache::ParameterGroup",
            CacheParameterGroupFamily=PARAMETER_FAMILY,
            Description="L2 cache",
            Properties={
                "cluster-enabled": "yes",
                "maxmemory-policy": "allkeys-lru",
                "reserved-memory-percent": str(RESERVED_MEMORY_PERCENT),
            },
        )
        self.resource = elasticache.CfnReplicationGroup(
            self,
            "Resource",
            replication_group_description="L2 cache of hypertier",
            engine="valkey",
            engine_version=ENGINE_VERSION,
            cache_node_type=self.plan.node_type.name,
            num_node_groups=self.plan.num_shards,
            replicas_per_node_group=self.plan.replicas_per_shard,
            port=PORT,
            cache_parameter_group_name=parameters.ref,
            cache_subnet_group_name=subnets.ref,
            security_group_ids=[group.security_group_id],
            user_group_ids=[users.ref],
            transit_encryption_enabled=True,
            transit_encryption_mode="required",
            at_rest_encryption_enabled=True,
            kms_key_id=self.key.key_arn,
            automatic_failover_enabled=True,
            multi_az_enabled=True,
            auto_minor_version_upgrade=True,
        )
        accept(self.resource, "users and their passwords take the place of Redis' one AUTH token", "AEC6")
        self.name = self.resource.ref
        self.url = f"rediss://{self.resource.attr_configuration_end_point_address}:{PORT}"

    @staticmethod
    @checked
    def from_cache_store_attributes(
        scope: Construct, construct_id: str, *, url: str, secret_arn: SecretArn, key_arn: KeyArn | None = None
    ) -> AdoptedCacheStore:
        """The Valkey store at `url` (`rediss://HOST:PORT`), as it is, in the VPC or in a network beside it.

        Its user and password lie in the secret `secret_arn`, under `key_arn` where that is a customer key, in
        any Region. The nodes must be let in by the store's owner, whose security group is not touched.
        """
        return AdoptedCacheStore(scope, construct_id, url=url, secret_arn=secret_arn, key_arn=key_arn)

    def metric(self, name: str, shard: int, **options: Any) -> cw.Metric:
        """A metric of ElastiCache of the node that was made as primary of `shard`, 1 to `plan.num_shards`.

        By `CacheClusterId` alone, which names one node here; ElastiCache publishes each metric so too, beside
        `CacheClusterId` with `CacheNodeId`, as AWS's list behind aws-cdk-lib's own ElastiCacheMetrics says
        (read 2026-12-01).
        https://docs.aws.amazon.com/AmazonElastiCache/latest/dg/CacheMetrics.HostLevel.html (of a node's host)
        https://docs.aws.amazon.com/AmazonElastiCache/latest/dg/CacheMetrics.Redis.html (of its engine)
        """
        if not 1 <= shard <= self.plan.num_shards:
            raise ConfigError("shard", shard, f"1 to {self.plan.num_shards}, the store's shards")
        return cw.Metric(
            namespace="AWS/ElastiCache",
            metric_name=name,
            dimensions_map={"CacheClusterId": f"{self.name}-{shard:04d}-001"},
            **options,
        )

    def let_in(self, nodes: ec2.ISecurityGroup, description: str) -> None:
        """Let these nodes reach it."""
        self.connections.allow_default_port_from(nodes, description)

    def add_alarms(self, scope: Construct | None = None) -> list[cw.Alarm]:
        """Alarms that tell when the store gives less than was planned, two a shard; give them an action.

        `scope` says whose they are (default: the store's), since what they ring may stand in a later stack.
        Held back by its bandwidth, or its one engine thread busy: either way lookups miss their deadline.
        """
        return [
            cw.Alarm(
                scope or self,
                f"{alarm_id}{shard}",
                metric=self.metric(name, shard, statistic=statistic, period=MINUTE),
                alarm_description=with_runbook(
                    f"L2, shard {shard}: {name} at {threshold} or more", f"Store{alarm_id}"
                ),
                threshold=threshold,
                comparison_operator=cw.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
                evaluation_periods=5,
                treat_missing_data=cw.TreatMissingData.NOT_BREACHING,
            )
            for shard in range(1, self.plan.num_shards + 1)
            for alarm_id, name, statistic, threshold in (
                ("Bandwidth", "NetworkBandwidthOutAllowanceExceeded", "Sum", 1),
                ("Engine", "EngineCPUUtilization", "Average", 90),
            )
        ]

    def grant_read_secret(self, role: iam.IGrantable) -> iam.Grant:
        """Let pods with this role read the user's name and password."""
        return let_read_secret(role, self.secret, self.key)
