"""Trace context from client to engine, and the spans that a collector gets."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from fakes_engine import FakeEngine, RawClient, Received, json_answer, post, run_loop
from fakes_router import routed
from fakes_streams import Reciter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from hypertier.router.telemetry import tracing

CHAT = b"/v1/chat/completions"
TRACE = b"0af7651916cd43dd8448eb211c80319c"
SAMPLED = b"traceparent: 00-%b-b7ad6b7169203331-01" % TRACE
UNSAMPLED = b"traceparent: 00-%b-b7ad6b7169203331-00" % TRACE


@pytest.fixture
def last_spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A router soon leaves the exporter alone, whose thread ends before the next test does.

    It draws how long it waits before it tries again, from the same chance that hypothesis watches.
    """
    monkeypatch.setattr(tracing, "STOP_SECONDS", 0.05)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    yield
    for thread in threading.enumerate():
        if thread.name == "last spans":
            thread.join(10)
            assert not thread.is_alive()


def spans_of(collector: FakeEngine) -> list[Any]:
    """Those that it got."""
    exported = [ExportTraceServiceRequest.FromString(request.body) for request in collector.received]
    return [span for one in exported for r in one.resource_spans for s in r.scope_spans for span in s.spans]


async def collect(request: Received, writer: asyncio.StreamWriter) -> None:
    """As a collector."""
    writer.write(json_answer(b"{}"))


def traced(
    *headers: bytes, path: bytes = CHAT, **settings: Any
) -> tuple[Received, list[Any], list[Received]]:
    """What the engine got, the spans, and what the collector got."""

    async def act() -> tuple[Received, list[Any], list[Received]]:
        collector, engine = await FakeEngine(collect).start(), FakeEngine()
        try:
            async with routed(engine, **({"otlp_endpoint": collector.url} | settings)) as router:
                client = await RawClient.connect(router.port)
                client.send(post(path, b'{"model": "m", "prompt": "secret"}', *headers))
                assert (await client.answer()).status == 200
            return engine.received[0], spans_of(collector), collector.received
        finally:
            await collector.kill()

    return run_loop(act())


@pytest.mark.parametrize("headers", [[SAMPLED, b"tracestate: a=1"], [UNSAMPLED], [b"traceparent: nonsense"]])
def test_context_passes_through_where_nothing_is_traced(headers: list[bytes]) -> None:
    engine, spans, _ = traced(*headers, otlp_endpoint=None)

    for header in headers:
        name, _, value = header.partition(b": ")
        assert engine.header(name) == value
    assert spans == []


def test_span_lies_between_the_clients_and_the_engines() -> None:
    engine, (span,), _ = traced(SAMPLED, b"tracestate: a=1", b"x-request-id: mine")

    version, trace_id, parent_id, flags = (engine.header(b"traceparent") or b"").split(b"-")
    attributes = {attribute.key: attribute.value for attribute in span.attributes}
    assert (version, trace_id, flags) == (b"00", TRACE, b"01")
    assert span.trace_id.hex().encode() == TRACE
    assert span.span_id.hex().encode() == parent_id
    assert span.parent_span_id.hex() == "b7ad6b7169203331"
    assert engine.header(b"tracestate") == b"a=1"
    assert len([name for name, _ in engine.headers if name.lower() == b"traceparent"]) == 1
    assert attributes["hypertier.request_id"].string_value == "mine"
    assert attributes["hypertier.status"].string_value == "2xx"
    assert attributes["hypertier.replica"].string_value.startswith("http://127.0.0.1:")
    assert [event.name for event in span.events] == ["gen_ai.first_token"]


@pytest.mark.parametrize("is_good", [True, False], ids=["good", "served-whole"])
def test_span_tells_who_prefilled_and_what_came_of_it(is_good: bool) -> None:
    told = {"kv_transfer_params": {"remote_engine_id": "e"}} if is_good else {}

    async def prefill(request: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(json_answer(json.dumps(told).encode()))

    async def act() -> tuple[str, list[Any]]:
        collector, prefiller = await FakeEngine(collect).start(), await FakeEngine(prefill).start()
        try:
            split: dict[str, Any] = {"prefill_replicas": (prefiller.url,), "prefill_threshold": 0}
            async with routed(FakeEngine(), otlp_endpoint=collector.url, **split) as router:
                client = await RawClient.connect(router.port)
                client.send(post(CHAT, b'{"model": "m", "messages": [{"content": "secret"}]}', SAMPLED))
                assert (await client.answer()).status == 200
            return prefiller.url, spans_of(collector)
        finally:
            await collector.kill()
            await prefiller.kill()

    url, (span,) = run_loop(act())

    attributes = {attribute.key: attribute.value for attribute in span.attributes}
    assert attributes["hypertier.prefill_replica"].string_value == url
    assert attributes["hypertier.prefill_end"].string_value == ("good" if is_good else "no_parameters")
    assert 0 < attributes["hypertier.prefill_seconds"].double_value < 60
    assert attributes["hypertier.replica"].string_value != url
    assert "hypertier.prefill_predicted_seconds" not in attributes  # nothing is learned yet


def test_span_tells_of_each_replica_that_wrote_a_part() -> None:
    body = {"model": "m", "stream": True, "messages": [{"content": "secret"}], "max_tokens": 99}

    async def act() -> tuple[list[str], list[Any]]:
        collector = await FakeEngine(collect).start()
        engines = [FakeEngine(Reciter(3)), FakeEngine(Reciter(3, "error")), FakeEngine(Reciter())]
        try:
            async with routed(*engines, otlp_endpoint=collector.url, migration_limit=2) as router:
                client = await RawClient.connect(router.port)
                client.send(post(CHAT, json.dumps(body).encode(), SAMPLED))
                assert (await client.answer()).is_whole
            return [engine.url for engine in engines], spans_of(collector)
        finally:
            await collector.kill()

    urls, (span,) = run_loop(act())

    attributes = {attribute.key: attribute.value for attribute in span.attributes}
    told = [
        (event.name, *(attribute.value.string_value for attribute in event.attributes))
        for event in span.events
        if event.attributes
    ]
    assert attributes["hypertier.replica"].string_value == urls[2]
    assert [each.string_value for each in attributes["hypertier.broke_off"].array_value.values] == urls[:2]
    assert told == [("hypertier.broke_off", urls[0], "closed"), ("hypertier.broke_off", urls[1], "error")]


def test_span_holds_nothing_of_the_prompt_or_the_key() -> None:
    _, _, (sent,) = traced(SAMPLED, b"authorization: Bearer sk-secret")

    assert b"secret" not in sent.body


def test_client_that_does_not_sample_is_heeded() -> None:
    engine, spans, _ = traced(UNSAMPLED, trace_sample_ratio=1.0)

    assert spans == []
    assert engine.header(b"traceparent") == UNSAMPLED.partition(b": ")[2]


@pytest.mark.parametrize(("ratio", "count"), [(0.0, 0), (1.0, 1)])
def test_request_without_a_trace_is_sampled_by_the_ratio(ratio: float, count: int) -> None:
    engine, spans, _ = traced(trace_sample_ratio=ratio)

    assert len(spans) == count
    assert (engine.header(b"traceparent") is not None) is bool(count)


@pytest.mark.usefixtures("last_spans")
def test_collector_that_is_away_delays_no_request() -> None:
    async def act() -> int:
        async with routed(FakeEngine(), otlp_endpoint="http://127.0.0.1:9", trace_sample_ratio=1.0) as router:
            client = await RawClient.connect(router.port)
            client.send(post(CHAT, b"{}"))
            return (await client.answer()).status

    assert run_loop(act()) == 200


@pytest.mark.usefixtures("last_spans")
def test_stop_does_not_wait_for_a_collector_that_is_silent(caplog: pytest.LogCaptureFixture) -> None:
    async def act() -> None:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            url = f"http://127.0.0.1:{silent.getsockname()[1]}"
            engine = FakeEngine()
            async with routed(engine, otlp_endpoint=url, trace_sample_ratio=1.0) as router:
                client = await RawClient.connect(router.port)
                client.send(post(CHAT, b'{"model": "m"}'))
                assert (await client.answer()).status == 200
            export, _ = silent.accept()
            with export, export.makefile("rb") as sent:
                assert sent.readline().startswith(b"POST /v1/traces ")
                sent.read(int(http.client.parse_headers(sent)["content-length"]))
                export.setblocking(False)
                with pytest.raises(BlockingIOError):  # no end of it: the exporter still waits
                    export.recv(1)

    run_loop(act())
    assert "took no spans" in caplog.text
