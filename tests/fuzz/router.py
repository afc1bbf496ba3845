"""Feeds the way of a request whatever atheris thinks of: `pip install atheris`, then
`PYTHONPATH=tests HYPERTIER_COMPILED=0 python tests/fuzz/router.py FOLDER`, where FOLDER keeps what was found.

The first byte says where the rest is cut in two. An input that raises, that is read otherwise when cut, or
that takes more than two seconds is saved as crash-… in the working directory.
"""

from __future__ import annotations

import sys

import atheris
from fakes_requests import AMBIGUOUS, CHUNKED, head
from seeds import plant

with atheris.instrument_imports(include=["hypertier"]):
    from hypertier.router.api import openai
    from hypertier.router.http.heads import request_head
    from hypertier.router.http.plain import read_answer
    from hypertier.router.http.wire import BodyBudget, RequestReader


CHAT = (
    b'{"model": "a", "user": "me", "messages": [{"role": "user", "content": "caf\\u00e9"}], "stream": true}'
)
POST = b"POST /v1/chat/completions HTTP/1.1"
WHOLE = (
    head(b"Content-Length: %d" % len(CHAT), line=POST) + CHAT,
    CHUNKED + b"5;a=b\r\n" + CHAT[:5] + b"\r\n%x\r\n" % len(CHAT[5:]) + CHAT[5:] + b"\r\n0\r\nT: 1\r\n\r\n",
    head(b"Expect: 100-continue", b"Content-Length: 2", line=b"PUT http://b/c HTTP/1.1") + b"{}" + head(),
    b'HTTP/1.1 200 OK\r\ncontent-length: 17\r\nx: y\r\n\r\n{"object": "list"}',
)


def read(*parts: bytes) -> tuple[list[tuple[bytes, bytes, bytes]], bool]:
    """Method, target and body of each request, and whether the rest is refused."""
    budget = BodyBudget(1 << 20)
    reader = RequestReader(max_head_bytes=4096, max_body_bytes=1 << 16, budget=budget)
    requests = []
    for part in parts:
        rest = part
        while rest or reader.ready:
            rest = reader.feed(rest)
            while reader.ready:
                request = reader.ready.popleft()
                openai.read(request, session_key=b"user", hash_prompt=True)
                request_head(request, b"id")
                requests.append((request.method, request.target, bytes(request.body)))
                budget.give(request.num_held_bytes)
    refused = reader.refusal is not None
    reader.drop()
    assert budget.held_bytes == 0
    return requests, refused


def test_one_input(data: bytes) -> None:
    """Read it whole and cut."""
    if not data:
        return
    data, cut = data[1:], data[0] * len(data) // 256
    assert read(data) == read(data[:cut], data[cut:])
    read_answer(data)


if __name__ == "__main__":
    plant(sys.argv[1:], (bytes([cut]) + each for each in (*WHOLE, *AMBIGUOUS.values()) for cut in (0, 128)))
    atheris.Setup([*sys.argv, "-timeout=2", "-rss_limit_mb=400"], test_one_input)
    atheris.Fuzz()
