"""What a text or number must look like to be one of AWS's or Kubernetes', as annotations of arguments.

`arguments.checked` holds arguments to them; a text with a token of the CDK's is known at deployment alone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any

from hypertier.catalog.zones import ZONE_NAME
from hypertier.spec.cache_tiers import SECRET_ARN
from hypertier.spec.cluster import AWS_ID, EKS_NAME
from hypertier.spec.instance_group import GROUP_NAME, GROUP_NAME_FORM, KMS_KEY

MAX_INT32 = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Text:
    """A text of this pattern, as a whole."""

    pattern: str
    expected: str

    def admits(self, value: Any) -> bool:
        """Whether it is one, as far as is known."""
        return "${Token[" in value or bool(re.fullmatch(self.pattern, value))


@dataclass(frozen=True, slots=True)
class Number:
    """A number from `least` to `most`, both among them."""

    least: int
    most: int
    expected: str

    def admits(self, value: Any) -> bool:
        """Whether it is one."""
        return bool(self.least <= value <= self.most)


_LABEL = "[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
VpcId = Annotated[str, Text(f"vpc{AWS_ID}", "the id of a VPC, vpc-…")]
SubnetId = Annotated[str, Text(f"subnet{AWS_ID}", "the id of a subnet, subnet-…")]
SecurityGroupId = Annotated[str, Text(f"sg{AWS_ID}", "the id of a security group, sg-…")]
ZoneName = Annotated[str, Text(ZONE_NAME.pattern, "the name of a zone, such as us-west-2a")]
EksName = Annotated[str, Text(EKS_NAME.pattern, "the name of an EKS cluster")]
HyperPodName = Annotated[str, Text(GROUP_NAME.pattern, f"a cluster's name: {GROUP_NAME_FORM}")]
KubernetesVersion = Annotated[str, Text("[0-9]{1,3}[.][0-9]{1,3}", "a version, such as 1.35")]
# https://docs.aws.amazon.com/eks/latest/APIReference/API_Addon.html (read 2026-12-02)
AddonName = Annotated[
    str, Text("[A-Za-z0-9][A-Za-z0-9_-]{0,127}", "the name of an EKS add-on, such as vpc-cni")
]
AddonVersion = Annotated[
    str,
    Text(r"v[0-9]+\.[0-9]+\.[0-9]+[A-Za-z0-9.+-]{0,64}", "an add-on's version, such as v1.18.3-eksbuild.1"),
]
SecretArn = Annotated[
    str,
    Text(SECRET_ARN.pattern, "the whole ARN, arn:aws:secretsmanager:REGION:ACCOUNT:secret:NAME-SUFFIX"),
]
KeyArn = Annotated[str, Text(KMS_KEY.pattern, "the ARN of a KMS key: arn:aws:kms:REGION:ACCOUNT:key/ID")]
# https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html (read 2026-12-02)
BucketName = Annotated[str, Text("[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]", "the name of an S3 bucket")]
# https://kubernetes.io/docs/concepts/overview/working-with-objects/names/ (read 2026-12-02)
Namespace = Annotated[str, Text(_LABEL, "a name of Kubernetes': 1 to 63 of a-z, 0-9 and '-'")]
ObjectName = Annotated[
    str, Text(rf"(?=.{{1,253}}\Z){_LABEL}(\.{_LABEL})*", "a name of Kubernetes': of a-z, 0-9, '-' and '.'")
]
Replicas = Annotated[int, Number(0, MAX_INT32, f"0 to {MAX_INT32} replicas")]
# https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_PutMetricAlarm.html (read 2026-12-02):
# an alarm of a metric by the minute looks at a day at most.
AlarmMinutes = Annotated[
    int, Number(1, 1440, "1 to 1440 minutes, of which an alarm looks at a day's at most")
]
