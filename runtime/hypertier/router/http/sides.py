"""The two sides of a request on its way: whom its answer goes to, and what an engine's connection carries.

Classes and no protocols, since compiled code calls a method of a class by its place in a table, and one of a
protocol by its name: a piece of a stream goes through both. Nor are they abstract: compiled subclasses of an
abstract class share one cache of their instances (mypyc 2.4, seen 2026-12-03), and `isinstance` errs.
"""

from __future__ import annotations

from mypy_extensions import mypyc_attr

from hypertier.router.api.openai import Refusal
from hypertier.router.http.plain import ResponseHead


@mypyc_attr(allow_interpreted_subclasses=True)
class Client:
    """Where an answer goes."""

    def write(self, data: bytes) -> None:
        """Send on; the exchange was asked to `pause` before this buffers without bound."""
        raise NotImplementedError

    def finish(self, *, keep_alive: bool) -> None:
        """The answer is complete."""
        raise NotImplementedError

    def refuse(self, refusal: Refusal) -> None:
        """No byte was answered: answer with this."""
        raise NotImplementedError

    def truncate(self) -> None:
        """The answer broke off: close so that the client can tell."""
        raise NotImplementedError

    @property
    def closes(self) -> bool:
        """The connection ends with this answer, which says so."""
        raise NotImplementedError


@mypyc_attr(allow_interpreted_subclasses=True)
class Carried:
    """A request on its way, as the connection that carries it sees it."""

    def begin(self, head: ResponseHead, data: bytes) -> None:
        """The answer's head, and what came of its body."""
        raise NotImplementedError

    def relay(self, data: bytes) -> None:
        """More of the body, framing included."""
        raise NotImplementedError

    def complete(self, *, keep_alive: bool) -> None:
        """The last byte was relayed."""
        raise NotImplementedError

    def broken(self) -> None:
        """The answer broke off after it had begun."""
        raise NotImplementedError

    def failed(self, cause: str, *, answering: bool = False) -> None:
        """Nothing of the body came; `answering` when a head did."""
        raise NotImplementedError

    def switched(self, raw: bytes, data: bytes) -> bool:
        """The head of a 101, and what came behind it; False where nobody asked for that."""
        raise NotImplementedError

    def hold(self) -> None:
        """After a switch: more is forwarded than the engine reads."""
        raise NotImplementedError

    def go_on(self) -> None:
        """It caught up."""
        raise NotImplementedError

    def may_retry(self, status: int = 0) -> bool:
        """A failure now, or an answer of this status, could be tried on another replica."""
        raise NotImplementedError
