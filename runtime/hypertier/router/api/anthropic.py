"""Where Anthropic's Messages API is served, and the types of its errors."""

from __future__ import annotations

from typing import Final

_PATH: Final = b"/v1/messages"
# https://docs.anthropic.com/en/api/errors and the types of its SDK 0.81 (read 2026-12-02).
_TYPES: Final = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
}


def serves(path: bytes) -> bool:
    """The path is one of the Messages API's."""
    return path == _PATH or path.startswith(_PATH + b"/")


def error_type(status: int) -> str:
    """Anthropic's for an answer of this status."""
    return _TYPES.get(status, "invalid_request_error" if status < 500 else "api_error")
