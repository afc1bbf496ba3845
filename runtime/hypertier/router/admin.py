"""The port beside the clients': metrics for all, what was decided for this machine alone."""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import IPv6Address, ip_address
from urllib.parse import parse_qs

from hypertier.router.api.openai import Refusal
from hypertier.router.front import Front
from hypertier.router.http.connection import ClientConnection
from hypertier.router.http.heads import Request


def is_loopback(address: str) -> bool:
    """The address is of the machine itself, or of the pod."""
    try:
        found = ip_address(address)
    except ValueError:
        return False
    mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None
    return (mapped or found).is_loopback


class Admin:
    """Owner of the connections to the metrics port.

    Whoever reaches it may read `/metrics`. What tells of single requests, or of what a tenant has cached, is
    for this machine alone (`is_near`): `kubectl port-forward` comes from there, other pods do not.
    """

    def __init__(self, front: Front, *, is_near: Callable[[str], bool]) -> None:
        self._front = front
        self._is_near = is_near
        self.max_head_bytes = front.max_head_bytes
        self.max_body_bytes = front.max_body_bytes
        self.budget = front.budget
        self.check_head: Callable[[Request], Refusal | None] | None = None  # nobody sends much there
        self.opened = front.follow  # whatever files are left
        self.closed = front.closed
        self.refused = front.refused

    @property
    def idle_ticks(self) -> int:
        """While it drains."""
        return -1

    @property
    def tick(self) -> int:
        """Seconds, counted."""
        return self._front.tick

    @property
    def draining(self) -> bool:
        """Connections end with the answer in hand."""
        return self._front.draining

    def handle(self, connection: ClientConnection, request: Request) -> None:
        """Answer `/metrics` and what the router decided; refuse all else."""
        path, answers = request.path, self._front.answers
        query = parse_qs(request.target.partition(b"?")[2].decode("latin-1"))
        if path == b"/metrics":
            answers.metrics(connection, request)
        elif path in (b"/decisions", b"/explain") and not self._is_near(connection.peer):
            problem = (
                f"{path.decode()} answers its own machine alone: kubectl port-forward POD PORT leads there"
            )
            connection.refuse(Refusal(403, problem, "not_local"))
        elif path == b"/decisions":
            answers.decisions(connection, request, query.get("id", [None])[0])
        elif path == b"/explain" and request.method == b"POST":
            path_of_request = query.get("path", ["/v1/chat/completions"])[0]
            tenant = query.get("tenant", [None])[0]
            answers.explanation(connection, request, path_of_request.encode("latin-1", "replace"), tenant)
        else:
            problem = "this port serves /metrics, /decisions and POST /explain"
            connection.refuse(Refusal(404, problem, "not_found"))
