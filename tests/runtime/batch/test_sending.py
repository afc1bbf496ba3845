from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from typing import Any

import pytest
from fakes_batch import Answered, FakeBatchEndpoint, echo, fake_batch_endpoint, lines_of

from hypertier.batch.requests import read_requests
from hypertier.batch.results import Result
from hypertier.batch.sending import LONGEST_WAIT_SECONDS, MAX_TRIES, Sender, pause_seconds
from hypertier.verification.endpoint import Endpoint


class NoPause(threading.Event):
    """Never set, and never waits."""

    def wait(self, timeout: float | None = None) -> bool:
        return False


def send(state: FakeBatchEndpoint, *prompts: str, concurrency: int = 2) -> dict[str, Result]:
    with fake_batch_endpoint(state):
        sender = Sender(Endpoint(state.url), 30, over=NoPause())
        requests = read_requests(lines_of(*prompts).splitlines(keepends=True), "in")
        return {each.custom_id: each for each in sender.results(requests, concurrency)}


def test_every_request_is_sent_once_and_its_answer_is_kept_whole() -> None:
    state = FakeBatchEndpoint()

    found = send(state, *map(str, range(20)))

    assert {name: json.loads(each.body)["asked"]["prompt"] for name, each in found.items()} == {
        str(number): str(number) for number in range(20)
    }
    assert sorted(state.prompts) == sorted(found)
    assert len({request_id for _, request_id, _ in state.received}) == 20


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504, None])
def test_what_may_come_right_is_tried_again(status: int | None) -> None:
    def act(body: Mapping[str, Any], attempt: int) -> Answered | None:
        return echo(body, attempt) if attempt == 3 else None if status is None else (status, b"busy")

    state = FakeBatchEndpoint(act)

    assert send(state, "a")["a"].is_answer
    assert len(state.received) == 3


@pytest.mark.parametrize("status", [400, 401, 404, 413, 422])
def test_what_the_request_is_to_blame_for_is_not(status: int) -> None:
    body = b'{"error": {"message": "no such thing"}}'
    state = FakeBatchEndpoint(lambda _, attempt: (status, body))

    found = send(state, "a")["a"]

    assert (found.status, found.is_answer, found.problem) == (status, False, "no such thing")
    assert len(state.received) == 1


def test_tries_are_bounded_and_the_last_answer_is_told() -> None:
    state = FakeBatchEndpoint(lambda _, attempt: (503, b'{"error": {"message": "no healthy replica"}}'))

    assert send(state, "a")["a"].problem == "no healthy replica"
    assert len(state.received) == MAX_TRIES


def test_no_more_are_under_way_than_wished() -> None:
    at_once, most, lock = 0, 0, threading.Lock()
    both = threading.Barrier(2)

    def act(body: Mapping[str, Any], attempt: int) -> Answered:
        nonlocal at_once, most
        with lock:
            at_once += 1
            most = max(most, at_once)
        both.wait(30)  # so that there are two
        with lock:
            at_once -= 1
        return echo(body, attempt)

    send(FakeBatchEndpoint(act), *"abcdefgh", concurrency=2)

    assert most == 2


def test_broken_off_it_begins_no_more_and_keeps_what_is_under_way() -> None:
    state = FakeBatchEndpoint()
    with fake_batch_endpoint(state):
        sender = Sender(Endpoint(state.url), 30)
        results = sender.results(
            read_requests(lines_of(*"abcdef").splitlines(keepends=True), "in"), concurrency=2
        )
        first = next(results)
        sender.over.set()
        rest = list(results)

    assert first.is_answer
    assert all(each.is_answer for each in rest)
    assert len(rest) + 1 == len(state.received) <= 4


@pytest.mark.parametrize(
    ("retry_after", "least", "most"),
    [
        ("5", 5.0, 6.0),
        ("999999999", LONGEST_WAIT_SECONDS, LONGEST_WAIT_SECONDS + 1),
        (None, 2.0, 4.0),
        ("soon", 2.0, 4.0),
    ],
)
def test_pauses_are_as_told_within_bounds_and_else_grow(
    retry_after: str | None, least: float, most: float
) -> None:
    pauses = [pause_seconds(2, retry_after) for _ in range(50)]

    assert least <= min(pauses)
    assert max(pauses) <= most
    assert max(pause_seconds(1000, None) for _ in range(50)) <= LONGEST_WAIT_SECONDS
