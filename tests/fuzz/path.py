"""Feeds a router whatever atheris thinks of, a second request right behind it: `pip install atheris`, then
`PYTHONPATH=tests HYPERTIER_COMPILED=0 python tests/fuzz/path.py FOLDER`, where FOLDER keeps what was found.

An input by which anything but what llhttp, too, reads as a request is served as one, or after which another
client is not served, is saved as crash-… in the working directory.
"""

from __future__ import annotations

import contextlib
import os
import sys
import traceback

import atheris
import httptools
from fakes_requests import AMBIGUOUS
from seeds import plant

with atheris.instrument_imports(include=["hypertier.router"]):
    from fakes_desync import SECOND, SMUGGLED, Path

HEAD = b"POST /first HTTP/1.1\r\nHost: a\r\n"
BEHIND_HEAD = (
    b"Content-Length: 36\r\n\r\n" + SMUGGLED,
    b"Transfer-Encoding: chunked\r\n\r\n24;a=b\r\n" + SMUGGLED + b"\r\n0\r\nX: y\r\n\r\n",
    b"Expect: 100-continue\r\nContent-Length: 2\r\n\r\n{}",
    b"\r\n" + SMUGGLED,
)
PATH = Path()


class Requests:
    """Targets and bodies of those that llhttp reads."""

    def __init__(self) -> None:
        self.targets: list[bytes] = []
        self.bodies: list[bytes] = []

    def on_message_begin(self) -> None:
        self.targets.append(b"")
        self.bodies.append(b"")

    def on_url(self, url: bytes) -> None:
        self.targets[-1] += url

    def on_body(self, body: bytes) -> None:
        self.bodies[-1] += body


def for_llhttp(data: bytes) -> Requests:
    """What is in `data`, up to the first that is no request."""
    heard = Requests()
    with contextlib.suppress(httptools.HttpParserError, httptools.HttpParserUpgrade):
        httptools.HttpRequestParser(heard).feed_data(data)
    return heard


def check(data: bytes) -> None:
    """The first byte says whether the rest is a whole request or what follows its first two lines."""
    first = data[1:] if data[:1] < b"\x40" else HEAD + data[1:]
    if b"HEAD " in first:  # the client reads a body behind every answer's head
        return
    heard = PATH.send(first, (len(first) // 2,))
    known = for_llhttp(first + SECOND)
    num_served = len(heard.targets)
    assert heard.bodies == known.bodies[:num_served], (heard, known.bodies)
    pairs = zip(heard.targets, known.targets, strict=False)
    assert all(target in (told, b"/") or told.endswith(target) for target, told in pairs), (
        heard,
        known.targets,
    )
    assert heard.statuses.count(200) >= num_served
    assert (heard.health, PATH.held_bytes) == (200, 0)


def test_one_input(data: bytes) -> None:
    """Check it; an end by exception would wait for the router's threads, and save nothing."""
    try:
        check(data)
    except BaseException:
        traceback.print_exc()
        os.abort()


if __name__ == "__main__":
    plant(sys.argv[1:], (b"\0" + each for each in AMBIGUOUS.values() if len(each) < 600))
    plant(sys.argv[1:], (b"\x80" + each for each in BEHIND_HEAD))
    atheris.Setup([*sys.argv, "-timeout=20", "-rss_limit_mb=1000", "-max_len=600"], test_one_input)
    with PATH:
        atheris.Fuzz()
