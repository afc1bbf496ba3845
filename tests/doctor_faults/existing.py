"""Faults of what exists already, and of what EKS and a closed network need."""

from __future__ import annotations

from dataclasses import replace

from doctor_faults.fault import GPU, SYSTEM, Fault, adopted
from fakes_account import EKS_ARN, eks_cluster, hyperpod_cluster, subnets, vpcs

FAULTS = {
    "vpc-none": Fault(
        "existing-vpc",
        {"DescribeVpcs": {"Vpcs": []}},
        ("VPC vpc-0123456789abcdef0",),
        "does not exist",
        "cluster.attributes.vpcId",
    ),
    "vpc-pending": Fault(
        "existing-vpc",
        {"DescribeVpcs": vpcs("10.0.0.0/16", state="pending")},
        ("VPC vpc-0123456789abcdef0",),
        "is pending",
        "wait",
    ),
    "vpc-other-range": Fault(
        "existing-vpc",
        {"DescribeVpcs": vpcs("10.1.0.0/16")},
        ("VPC vpc-0123456789abcdef0",),
        "does not have 10.0.0.0/16",
        r"vpcCidrs: \[10.1.0.0/16\]",
    ),
    "vpc-further-range": Fault(
        "existing-vpc",
        {"DescribeVpcs": vpcs("10.0.0.0/16", "100.64.0.0/16")},
        ("VPC vpc-0123456789abcdef0",),
        "has 100.64.0.0/16 too",
        "100.64.0.0/16",
    ),
    "names-off": Fault(
        "existing-vpc",
        {
            "DescribeVpcAttribute": {
                "EnableDnsSupport": {"Value": True},
                "EnableDnsHostnames": {"Value": False},
            }
        },
        ("enableDnsHostnames of the VPC",),
        "off",
        "modify-vpc-attribute --vpc-id vpc-0123456789abcdef0 --enable-dns-hostnames",
    ),
    "resolution-off": Fault(
        "existing-vpc",
        {
            "DescribeVpcAttribute": {
                "EnableDnsSupport": {"Value": False},
                "EnableDnsHostnames": {"Value": True},
            }
        },
        ("enableDnsSupport of the VPC",),
        "off",
        "--enable-dns-support",
    ),
    "subnet-none": Fault(
        "existing-vpc",
        {"DescribeSubnets": {"Subnets": subnets()["Subnets"][1:]}},
        ("subnets",),
        "subnet-0123456789abcdef0 does not exist",
        "privateSubnetIds",
    ),
    "subnet-in-another-zone": Fault(
        "existing-eks",
        {"DescribeSubnets": subnets(AvailabilityZone="us-west-2c")},
        ("subnets",),
        "subnet-0123456789abcdef1 has AvailabilityZone us-west-2c, the file says us-west-2b",
        "availabilityZones",
    ),
    "subnet-in-another-vpc": Fault(
        "existing-eks",
        {"DescribeSubnets": subnets(VpcId="vpc-9")},
        ("subnets",),
        "VpcId vpc-9",
        "vpcId",
    ),
    "subnet-of-another-range": Fault(
        "existing-eks",
        {"DescribeSubnets": subnets(CidrBlock="10.9.0.0/18")},
        ("subnets",),
        "CidrBlock 10.9.0.0/18",
        "privateSubnetCidrs",
    ),
    "addresses-in-the-zone": Fault(
        "existing-eks",
        {"DescribeSubnets": subnets(AvailableIpAddressCount=573)},
        ("free addresses of the subnets",),
        "nodes need 574 in usw2-az2; 573 are free",
        "subnets with more room",
    ),
    "addresses-altogether": Fault(
        "existing-eks",
        {"DescribeSubnets": subnets(free=100, AvailableIpAddressCount=600)},
        ("free addresses of the subnets",),
        "nodes need 727; 700 are free",
        "fewer nodes",
    ),
    "addresses-of-eks": Fault(
        "existing-vpc",
        {"DescribeSubnets": subnets(free=5, AvailableIpAddressCount=9000)},
        ("free addresses of the subnets",),
        "5 free in usw2-az1; EKS needs 6",
        "subnets with more room",
    ),
    "service-without-endpoint": Fault(
        "closed-network",
        {"DescribeVpcEndpointServices": {"ServiceDetails": []}},
        ("services that a closed network reaches",),
        "no endpoint for com.amazonaws.us-west-2.aps-workspaces, ",
        "closedNetwork: false",
    ),
    "endpoint-not-in-the-zone": Fault(
        "closed-network",
        {
            "DescribeVpcEndpointServices": lambda question: {
                "ServiceDetails": [
                    {"ServiceName": name, "AvailabilityZoneIds": ["usw2-az1", "usw2-az3"]}
                    for name in question.parameters["Filters"][0]["Values"]
                ]
            }
        },
        ("services that a closed network reaches",),
        "in usw2-az2",
        "zone",
    ),
    "kubernetes-unknown": Fault(
        "small",
        {"eks:DescribeClusterVersions": {"clusterVersions": []}},
        ("Kubernetes 1.35",),
        "no such version",
        "cluster.kubernetesVersion",
    ),
    "kubernetes-unsupported": Fault(
        "small",
        {
            "eks:DescribeClusterVersions": {
                "clusterVersions": [{"clusterVersion": "1.35", "versionStatus": "UNSUPPORTED"}]
            }
        },
        ("Kubernetes 1.35",),
        "no longer",
        "cluster.kubernetesVersion",
    ),
    "addon-not-offered": Fault(
        "reference",
        {
            "eks:DescribeAddonVersions": lambda question: {
                "addons": []
                if "observability" in question.written
                else [{"addonVersions": [{"addonVersion": "v1.0.0-eksbuild.1"}]}]
            }
        },
        ("add-on amazon-sagemaker-hyperpod-observability",),
        "does not have it for Kubernetes 1.35",
        "cluster.kubernetesVersion",
    ),
    "addon-not-in-that-version": Fault(
        "operator",
        {
            "eks:DescribeAddonVersions": {
                "addons": [{"addonVersions": [{"addonVersion": "v1.0.0-eksbuild.1"}]}]
            }
        },
        ("add-on amazon-sagemaker-hyperpod-inference",),
        "has v1.0.0-eksbuild.1 of it for Kubernetes 1.35, and not v2.1.0-eksbuild.1",
        "operator.version",
    ),
    "eks-none": Fault(
        "existing-eks",
        {"eks:DescribeCluster": None},
        tuple(
            f"EKS cluster ml-platform: {what}"
            for what in ("access entries", "network", "OIDC provider", "state", "version")
        ),
        "does not exist",
        "name one that does",
    ),
    "eks-creating": Fault(
        "existing-eks",
        {"eks:DescribeCluster": eks_cluster(version="1.35", status="CREATING")},
        ("EKS cluster ml-platform: state",),
        "CREATING",
        "wait",
    ),
    "eks-version": Fault(
        "existing-eks",
        {"eks:DescribeCluster": eks_cluster(version="1.33")},
        ("EKS cluster ml-platform: version",),
        "1.33, the file says 1.35",
        'cluster.kubernetesVersion: "1.33"',
    ),
    "eks-vpc": Fault(
        "existing-eks",
        {
            "eks:DescribeCluster": eks_cluster(
                version="1.35",
                resourcesVpcConfig={"vpcId": "vpc-9", "clusterSecurityGroupId": "sg-0123456789abcdef0"},
            )
        },
        ("EKS cluster ml-platform: network",),
        "vpcId vpc-9, the file says vpc-0123456789abcdef0",
        "cluster.attributes.vpcId: vpc-9",
    ),
    "eks-group": Fault(
        "existing-eks",
        {
            "eks:DescribeCluster": eks_cluster(
                version="1.35",
                resourcesVpcConfig={"vpcId": "vpc-0123456789abcdef0", "clusterSecurityGroupId": "sg-9"},
            )
        },
        ("EKS cluster ml-platform: network",),
        "eksSecurityGroupId sg-9",
        "cluster.attributes.eksSecurityGroupId: sg-9",
    ),
    "eks-config-map": Fault(
        "existing-eks",
        {
            "eks:DescribeCluster": eks_cluster(
                version="1.35", accessConfig={"authenticationMode": "CONFIG_MAP"}
            )
        },
        ("EKS cluster ml-platform: access entries",),
        "knows no access entries",
        "update-cluster-config --name ml-platform --access-config authenticationMode=API_AND_CONFIG_MAP",
    ),
    "eks-issuer": Fault(
        "existing-eks",
        {
            "eks:DescribeCluster": eks_cluster(
                version="1.35", identity={"oidc": {"issuer": "https://oidc.example/id/2"}}
            )
        },
        ("EKS cluster ml-platform: OIDC provider",),
        "issuer is oidc.example/id/2",
        "oidcProviderArn: the provider of oidc.example/id/2",
    ),
    "eks-taken": Fault(
        "existing-eks",
        {
            "ListClusters": {"ClusterSummaries": [{"ClusterName": "other"}]},
            "sagemaker:DescribeCluster": lambda question: (
                hyperpod_cluster("other", "ml-platform") if "other" in question.written else None
            ),
        },
        ("EKS cluster ml-platform: free for HyperPod",),
        "the HyperPod cluster other runs on it",
        "cluster.existing: other",
    ),
    "name-taken": Fault(
        "small",
        {"sagemaker:DescribeCluster": hyperpod_cluster("small", "others")},
        ("name small of the HyperPod cluster",),
        "another HyperPod cluster has it",
        "cluster.existing: small",
    ),
    "hyperpod-none": Fault(
        "adopt-existing",
        {"sagemaker:DescribeCluster": None},
        tuple(
            f"HyperPod cluster ml-platform: {what}"
            for what in ("group gpu", "group system", "identity", "state")
        ),
        "does not exist",
        "cluster.existing",
    ),
    "hyperpod-failed": Fault(
        "adopt-existing",
        adopted(ClusterStatus="Failed", FailureMessage="no capacity"),
        ("HyperPod cluster ml-platform: state",),
        "Failed: no capacity",
        "mend it",
    ),
    "hyperpod-arn": Fault(
        "adopt-existing",
        adopted(ClusterArn="arn:aws:sagemaker:us-west-2:123456789012:cluster/zzzzzzzzzzzz"),
        ("HyperPod cluster ml-platform: identity",),
        "its ARN is .*/zzzzzzzzzzzz",
        "cluster.attributes.arn: .*/zzzzzzzzzzzz",
    ),
    "hyperpod-eks": Fault(
        "adopt-existing",
        adopted(Orchestrator={"Eks": {"ClusterArn": f"{EKS_ARN}/another"}}),
        ("HyperPod cluster ml-platform: identity",),
        "runs on another, the file says ml-platform",
        "cluster.attributes.eksClusterName: another",
    ),
    "hyperpod-slurm": Fault(
        "adopt-existing",
        adopted(Orchestrator={"Slurm": {}}),
        ("HyperPod cluster ml-platform: identity",),
        "no EKS cluster",
        "a HyperPod cluster on EKS",
    ),
    "hyperpod-security-group": Fault(
        "adopt-existing",
        adopted(VpcConfig={"SecurityGroupIds": ["sg-9"], "Subnets": []}),
        ("HyperPod cluster ml-platform: identity",),
        "its nodes have sg-9",
        "nodeSecurityGroupId: sg-9",
    ),
    "hyperpod-few-nodes": Fault(
        "adopt-existing",
        {
            "sagemaker:DescribeCluster": hyperpod_cluster(
                "ml-platform",
                "ml-platform",
                SYSTEM,
                replace(GPU, count=1),
            )
        },
        ("HyperPod cluster ml-platform: group gpu",),
        "1 nodes are there, the file says 2",
        "count: 1",
    ),
    "hyperpod-other-type": Fault(
        "adopt-existing",
        {
            "sagemaker:DescribeCluster": hyperpod_cluster(
                "ml-platform",
                "ml-platform",
                SYSTEM,
                replace(GPU, instance_type="ml.p4d.24xlarge"),
            )
        },
        ("HyperPod cluster ml-platform: group gpu",),
        "it is of ml.p4d.24xlarge",
        "instanceType: ml.p4d.24xlarge",
    ),
    "hyperpod-no-group": Fault(
        "adopt-existing",
        {"sagemaker:DescribeCluster": hyperpod_cluster("ml-platform", "ml-platform", SYSTEM)},
        ("HyperPod cluster ml-platform: group gpu",),
        "none of that name; it has system",
        "instanceGroups",
    ),
}
