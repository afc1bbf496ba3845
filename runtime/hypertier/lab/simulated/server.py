"""OpenAI's HTTP API in front of the simulated engine."""

from __future__ import annotations

import itertools
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from hypertier.errors import ConfigError
from hypertier.lab.simulated.engine import SimulatedEngine
from hypertier.lab.simulated.metrics import CONTENT_TYPE, EngineMetrics
from hypertier.lab.simulated.prompt import chat_tokens

MAX_BODY_BYTES = 64 * 2**20
DEFAULT_MAX_TOKENS = 16
CHAT = "/v1/chat/completions"
COMPLETION = "/v1/completions"


@dataclass(frozen=True)
class Question:
    """What is read of a request."""

    tokens: list[int]
    max_tokens: int
    stream: bool
    include_usage: bool
    is_chat: bool


class EngineServer(ThreadingHTTPServer):
    """Serves one engine, a thread per connection. Listens once made; `port` 0 is a free one."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, engine: SimulatedEngine, metrics: EngineMetrics) -> None:
        self.engine = engine
        self.metrics = metrics
        super().__init__((engine.settings.host, engine.settings.port), Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no error; anything else goes to the log."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    server: EngineServer

    def do_GET(self) -> None:
        """/health, /metrics, /v1/models."""
        if self.path == "/health":
            self._answer(HTTPStatus.OK, b"")
        elif self.path == "/metrics":
            self._answer(HTTPStatus.OK, self.server.metrics.render(), CONTENT_TYPE)
        elif self.path == "/v1/models":
            settings = self.server.engine.settings
            model = {
                "id": settings.name,
                "object": "model",
                "owned_by": "simulated",
                "max_model_len": settings.max_model_len,
            }
            self._answer_json(HTTPStatus.OK, {"object": "list", "data": [model]})
        else:
            self._refuse(HTTPStatus.NOT_FOUND, f"there is no {self.path}")

    def do_POST(self) -> None:
        """Completions, and /reset_prefix_cache."""
        length = int(self.headers.get("content-length") or 0)
        if length > MAX_BODY_BYTES:
            self.close_connection = True
            self._refuse(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the body has more than {MAX_BODY_BYTES} bytes"
            )
            return
        body = self.rfile.read(length)
        url = urlsplit(self.path)
        if url.path == "/reset_prefix_cache":
            external = parse_qs(url.query).get("reset_external") == ["true"]
            self.server.engine.reset(external=external)
            self._answer(HTTPStatus.OK, b"")
            return
        if url.path not in (CHAT, COMPLETION):
            self._refuse(HTTPStatus.NOT_FOUND, f"there is no {url.path}")
            return
        try:
            question = read_question(body, url.path == CHAT, self.server.engine.settings.max_model_len)
        except ConfigError as error:
            self._refuse(HTTPStatus.BAD_REQUEST, str(error))
            return
        self._complete(question)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Keep health checks and scrapes out of the log."""

    def _complete(self, question: Question) -> None:
        server = self.server
        with server.metrics.running.track_inprogress():
            begin = time.monotonic()
            prefill = server.engine.prefill(question.tokens)
            server.metrics.count_first_word(len(question.tokens), prefill, time.monotonic() - begin)
            words = itertools.islice(prefill.words, question.max_tokens)
            usage = {
                "prompt_tokens": len(question.tokens),
                "completion_tokens": question.max_tokens,
                "total_tokens": len(question.tokens) + question.max_tokens,
                "prompt_tokens_details": {"cached_tokens": prefill.num_cached_tokens},
            }
            if question.stream:
                self._stream(question, words, usage)
            else:
                text = "".join(self._spoken(words))
                body = self._envelope(question) | {
                    "choices": [choice(question, text, "length")],
                    "usage": usage,
                }
                self._answer_json(HTTPStatus.OK, body)
            server.metrics.count_words(question.max_tokens)

    def _spoken(self, words: Iterator[str]) -> Iterator[str]:
        """The words, each in its time."""
        for number, word in enumerate(words):
            if number:
                time.sleep(self.server.engine.settings.decode_seconds_per_token)
            yield word

    def _stream(self, question: Question, words: Iterator[str], usage: dict[str, Any]) -> None:
        self.send_response(HTTPStatus.OK)
        self.send_header("content-type", "text/event-stream; charset=utf-8")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        envelope = self._envelope(question)
        if question.is_chat:
            role = {"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}
            self._event(envelope | {"choices": [role]})
        for number, word in enumerate(self._spoken(words), start=1):
            reason = "length" if number == question.max_tokens else None
            self._event(envelope | {"choices": [delta(question, word, reason)]})
        if question.include_usage:
            self._event(envelope | {"choices": [], "usage": usage})
        self._chunk(b"data: [DONE]\n\n")
        self._chunk(b"")

    def _envelope(self, question: Question) -> dict[str, Any]:
        kind = "chat.completion" if question.is_chat else "text_completion"
        if question.stream and question.is_chat:
            kind += ".chunk"
        return {
            "id": f"simulated-{time.monotonic_ns():x}",
            "object": kind,
            "created": int(time.time()),
            "model": self.server.engine.settings.name,
            "system_fingerprint": "simulated",
        }

    def _event(self, content: dict[str, Any]) -> None:
        self._chunk(b"data: %s\n\n" % json.dumps(content).encode())

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def _answer(self, status: HTTPStatus, body: bytes, content_type: str = "text/plain") -> None:
        self.send_response(status)
        self.send_header("content-type", content_type)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _answer_json(self, status: HTTPStatus, content: dict[str, Any]) -> None:
        self._answer(status, json.dumps(content).encode(), "application/json")

    def _refuse(self, status: HTTPStatus, message: str) -> None:
        kind = status.phrase.replace(" ", "") + "Error"
        self._answer_json(status, {"error": {"message": message, "type": kind, "code": int(status)}})


def read_question(body: bytes, is_chat: bool, max_model_len: int) -> Question:
    """Read a request.

    Raises:
        ConfigError: it names the field that is not as it must be.
    """
    try:
        content = json.loads(body)
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise ConfigError("the body", body[:40].decode(errors="replace"), "a JSON object")
    tokens = chat_prompt(content) if is_chat else completion_prompt(content)
    max_tokens = content.get("max_completion_tokens") or content.get("max_tokens") or DEFAULT_MAX_TOKENS
    if not isinstance(max_tokens, int) or max_tokens < 1:
        raise ConfigError("max_tokens", max_tokens, "a whole number, 1 or more")
    if len(tokens) + max_tokens > max_model_len:
        raise ConfigError(
            "prompt and max_tokens",
            f"{len(tokens)} + {max_tokens} tokens",
            f"{max_model_len} tokens or fewer together, --max-model-len of this engine",
        )
    return Question(
        tokens=tokens,
        max_tokens=max_tokens,
        stream=bool(content.get("stream")),
        include_usage=bool((content.get("stream_options") or {}).get("include_usage")),
        is_chat=is_chat,
    )


def chat_prompt(content: dict[str, Any]) -> list[int]:
    """The tokens of `messages`."""
    messages = content.get("messages")
    if (
        not isinstance(messages, list)
        or not messages
        or not all(isinstance(each, dict) and {"role", "content"} <= each.keys() for each in messages)
    ):
        raise ConfigError("messages", messages, "a list of objects with role and content")
    return chat_tokens(messages)


def completion_prompt(content: dict[str, Any]) -> list[int]:
    """The tokens of `prompt`, text or tokens."""
    prompt = content.get("prompt")
    if isinstance(prompt, str) and prompt:
        return list(prompt.encode())
    if isinstance(prompt, list) and prompt and all(isinstance(t, int) and 0 <= t < 2**16 for t in prompt):
        return prompt
    raise ConfigError("prompt", prompt, "text, or a list of tokens")


def choice(question: Question, text: str, reason: str) -> dict[str, Any]:
    """The one choice of a whole answer."""
    said = {"message": {"role": "assistant", "content": text}} if question.is_chat else {"text": text}
    return {"index": 0, **said, "finish_reason": reason}


def delta(question: Question, word: str, reason: str | None) -> dict[str, Any]:
    """The one choice of an event."""
    said = {"delta": {"content": word}} if question.is_chat else {"text": word}
    return {"index": 0, **said, "finish_reason": reason}
