"""Resource types whose making has no effect that a test could see: what `Ref` and `Fn::GetAtt` give. A table.

https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/ (return values)
"""

from __future__ import annotations

import hashlib
import string
from collections.abc import Mapping
from dataclasses import dataclass, field

from hypertier_cdk.testing.providers import Made, Resource


@dataclass(frozen=True, slots=True)
class Shape:
    """`ref` and `attributes` are patterns.

    Fields of a pattern: {name} is the property `name_property` or a made-up name, {id} some 17 hexadecimal
    digits, {account}, {region}, and any of the resource's properties as {Property}.
    """

    ref: str = "{name}"
    attributes: Mapping[str, str] = field(default_factory=dict)
    name_property: str = ""


_EKS = "arn:aws:eks:{region}:{account}"
SHAPES: dict[str, Shape] = {
    "AWS::APS::Workspace": Shape(
        "arn:aws:aps:{region}:{account}:workspace/ws-{id}",
        {
            "Arn": "arn:aws:aps:{region}:{account}:workspace/ws-{id}",
            "PrometheusEndpoint": "https://aps-workspaces.{region}.amazonaws.com/workspaces/ws-{id}/",
        },
    ),
    "AWS::CloudWatch::Alarm": Shape(
        attributes={"Arn": "arn:aws:cloudwatch:{region}:{account}:alarm:{name}"}, name_property="AlarmName"
    ),
    "AWS::CloudWatch::Dashboard": Shape(name_property="DashboardName"),
    "AWS::EC2::EIP": Shape("192.0.2.1", {"AllocationId": "eipalloc-{id}"}),
    "AWS::EC2::FlowLog": Shape("fl-{id}"),
    "AWS::EC2::InternetGateway": Shape("igw-{id}"),
    "AWS::EC2::NatGateway": Shape("nat-{id}"),
    "AWS::EC2::Route": Shape("r-{id}"),
    "AWS::EC2::RouteTable": Shape("rtb-{id}"),
    "AWS::EC2::SecurityGroup": Shape("sg-{id}", {"GroupId": "sg-{id}", "VpcId": "{VpcId}"}),
    "AWS::EC2::SecurityGroupEgress": Shape("sgr-{id}"),
    "AWS::EC2::SecurityGroupIngress": Shape("sgr-{id}"),
    "AWS::EC2::Subnet": Shape("subnet-{id}", {"SubnetId": "subnet-{id}"}),
    "AWS::EC2::SubnetRouteTableAssociation": Shape("rtbassoc-{id}"),
    "AWS::EC2::VPC": Shape("vpc-{id}", {"VpcId": "vpc-{id}", "CidrBlock": "{CidrBlock}"}),
    "AWS::EC2::VPCEndpoint": Shape("vpce-{id}"),
    "AWS::EC2::VPCGatewayAttachment": Shape("attachment-{id}"),
    "AWS::ECR::Repository": Shape(
        attributes={"Arn": "arn:aws:ecr:{region}:{account}:repository/{name}"}, name_property="RepositoryName"
    ),
    "AWS::EKS::AccessEntry": Shape("{PrincipalArn}|{ClusterName}"),
    "AWS::EKS::Addon": Shape("{ClusterName}|{AddonName}"),
    "AWS::EKS::Cluster": Shape(
        attributes={
            "Arn": f"{_EKS}:cluster/{{name}}",
            "CertificateAuthorityData": "",
            "ClusterSecurityGroupId": "sg-{id}",
            "Endpoint": "https://{id}.eks.{region}.amazonaws.com",
            "OpenIdConnectIssuerUrl": "https://oidc.eks.{region}.amazonaws.com/id/{id}",
        },
        name_property="Name",
    ),
    "AWS::EKS::PodIdentityAssociation": Shape(f"{_EKS}:podidentityassociation/{{ClusterName}}/a-{{id}}"),
    "AWS::ElastiCache::ParameterGroup": Shape(),
    "AWS::ElastiCache::ReplicationGroup": Shape(
        attributes={
            "ConfigurationEndPoint.Address": "clustercfg.{name}.cache.amazonaws.com",
            "ConfigurationEndPoint.Port": "{Port}",
        },
        name_property="ReplicationGroupId",
    ),
    "AWS::ElastiCache::SubnetGroup": Shape(),
    "AWS::ElastiCache::User": Shape(name_property="UserId"),
    "AWS::ElastiCache::UserGroup": Shape(name_property="UserGroupId"),
    "AWS::Events::Rule": Shape(
        attributes={"Arn": "arn:aws:events:{region}:{account}:rule/{name}"}, name_property="Name"
    ),
    "AWS::IAM::OIDCProvider": Shape("arn:aws:iam::{account}:oidc-provider/{id}"),
    "AWS::IAM::ManagedPolicy": Shape(
        "arn:aws:iam::{account}:policy/{name}", name_property="ManagedPolicyName"
    ),
    "AWS::IAM::Policy": Shape(name_property="PolicyName"),
    "AWS::IAM::Role": Shape(
        attributes={"Arn": "arn:aws:iam::{account}:role/{name}", "RoleId": "AROA{id}"},
        name_property="RoleName",
    ),
    "AWS::KMS::Alias": Shape(name_property="AliasName"),
    "AWS::KMS::Key": Shape("{id}", {"Arn": "arn:aws:kms:{region}:{account}:key/{id}"}),
    "AWS::Lambda::EventInvokeConfig": Shape(),
    "AWS::Lambda::LayerVersion": Shape("arn:aws:lambda:{region}:{account}:layer:{name}:1"),
    "AWS::Lambda::Permission": Shape(),
    "AWS::Logs::LogGroup": Shape(
        attributes={"Arn": "arn:aws:logs:{region}:{account}:log-group:{name}:*"}, name_property="LogGroupName"
    ),
    "AWS::Logs::MetricFilter": Shape(name_property="FilterName"),
    "AWS::S3::Bucket": Shape(
        attributes={
            "Arn": "arn:aws:s3:::{name}",
            "DomainName": "{name}.s3.amazonaws.com",
            "RegionalDomainName": "{name}.s3.{region}.amazonaws.com",
        },
        name_property="BucketName",
    ),
    "AWS::S3::BucketPolicy": Shape(),
    "AWS::SNS::Subscription": Shape("{TopicArn}:{id}"),
    "AWS::SNS::Topic": Shape(
        "arn:aws:sns:{region}:{account}:{name}",
        {"TopicArn": "arn:aws:sns:{region}:{account}:{name}", "TopicName": "{name}"},
        name_property="TopicName",
    ),
    "AWS::SNS::TopicPolicy": Shape(),
    "AWS::SQS::Queue": Shape(
        "https://sqs.{region}.amazonaws.com/{account}/{name}",
        {"Arn": "arn:aws:sqs:{region}:{account}:{name}", "QueueName": "{name}"},
        name_property="QueueName",
    ),
    "AWS::SQS::QueuePolicy": Shape(),
    "AWS::SSM::Parameter": Shape(attributes={"Value": "{Value}", "Type": "{Type}"}, name_property="Name"),
    "AWS::SageMaker::Cluster": Shape(
        "arn:aws:sagemaker:{region}:{account}:cluster/{short_id}",
        {
            "ClusterArn": "arn:aws:sagemaker:{region}:{account}:cluster/{short_id}",
            "ClusterStatus": "InService",
        },
    ),
    "AWS::Scheduler::Schedule": Shape(
        attributes={"Arn": "arn:aws:scheduler:{region}:{account}:schedule/{GroupName}/{name}"},
        name_property="Name",
    ),
    "AWS::Scheduler::ScheduleGroup": Shape(
        attributes={
            "Arn": "arn:aws:scheduler:{region}:{account}:schedule-group/{name}",
            "State": "ACTIVE",
        },
        name_property="Name",
    ),
    "AWS::StepFunctions::StateMachine": Shape(
        "arn:aws:states:{region}:{account}:stateMachine:{name}",
        {"Arn": "arn:aws:states:{region}:{account}:stateMachine:{name}", "Name": "{name}"},
        name_property="StateMachineName",
    ),
}


_PARSE = string.Formatter().parse


class ShapeProvider:
    """Makes resources that are nothing but their names, by a `Shape`."""

    def __init__(self, shape: Shape) -> None:
        self._shape = shape

    def create(self, resource: Resource) -> Made:
        """Name the resource: the same each time for the same place in the same stack."""
        digest = hashlib.sha256(f"{resource.stack}/{resource.logical_id}".encode()).hexdigest()
        fields = {
            **{key: value for key, value in resource.properties.items() if isinstance(value, str | int)},
            "name": resource.properties.get(self._shape.name_property) or resource.name,
            "id": digest[:17],
            "short_id": digest[:12],
            "account": resource.account,
            "region": resource.region,
        }
        return Made(
            self._shape.ref.format_map(fields),
            {
                attribute: pattern.format_map(fields)
                for attribute, pattern in self._shape.attributes.items()
                if fields.keys() >= {field for _, field, _, _ in _PARSE(pattern) if field}
            },
        )

    def update(self, resource: Resource, made: Made) -> Made:
        """Name it again: a name that was changed is the new one."""
        return self.create(resource)

    def delete(self, resource: Resource, made: Made) -> None:
        """Nothing is there to delete."""
