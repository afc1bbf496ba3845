"""Feeds a router whatever atheris thinks of, a second request right behind it: `pip install atheris`, then
`PYTHONPATH=tests python tests/fuzz/path.py FOLDER`, where FOLDER keeps what was found.

An input by which anything but the second request, or anything inside the first, is served as a request of its
own, or after which another client is not served, is saved as crash-… in the working directory.
"""

from __future__ import annotations

import sys

import atheris

with atheris.instrument_imports(include=["hypertier.router"]):
    from fakes_desync import Path

HEAD = b"POST /first HTTP/1.1\r\nHost: a\r\n"

PATH = Path()


def test_one_input(data: bytes) -> None:
    """The first byte says whether the rest is a whole request or what follows its first two lines."""
    first = data[1:] if data[:1] < b"\x40" else HEAD + data[1:]
    heard = PATH.send(first, (len(first) // 2,))
    served = [target for target in heard.targets if target not in (b"/first", b"/second")]
    assert not served or data[:1] < b"\x40", served
    assert heard.statuses.count(200) >= heard.targets.count(b"/second")
    assert (heard.health, PATH.held_bytes) == (200, 0)
    if heard.served_second:
        assert heard.bodies[heard.targets.index(b"/second")] == b"second"


if __name__ == "__main__":
    atheris.Setup([*sys.argv, "-timeout=20", "-rss_limit_mb=1000", "-max_len=600"], test_one_input)
    with PATH:
        atheris.Fuzz()
