"""One request through the router, with what the engine that served it counted meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import urlsplit

from hypertier.errors import LabError
from hypertier.lab.client import Answer, ask
from hypertier.lab.metrics import EngineCounts, read_counts

POLL_SECONDS = 0.1


@dataclass(frozen=True)
class Measurement:
    """An answer, and what its engine's metrics say about it.

    Exact while nobody else sends requests to that engine.
    """

    answer: Answer
    served_by: str
    hit_source: str
    cached_tokens: int
    ttft_seconds: float


def measure(
    router_url: str,
    replica_urls: Sequence[str],
    model: str,
    prompt: str,
    *,
    max_tokens: int = 32,
    on_text: Callable[[str], None] = lambda text: None,
) -> Measurement:
    """Send a prompt through the router and read the metrics of the replicas that run before and after.

    Raises:
        LabError: no answer, or metrics that count none.
    """
    before = dict(counts_of_running(replica_urls))
    answer = ask(router_url, model, prompt, max_tokens=max_tokens, on_text=on_text)
    number, url = served_replica(answer.served_by, replica_urls)
    counts = read_counts(url).since(before[url]) if url in before else None
    if counts is None or counts.num_answers < 1:
        raise LabError(f"engine-{number} at {url} answered, but its metrics count no answer")
    return Measurement(
        answer=answer,
        served_by=f"engine-{number}",
        hit_source=counts.hit_source,
        cached_tokens=counts.num_cached_tokens,
        ttft_seconds=counts.ttft_seconds / counts.num_answers,
    )


def counts_of_running(urls: Sequence[str]) -> Iterator[tuple[str, EngineCounts]]:
    """Yield the URLs that answer, with their counts."""
    for url in urls:
        with suppress(LabError):
            yield url, read_counts(url)


def served_replica(address: str, replica_urls: Sequence[str]) -> tuple[int, str]:
    """Find the replica that the router named by its `HOST:PORT`.

    Raises:
        LabError: it is none of them.
    """
    for number, url in enumerate(replica_urls):
        if urlsplit(url).netloc == address:
            return number, url
    raise LabError(f"the router says that {address} answered, which is none of {', '.join(replica_urls)}")


def wait_until_stored(
    replica_urls: Sequence[str], before: Sequence[EngineCounts], num_bytes: int, timeout_seconds: float = 60.0
) -> None:
    """Wait until the engines have written so much to L2 since `before`.

    Raises:
        LabError: they did not in time.
    """
    begin = time.monotonic()
    while True:
        counts = [read_counts(url).since(old) for url, old in zip(replica_urls, before, strict=True)]
        written = sum(count.l2_write_bytes for count in counts)
        seconds = time.monotonic() - begin
        if written >= num_bytes:
            return
        if seconds > timeout_seconds:
            raise LabError(
                f"only {written:.0f} of {num_bytes} bytes were written to L2 after {seconds:.0f} s; "
                "the engines' logs say why"
            )
        time.sleep(POLL_SECONDS)
