"""The endpoint that is asked: its address, its key, and what its answers' statuses mean."""

from __future__ import annotations

import http.client
import json
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from hypertier.errors import AnswerError, ConfigError, HttpError
from hypertier.http_client import Reply, exchange
from hypertier.verification.answer import Answer, AnswerReader, count, read_object, told

MAX_BYTES = 8 * 2**20
MAX_TOKENS = 16  # of an answer; the first ones tell of a wrong cache
NUM_LIKELY = 5  # the most that OpenAI's completions have, and within vLLM's --max-logprobs
REPLICA_HEADER = "x-hypertier-replica"
STRATEGY_HEADER = "x-hypertier-strategy"
URL_FORM = "http://HOST[:PORT] or https:// of a router, without user, query or fragment"

# Status -> whether the endpoint is to blame, and what helps.
STATUSES: Mapping[int, tuple[bool, str]] = {
    400: (False, "the message says what it does not take; --prompt-tokens makes the prompt shorter"),
    401: (True, "name the variable that holds a valid key by --api-key-env"),
    403: (True, "the key of --api-key-env may not ask this"),
    404: (True, "--model names another model; is the URL that of the router?"),
    413: (False, "--prompt-tokens makes the prompt shorter"),
    429: (False, "a limit of the key's tenant, or a full queue: try again, or give the tenant room"),
    502: (True, "no engine answered: the router's and the engines' logs say why"),
    503: (True, "no engine is healthy, or the router drains: look at the engines' pods"),
    504: (True, "an engine is silent: its log says why"),
}


@dataclass(frozen=True, slots=True)
class Model:
    """A model as `/v1/models` lists it; `max_tokens` of prompt and answer together, where it is told."""

    name: str
    max_tokens: int | None


class Endpoint:
    """An OpenAI-compatible endpoint; every request to it ends by a time that the caller sets.

    `key` is sent as `Authorization: Bearer`; `ca` is a file with the CAs that are believed, in place of the
    machine's.

    Raises:
        ConfigError: no URL that can be asked, a key that is none, or a file without a certificate.
    """

    def __init__(
        self,
        url: str,
        *,
        key: str | None = None,
        ca: str | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.url, self._is_tls, self._host, self._port, self._path = _parts(url)
        self._context = _context(ca) if self._is_tls else None
        if ca is not None and not self._is_tls:
            raise ConfigError("--ca", ca, "none with an http:// URL, where nobody shows a certificate")
        self._headers = {"Authorization": f"Bearer {key}"} if key is not None else {}
        self._clock = clock

    def models(self, timeout_seconds: float) -> Sequence[Model]:
        """What it serves.

        Raises:
            AnswerError: it does not say.
        """
        reply = self.send("/v1/models", None, {}, timeout_seconds)
        _check_status(reply)
        data = read_object(reply.body).get("data")
        entries = data if isinstance(data, list) else []
        found = [
            Model(entry["id"], count(entry.get("max_model_len")))
            for entry in entries
            if isinstance(entry, dict) and isinstance(entry.get("id"), str)
        ]
        if not found:
            raise AnswerError(
                f"/v1/models lists no model: {told(reply.body)}", "are engines ready behind this router?"
            )
        return found

    def complete(
        self,
        model: str,
        prompt: str,
        *,
        headers: Mapping[str, str],
        timeout_seconds: float,
        max_tokens: int = MAX_TOKENS,
        tells_likely: bool = True,
    ) -> Answer:
        """A greedy answer of `max_tokens`, streamed, with the likeliest tokens at each place if asked for.

        Raises:
            AnswerError: no whole one in time.
        """
        begin = self._clock()
        reader = AnswerReader(self._clock)
        reply = self.send(
            "/v1/completions",
            request_body(model, prompt, max_tokens, NUM_LIKELY if tells_likely else None),
            headers,
            timeout_seconds,
            on_part=reader.feed,
        )
        _check_status(reply)
        replica, strategy = (reply.headers.get(name) for name in (REPLICA_HEADER, STRATEGY_HEADER))
        return reader.answer(told(replica) if replica else None, begin, told(strategy) if strategy else None)

    def send(
        self,
        target: str,
        body: bytes | None,
        headers: Mapping[str, str],
        timeout_seconds: float,
        *,
        on_part: Callable[[bytes], None] = lambda part: None,
        max_bytes: int = MAX_BYTES,
    ) -> Reply:
        """The whole answer to a request, a GET where it has no body, whatever its status.

        Raises:
            AnswerError: there is none in time, or a longer one.
        """
        if timeout_seconds <= 0:
            raise AnswerError("there was no time left to ask", "--timeout gives more")
        if self._context is not None:
            connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                self._host, self._port, context=self._context
            )
        else:
            connection = http.client.HTTPConnection(self._host, self._port)
        sent = {**self._headers, **headers}
        if body is not None:
            sent["Content-Type"] = "application/json"
        try:
            return exchange(
                connection,
                f"{self._path}{target}",
                method="GET" if body is None else "POST",
                body=body,
                headers=sent,
                timeout_seconds=timeout_seconds,
                max_bytes=max_bytes,
                on_part=on_part,
            )
        except HttpError as error:
            raise AnswerError(f"{target} {told(error)}", _remedy(error)) from error


def request_body(model: str, prompt: str, max_tokens: int, num_likely: int | None) -> bytes:
    """A completion, as it takes no chat template, whose tokens are told and always the same."""
    return json.dumps(
        {
            "model": model,
            "prompt": prompt,
            "max_tokens": max_tokens,
            "temperature": 0,
            **({"logprobs": num_likely} if num_likely is not None else {}),
            "ignore_eos": True,  # of vLLM: an answer of no token would prove nothing
            "stream": True,
            "stream_options": {"include_usage": True},
        }
    ).encode()


def _check_status(reply: Reply) -> None:
    if reply.status == 200:
        return
    is_fault, to_do = STATUSES.get(
        reply.status, (True, "is the URL that of the router's Service or load balancer?")
    )
    raise AnswerError(f"it answers {reply.status}: {problem_of(reply)}", to_do, is_fault=is_fault)


def problem_of(reply: Reply) -> str:
    """What an answer that is none says of why; empty for 200."""
    if reply.status == 200:
        return ""
    try:
        return told(read_object(reply.body).get("error") or reply.body)
    except AnswerError:
        return told(reply.body)


def _remedy(error: HttpError) -> str:
    cause = error.__cause__
    if isinstance(cause, ssl.SSLCertVerificationError):
        return "--ca names a file with the CA that signed its certificate, which must bear the URL's host"
    if isinstance(cause, ssl.SSLError):
        return "does it speak TLS there? http:// asks without"
    if isinstance(cause, TimeoutError):
        return "--timeout gives it longer; an engine that never answers is seen in its log"
    if isinstance(cause, OSError):
        return "is the URL that of the router, and does a network policy let you through?"
    return "the logs of the router and the engines say why"


def _parts(url: str) -> tuple[str, bool, str, int | None, str]:
    bad = ConfigError("URL", url.partition("@")[2] or url, URL_FORM)
    if not url.isascii() or any(letter.isspace() or not letter.isprintable() for letter in url):
        raise bad
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise bad from None
    if parts.scheme not in ("http", "https") or not host or port == 0 or set("?#@") & set(url):
        raise bad
    path = parts.path.rstrip("/").removesuffix("/v1")
    return f"{parts.scheme}://{parts.netloc}{path}", parts.scheme == "https", host, port, path


def _context(ca: str | None) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=ca)
    except OSError as error:  # ssl.SSLError is one
        raise ConfigError("--ca", ca, f"a file with certificates in PEM ({error})") from error
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context
