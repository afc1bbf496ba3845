"""What the router answers by itself: its health and metrics, the models, what it decided and would decide."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

from hypertier.router.api import openai
from hypertier.router.api.openai import InferenceRequest, Refusal
from hypertier.router.asking import Asking
from hypertier.router.http.connection import ClientConnection
from hypertier.router.http.heads import Request
from hypertier.router.proxy import Proxy
from hypertier.router.replicas.models import Models
from hypertier.router.settings import RouterSettings
from hypertier.router.telemetry.decisions import weigh
from hypertier.router.telemetry.metrics import CONTENT_TYPE, Metrics

MAX_TOLD = 100
LOCAL_METHODS = (b"GET", b"HEAD")
SaltAs = Callable[[Request, str], tuple[bytes, Refusal | None]]


class OwnAnswers:
    """Answers and refusals of the router's own, on whichever of its ports they are asked for.

    `salt_as` writes a tenant's salt into a body, where there are tenants.
    """

    def __init__(
        self,
        settings: RouterSettings,
        proxy: Proxy,
        models: Models,
        asking: Asking,
        metrics: Metrics,
        *,
        salt_as: SaltAs | None,
    ) -> None:
        self._settings = settings
        self._proxy = proxy
        self._models = models
        self._asking = asking
        self._metrics = metrics
        self._salt_as = salt_as

    def health(self, connection: ClientConnection, request: Request, *, draining: bool) -> None:
        """200 where requests are served, or held until they can be."""
        if draining:
            refusal = Refusal(503, "the router is draining", "draining", retry_after_seconds=1)
            self.refuse(connection, refusal)
        elif not self._proxy.replicas.num_healthy and not self._settings.hold_seconds:
            self.refuse(connection, Refusal(503, "no healthy replica", "no_replica", retry_after_seconds=1))
        else:
            self.answer(connection, request, 200, b"{}")

    def metrics(self, connection: ClientConnection, request: Request) -> None:
        """The router's metrics, as text."""
        self.answer(connection, request, 200, self._metrics.text(), content_type=CONTENT_TYPE)

    def metrics_or_where(self, connection: ClientConnection, request: Request) -> None:
        """The metrics, where no port of their own has them."""
        if self._settings.metrics_port is None:
            self.metrics(connection, request)
        else:
            self.refuse(connection, Refusal(404, "metrics are on the port of --metrics-port", "not_found"))

    def decisions(self, connection: ClientConnection, request: Request, request_id: str | None) -> None:
        """The latest decisions, or those of one `x-request-id`."""
        told = self._proxy.decisions.told(request_id, MAX_TOLD, time.time() - self._proxy.now())
        self.answer(connection, request, 200, json.dumps({"decisions": told}).encode())

    def explanation(
        self, connection: ClientConnection, request: Request, path: bytes, tenant: str | None = None
    ) -> None:
        """Where a tenant's body would be sent now, and what is thought of each candidate; nothing is sent."""
        asked = Request(request.method, path, request.body, has_body=True)
        seed, refusal = b"", None
        if tenant is not None and self._salt_as is not None:
            seed, refusal = self._salt_as(asked, tenant)
        inference = self._asking.read(asked, seed)
        inference = self._asking.routed(asked, inference, b"", seed, is_sent=False)
        if refusal is None:
            refusal = self.refusal_of_model(asked, inference)
        picker, now = self._proxy.picker, self._proxy.now()
        candidates = picker.candidates(inference) if refusal is None else ()
        choice = picker.strategy.choose(inference, candidates, now) if candidates else None
        told = {
            "model": None if inference.model is None else inference.model.decode("utf-8", "replace"),
            "prompt_bytes": inference.num_bytes,
            "replica": None if choice is None else choice.replica.url,
            "reason": refusal.code if refusal else "no_replica" if choice is None else choice.reason,
            "matched_bytes": None if choice is None else choice.matched_bytes,
            "predicted_ttft_seconds": None if choice is None else choice.predicted_seconds,
            "candidates": weigh(picker.strategy, inference, candidates, now),
        }
        body = json.dumps(told).encode()
        connection.write(openai.response(200, body, keep_alive=not connection.closes))
        connection.finish(keep_alive=True)

    def refusal_of_model(self, request: Request, inference: InferenceRequest) -> Refusal | None:
        """The answer to a model that no replica has; None where one has it, or may come and is waited for."""
        model = inference.model
        refusal = self._models.refusal(model) if model is not None else None
        if refusal is None:
            return None
        waits = bool(request.body) and self._proxy.holding is not None and self._models.may_come(model)
        return None if waits else refusal

    def answer(
        self,
        connection: ClientConnection,
        request: Request,
        status: int,
        body: bytes,
        content_type: bytes = b"application/json",
    ) -> None:
        """Say so to GET and HEAD, and 405 to others."""
        if request.method not in LOCAL_METHODS:
            allowed = b"allow: GET, HEAD\r\n"  # RFC 9110 section 15.5.6 (read 2026-12-02): a 405 says that
            refusal = Refusal(405, "this path answers GET", "method_not_allowed", headers=allowed)
            self.refuse(connection, refusal)
            return
        connection.write(
            openai.response(
                status,
                body,
                content_type=content_type,
                request_id=connection.request_id,
                keep_alive=not connection.closes,
                is_head=request.method == b"HEAD",
            )
        )
        connection.finish(keep_alive=True)

    def refuse(self, connection: ClientConnection, refusal: Refusal) -> None:
        """Refuse, and count it."""
        self.refused(refusal)
        connection.refuse(refusal)

    def refused(self, refusal: Refusal) -> None:
        """Count a refusal that is none of an engine's."""
        self._metrics.counts.answered("", f"{refusal.status // 100}xx")
