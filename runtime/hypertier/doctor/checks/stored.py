"""What is named by its ARN or address and must be there: an L2 store, secrets, keys. No secret is read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from hypertier.doctor.check import Check, Said, Talk, Verdict, fails, ok, question
from hypertier.spec.cache_tiers import ExistingStore
from hypertier.spec.deployment import Deployment
from hypertier.tier.address import L2Address, parse_l2_url

ELASTICACHE = (".cache.amazonaws.com", ".cache.amazonaws.com.cn")


def checks(deployment: Deployment) -> Iterator[Check]:
    """The store, each secret of Secrets Manager, each key of KMS."""
    existing = deployment.cache.l2.existing
    if existing is not None and is_elasticache(existing):
        yield _store(existing)
    for setting, arn in secrets_of(deployment).items():
        yield _secret(setting, arn)
    for setting, arn in keys_of(deployment).items():
        yield _key(setting, arn)


def secrets_of(deployment: Deployment) -> dict[str, str]:
    """Setting -> the ARN of a secret of Secrets Manager."""
    l2 = deployment.cache.l2
    named = {
        "cache.l2.existing.secretArn": l2.existing.secret_arn if l2.existing else None,
        "cache.l2.encryptionSecret": l2.encryption_secret_arn,
    }
    return {setting: arn for setting, arn in named.items() if arn is not None}


def keys_of(deployment: Deployment) -> dict[str, str]:
    """Setting -> the ARN of a key of KMS."""
    existing = deployment.cache.l2.existing
    named = {"cache.l2.existing.keyArn": existing.key_arn if existing else None}
    for group in deployment.instance_groups:
        named[f"instanceGroups.{group.name}.rootVolumeKmsKeyArn"] = group.root_volume_kms_key_arn
        named[f"instanceGroups.{group.name}.volume.kmsKeyArn"] = (
            group.volume.kms_key_arn if group.volume else None
        )
    return {setting: arn for setting, arn in named.items() if arn is not None}


def is_elasticache(existing: ExistingStore) -> bool:
    """Whether AWS knows the store; nobody asks another one."""
    return parse_l2_url(existing.url).host.endswith(ELASTICACHE)


def _store(existing: ExistingStore) -> Check:
    address = parse_l2_url(existing.url)
    groups = question("elasticache", "DescribeReplicationGroups")
    serverless = question("elasticache", "DescribeServerlessCaches")

    def talk() -> Talk:
        for entry in ((yield groups) or {}).get("ReplicationGroups", ()):
            if address.host in hosts_of(entry):
                encrypted = bool(entry.get("TransitEncryptionEnabled"))
                return is_store(address, str(entry["Status"]), encrypted=encrypted)
        for entry in ((yield serverless) or {}).get("ServerlessCaches", ()):
            if (entry.get("Endpoint") or {}).get("Address") == address.host:
                return is_store(address, str(entry["Status"]), encrypted=True)
        return fails(
            "no ElastiCache store of this account and Region has this address",
            "cache.l2.existing.url: one that has",
        )

    return Check(f"store {address.host}", talk, (groups, serverless))


def _secret(setting: str, arn: str) -> Check:
    asked = question("secretsmanager", "DescribeSecret", resource=arn, region=arn.split(":")[3], SecretId=arn)

    def talk() -> Talk:
        return is_kept(setting, (yield asked))

    return Check(f"secret of {setting}", talk, (asked,))


def _key(setting: str, arn: str) -> Check:
    asked = question("kms", "DescribeKey", resource=arn, region=arn.split(":")[3], KeyId=arn)

    def talk() -> Talk:
        return is_usable(setting, (yield asked))

    return Check(f"key of {setting}", talk, (asked,))


def hosts_of(group: Mapping[str, Any]) -> set[str]:
    """The addresses under which clients find a replication group."""
    ends = [group.get("ConfigurationEndpoint")]
    for part in group.get("NodeGroups", ()):
        ends += (part.get("PrimaryEndpoint"), part.get("ReaderEndpoint"))
    return {end["Address"] for end in ends if end}


def is_store(address: L2Address, status: str, *, encrypted: bool) -> Verdict:
    """Whether engines can reach the store as the file says."""
    if status.lower() not in ("available", "modifying", "snapshotting"):
        return fails(status, "wait until it is available")
    if address.tls != encrypted:
        scheme = "rediss" if encrypted else "redis"
        return fails(
            f"it {'asks for' if encrypted else 'has no'} TLS",
            f"cache.l2.existing.url: {scheme}://{address.host}:{address.port}",
        )
    return ok(status)


def is_kept(setting: str, said: Said | None) -> Verdict:
    """Whether a secret is there and will stay."""
    if said is None:
        return fails("does not exist", f"{setting}: the whole ARN of one that does")
    if said.get("DeletedDate") is not None:
        return fails("is about to be deleted", "aws secretsmanager restore-secret")
    return ok(str(said.get("Name", "there")))


def is_usable(setting: str, said: Said | None) -> Verdict:
    """Whether a key encrypts."""
    if said is None:
        return fails("does not exist", f"{setting}: the ARN of one that does")
    state = said["KeyMetadata"]["KeyState"]
    if state == "Enabled":
        return ok(state)
    return fails(state, f"enable it, or {setting}: another")
