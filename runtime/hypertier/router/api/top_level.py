"""A field of a request's own object, read by a parser: for bodies in which a search does not find it."""

from __future__ import annotations

import msgspec


class _Named(msgspec.Struct):
    """All other fields are skipped, not built."""

    model: str | None = None


class _Naming(msgspec.Struct):
    """As above."""

    previous_response_id: str | None = None


_decoder = msgspec.json.Decoder(_Named)
_naming = msgspec.json.Decoder(_Naming)


def model_of(body: bytes | bytearray) -> str | None:
    """What the body's own `model` says; None where it says nothing, or is no JSON."""
    try:
        return _decoder.decode(body).model
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None


def previous_response_of(body: bytes | bytearray) -> str | None:
    """The response that the body goes on from; None where it says nothing, or is no JSON."""
    try:
        return _naming.decode(body).previous_response_id
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None
