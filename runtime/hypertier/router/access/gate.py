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
from hypertier.router.access.pool import Account, Pool, Turn
from hypertier.router.access.pools import Pools, call_soon
from hypertier.router.access.queue import Waits
from hypertier.router.access.tenants import Tenant, Tenants
from hypertier.router.admission import Arrival, Grant
from hypertier.router.api.openai import Refusal
from hypertier.router.front import deadline_of
from hypertier.router.http.heads import Request
from hypertier.router.replicas.models import Models
from hypertier.router.replicas.replicas import Replica, ReplicaSet
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


class _Lease:
    """What a request holds until it ended, see `admission.Slot`; `num_tokens` is an estimate until its answer
    tells. On its `account` it has a slot; without one it has none.
    """

    __slots__ = ("_gate", "_tenant", "account", "num_tokens")

    def __init__(self, gate: AccessGate, tenant: Tenant, num_tokens: int) -> None:
        self._gate = gate
        self._tenant = tenant
        self.account: Account | None = None
        self.num_tokens = num_tokens

    def released(self) -> None:
        self._tenant.limits.in_flight -= 1
        self._gate.counts.tokens[self._tenant.label] += self.num_tokens
        self.leave()

    def leave(self) -> None:
        account, self.account = self.account, None
        if account is not None:
            self._gate.free(account)

    def sent(self, replica: Replica) -> None:
        """Whoever queues."""
        pools, before = self._gate.pools, self.account
        assert pools is not None
        self.account = account = pools.account_on(replica)
        account.take()
        if before is not None:
            before.free()
            if before.pool is not account.pool:
                self._gate.freed(before.pool)

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
    With a queue, requests wait in the `pools` of their `models`; `later` is the loop's `call_soon`.
    """

    def __init__(
        self,
        access: Access,
        *,
        authenticates: bool,
        replicas: ReplicaSet,
        models: Models,
        clock: Callable[[], float],
        now: Callable[[], float],
        verifier: JwtVerifier | None = None,
        bars_transfers: bool = False,
        later: Callable[[Callable[[], None]], object] | None = None,
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
        self._is_dispatching = False
        self._is_asked_again = False
        self.pools: Pools | None = None
        if access.queue is not None:
            self.pools = Pools(
                replicas, models, size=access.queue.size, ready=self.dispatch, later=later or call_soon
            )
            self._allow()

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
        if self.pools is not None:
            now = self._clock()
            for pool in self.pools:
                for turn in pool.queue.expired(now):
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
        pools = self.pools if body else None
        num_tokens = 0
        if body and (pools is not None or limits.tokens is not None):
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
        lease = _Lease(self, tenant, num_tokens)
        grant = Grant(
            tenant.label,
            tenant.seed,
            who.session,
            limits.headers(clock),
            lease.released,
            lease.answered if limits.tokens is not None else None,
            lease if pools is not None else None,
        )
        if pools is not None:
            account = pools.account_of(request)
            lease.account = pools.place(account)
            if lease.account is None:
                self._wait(Turn(account, arrival, grant, tenant, num_tokens, clock))
                return
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
        return self.pools.limit(self._replicas.num_healthy) if self.pools is not None else math.inf

    @property
    def num_waiting(self) -> int:
        """Requests in the queues."""
        return self.pools.num_waiting if self.pools is not None else 0

    @property
    def num_running(self) -> int:
        """Requests that came by the queues and are on engines."""
        return self.pools.num_running if self.pools is not None else 0

    def dispatch(self) -> None:
        """Send who waits, as far as engines are free."""
        pools = self.pools
        self._is_asked_again = True
        if pools is None or self._is_dispatching:
            return
        self._is_dispatching = True  # a request that fails at once is released within `proceed`
        try:
            while self._is_asked_again:
                self._is_asked_again = False
                for pool in list(pools):
                    turn = pools.next(pool)
                    while turn is not None:
                        self._send(turn)
                        turn = pools.next(pool)
        finally:
            self._is_dispatching = False

    def free(self, account: Account) -> None:
        """A request that was sent ended, or waits for a replica to come."""
        account.free()
        self.freed(account.pool)

    def freed(self, pool: Pool) -> None:
        """One of its slots is."""
        if self.pools is not None and self.pools.has_waiting(pool):
            self.dispatch()

    def _send(self, turn: Turn) -> None:
        lease = turn.grant.slot
        assert isinstance(lease, _Lease)
        lease.account = turn.account
        turn.tenant.num_queued -= 1
        seconds = turn.grant.waited_seconds = self._clock() - turn.since
        turn.pool.counts.waited(seconds)
        turn.pool.waits.ended(seconds)
        turn.arrival.proceed(turn.grant)

    def _allow(self) -> None:
        policy = self._access.queue
        if self.pools is not None:
            self.pools.allow(
                policy.max_in_flight_per_replica if policy is not None else None, self.num_routers
            )

    def _change(self) -> None:
        self.tenants.change(self._access, self._salt_key, self.num_routers, self._clock())
        self._allow()

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

    def _wait(self, turn: Turn) -> None:
        policy = self._access.queue
        seconds = float(policy.timeout_seconds) if policy is not None else 0.0
        asked = deadline_of(turn.arrival.request)
        if 0 < asked < seconds:
            turn.is_urgent, seconds = True, asked
        turn.deadline = turn.since + seconds
        turn.tenant.num_queued += 1
        turn.arrival.on_gone = partial(self._gone, turn)
        turn.arrival.on_late = partial(self._late, turn)
        displaced = turn.pool.push(turn)
        if displaced is not None:
            self._left(displaced, "queue_full")
            displaced.arrival.refuse(_after(displaced.pool.waits, _FULL))

    def _gone(self, turn: Turn) -> None:
        """Its client went away."""
        if turn.pool.queue.remove(turn):
            self._left(turn, "client_closed")

    def _late(self, turn: Turn) -> Refusal:
        """It may wait no longer, though the queue would let it."""
        turn.pool.queue.remove(turn)
        return self._waited(turn)

    def _waited(self, turn: Turn) -> Refusal:
        """What to answer to one that left the queue since its time was over."""
        self._left(turn, "queue_timeout")
        if turn.is_urgent:
            return _LATE
        waits = turn.pool.waits
        waits.ended(self._clock() - turn.since)
        return _after(waits, _WAITED)

    def _left(self, turn: Turn, cause: str) -> None:
        turn.tenant.num_queued -= 1
        turn.tenant.limits.never_sent(turn.num_tokens)
        turn.pool.counts.unserved[cause] += 1
        self.counts.refused[turn.tenant.label, cause] += 1
