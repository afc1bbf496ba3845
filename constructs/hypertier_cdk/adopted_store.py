"""A Valkey store that exists already, as an endpoint's L2: its password is read, nothing of it is changed."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct

from hypertier.tier.address import parse_l2_url
from hypertier_cdk.roles import let_read_secret


class AdoptedCacheStore(Construct):
    """What `CacheStore.from_cache_store_attributes` gives; it takes the place of a `CacheStore`."""

    backend = "redis"
    is_in_vpc = False  # as far as is known

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        url: str,
        secret_arn: str,
        key_arn: str | None = None,
    ) -> None:
        super().__init__(scope, construct_id)
        if not cdk.Token.is_unresolved(url):
            parse_l2_url(url, "url")
        self.url = url
        self.secret: secretsmanager.ISecret = secretsmanager.Secret.from_secret_complete_arn(
            self, "Secret", secret_arn
        )
        self.key = kms.Key.from_key_arn(self, "Key", key_arn) if key_arn else None

    def let_in(self, nodes: ec2.ISecurityGroup, description: str) -> None:
        """Nothing to do: the store's owner lets nodes in."""

    def grant_read_secret(self, role: iam.IGrantable) -> iam.Grant:
        """Let pods with this role read the user's name and password."""
        return let_read_secret(role, self.secret, self.key)
