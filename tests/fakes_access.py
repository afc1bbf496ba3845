"""Tenants acme and zeta, their keys, and the files that a router reads of them."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

from hypertier.router.access import keys, salt

ACME, ZETA = "sk-ht-acme-acme-acme-acme", "sk-ht-zeta-zeta-zeta-zeta"
SALT_KEY = bytes(range(32))
CHAT = b"/v1/chat/completions"


def bearer(key: str) -> bytes:
    """The header of a key, as OpenAI's clients send it."""
    return b"Authorization: Bearer " + key.encode()


def salt_of(tenant: str) -> str:
    """What the tenant's bodies carry."""
    return salt.derive(SALT_KEY, tenant).decode()


class AccessFolder:
    """The files of `--api-keys`, `--salt-key` and, where there is a policy, `--access`."""

    def __init__(self, path: Path, policy: str | None = None) -> None:
        self.keys = path / "keys"
        self.salt_key = path / "salt-key"
        self.policy = path / "access.yaml"
        self.write_keys(keys.line(ACME, "acme", None), keys.line(ZETA, "zeta", None))
        self.salt_key.write_bytes(base64.b64encode(SALT_KEY) + b"\n")
        if policy is not None:
            self.policy.write_text(policy)

    def write_keys(self, *lines: str) -> None:
        """Put these in the place of the keys, as Kubernetes does: a new file, moved there."""
        made = self.keys.with_suffix(".new")
        made.write_text("\n".join(lines))
        made.replace(self.keys)

    @property
    def settings(self) -> dict[str, Any]:
        """As `RouterSettings` takes them."""
        found: dict[str, Any] = {
            "api_keys": str(self.keys),
            "salt_key": str(self.salt_key),
            "metrics_port": 0,
        }
        return found | ({"access": str(self.policy)} if self.policy.exists() else {})
