"""What the router knows of each tenant: its limits, its salt, and what it has in hand."""

from __future__ import annotations

from collections.abc import Iterator

from hypertier.router.access import salt
from hypertier.router.access.limits import Limits
from hypertier.spec.access import Access, TenantDefault

MAX_LABELS = 100
"""Tenants without an entry that metrics name, in the order they come; all others are `other`."""
MAX_KEPT = 10_000
"""Tenants kept, as long as some of them have done nothing for a minute."""
OTHER = "other"


class Tenant:
    """One of them. `written` is the member that goes into its bodies, None where none does."""

    __slots__ = ("entry", "label", "limits", "name", "num_queued", "seed", "written")

    def __init__(self, name: str, label: str, entry: TenantDefault, limits: Limits) -> None:
        self.name = name
        self.label = label
        self.entry = entry
        self.limits = limits
        self.num_queued = 0
        self.seed = b""
        self.written: bytes | None = None


class Tenants:
    """All tenants that came, made when they come. `clock` is in seconds.

    A `salt_key` of None writes no salts. `further` is written behind every salt.
    """

    def __init__(self, access: Access, salt_key: bytes | None, further: bytes = b"") -> None:
        self._further = further
        self._access = access
        self._salt_key = salt_key
        self._num_routers = 1
        self._entries = {entry.name: entry for entry in access.tenants}
        self._tenants: dict[str, Tenant] = {}
        self._labels: set[str] = set()

    def __iter__(self) -> Iterator[Tenant]:
        return iter(self._tenants.values())

    def get(self, name: str, now: float) -> Tenant:
        """The tenant of that name."""
        tenant = self._tenants.get(name)
        return tenant if tenant is not None else self._add(name, now)

    def change(self, access: Access, salt_key: bytes | None, num_routers: int, now: float) -> None:
        """These settings from now on; what tenants have used stays used."""
        self._access, self._salt_key, self._num_routers = access, salt_key, num_routers
        self._entries = {entry.name: entry for entry in access.tenants}
        for tenant in self:
            tenant.entry = self._entries.get(tenant.name, access.default)
            tenant.limits.change(tenant.entry, num_routers, now)
            self._season(tenant)

    def _add(self, name: str, now: float) -> Tenant:
        if len(self._tenants) >= MAX_KEPT:
            self._forget_idle(now)
        entry = self._entries.get(name, self._access.default)
        label = name
        if name not in self._entries and name not in self._labels:
            if len(self._labels) < MAX_LABELS:
                self._labels.add(name)
            else:
                label = OTHER
        tenant = Tenant(name, label, entry, Limits(entry, self._num_routers, now))
        self._season(tenant)
        self._tenants[name] = tenant
        return tenant

    def salted(self, name: str) -> Tenant:
        """The tenant of that name as far as its salt goes, whether it ever came or not; nothing is kept."""
        entry = self._entries.get(name, self._access.default)
        tenant = Tenant(name, name, entry, Limits(entry, self._num_routers, 0.0))
        self._season(tenant)
        return tenant

    def _season(self, tenant: Tenant) -> None:
        """Without a salt key no salt is written."""
        tenant.seed = salt.derive(self._salt_key, tenant.name) if self._salt_key is not None else b""
        tenant.written = salt.member(tenant.seed) + self._further if tenant.seed else None

    def _forget_idle(self, now: float) -> None:
        for name, tenant in list(self._tenants.items()):
            if not tenant.num_queued and tenant.limits.is_full(now):
                del self._tenants[name]
