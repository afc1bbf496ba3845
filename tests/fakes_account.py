"""An AWS account that has all that a deployment needs, as plain answers; tests change one of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from hypertier.doctor.check import Check, Question, Said, Status, Verdict
from hypertier.doctor.checks import checks_of
from hypertier.doctor.running import Answer, Refused, run
from hypertier.planning.quotas import ALL_CLUSTERS, ALL_SPOT, ONE_CLUSTER
from hypertier.spec.cache_tiers import ExistingStore
from hypertier.spec.cluster import ClusterAttributes
from hypertier.spec.deployment import Deployment, Images, load_deployment
from hypertier.spec.endpoint.weights import FsxStorage, ModelSourceConfig
from hypertier.spec.instance_group import InstanceGroup, Volume
from hypertier.spec.lifecycle import LifecycleScript

ACCOUNT = "123456789012"
NOW = datetime(2026, 12, 2, 9, tzinfo=UTC)
EXAMPLES = Path(__file__).parents[1] / "examples"
ZONES = ("usw2-az1", "usw2-az2", "usw2-az3", "usw2-az4")
STORE = "master.store.abc123.usw2.cache.amazonaws.com"
PLAN = f"arn:aws:sagemaker:us-west-2:{ACCOUNT}:training-plan/gpus"
SECRET = f"arn:aws:secretsmanager:us-west-2:{ACCOUNT}:secret:store-AbCdEf"
KEY = f"arn:aws:kms:us-west-2:{ACCOUNT}:key/12345678-1234-1234-1234-123456789012"
SCRIPT = LifecycleScript(source="s3://sagemaker-ours/scripts", file="on_create.sh")
IMAGE = f"{ACCOUNT}.dkr.ecr.us-west-2.amazonaws.com/engine:1"
ISSUER = "oidc.eks.us-west-2.amazonaws.com/id/0123456789ABCDEF0123456789ABCDEF"
CLUSTER_ARN = f"arn:aws:sagemaker:us-west-2:{ACCOUNT}:cluster/abcdefghijkl"
EKS_ARN = f"arn:aws:eks:us-west-2:{ACCOUNT}:cluster"
TYPES = ("m5.4xlarge", "m5.2xlarge", "p5.48xlarge", "g5.4xlarge")

Answering = Callable[[Question], Answer]


def example(name: str) -> Deployment:
    return load_deployment(EXAMPLES / name / "deployment.yaml")


def served_by_the_operator() -> Deployment:
    return replace(example("small"), serving="operator")


def in_a_vpc(eks: str | None = None) -> Deployment:
    """The reference in a VPC that exists, on an EKS cluster that does, with a name."""
    reference = example("reference")
    told = ClusterAttributes(
        vpc_id="vpc-0123456789abcdef0",
        vpc_cidrs=("10.0.0.0/16",),
        availability_zones=("us-west-2a", "us-west-2b"),
        availability_zone_ids=("usw2-az1", "usw2-az2"),
        private_subnet_ids=("subnet-0123456789abcdef0", "subnet-0123456789abcdef1"),
        private_subnet_cidrs=("10.0.0.0/18", "10.0.64.0/18"),
        eks_cluster_name=eks,
        eks_security_group_id="sg-0123456789abcdef0" if eks else None,
        oidc_provider_arn=f"arn:aws:iam::{ACCOUNT}:oidc-provider/{ISSUER}" if eks else None,
    )
    return replace(reference, cluster=replace(reference.cluster, attributes=told))


def autoscaled(name: str) -> Deployment:
    """The reference, whose group of that name HyperPod's Karpenter fills."""
    reference = example("reference")
    empty = [
        replace(group, count=0, availability_zone_id="usw2-az2") if group.name == name else group
        for group in reference.instance_groups
    ]
    cluster = replace(reference.cluster, autoscaling=True)
    return replace(reference, cluster=cluster, instance_groups=tuple(empty))


def naming_everything() -> Deployment:
    """The reference with a training plan, keys, and a store that exists."""
    reference = example("reference")
    system, gpu = reference.instance_groups
    store = ExistingStore(url=f"rediss://{STORE}:6379", secret_arn=SECRET, key_arn=KEY)
    return replace(
        reference,
        instance_groups=(
            replace(system, root_volume_kms_key_arn=KEY, volume=Volume(size="500Gi", kms_key_arn=KEY)),
            replace(gpu, training_plan_arn=PLAN, lifecycle=SCRIPT),
        ),
        cache=replace(reference.cache, l2=replace(reference.cache.l2, existing=store)),
        images=Images(engine=IMAGE, router="registry.example/router:1"),
    )


def with_a_file_system() -> Deployment:
    """The reference with its weights on FSx for Lustre."""
    reference = example("reference")
    (endpoint,) = reference.endpoints
    storage = FsxStorage(file_system_id="fs-0123456789abcdef0")
    source = ModelSourceConfig(model_source_type="fsx", model_location="llama", fsx_storage=storage)
    spec = replace(endpoint.spec, model_source_config=source)
    return replace(reference, endpoints=(replace(endpoint, spec=spec),))


DEPLOYMENTS: Mapping[str, Callable[[], Deployment]] = {
    "reference": lambda: example("reference"),
    "small": lambda: example("small"),
    "closed-network": lambda: example("closed-network"),
    "adopt-existing": lambda: example("adopt-existing"),
    "operator": served_by_the_operator,
    "existing-vpc": in_a_vpc,
    "existing-eks": lambda: in_a_vpc("ml-platform"),
    "everything": naming_everything,
    "file-system": with_a_file_system,
}


def quotas(**values: float) -> dict[str, Any]:
    """A page of SageMaker's quotas: 20 nodes of each type, unless `values` say otherwise by type."""
    named = {ONE_CLUSTER: 20.0, ALL_CLUSTERS: 40.0, ALL_SPOT: 40.0}
    for name in TYPES:
        named[f"ml.{name} for cluster usage"] = values.get(name.partition(".")[0], 20.0)
        named[f"ml.{name} for cluster spot instance usage"] = 20.0
    return {
        "Quotas": [
            {"QuotaName": name, "QuotaCode": f"L-{number:08X}", "Value": value}
            for number, (name, value) in enumerate(named.items())
        ]
    }


def hyperpod_cluster(name: str, eks: str, *groups: InstanceGroup, **changes: Any) -> dict[str, Any]:
    """A HyperPod cluster in service, as SageMaker tells of it."""
    return {
        "ClusterName": name,
        "ClusterArn": CLUSTER_ARN,
        "ClusterStatus": "InService",
        "Orchestrator": {"Eks": {"ClusterArn": f"{EKS_ARN}/{eks}"}},
        "VpcConfig": {
            "SecurityGroupIds": ["sg-0123456789abcdef1"],
            "Subnets": ["subnet-0123456789abcdef0"],
        },
        "InstanceGroups": [
            {
                "InstanceGroupName": group.name,
                "InstanceType": group.instance_type,
                "CurrentCount": group.count,
                "TargetCount": group.count,
            }
            for group in groups
        ],
        **changes,
    }


def training_plan(**changes: Any) -> dict[str, Any]:
    capacity = {
        "ReservedCapacityArn": f"{PLAN.replace('training-plan', 'reserved-capacity')}-1",
        "InstanceType": "ml.p5.48xlarge",
        "TotalInstanceCount": 8,
        "Status": "Active",
        "AvailabilityZoneId": "usw2-az2",
    }
    return {
        "TrainingPlanArn": PLAN,
        "TrainingPlanName": "gpus",
        "Status": "Active",
        "StartTime": NOW - timedelta(days=1),
        "EndTime": NOW + timedelta(days=29),
        "AvailableInstanceCount": 8,
        "TargetResources": ["hyperpod-cluster"],
        "ReservedCapacitySummaries": [capacity],
        **changes,
    }


def eks_cluster(name: str = "ml-platform", version: str = "1.34", **changes: Any) -> dict[str, Any]:
    return {
        "cluster": {
            "name": name,
            "version": version,
            "status": "ACTIVE",
            "resourcesVpcConfig": {
                "vpcId": "vpc-0123456789abcdef0",
                "clusterSecurityGroupId": "sg-0123456789abcdef0",
            },
            "accessConfig": {"authenticationMode": "API"},
            "identity": {"oidc": {"issuer": f"https://{ISSUER}"}},
            **changes,
        }
    }


def vpcs(*cidrs: str, state: str = "available") -> dict[str, Any]:
    blocks = [{"CidrBlock": cidr} for cidr in cidrs]
    return {"Vpcs": [{"VpcId": "vpc-0123456789abcdef0", "State": state, "CidrBlockAssociationSet": blocks}]}


def subnets(free: int = 16379, **changes: Any) -> dict[str, Any]:
    """The two subnets that files tell of; `changes` are of the second."""
    both: list[dict[str, Any]] = [
        {
            "SubnetId": f"subnet-0123456789abcdef{number}",
            "VpcId": "vpc-0123456789abcdef0",
            "AvailabilityZone": f"us-west-2{zone}",
            "AvailabilityZoneId": f"usw2-az{number + 1}",
            "CidrBlock": f"10.0.{64 * number}.0/18",
            "AvailableIpAddressCount": free,
        }
        for number, zone in enumerate("ab")
    ]
    both[1] |= changes
    return {"Subnets": both}


def zones(*ids: str) -> dict[str, Any]:
    return {
        "AvailabilityZones": [
            {"ZoneName": f"us-west-2{letter}", "ZoneId": zone, "State": "available"}
            for letter, zone in zip("abcd", ids or ZONES, strict=False)
        ]
    }


def offerings(*types: str, within: tuple[str, ...] = ZONES) -> dict[str, Any]:
    return {
        "InstanceTypeOfferings": [
            {"InstanceType": name, "LocationType": "availability-zone-id", "Location": zone}
            for name in types
            for zone in within
        ]
    }


class Account:
    """Answers as AWS would where nothing is in the way; by operation, `changes` answer instead.

    Nothing of the deployment is there yet, but what it adopts. `denied` actions are refused.
    """

    def __init__(
        self,
        deployment: Deployment,
        changes: Mapping[str, Answer | Answering] | None = None,
        *,
        denied: frozenset[str] = frozenset(),
    ) -> None:
        self._deployment = deployment
        self._changes = dict(changes or {})
        self._denied = denied
        self.asked: list[Question] = []

    def ask(self, question: Question) -> Answer:
        self.asked.append(question)
        if question.action in self._denied:
            return Refused("is not authorized", denied=True)
        if question.operation in self._changes and question.service != "eks":
            return self._changed(question, question.operation)
        if question.action in self._changes:
            return self._changed(question, question.action)
        return self._usual(question)

    def _changed(self, question: Question, name: str) -> Answer:
        answer = self._changes[name]
        return answer(question) if callable(answer) else answer

    def _usual(self, question: Question) -> Answer:
        adopted = self._deployment.cluster.existing
        sent = question.parameters
        match question.action:
            case "cloudformation:DescribeStacks" | "servicequotas:GetServiceQuota":
                return None
            case "servicequotas:GetAWSDefaultServiceQuota":
                return {"Quota": {"QuotaCode": sent["QuotaCode"], "Value": 50.0}}
            case "servicequotas:ListServiceQuotas":
                return quotas()
            case "servicequotas:ListAWSDefaultServiceQuotas":
                return {"Quotas": []}
            case "ec2:DescribeAvailabilityZones":
                return zones()
            case "ec2:DescribeInstanceTypeOfferings":
                return offerings(*sent["Filters"][0]["Values"])
            case "ec2:DescribeVpcs":
                return vpcs("10.0.0.0/16") if sent else {"Vpcs": []}
            case "ec2:DescribeVpcAttribute":
                name = sent["Attribute"]
                return {name[0].upper() + name[1:]: {"Value": True}}
            case "ec2:DescribeSubnets":
                return subnets()
            case "ec2:DescribeAddresses":
                return {"Addresses": []}
            case "ec2:DescribeVpcEndpoints":
                return {"VpcEndpoints": []}
            case "ec2:DescribeVpcEndpointServices":
                names = sent["Filters"][0]["Values"]
                return {"ServiceDetails": [{"ServiceName": name} for name in names]}
            case "sagemaker:ListClusters":
                return {"ClusterSummaries": []}
            case "sagemaker:DescribeCluster":
                if sent["ClusterName"] != adopted:
                    return None
                return hyperpod_cluster(adopted, "ml-platform", *self._deployment.instance_groups)
            case "sagemaker:DescribeTrainingPlan":
                return training_plan()
            case "eks:DescribeClusterVersions":
                version = sent["clusterVersions"][0]
                end = datetime(2027, 3, 27, tzinfo=UTC)
                return {
                    "clusterVersions": [
                        {
                            "clusterVersion": version,
                            "versionStatus": "STANDARD_SUPPORT",
                            "endOfStandardSupportDate": end,
                        }
                    ]
                }
            case "eks:DescribeAddonVersions":
                versions = [{"addonVersion": "v2.1.0-eksbuild.1"}, {"addonVersion": "v1.0.0-eksbuild.1"}]
                return {"addons": [{"addonName": sent["addonName"], "addonVersions": versions}]}
            case "eks:DescribeCluster":
                return eks_cluster(sent["name"], self._deployment.cluster.kubernetes_version)
            case "elasticache:DescribeReplicationGroups":
                ends = [{"PrimaryEndpoint": {"Address": STORE, "Port": 6379}}]
                group = {"Status": "available", "TransitEncryptionEnabled": True, "NodeGroups": ends}
                return {"ReplicationGroups": [group]}
            case "elasticache:DescribeServerlessCaches":
                return {"ServerlessCaches": []}
            case "secretsmanager:DescribeSecret":
                return {"ARN": sent["SecretId"], "Name": "store"}
            case "kms:DescribeKey":
                return {"KeyMetadata": {"KeyId": "12345678", "KeyState": "Enabled"}}
            case "s3:ListBucket":
                return {"KeyCount": 1, "Contents": [{"Key": sent["Prefix"]}]}
            case "fsx:DescribeFileSystems":
                return {"FileSystems": [{"FileSystemId": sent["FileSystemIds"][0], "Lifecycle": "AVAILABLE"}]}
            case "ecr:DescribeImages":
                return {"imageDetails": [{"repositoryName": sent["repositoryName"]}]}
            case "ssm:GetParameter":
                return {"Parameter": {"Name": sent["Name"], "Value": "30"}}
        raise AssertionError(f"nobody has told what to say to {question}")


def checks(deployment: Deployment) -> tuple[Check, ...]:
    return checks_of(deployment, ACCOUNT, NOW)


def verdicts(deployment: Deployment, account: Account) -> dict[str, Verdict]:
    """What each check of the deployment finds in the account."""
    return {check.name: run(check, account.ask) for check in checks(deployment)}


def not_ok(found: Mapping[str, Verdict]) -> dict[str, Verdict]:
    return {name: verdict for name, verdict in found.items() if verdict.status is not Status.OK}


def said(answer: Answer) -> Said:
    assert not isinstance(answer, Refused)
    assert answer is not None
    return answer
