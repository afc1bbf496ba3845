"""Faults of what a deployment makes: quotas, zones, stacks, plans, and what it names by ARN."""

from __future__ import annotations

from datetime import timedelta

from doctor_faults.fault import P5, P5_QUOTA, Fault, others, stack
from fakes_account import NOW, STORE, offerings, quotas, training_plan, zones

FAULTS = {
    "bootstrap-none": Fault(
        "small",
        {"GetParameter": None},
        ("CDK bootstrap",),
        "not bootstrapped",
        "cdk bootstrap aws://123456789012/",
    ),
    "bootstrap-old": Fault(
        "small",
        {"GetParameter": {"Parameter": {"Value": "5"}}},
        ("CDK bootstrap",),
        "older than 6",
        "bootstrap",
    ),
    "bootstrap-odd": Fault(
        "small", {"GetParameter": {"Parameter": {"Value": "x"}}}, ("CDK bootstrap",), "version x", "bootstrap"
    ),
    "stack-busy": Fault(
        "small",
        {"DescribeStacks": stack("UPDATE_IN_PROGRESS", "small-serving")},
        ("stack small-serving",),
        "UPDATE_IN_PROGRESS",
        "wait",
    ),
    "stack-stuck": Fault(
        "small",
        {"DescribeStacks": stack("UPDATE_ROLLBACK_FAILED", "small-serving")},
        ("stack small-serving",),
        "FAILED",
        "continue-update-rollback --stack-name small-serving",
    ),
    "stack-undeleted": Fault(
        "small",
        {"DescribeStacks": stack("DELETE_FAILED", "small-serving")},
        ("stack small-serving",),
        "DELETE_FAILED",
        "delete-stack --stack-name small-serving",
    ),
    "quota-small": Fault(
        "reference",
        {"ListServiceQuotas": quotas(p5=0)},
        (P5_QUOTA,),
        "7 needed, 0 in use, 0 allowed",
        "--service-code sagemaker --quota-code L-.* --desired-value 7 --region us-west-2",
    ),
    "quota-in-use": Fault(
        "reference",
        others(P5),
        (P5_QUOTA,),
        "7 needed, 14 in use, 20 allowed",
        "--desired-value 21",
    ),
    "quota-default": Fault(
        "reference",
        {"ListServiceQuotas": {"Quotas": []}, "ListAWSDefaultServiceQuotas": quotas(p5=0)},
        (P5_QUOTA,),
        "7 needed",
        "--desired-value 7",
    ),
    "vpcs": Fault(
        "reference",
        {
            "GetServiceQuota": {"Quota": {"Value": 5.0}},
            "DescribeVpcs": {"Vpcs": [{"VpcId": f"vpc-{number}"} for number in range(5)]},
        },
        ("quota VPCs per Region",),
        "1 needed, 5 in use, 5 allowed",
        "--service-code vpc --quota-code L-F678F1CE --desired-value 6",
    ),
    "addresses": Fault(
        "reference",
        {
            "GetServiceQuota": {"Quota": {"Value": 5.0}},
            "DescribeAddresses": {"Addresses": [{"PublicIp": f"192.0.2.{number}"} for number in range(3)]},
        },
        ("quota EC2-VPC Elastic IPs",),
        "3 needed, 3 in use, 5 allowed",
        "--service-code ec2 --quota-code L-0263D0A3 --desired-value 6",
    ),
    "gateway-endpoints": Fault(
        "reference",
        {
            "GetServiceQuota": {"Quota": {"Value": 20.0}},
            "DescribeVpcEndpoints": {"VpcEndpoints": [{"VpcEndpointId": "vpce-1"}] * 20},
        },
        ("quota Gateway VPC endpoints per Region",),
        "1 needed, 20 in use",
        "L-1B52E74A",
    ),
    "interface-endpoints": Fault(
        "closed-network",
        {"GetServiceQuota": {"Quota": {"Value": 10.0}}},
        ("quota Interface VPC endpoints per VPC",),
        "14 needed, 0 in use, 10 allowed",
        "L-29B6F2EB",
    ),
    "zone-not-the-account's": Fault(
        "reference",
        {"DescribeAvailabilityZones": zones("usw2-az1", "usw2-az2")},
        ("zones of the VPC",),
        "usw2-az3 can't be used; the account has usw2-az1, usw2-az2",
        "availabilityZoneId",
    ),
    "too-few-zones": Fault(
        "operator",
        {"DescribeAvailabilityZones": zones("usw1-az1", "usw1-az3")},
        ("zones of the VPC", "instance type of gpu", "instance type of system"),
        "takes 3 zones",
        "availabilityZoneId",
    ),
    "type-elsewhere": Fault(
        "reference",
        {
            "DescribeInstanceTypeOfferings": lambda question: offerings(
                *question.parameters["Filters"][0]["Values"],
                within=("usw2-az1",) if "p5" in question.written else ("usw2-az2",),
            )
        },
        ("instance type of gpu",),
        "does not offer ml.p5.48xlarge in usw2-az2",
        "availabilityZoneId: one of usw2-az1",
    ),
    "type-nowhere": Fault(
        "existing-vpc",
        {"DescribeInstanceTypeOfferings": {"InstanceTypeOfferings": []}},
        ("instance type of system", "instance type of gpu"),
        "nowhere in this Region",
        "another instanceType",
    ),
    "plan-none": Fault(
        "everything",
        {"DescribeTrainingPlan": None},
        ("training plan gpus of gpu",),
        "does not exist",
        "trainingPlanArn",
    ),
    "plan-scheduled": Fault(
        "everything",
        {"DescribeTrainingPlan": training_plan(Status="Scheduled", StartTime=NOW + timedelta(days=2))},
        ("training plan gpus of gpu",),
        "Scheduled, begins 2026-12-04 09:00 UTC",
        "deploy while it is Active",
    ),
    "plan-expired": Fault(
        "everything",
        {"DescribeTrainingPlan": training_plan(Status="Expired")},
        ("training plan gpus of gpu",),
        "^Expired$",
        "another trainingPlanArn",
    ),
    "plan-ends": Fault(
        "everything",
        {"DescribeTrainingPlan": training_plan(EndTime=NOW + timedelta(minutes=59))},
        ("training plan gpus of gpu",),
        "ends 2026-12-02 09:59 UTC",
        "another trainingPlanArn",
    ),
    "plan-for-jobs": Fault(
        "everything",
        {"DescribeTrainingPlan": training_plan(TargetResources=["training-job"])},
        ("training plan gpus of gpu",),
        "is for training-job",
        "hyperpod-cluster",
    ),
    "plan-of-another-type": Fault(
        "everything",
        {
            "DescribeTrainingPlan": training_plan(
                ReservedCapacitySummaries=[{"InstanceType": "ml.p4d.24xlarge", "TotalInstanceCount": 8}]
            )
        },
        ("training plan gpus of gpu",),
        "is of ml.p4d.24xlarge",
        "instanceType: ml.p4d.24xlarge",
    ),
    "plan-in-another-zone": Fault(
        "everything",
        {
            "DescribeTrainingPlan": training_plan(
                ReservedCapacitySummaries=[
                    {"InstanceType": "ml.p5.48xlarge", "AvailabilityZoneId": "usw2-az4"}
                ]
            )
        },
        ("training plan gpus of gpu",),
        "lies in usw2-az4, the group in usw2-az2",
        "availabilityZoneId: usw2-az4",
    ),
    "plan-in-use": Fault(
        "everything",
        {"DescribeTrainingPlan": training_plan(AvailableInstanceCount=6)},
        ("training plan gpus of gpu",),
        "6 instances are free, 7 are needed",
        "count: 6",
    ),
    "store-none": Fault(
        "everything",
        {"DescribeReplicationGroups": {"ReplicationGroups": []}},
        (f"store {STORE}",),
        "no ElastiCache store",
        "cache.l2.existing.url",
    ),
    "store-creating": Fault(
        "everything",
        {
            "DescribeReplicationGroups": {
                "ReplicationGroups": [
                    {"Status": "creating", "ConfigurationEndpoint": {"Address": STORE, "Port": 6379}}
                ]
            }
        },
        (f"store {STORE}",),
        "creating",
        "wait",
    ),
    "store-without-tls": Fault(
        "everything",
        {
            "DescribeReplicationGroups": {
                "ReplicationGroups": [
                    {
                        "Status": "available",
                        "NodeGroups": [{"PrimaryEndpoint": {"Address": STORE, "Port": 6379}}],
                    }
                ]
            }
        },
        (f"store {STORE}",),
        "has no TLS",
        f"redis://{STORE}:6379",
    ),
    "bucket-none": Fault(
        "reference",
        {"ListObjectsV2": None},
        ("weights of llama-70b",),
        "the bucket hypertier-models does not exist",
        "name one",
    ),
    "weights-none": Fault(
        "closed-network",
        {"ListObjectsV2": {"KeyCount": 0}},
        ("weights of llama-70b",),
        "nothing lies at s3://hypertier-models/llama-3.1-70b-instruct",
        "put it there",
    ),
    "script-none": Fault(
        "everything",
        {
            "ListObjectsV2": lambda question: {"KeyCount": 0 if "scripts" in question.written else 1},
        },
        ("lifecycle script of gpu",),
        "nothing lies at s3://sagemaker-ours/scripts/on_create.sh",
        "put it there",
    ),
    "file-system-none": Fault(
        "file-system",
        {"DescribeFileSystems": None},
        ("weights of llama-70b",),
        "fs-0123456789abcdef0 does not exist",
        "name a file system",
    ),
    "file-system-failed": Fault(
        "file-system",
        {"DescribeFileSystems": {"FileSystems": [{"Lifecycle": "MISCONFIGURED"}]}},
        ("weights of llama-70b",),
        "fs-0123456789abcdef0: MISCONFIGURED",
        "mend it",
    ),
    "image-none": Fault(
        "everything",
        {"DescribeImages": None},
        ("image of images.engine",),
        "engine:1 does not exist",
        "push it",
    ),
    "secret-none": Fault(
        "everything",
        {"DescribeSecret": None},
        ("secret of cache.l2.existing.secretArn",),
        "does not exist",
        "cache.l2.existing.secretArn",
    ),
    "secret-going": Fault(
        "everything",
        {"DescribeSecret": {"Name": "store", "DeletedDate": NOW}},
        ("secret of cache.l2.existing.secretArn",),
        "about to be deleted",
        "restore-secret",
    ),
    "key-none": Fault(
        "everything",
        {"DescribeKey": None},
        (
            "key of cache.l2.existing.keyArn",
            "key of instanceGroups.system.rootVolumeKmsKeyArn",
            "key of instanceGroups.system.volume.kmsKeyArn",
        ),
        "does not exist",
        "the ARN of one that does",
    ),
    "key-disabled": Fault(
        "everything",
        {"DescribeKey": {"KeyMetadata": {"KeyId": "1", "KeyState": "Disabled"}}},
        (
            "key of cache.l2.existing.keyArn",
            "key of instanceGroups.system.rootVolumeKmsKeyArn",
            "key of instanceGroups.system.volume.kmsKeyArn",
        ),
        "Disabled",
        "enable it",
    ),
}
