"""The way of a request past keys, limits and the queue, see `router.admission`."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from hypertier.router.access import salt
from hypertier.router.access.counts import AccessCounts
from hypertier.router.access.identity import CREDENTIALS, Headers, Identity, Unknown, identify, read_headers
from hypertier.router.access.keys import KeyRing
from hypertier.router.access.limits import estimate_tokens, used_tokens
from hypertier.router.access.paths import Paths
from hypertier.router.access.queue import FairQueue, Waits
from hypertier.router.access.tenants import Tenant, Tenants
from hypertier.router.admission import Arrival, Grant
from hypertier.router.front import deadline_of
from hypertier.router.heads import Request
from hypertier.router.openai import Refusal
from hypertier.router.replicas import ReplicaSet
from hypertier.spec.access import Access

if TYPE_CHECKING:
    from hypertier.router.access.jwt import JwtVerifier

_ANYBODY = Identity("")
_OF_NO_KEY = ("unknown_key", "signature", "algorithm")
"""What a JWT is whose key may be new: under a name of its own, the old one's, or none."""
_NO_PATH = Refusal(404, "no such path for tenants; access.paths can name further ones", "not_found")
_NO_OBJECT = Refusal(
    400,
    "the body is no JSON object in UTF-8, to which the router could add the tenant's cache_salt",
    "invalid_body",
)
_ENCODED = Refusal(415, "the body is encoded; send it as it is", "unsupported_encoding")
_FULL = Refusal(429, "too many requests wait for an engine", "queue_full")
_WAITED = Refusal(503, "no engine was free in time", "queue_timeout")
_LATE = Refusal(
    504, "no engine was free within x-request-timeout", "deadline_exceeded", param="x-request-timeout"
)


def _after(waits: Waits, refusal: Refusal) -> Refusal:
    """The refusal, with when there may be room."""
    return replace(refusal, retry_after_seconds=waits.retry_after_seconds)


def _prepare(request: Request, headers: Headers, tenant: Tenant) -> Refusal | None:
    """Take out who asks, and write the tenant's salt; or why not."""
    request.take_out(CREDENTIALS)
    if tenant.written is None or not request.body:
        return None
    if headers.is_encoded:
        return _ENCODED
    if headers.content_type[:1] in (b"m", b"M"):
        media_type = headers.content_type.partition(b";")[0].strip().lower()
        # Audio: engines read no salt there, and share no cache. No form begins as an object does.
        if media_type == b"multipart/form-data" and not salt.begins_as_object(request.body):
            return None
    spliced = salt.splice(request.body, tenant.written)
    if spliced is None:
        return _NO_OBJECT
    request.body = spliced
    return None


class _Turn:
    """A request that was let in: its grant, and since when it waits for an engine.

    It `is_urgent` where its client waits for less than the queue would have it.
    """

    __slots__ = ("arrival", "grant", "is_urgent", "num_tokens", "since", "tenant")

    def __init__(self, arrival: Arrival, grant: Grant, tenant: Tenant, num_tokens: int, since: float) -> None:
        self.arrival = arrival
        self.grant = grant
        self.tenant = tenant
        self.num_tokens = num_tokens
        self.since = since
        self.is_urgent = False


class _Lease:
    """What a request holds until it ended, see `admission.Slot`; `num_tokens` is an estimate until its answer
    tells.
    """

    __slots__ = ("_gate", "_is_away", "_queues", "_tenant", "num_tokens")

    def __init__(self, gate: AccessGate, tenant: Tenant, num_tokens: int, queues: bool) -> None:
        self._gate = gate
        self._tenant = tenant
        self._queues = queues
        self._is_away = False
        self.num_tokens = num_tokens

    def released(self) -> None:
        self._tenant.limits.in_flight -= 1
        self._gate.counts.tokens[self._tenant.label] += self.num_tokens
        if self._queues and not self._is_away:
            self._gate.engine_is_free()

    def leave(self) -> None:
        if not self._is_away:
            self._is_away = True
            self._gate.engine_is_free()

    def take(self) -> None:
        if self._is_away:
            self._is_away = False
            self._gate.engine_is_taken()

    def answered(self, end_of_answer: bytes) -> None:
        used = used_tokens(end_of_answer)
        bucket = self._tenant.limits.tokens
        if used is not None and bucket is not None:
            bucket.take(used - self.num_tokens)
            self.num_tokens = used


class AccessGate:
    """Decides about each request by `access`, which may change while it runs; JWTs by `verifier`.

    Where `authenticates` is false everybody is one tenant, without a salt. `clock` counts seconds, `now` is
    the time since 1970. Where it `bars_transfers` a tenant can't name blocks that engines fetch elsewhere.
    """

    def __init__(
        self,
        access: Access,
        *,
        authenticates: bool,
        replicas: ReplicaSet,
        clock: Callable[[], float],
        now: Callable[[], float],
        verifier: JwtVerifier | None = None,
        bars_transfers: bool = False,
    ) -> None:
        self.counts = AccessCounts()
        self.ring = KeyRing()
        self.num_routers = 1
        self.wants_jwks: Callable[[], None] | None = None
        self._access = access
        self._authenticates = authenticates
        self._replicas = replicas
        self._clock = clock
        self._now = now
        self._salt_key: bytes | None = None
        self.tenants = Tenants(access, None, salt.NO_TRANSFER if bars_transfers else b"")
        self.verifier = verifier
        self._paths = Paths(access.paths)
        self.queue: FairQueue[_Turn] | None = FairQueue(access.queue.size) if access.queue else None
        self._waits = Waits()
        self._running = 0
        self._is_dispatching = False

    def use(self, access: Access, ring: KeyRing, salt_key: bytes | None) -> None:
        """These from now on. What needs a restart stays: `jwt`, whether there is a `queue`, and its size."""
        self._access, self.ring, self._salt_key = access, ring, salt_key
        self._paths = Paths(access.paths)
        self._change()

    def tick(self, num_routers: int) -> None:
        """Once a second: as many routers share the limits, and who waited too long waits no more."""
        if num_routers != self.num_routers:
            self.num_routers = num_routers
            self._change()
        if self.queue is not None:
            for turn in self.queue.expired(self._clock()):
                turn.arrival.refuse(self._waited(turn))
            self.dispatch()

    def admit(self, arrival: Arrival) -> None:
        """Let it in, now or when it is its turn, or refuse it; see `admission.Admission`."""
        request = arrival.request
        headers = read_headers(request) if self._authenticates else None
        who = self._who(request, headers)
        if isinstance(who, Unknown):
            self._refuse_unknown(who)
            arrival.refuse(who.refusal)
            return
        clock = self._clock()
        tenant = self.tenants.get(who.tenant, clock)
        if self._authenticates and not self._paths.has(request.path):
            self._refuse(arrival, tenant, "path", _NO_PATH)
            return
        limits = tenant.limits
        body = request.body
        queues = self.queue is not None and bool(body)
        num_tokens = 0
        if body and (queues or limits.tokens is not None):
            num_tokens = estimate_tokens(body, request.path)
        refusal = limits.admit(num_tokens, clock)
        if refusal is not None:
            self._refuse(arrival, tenant, str(refusal.kind), refusal)
            return
        problem = _prepare(request, headers, tenant) if headers is not None else None
        if problem is not None:
            limits.never_sent(num_tokens)
            self._refuse(arrival, tenant, "body", problem)
            return
        self.counts.admitted[tenant.label] += 1
        lease = _Lease(self, tenant, num_tokens, queues)
        grant = Grant(
            tenant.label,
            tenant.seed,
            who.session,
            limits.headers(clock),
            lease.released,
            lease.answered if limits.tokens is not None else None,
            lease if queues else None,
        )
        if not queues:
            arrival.proceed(grant)
        elif self.num_waiting or self._running >= self.capacity:
            self._wait(_Turn(arrival, grant, tenant, num_tokens, clock))
        else:
            self._running += 1
            arrival.proceed(grant)

    def check_head(self, request: Request) -> Refusal | None:
        """Read no long body of nobody, see `admission.HeadCheck`."""
        if not self._authenticates:
            return None
        who = self._who(request, read_headers(request))
        if isinstance(who, Unknown):
            self._refuse_unknown(who)
            return who.refusal
        return None

    def salt_as(self, request: Request, tenant: str) -> tuple[bytes, Refusal | None]:
        """Make the body what that tenant's would be: its `Grant.seed`, and why it would be refused."""
        found = self.tenants.salted(tenant)
        return found.seed, _prepare(request, read_headers(request), found)

    @property
    def capacity(self) -> float:
        """How many requests this router may have on engines; without a healthy one, none needs to wait."""
        policy, num_healthy = self._access.queue, self._replicas.num_healthy
        if policy is None or not num_healthy:
            return math.inf
        return math.ceil(policy.max_in_flight_per_replica * num_healthy / self.num_routers)

    @property
    def num_waiting(self) -> int:
        """Requests in the queue."""
        return len(self.queue) if self.queue is not None else 0

    def dispatch(self) -> None:
        """Send who waits, as far as engines are free."""
        queue = self.queue
        if queue is None or self._is_dispatching:
            return
        self._is_dispatching = True  # a request that fails at once is released within `proceed`
        try:
            while len(queue) and self._running < self.capacity:
                turn = queue.pop()
                if turn is None:
                    break
                turn.tenant.num_queued -= 1
                self._running += 1
                turn.grant.waited_seconds = self._clock() - turn.since
                self.counts.waited(turn.grant.waited_seconds)
                self._waits.ended(turn.grant.waited_seconds)
                turn.arrival.proceed(turn.grant)
        finally:
            self._is_dispatching = False

    def engine_is_free(self) -> None:
        """A request that was sent ended, or waits for a replica to come."""
        self._running -= 1
        self.dispatch()

    def engine_is_taken(self) -> None:
        """One that waited for a replica is sent, whoever queues."""
        self._running += 1

    def _change(self) -> None:
        self.tenants.change(self._access, self._salt_key, self.num_routers, self._clock())

    def _who(self, request: Request, headers: Headers | None) -> Identity | Unknown:
        if headers is None:
            return _ANYBODY
        return identify(request, headers, self.ring, self.verifier, self._now())

    def _refuse_unknown(self, who: Unknown) -> None:
        self.counts.refusals[who.cause] += 1
        if who.cause in _OF_NO_KEY and self.wants_jwks is not None:
            self.wants_jwks()

    def _refuse(self, arrival: Arrival, tenant: Tenant, cause: str, refusal: Refusal) -> None:
        self.counts.refused[tenant.label, cause] += 1
        arrival.refuse(refusal)

    def _wait(self, turn: _Turn) -> None:
        queue, policy, tenant = self.queue, self._access.queue, turn.tenant
        assert queue is not None
        seconds = float(policy.timeout_seconds) if policy is not None else 0.0
        asked = deadline_of(turn.arrival.request)
        if 0 < asked < seconds:
            turn.is_urgent, seconds = True, asked
        tenant.num_queued += 1
        turn.arrival.on_gone = partial(self._gone, turn)
        turn.arrival.on_late = partial(self._late, turn)
        displaced = queue.push(
            turn,
            tenant=tenant.name,
            weight=tenant.entry.weight,
            priority=tenant.entry.priority,
            cost=max(1.0, turn.num_tokens),
            deadline=turn.since + seconds,
        )
        if displaced is not None:
            self._left(displaced, "queue_full")
            displaced.arrival.refuse(_after(self._waits, _FULL))

    def _gone(self, turn: _Turn) -> None:
        """Its client went away."""
        if self.queue is not None and self.queue.remove(turn):
            self._left(turn, "client_closed")

    def _late(self, turn: _Turn) -> Refusal:
        """It may wait no longer, though the queue would let it."""
        if self.queue is not None:
            self.queue.remove(turn)
        return self._waited(turn)

    def _waited(self, turn: _Turn) -> Refusal:
        """What to answer to one that left the queue since its time was over."""
        self._left(turn, "queue_timeout")
        if turn.is_urgent:
            return _LATE
        self._waits.ended(self._clock() - turn.since)
        return _after(self._waits, _WAITED)

    def _left(self, turn: _Turn, cause: str) -> None:
        turn.tenant.num_queued -= 1
        turn.tenant.limits.never_sent(turn.num_tokens)
        self.counts.refused[turn.tenant.label, cause] += 1
