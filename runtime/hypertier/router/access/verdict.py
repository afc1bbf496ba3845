"""What comes of looking at a JWT."""

from __future__ import annotations

from typing import NamedTuple


class Verified(NamedTuple):
    """Who a token speaks for, until when; `session` is the value of the session claim."""

    tenant: str
    until: float
    session: bytes | None = None


class Rejected(NamedTuple):
    """Why a token is not taken, in one word for the count. With `unknown_key`, its key may come yet."""

    cause: str
