"""The two ends of a connection to an engine: a transport, and who hears of the answer."""

from __future__ import annotations

from hypertier.router.http import sides
from hypertier.router.http.plain import ResponseHead


class Pipe:
    """A transport that takes everything."""

    def __init__(self) -> None:
        self.closed = False

    def write(self, data: bytes) -> None: ...

    def is_closing(self) -> bool:
        return self.closed

    def resume_reading(self) -> None: ...

    def get_write_buffer_size(self) -> int:
        return 0

    def abort(self) -> None:
        self.closed = True


class Carried(sides.Carried):
    """Remembers what came."""

    def __init__(self) -> None:
        self.data = b""
        self.ends: list[str] = []

    def begin(self, head: ResponseHead, data: bytes) -> None:
        self.data += head.raw + b"\r\n" + data

    def relay(self, data: bytes) -> None:
        self.data += data

    def complete(self, *, keep_alive: bool) -> None:
        self.ends.append("complete")

    def broken(self) -> None:
        self.ends.append("broken")

    def failed(self, cause: str, *, answering: bool = False) -> None:
        self.ends.append(cause)

    def may_retry(self, status: int = 0) -> bool:
        return False

    def switched(self, raw: bytes, data: bytes) -> bool:
        return False

    def hold(self) -> None: ...

    def go_on(self) -> None: ...
