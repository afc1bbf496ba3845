"""Spans of requests, by OpenTelemetry: one for each sampled request, the parent of the engine's own.

The SDK sends spans in batches from a thread of its own. A request that is not sampled costs one look at a
header and one draw.
"""

from __future__ import annotations

import logging
import random
import threading
from typing import TYPE_CHECKING, Any

from hypertier.errors import MissingPackageError
from hypertier.router.http.heads import Request

if TYPE_CHECKING:
    from opentelemetry.trace import Span

TRACEPARENT, TRACESTATE = b"traceparent", b"tracestate"
STOP_SECONDS = 1.0

log = logging.getLogger("hypertier.router")


class Trace:
    """The span of one request; `end` it once."""

    def __init__(self, span: Span) -> None:
        self._span = span

    def first_byte(self) -> None:
        """The answer began."""
        self._span.add_event("gen_ai.first_token")

    def broke_off(self, replica: str, cause: str) -> None:
        """A replica failed inside the answer, and another one is to go on."""
        attributes = {"hypertier.replica": replica, "hypertier.cause": cause}
        self._span.add_event("hypertier.broke_off", attributes)

    def end(self, **attributes: Any) -> None:
        """The request ended; what is None is left out."""
        for name, value in attributes.items():
            if value is not None:
                self._span.set_attribute(f"hypertier.{name}", value)
        self._span.end()


class Tracing:
    """Makes spans and sends them to `endpoint`, an OTLP/HTTP collector's `http://HOST:4318`.

    `sample_ratio` is the share of the requests that come without a trace; those with one are as their client
    sampled them (https://www.w3.org/TR/trace-context/, read 2026-12-01).

    Raises:
        MissingPackageError: OpenTelemetry is not installed.
    """

    def __init__(self, endpoint: str, *, sample_ratio: float) -> None:
        try:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor
            from opentelemetry.trace import SpanKind, get_current_span
            from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
        except ModuleNotFoundError as error:
            raise MissingPackageError("hypertier router --otlp-endpoint", str(error.name), "otel") from error
        self._sample_ratio = sample_ratio
        self._provider = TracerProvider(resource=Resource.create({"service.name": "hypertier-router"}))
        exporter = OTLPSpanExporter(endpoint=endpoint.rstrip("/") + "/v1/traces")
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("hypertier.router")
        self._propagator = TraceContextTextMapPropagator()
        self._span_of, self._kind = get_current_span, SpanKind.SERVER

    def begin(self, request: Request, model: bytes | None) -> Trace | None:
        """The span of a request, whose head then names it as the engine's parent; None where not sampled."""
        parent = request.field(TRACEPARENT)
        if parent is None and random.random() >= self._sample_ratio:
            return None
        carrier = {}
        if parent is not None:
            state = request.field(TRACESTATE) or b""
            carrier = {"traceparent": parent.decode("latin-1"), "tracestate": state.decode("latin-1")}
        context = self._propagator.extract(carrier)
        above = self._span_of(context).get_span_context()
        if parent is not None and above.is_valid and not above.trace_flags.sampled:
            return None
        span = self._tracer.start_span(
            f"{request.method.decode('latin-1')} {request.path.decode('latin-1')[:200]}",
            context=context,
            kind=self._kind,
        )
        if model is not None:
            span.set_attribute("gen_ai.request.model", model.decode("utf-8", "replace")[:200])
        made = span.get_span_context()
        line = f"traceparent: 00-{made.trace_id:032x}-{made.span_id:016x}-01\r\n".encode()
        others = [text for text in request.forwarded if not text[:12].lower().startswith(b"traceparent:")]
        request.forwarded[:] = [*others, line]
        return Trace(span)

    def stop(self) -> None:
        """Send what is left, as far as the collector takes it within STOP_SECONDS.

        The SDK would try a collector that is down, or silent, for its export's whole timeout.
        """
        sending = threading.Thread(target=self._provider.shutdown, name="last spans", daemon=True)
        sending.start()
        sending.join(STOP_SECONDS)
        if sending.is_alive():
            log.warning("the collector took no spans for %g s at the stop: the last are lost", STOP_SECONDS)
