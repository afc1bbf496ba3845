"""Responses that one engine keeps, found again by their id.

vLLM keeps what `/v1/responses` answered in the memory of the process that did, where
VLLM_ENABLE_RESPONSES_API_STORE=1 (vllm/entrypoints/openai/responses/serving.py of 0.32, read 2026-12-02).
Any other engine answers 404, and has done nothing by then. So a request that names a response goes to the
replica that is known to hold it, and after a 404 to the others: what this router has not heard of, it finds.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from typing import Final, cast
from urllib.parse import unquote_to_bytes

from hypertier.router.admission import Admitted
from hypertier.router.api.top_level import previous_response_of
from hypertier.router.exchange import Exchange
from hypertier.router.http.heads import Request
from hypertier.router.http.plain import ResponseHead
from hypertier.router.http.sides import Client
from hypertier.router.proxy import Proxy
from hypertier.router.replicas.replicas import Replica
from hypertier.router.strategies.strategy import Choice

PATH: Final = b"/v1/responses"
NOT_FOUND: Final = 404
MAX_ASKED: Final = 64
"""Replicas for one request: whoever makes up ids must not have each of hundreds asked."""
MAX_KNOWN: Final = 32_768
MAX_ID_BYTES: Final = 256
_SEEN_BYTES: Final = 1024
# The first of an answer, and of a stream's first event, is the response's own.
_ID: Final = re.compile(rb'"id"\s{0,8}+:\s{0,8}+"([^"\\]{1,256}+)"')


def response_named(request: Request) -> bytes | None:
    """The id of the response that the request is about, or goes on from; None where it names none."""
    name, _, further = request.path[len(PATH) + 1 :].partition(b"/")
    if name and (further or request.method != b"POST"):
        return unquote_to_bytes(name)[:MAX_ID_BYTES]
    if b'"previous_response_id"' not in request.body:
        return None
    named = previous_response_of(request.body)
    return named.encode()[:MAX_ID_BYTES] if named else None


class ResponseHolders:
    """Which replica answered with which response: the `MAX_KNOWN` that were asked for last."""

    def __init__(self) -> None:
        self._holders: OrderedDict[bytes, Replica] = OrderedDict()

    def holder(self, response_id: bytes) -> Replica | None:
        """Who is known to hold it."""
        return self._holders.get(response_id)

    def learn(self, response_id: bytes, replica: Replica) -> None:
        """The replica holds it."""
        self._holders[response_id] = replica
        self._holders.move_to_end(response_id)
        if len(self._holders) > MAX_KNOWN:
            self._holders.popitem(last=False)


class ResponsesExchange(Exchange):
    """One request below `/v1/responses`: a replica that has not what it names is not the last one asked."""

    def __init__(self, proxy: Proxy, client: Client, admitted: Admitted, holders: ResponseHolders) -> None:
        super().__init__(proxy, client, admitted)
        self._holders = holders
        self._named = response_named(admitted.request)

    def may_retry(self, status: int = 0) -> bool:
        """Whoever has not the response is no failure."""
        if status != NOT_FOUND:
            return super().may_retry(status)
        tried = {*self._tried, cast(Replica, self._replica)}
        if self._named is None or len(tried) >= MAX_ASKED:
            return False
        return bool(self._proxy.picker.candidates(self.inference, tried))

    def failed(self, cause: str, *, answering: bool = False) -> None:
        """Ask the next, where this one has not the response."""
        if cause != str(NOT_FOUND):
            super().failed(cause, answering=answering)
            return
        replica = cast(Replica, self._replica)
        self._upstream = None
        self._proxy.outliers.succeeded(replica)
        self._release(None)
        self._gave_nothing(replica, cause)
        self._proxy.counts.retried(cause)
        self.start()

    def begin(self, head: ResponseHead, data: bytes) -> None:
        """Whoever answers well holds what was asked for, and what it answers with."""
        replica = self._replica
        if replica is not None and head.status < 300:
            if self._named is not None:
                self._holders.learn(self._named, replica)
            if self.request.path == PATH:
                found = _ID.search(data, 0, _SEEN_BYTES)
                if found is not None:
                    self._holders.learn(found.group(1), replica)
        super().begin(head, data)

    def _choose(self) -> Choice | None:
        holder = self._holders.holder(self._named) if self._named is not None else None
        if holder is None or holder in self._tried:
            return super()._choose()
        picker = self._proxy.picker
        others = {replica for replica in picker.candidates(self.inference) if replica is not holder}
        choice = picker.pick(self, self.inference, self._proxy.now(), others)
        return super()._choose() if choice is None else choice.because("response")
