"""A service of the operator's that looks at each request before an engine does, and may refuse it.

The request's body goes there as it is; what comes back is a JSON object, whose `action` and `blocked_reason`
are those of LiteLLM's generic guardrail API
(https://docs.litellm.ai/docs/adding_provider/generic_guardrail_api, read 2026-12-02).
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from hypertier.errors import HttpError
from hypertier.router.admission import Admission, Arrival, Grant
from hypertier.router.api.openai import Refusal
from hypertier.router.http.engine_http import ask
from hypertier.router.http.heads import Request
from hypertier.router.settings import Guardrail
from hypertier.router.telemetry.families import counter

log = logging.getLogger("hypertier.router")

MAX_ANSWER_BYTES = 64 * 1024
QUIET_SECONDS = 60.0
"""Without a further failure, after which the service is said to answer again."""
MAX_REASON = 500
MAX_AT_ONCE = 256
_FAILED = Refusal(503, "the guardrail did not answer", "guardrail_unavailable", retry_after_seconds=1)

_UNSEEN = Refusal(403, "a guardrail is set, and what a WebSocket says is not shown to it", "not_shown")


class Guard:
    """An `Admission` that asks the service about what `inner` has let in; without one, about everything.

    Where the service fails (no answer in time, another status than 200, no such object, more than
    `MAX_AT_ONCE` questions open) the request passes or is refused, as the settings say, and is counted. The
    log says so once, and once when it is over. `now` is a clock in seconds.
    """

    def __init__(
        self, settings: Guardrail, inner: Admission | None = None, *, now: Callable[[], float]
    ) -> None:
        self.counts: Counter[str] = Counter()
        self.check_head: Callable[[Request], Refusal | None] | None = getattr(inner, "check_head", None)
        self.salt_as: Callable[[Request, str], tuple[bytes, Refusal | None]] | None = getattr(
            inner, "salt_as", None
        )
        self._settings = settings
        self._inner = inner
        self._now = now
        self._checks: set[asyncio.Task[None]] = set()
        self._failed_at: float | None = None

    def admit(self, arrival: Arrival) -> None:
        """See `admission.Admission`."""
        check = _Check(self, arrival)
        if self._inner is None:
            check.proceed(arrival, None)
            return
        before = Arrival(check, arrival.client, arrival.request, arrival.request_id)
        arrival.on_gone = before.cancel
        arrival.on_late = before.leave_late
        self._inner.admit(before)

    def look_at(self, check: _Check) -> asyncio.Task[None] | None:
        """Ask the service; None where it is asked too much already."""
        if len(self._checks) >= MAX_AT_ONCE:
            return None
        task = asyncio.get_running_loop().create_task(self._ask(check))
        self._checks.add(task)
        task.add_done_callback(self._checks.discard)
        return task

    def failed(self, check: _Check, cause: str) -> None:
        """The service told nothing."""
        self.counts["failed"] += 1
        if self._failed_at is None:
            fate = "pass without it" if self._settings.fails_open else "are refused"
            log.error(
                "the guardrail %s tells nothing, so requests %s: %s", self._settings.address, fate, cause
            )
        self._failed_at = self._now()
        check.end(None if self._settings.fails_open else _FAILED)

    async def _ask(self, check: _Check) -> None:
        address, request = self._settings.address, check.arrival.request
        head = (
            b"POST %b HTTP/1.1\r\nhost: %b\r\ncontent-type: application/json\r\nconnection: close\r\n"
            b"content-length: %d\r\nx-request-id: %b\r\n"
            b"x-hypertier-path: %b\r\nx-hypertier-tenant: %b\r\n\r\n"
        ) % (
            self._settings.path.encode(),
            str(address).encode(),
            len(request.body),
            check.arrival.request_id,
            request.path,
            quote(check.tenant, safe="").encode(),
        )
        begun_at = self._now()
        try:
            status, body = await ask(
                address,
                head + request.body,
                timeout_seconds=self._settings.timeout_seconds,
                max_bytes=MAX_ANSWER_BYTES,
            )
            blocked = read_answer(status, body)
        except (HttpError, ValueError) as error:
            check.waited(self._now() - begun_at)
            self.failed(check, str(error))
            return
        check.waited(self._now() - begun_at)
        if self._failed_at is not None and self._now() - self._failed_at >= QUIET_SECONDS:
            self._failed_at = None
            log.info("the guardrail %s answers again", address)
        self.counts["blocked" if blocked is not None else "passed"] += 1
        check.end(blocked)


def read_answer(status: int, body: bytes) -> Refusal | None:
    """The refusal that the service asks for; None where the request passes. Raises ValueError."""
    if status != 200:
        raise ValueError(f"answered {status}")
    try:
        told: Any = json.loads(body)
    except (RecursionError, ValueError):
        raise ValueError("answered no JSON") from None
    action = told.get("action") if isinstance(told, dict) else None
    if action == "NONE":
        return None
    if action != "BLOCKED":
        raise ValueError("answered no object with the action NONE or BLOCKED")
    reason = told.get("blocked_reason")
    message = reason[:MAX_REASON] if isinstance(reason, str) and reason else "refused by the guardrail"
    return Refusal(400, message, "content_policy_violation")


class _Check:
    """One request on its way: past who may ask, then past the service."""

    def __init__(self, guard: Guard, arrival: Arrival) -> None:
        self.arrival = arrival
        self._guard = guard
        self._grant: Grant | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def tenant(self) -> str:
        """Whose request it is, as metrics name it; empty without keys."""
        return self._grant.tenant if self._grant is not None else ""

    # What comes before is done, see `admission.Gate`.

    def proceed(self, arrival: Arrival, grant: Grant | None) -> None:
        self._grant = grant
        self.arrival.on_gone, self.arrival.on_late = self._gone, None
        if self.arrival.request.upgrades:
            self.end(_UNSEEN)
            return
        if not self.arrival.request.body:
            self.arrival.proceed(grant)
            return
        self._task = self._guard.look_at(self)
        if self._task is None:
            self._guard.failed(self, f"{MAX_AT_ONCE} requests wait for it already")

    def refuse(self, arrival: Arrival, refusal: Refusal) -> None:
        self.arrival.on_gone = self.arrival.on_late = None
        self.arrival.refuse(refusal)

    def waited(self, seconds: float) -> None:
        """So much is gone of the time that the client gives."""
        if self._grant is None:
            self._grant = Grant()
        self._grant.waited_seconds += seconds

    def end(self, refusal: Refusal | None) -> None:
        """The service has said what becomes of it."""
        self._task = None
        if self.arrival.gone:
            return
        if refusal is None:
            self.arrival.proceed(self._grant)
            return
        self._release()
        self.arrival.refuse(refusal)

    def _gone(self) -> None:
        if self._task is not None:
            self._task.cancel()
        self._guard.counts["client_closed"] += 1
        self._release()

    def _release(self) -> None:
        if self._grant is not None:
            self._grant.end()


class GuardCounts(Collector):
    """What the service said."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard

    def collect(self) -> Iterator[CounterMetricFamily]:
        """Every series; called by the registry."""
        yield counter(
            "hypertier_router_guardrail_checks",
            "Requests that the guardrail was asked about, by what came of it.",
            ["result"],
            self._guard.counts,
        )
