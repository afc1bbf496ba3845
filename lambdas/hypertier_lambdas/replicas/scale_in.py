"""Before there are fewer replicas: marks the coldest, so that Kubernetes deletes them and no others.

Nothing here keeps a step from being made: who can't tell the coldest says so, and Kubernetes chooses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from .coldest import Annotations, choose, read_pods
from .errors import HookError
from .settings import Settings

MIN_SECONDS, STEP_SECONDS = 25.0, 10.0
"""With less time left nothing is asked, or nothing more written: the step is what was asked for."""

WarmTokens = Callable[[str, Sequence[str], datetime], Mapping[str, float]]
"""What each address is worth, of an endpoint, at a moment; `warmth.read_warm_tokens` is one."""


class Pods(Protocol):
    """What is needed of a cluster."""

    def list_pods(self, namespace: str, labels: Mapping[str, str]) -> list[dict[str, Any]]: ...

    def annotate_pod(self, namespace: str, name: str, annotations: Annotations) -> None: ...


def mark_coldest(
    cluster: Pods,
    settings: Settings,
    deployment: Mapping[str, Any],
    replicas: int,
    now: datetime,
    remaining_seconds: Callable[[], float],
    warm_tokens: WarmTokens,
) -> dict[str, Any]:
    """Mark those of `deployment` that are to go, for `replicas` to stay; return what the line says of it.

    With `dry_run` nothing is written. `coldest` names those that were marked; `coldest_unknown` says why
    nobody can tell, or what went wrong.
    """
    line: dict[str, Any] = {"coldest": []}
    try:
        if remaining_seconds() < MIN_SECONDS:
            return line | {"coldest_unknown": f"less than {MIN_SECONDS:g} seconds are left"}
        labels = deployment["spec"]["selector"].get("matchLabels", {})
        pods = read_pods(cluster.list_pods(settings.namespace, labels))
        addresses = sorted({pod.ip for pod in pods if pod.is_ready and pod.ip})
        unread = None
        try:
            figures = warm_tokens(settings.endpoint, addresses, now)
        except HookError as error:
            figures, unread = {}, str(error)
        choice = choose(pods, figures, replicas)
        if choice.unknown is not None:
            line["coldest_unknown"] = unread or choice.unknown
        for name, annotations in choice.patches.items() if not settings.dry_run else ():
            if remaining_seconds() < STEP_SECONDS:
                return line | {
                    "coldest_unknown": f"less than {STEP_SECONDS:g} seconds were left to mark {name}"
                }
            cluster.annotate_pod(settings.namespace, name, annotations)
        line["coldest"] = list(choice.going)
    except HookError as error:
        line["coldest_unknown"] = f"{type(error).__name__}: {error}"
    return line
