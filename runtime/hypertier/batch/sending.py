"""Sends the requests of a batch, some at once, and tries again what may come right."""

from __future__ import annotations

import random
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field

from hypertier.batch.requests import BatchRequest
from hypertier.batch.results import Result
from hypertier.errors import AnswerError
from hypertier.verification.endpoint import Endpoint, problem_of

MAX_ANSWER_BYTES = 64 * 2**20
MAX_TRIES = 8
RETRIED = frozenset({429, 500, 502, 503, 504})
"""What another try may answer; all else the request itself is to blame for."""
FIRST_WAIT_SECONDS, LONGEST_WAIT_SECONDS = 1.0, 60.0


@dataclass
class Sender:
    """Sends requests to one endpoint; `over` set, it begins no further one and waits for nothing.

    `name` is the beginning of each `x-request-id`.
    """

    endpoint: Endpoint
    timeout_seconds: float
    over: threading.Event = field(default_factory=threading.Event)
    name: str = field(default_factory=lambda: f"batch-{secrets.token_hex(6)}")
    clock: Callable[[], float] = time.monotonic

    def results(self, requests: Sequence[BatchRequest], concurrency: int) -> Iterator[Result]:
        """What came of each, as soon as it is known; those that were not begun have none."""
        left = iter(enumerate(requests, start=1))
        with ThreadPoolExecutor(concurrency) as pool:
            under_way: set[Future[Result | None]] = set()
            while True:
                while len(under_way) < concurrency and not self.over.is_set():
                    numbered = next(left, None)
                    if numbered is None:
                        break
                    under_way.add(pool.submit(self.send, *numbered))
                if not under_way:
                    return
                done, under_way = wait(under_way, return_when=FIRST_COMPLETED)
                for future in done:
                    result = future.result()
                    if result is not None:
                        yield result

    def send(self, number: int, request: BatchRequest) -> Result | None:
        """What came of one, None where it was broken off before an answer."""
        request_id = f"{self.name}-{number}"
        result = Result(request.custom_id, request_id, None, b"", "it was not sent")
        for attempt in range(MAX_TRIES):
            if self.over.is_set():
                return None
            headers = {"x-request-id": request_id}
            try:
                reply = self.endpoint.send(
                    request.url,
                    request.body,
                    headers,
                    self.timeout_seconds,
                    max_bytes=MAX_ANSWER_BYTES,
                )
            except AnswerError as error:
                result = Result(request.custom_id, request_id, None, b"", str(error))
                pause = pause_seconds(attempt, None)
            else:
                result = Result(request.custom_id, request_id, reply.status, reply.body, problem_of(reply))
                if reply.status not in RETRIED:
                    return result
                pause = pause_seconds(attempt, reply.headers.get("retry-after"))
            if attempt + 1 < MAX_TRIES and self.over.wait(pause):
                return None
        return result


def pause_seconds(attempt: int, retry_after: str | None) -> float:
    """How long to wait after the failed `attempt`, 0 the first: as told, else longer each time, at random."""
    if retry_after is not None and retry_after.strip().isdecimal():
        told_seconds = min(float(retry_after[:6]), LONGEST_WAIT_SECONDS)
        return told_seconds + random.random()  # not all at once
    longest: float = min(LONGEST_WAIT_SECONDS, FIRST_WAIT_SECONDS * 2.0**attempt)
    return longest * (0.5 + random.random() / 2)
