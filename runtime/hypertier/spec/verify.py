"""`hypertier verify` in the cluster, now and then: the `verify` section of the deployment file."""

from __future__ import annotations

from dataclasses import dataclass

from hypertier.errors import ConfigError
from hypertier.spec.access import SECRET_NAME, Access

# What cron can say evenly: a minute's step begins anew with each hour.
EVERY_MINUTES = (1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30, 60)
MAX_NAME = 45
"""Of an endpoint: a CronJob has 52 characters at most, and NAME-verify is one.

https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ (read 2026-12-02)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verify:
    """Each endpoint is verified from inside the cluster, and the outcome published to CloudWatch.

    `api_key_secret_name` is a Secret of the endpoint's namespace with a key of the routers' in `key`.
    """

    every_minutes: int = 5
    prompt_tokens: int = 512
    api_key_secret_name: str | None = None

    def __post_init__(self) -> None:
        if self.every_minutes not in EVERY_MINUTES:
            raise ConfigError(
                "verify.everyMinutes",
                self.every_minutes,
                f"a whole part of an hour: {', '.join(map(str, EVERY_MINUTES))}",
            )
        if not 64 <= self.prompt_tokens <= 200_000:
            raise ConfigError("verify.promptTokens", self.prompt_tokens, "64 to 200000")
        name = self.api_key_secret_name
        if name is not None and not SECRET_NAME.fullmatch(name):
            raise ConfigError(
                "verify.apiKeySecretName", name, "the name of a Secret in the endpoint's namespace"
            )


def check_verify(verify: Verify, serving: str, access: Access | None) -> None:
    """Refuse what would fail each time, or be without effect. Raises ConfigError."""
    if serving == "operator":
        raise ConfigError(
            "verify", "a section", "none with serving: operator, where no exporter and no alarms are, either"
        )
    asks = access is not None and (access.secret_name is not None or access.jwt is not None)
    if asks and verify.api_key_secret_name is None:
        raise ConfigError(
            "verify.apiKeySecretName",
            None,
            "a Secret whose key holds an API key of a tenant, since access has routers ask for one",
        )
    if not asks and verify.api_key_secret_name is not None:
        raise ConfigError(
            "verify.apiKeySecretName",
            verify.api_key_secret_name,
            "no such key without access.secretName or access.jwt: routers ask for no key",
        )


def check_verified(setting: str, name: str, *, is_exported: bool) -> None:
    """Refuse an endpoint that can't be verified so; `setting` says whose. Raises ConfigError."""
    if not is_exported:
        raise ConfigError(
            f"{setting}spec.metrics.enabled",
            False,
            "true, or no section verify: what it finds is published to CloudWatch",
        )
    if len(name) > MAX_NAME:
        raise ConfigError(
            f"{setting}metadata.name",
            name,
            f"at most {MAX_NAME} characters with verify, whose CronJob is called NAME-verify",
        )
