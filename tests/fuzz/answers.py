"""Feeds what engines say whatever atheris thinks of: `pip install atheris`, then
`PYTHONPATH=tests python tests/fuzz/answers.py FOLDER`, where FOLDER keeps what was found; with
`scripts/setup.sh compiled` before, compiled modules and their sources are held against each other.

The first byte says where the rest is cut in two. It is read as an answer's chunked body, as a whole answer,
and as a batch of KV events. An input that raises, that is read otherwise when cut, compiled or by llhttp, or
that takes more than two seconds is saved as crash-… in the working directory.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import cast

import atheris
import httptools
import msgspec
from fakes_kv_events import BATCHES
from seeds import plant

with atheris.instrument_imports(include=["hypertier"]):
    from fakes_upstream import Carried, Pipe

    from hypertier.errors import KvEventError
    from hypertier.router.discovery.addresses import Address
    from hypertier.router.http import chunks, plain
    from hypertier.router.http.upstream import Upstream
    from hypertier.router.kv import kv_events
    from hypertier.router.replicas.replicas import ReplicaSet

SOURCES = Path(__file__).parents[2] / "runtime" / "hypertier" / "router"
CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


def source_of(name: str) -> ModuleType:
    """The module as it is written, whatever is compiled."""
    spec = importlib.util.spec_from_file_location(f"source_{name}", SOURCES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SOURCE_PLAIN = source_of("plain")
source_read_chunks = atheris.instrument_func(source_of("chunks").read_chunks)


class AnyFailure(Carried):
    """Where an answer's bytes are cut decides how its failure shows."""

    def broken(self) -> None:
        self.ends.append("failed")

    def failed(self, cause: str, *, answering: bool = False) -> None:
        self.ends.append("failed")


def carried(*parts: bytes) -> tuple[list[str], bytes]:
    """How an answer ended, if it did, and what of a complete one was sent on."""
    replicas = ReplicaSet()
    replicas.replace([Address("127.0.0.1", 1)])
    replica = next(iter(replicas.by_url.values()))
    upstream, one = Upstream(replica), AnyFailure()
    upstream.connection_made(cast(asyncio.BaseTransport, Pipe()))
    upstream.send(one, b"GET / HTTP/1.1\r\n\r\n", b"", is_head=False, may_reuse=True)
    for part in parts:
        if part and not one.ends:
            upstream.data_received(part)
    return one.ends, one.data if one.ends == ["complete"] else b""


class Ended:
    """Hears from llhttp whether a body ended."""

    is_complete = False

    def on_message_complete(self) -> None:
        self.is_complete = True


def ends_for_llhttp(body: bytes) -> bool:
    """Whether it is a whole chunked body, or begins with one."""
    heard = Ended()
    with contextlib.suppress(httptools.HttpParserError):
        httptools.HttpResponseParser(heard).feed_data(CHUNKED + body)
    return heard.is_complete


def as_arrays(payload: bytes) -> bytes | None:
    """The batch with each event as an array, as older engines write it; None where it has no maps."""
    try:
        when, events, *rest = msgspec.msgpack.decode(payload)
        lists = [
            [event["type"], *(event.get(name) for name in kv_events._FIELDS[event["type"]])]
            for event in events
        ]
        return msgspec.msgpack.encode([when, lists, *rest])
    except (msgspec.DecodeError, LookupError, TypeError, ValueError, AttributeError, OverflowError):
        return None


def test_events(payload: bytes) -> None:
    """Events, or none: and the same in both encodings."""
    try:
        decoded = kv_events.decode(payload)
    except KvEventError:
        return
    for event in decoded[1]:
        if isinstance(event, kv_events.Stored) and event.token_ids:
            try:
                names = list(kv_events.chain(event.token_ids, event.block_size, 0, event.extra_keys))
            except KvEventError:
                continue
            assert len(names) == len(event.block_hashes)
    other = as_arrays(payload)
    if other is not None:
        with contextlib.suppress(OverflowError):  # a group as a text may be a number that msgpack has not
            assert msgspec.msgpack.encode(kv_events.decode(other)) == msgspec.msgpack.encode(decoded)


def test_one_input(data: bytes) -> None:
    """Read it whole and cut, by each reader."""
    if len(data) < 2:  # no connection brings nothing
        return
    data, cut = data[1:], data[0] * len(data) // 256
    for left in (0, 1, 2, 7):
        assert chunks.read_chunks(data, left) == source_read_chunks(data, left)
    if chunks.read_chunks(data, 0) == chunks.DONE:
        assert ends_for_llhttp(data)
    by_sources, answer = SOURCE_PLAIN.read_answer(data), plain.read_answer(data)
    assert (answer is None) == (by_sources is None)
    if answer is not None:
        assert (answer[0].raw, answer[0].length, answer[1]) == (
            by_sources[0].raw,
            by_sources[0].length,
            by_sources[1],
        )
    for whole in (data, CHUNKED + data):
        at = cut + len(whole) - len(data)
        ends, sent = carried(whole)
        ends_cut, sent_cut = carried(whole[:at], whole[at:])
        # What comes behind a whole answer is noticed with it, or, when it comes later, by the next request.
        assert (ends, sent) == (ends_cut, sent_cut) or (ends, ends_cut) == (["failed"], ["complete"])
        if whole is not data and ends_cut == ["complete"]:
            assert ends_for_llhttp(data)
    test_events(data)


BODY = b"2\r\nab\r\nA;x=1\r\n0123456789\r\n0\r\nT: 1\r\n\r\n"
WHOLE = (
    BODY,
    CHUNKED + BODY,
    b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nab",
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.0 404 Not Found\r\nconnection: close\r\n\r\n{}",
    *BATCHES,
)

if __name__ == "__main__":
    plant(sys.argv[1:], (bytes([cut]) + each for each in WHOLE for cut in (0, 128)))
    atheris.Setup([*sys.argv, "-timeout=2", "-rss_limit_mb=600"], test_one_input)
    atheris.Fuzz()
