from __future__ import annotations

import asyncio
import contextlib
import socket
from pathlib import Path

import pytest
from fakes_engine import FakeEngine, run_loop
from fakes_exporter import metrics_server, recorded
from fakes_tls import Authority
from hypothesis import given
from hypothesis import strategies as st

from hypertier.errors import ScrapeError
from hypertier.exporter.metrics import (
    EXTERNAL_HITS,
    EXTERNAL_QUERIES,
    KV_CACHE_USAGE,
    L1_USAGE,
    REQUESTS_WAITING,
    VLLM_METRICS,
)
from hypertier.exporter.scrape import fetch_metrics, parse_metrics
from hypertier.router.http.tls import EngineTls


def test_engines_that_ask_who_calls_are_read_by_tls(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    cert, key = authority.issue("exporter")
    nobody = EngineTls(authority.ca, server_name="engine.svc")
    shown = EngineTls(authority.ca, cert=cert, key=key, server_name="engine.svc")

    async def act() -> str:
        tls = authority.server(host="engine.svc", asks_client=True)
        engine = await FakeEngine(metrics=b"# nothing\n", tls=tls).start()
        url = f"https://127.0.0.1:{engine.port}"
        with pytest.raises(ScrapeError):
            await asyncio.to_thread(fetch_metrics, url, 5.0, nobody)
        return await asyncio.to_thread(fetch_metrics, url, 5.0, shown)

    assert run_loop(act()) == "# nothing\n"


@pytest.mark.parametrize("state", ["idle", "busy", "busier"])
def test_vllm_with_a_connector_has_every_name(state: str) -> None:
    scrape = parse_metrics(recorded(state))

    assert scrape.missing == set()
    assert set(scrape.values) == set(VLLM_METRICS)


def test_a_busy_vllm_tells_what_it_looked_up_and_found() -> None:
    scrape = parse_metrics(recorded("busy"))

    assert scrape.values[EXTERNAL_QUERIES] == (1984.0,)
    assert scrape.values[EXTERNAL_HITS] == (896.0,)
    assert (
        scrape.values[L1_USAGE] == scrape.values[KV_CACHE_USAGE] == scrape.values[REQUESTS_WAITING] == (0.0,)
    )


def test_a_gauge_before_its_first_sample_is_present_and_empty() -> None:
    scrape = parse_metrics(recorded("idle"))

    assert scrape.values[L1_USAGE] == ()


def test_vllm_without_a_connector_lacks_l1_alone() -> None:
    scrape = parse_metrics(recorded("without-connector"))

    assert scrape.missing == {L1_USAGE}


def test_every_engine_of_a_replica_is_a_value() -> None:
    text = recorded("busy") + f'{REQUESTS_WAITING}{{engine="1",model_name="llama"}} 3\n'

    scrape = parse_metrics(text)

    assert sorted(scrape.values[REQUESTS_WAITING]) == [0.0, 3.0]


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-Inf"])
def test_what_cloudwatch_would_refuse_is_no_value(value: str) -> None:
    scrape = parse_metrics(f"# TYPE {KV_CACHE_USAGE} gauge\n{KV_CACHE_USAGE} {value}\n")

    assert scrape.values[KV_CACHE_USAGE] == ()


LINES = recorded("busy").splitlines(keepends=True)


@given(st.lists(st.sampled_from(LINES), max_size=5), st.integers(0, 300), st.text(max_size=20))
def test_any_text_is_parsed_or_refused_as_a_scrape(lines: list[str], at: int, foreign: str) -> None:
    whole = "".join(lines)
    text = whole[:at] + foreign + whole[at:]
    scrape = None

    with contextlib.suppress(ScrapeError):
        scrape = parse_metrics(text)

    assert scrape is None or set(scrape.values) | scrape.missing == set(VLLM_METRICS)


def test_fetch_gives_the_body() -> None:
    with metrics_server(recorded("busy")) as server:
        assert fetch_metrics(server.url, 5.0) == recorded("busy")
        assert fetch_metrics(server.url + "/", 5.0) == recorded("busy")


def test_fetch_says_what_the_replica_answered_instead() -> None:
    with metrics_server("") as server:
        server.status = 503

        with pytest.raises(ScrapeError, match="HTTP 503"):
            fetch_metrics(server.url, 5.0)


def test_fetch_says_that_nobody_listens() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"

        with pytest.raises(ScrapeError, match="refused"):
            fetch_metrics(url, 5.0)


def test_fetch_gives_a_silent_replica_up() -> None:
    with metrics_server(recorded("busy")) as server:
        server.stalled = True

        with pytest.raises(ScrapeError, match=r"could not be read: timed out|within 0\.05 seconds"):
            fetch_metrics(server.url, 0.05)
