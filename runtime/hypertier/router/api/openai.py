"""What the router reads in an OpenAI request, and the errors it answers in OpenAI's shape, or Anthropic's.

A body is not parsed, but where its `model` stands in its midst: the fields are found by search, and the
prompt is hashed as the bytes that carry it, from `"messages":` or `"prompt":` on. Two requests whose
prompts begin alike therefore begin with the same hashes, as long as the same client wrote them; a request
that spells the same prompt differently is a miss, never an error.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import xxhash

from hypertier.router.api import anthropic
from hypertier.router.api.top_level import model_of

if TYPE_CHECKING:
    from hypertier.router.http.heads import Request

# Block sizes grow with the prompt: (offset up to which the size holds, bytes of a block). Short prompts
# get a fine grain; 256 KiB of prompt costs 69 hashes. What lies behind MAX_HASHED_BYTES is as good as
# never shared.
BLOCK_SIZES: Final = ((512, 64), (4096, 512), (65536, 2048), (524288, 8192))
MAX_HASHED_BYTES = BLOCK_SIZES[-1][0]


def _block_ends() -> tuple[int, ...]:
    ends: list[int] = []
    offset = 0
    for limit, size in BLOCK_SIZES:
        while offset < limit:
            offset += size
            ends.append(offset)
    return tuple(ends)


BLOCK_ENDS: Final = _block_ends()
_NUM_COPIED: Final = bisect_right(BLOCK_ENDS, BLOCK_SIZES[-2][0])

_PROMPT_KEYS = {
    b"/v1/chat/completions": b'"messages"',
    b"/v1/completions": b'"prompt"',
    b"/v1/responses": b'"input"',
    b"/v1/messages": b'"messages"',
}
# Who writes more space than that has no field; to look for its end would cost a second in a body of 64 MB.
_COLON: Final = re.compile(rb"\s{0,64}+:")
_STRING_VALUE: Final = re.compile(rb'\s{0,64}+:\s{0,64}+"([^"\\]*+)"')
_TRUE: Final = re.compile(rb"\s{0,64}+:\s{0,64}+(true)")
_BEGINNINGS: Final = (b"{", b" ", b"\n", b"\r", b"\t")
_MAX_FIELD_TRIES: Final = 8
# Tools may say that a prompt's key is required, before the prompt: so often, hardly.
_MAX_PROMPT_TRIES: Final = 1000
# Clients write short fields before the prompt or behind it; to search all of it costs more than to hash it.
_TAIL_BYTES: Final = 4096


class Prompt(NamedTuple):
    """Where a request's prompt stands: its JSON begins at `body[start]`.

    `seed` is the body's `cache_salt`, the router's or the client's; empty where none was found.
    """

    path: bytes
    body: bytes | bytearray
    start: int
    seed: bytes = b""


class InferenceRequest:
    """What a strategy may know of a request.

    `num_bytes` is the length of the prompt as sent; `block_hashes[i]` covers the model and the prompt's first
    `BLOCK_ENDS[i]` bytes; `session` is the value of the session key, None where the client sent none;
    `streamed` requests are answered by events. `prompt` is the prompt itself, where the strategy keeps it;
    `model` what the client asks for, None where it can't be told; `strategy` the one that is to choose, None
    for the router's own.
    """

    __slots__ = ("block_hashes", "model", "num_bytes", "prompt", "session", "strategy", "streamed")

    def __init__(
        self,
        num_bytes: int = 0,
        block_hashes: tuple[int, ...] = (),
        session: bytes | None = None,
        streamed: bool = False,
        prompt: Prompt | None = None,
        model: bytes | None = None,
        strategy: str | None = None,
    ) -> None:
        self.num_bytes = num_bytes
        self.block_hashes = block_hashes
        self.session = session
        self.streamed = streamed
        self.prompt = prompt
        self.model = model
        self.strategy = strategy

    def replace(self, **changes: Any) -> InferenceRequest:
        """The same but for these."""
        other = InferenceRequest(
            self.num_bytes,
            self.block_hashes,
            self.session,
            self.streamed,
            self.prompt,
            self.model,
            self.strategy,
        )
        for name, value in changes.items():
            setattr(other, name, value)
        return other


@dataclass(frozen=True, slots=True)
class Refusal:
    """An answer that the router gives itself; `param` names the request's part at fault, if any.

    `kind` is OpenAI's error type, where it does not follow from the status; `headers` are lines of the head.
    """

    status: int
    message: str
    code: str
    param: str | None = None
    retry_after_seconds: int | None = None
    kind: str | None = None
    headers: bytes = b""

    @property
    def type(self) -> str:
        """OpenAI's error type: whose fault it is."""
        if self.kind is not None:
            return self.kind
        return "invalid_request_error" if self.status < 500 else "server_error"


def read(
    request: Request,
    *,
    session_key: bytes | None,
    hash_prompt: bool,
    keep_prompt: bool = False,
    seed: bytes = b"",
) -> InferenceRequest:
    """Find what the strategy asks about; `session_key` names a header, in lower case, or a body field.

    Prompts of different `seed`s, which are their `cache_salt`s, share no hash, as their blocks share none.
    Where the prompt is kept and the router wrote none, a client's own is looked for.
    """
    body, path = request.body, request.path
    session = request.field(session_key) if session_key is not None else None
    if not body:
        return InferenceRequest(session=session)
    front = _front(body, path)
    start, model, streamed = front.start, front.model, front.streamed
    if session is None and session_key is not None:
        session = find_string(body, session_key, start)
    tail = max(start, len(body) - _TAIL_BYTES)
    if model is None:
        model = _model_behind(body, start)
    if not streamed:
        streamed = _find_stream(body, tail, len(body))
    hashes: tuple[int, ...] = ()
    if keep_prompt and not seed:
        seed = find_string(body, b"cache_salt", start) or b""
    if start and hash_prompt:
        root = model or b""
        hashes = chain_hashes(body, root + b"\0" + seed if seed else root, start)
    kept = Prompt(path, body, start, seed) if keep_prompt and hashes else None
    return InferenceRequest(len(body) - start, hashes, session, streamed, kept, model)


def named_model(body: bytes | bytearray, path: bytes) -> bytes | None:
    """The body's model alone, of what `read` finds."""
    front = _front(body, path)
    return front.model if front.model is not None else _model_behind(body, front.start)


def prompt_start(body: bytes | bytearray, path: bytes) -> int:
    """Where the prompt's value begins, behind its colon; 0 where there is none to be found."""
    key = _PROMPT_KEYS.get(path)
    if key is None:
        return 0
    at = body.find(key)
    for _ in range(_MAX_PROMPT_TRIES):
        if at < 0:
            break
        colon = _COLON.match(body, at + len(key))
        if colon is not None:
            return colon.end()
        at = body.find(key, at + 1)
    return 0


class _Front:
    """What stands before a prompt, `start` bytes of it, and is in it: of many requests it is the same."""

    __slots__ = ("model", "start", "streamed", "text")

    def __init__(self, text: bytes) -> None:
        self.text = text
        self.start = len(text)
        self.model = _find_model(text, 0, self.start)
        self.streamed = _find_stream(text, 0, self.start)


_fronts: dict[bytes, _Front] = {}
_last_front: dict[bytes, _Front] = {}
"""By path: a body that begins with one has its first key of a prompt where that has it."""
_MAX_FRONTS: Final = 256
MAX_FRONT_BYTES: Final = 1024


def front_of(body: bytes | bytearray, path: bytes) -> bytes:
    """What stands before the prompt, empty where none is found; of many requests it is the same object.

    More than `MAX_FRONT_BYTES` never are.
    """
    return _front(body, path).text


def _front(body: bytes | bytearray, path: bytes) -> _Front:
    front = _last_front.get(path)
    return front if front is not None and body[: front.start] == front.text else _new_front(body, path)


def _new_front(body: bytes | bytearray, path: bytes) -> _Front:
    text = bytes(body[: prompt_start(body, path)])
    if not 0 < len(text) <= MAX_FRONT_BYTES:
        return _Front(text)
    front = _fronts.get(text)
    if front is None:
        if len(_fronts) >= _MAX_FRONTS:
            _fronts.clear()
        front = _fronts[text] = _Front(text)
    _last_front[path] = front
    return front


def _find_model(body: bytes | bytearray, begin: int, end: int) -> bytes | None:
    """As far as it stands between `begin` and `end`."""
    span = _find_span(body, b'"model"', begin, end, _STRING_VALUE)
    return None if span is None else bytes(body[span[0] : span[1]])


def _model_behind(body: bytes | bytearray, start: int) -> bytes | None:
    """Of a body that does not name it before its prompt, which begins at `start`."""
    tail = max(start, len(body) - _TAIL_BYTES)
    return _find_model(body, tail, len(body)) or _parsed_model(body)


def _parsed_model(body: bytes | bytearray) -> bytes | None:
    """Of a body that names it neither before the prompt nor in its last bytes: hardly any does."""
    model = model_of(body) if body[:1] in _BEGINNINGS else None
    return None if model is None else model.encode()


def _find_stream(body: bytes | bytearray, begin: int, end: int) -> bool:
    """The answer is streamed, as far as that is said between `begin` and `end`."""
    return _find_span(body, b'"stream"', begin, end, _TRUE) is not None


def chain_hashes(prompt: bytes | bytearray, root: bytes, start: int = 0) -> tuple[int, ...]:
    """Hash the full blocks of the prompt, which begins at `start`: each with all before it and `root`.

    64 bits each, first block first.
    """
    text = prompt if isinstance(prompt, bytes) else bytes(prompt)
    digest: Any = xxhash.xxh3_64_intdigest
    link: Any = digest(root)
    hashes: list[Any] = []
    num_blocks = bisect_right(BLOCK_ENDS, len(prompt) - start)
    begin = start
    # The first, short blocks are copied: that costs less than a view of them.
    for end in BLOCK_ENDS[: min(num_blocks, _NUM_COPIED)]:
        end += start
        link = digest(text[begin:end], link)
        hashes.append(link)
        begin = end
    if num_blocks > _NUM_COPIED:
        view = memoryview(text)
        for end in BLOCK_ENDS[_NUM_COPIED:num_blocks]:
            end += start
            link = digest(view[begin:end], link)
            hashes.append(link)
            begin = end
    return tuple(hashes)


def prefix_bytes(num_blocks: int) -> int:
    """How many bytes of prompt the first `num_blocks` blocks cover."""
    return BLOCK_ENDS[num_blocks - 1] if num_blocks else 0


def likely_bytes(num_blocks: int, num_bytes: int) -> float:
    """How many bytes two prompts are likely to share that share `num_blocks` blocks and not the next.

    They part somewhere within that: half of it is as likely as not. `num_bytes` is the length of one.
    """
    begin = BLOCK_ENDS[num_blocks - 1] if num_blocks else 0
    end = BLOCK_ENDS[num_blocks] if num_blocks < len(BLOCK_ENDS) else begin
    return (begin + min(end, num_bytes)) / 2 if begin else 0.0


def find_string(body: bytes | bytearray, key: bytes, prompt_at: int = 0) -> bytes | None:
    """The value of a string field, by search; None where there is none or it holds escapes.

    Looks at what stands before `prompt_at`, then at the body's last bytes, and takes the last found: an
    object inside the body may carry the same key, and hardly ever behind the field. Quotes inside JSON
    strings are escaped and never match.
    """
    span = _string_span(body, key, prompt_at)
    return bytes(body[span[0] : span[1]]) if span is not None else None


def rename_model(body: bytes | bytearray, path: bytes, aliases: Mapping[bytes, bytes]) -> bytes | bytearray:
    """The body with its model's alias, if it is one, replaced by the model's name; nothing else changes."""
    span = _string_span(body, b"model", prompt_start(body, path))
    if span is None:
        return _rename_parsed(body, aliases)
    model = aliases.get(bytes(body[span[0] : span[1]]))
    return body if model is None else spliced(body, span, model)


def spliced(body: bytes | bytearray, span: tuple[int, int], text: bytes) -> bytes:
    """The body with this text between begin and end of the span; written once, whatever its length."""
    view = memoryview(body)
    return b"".join((view[: span[0]], text, view[span[1] :]))


def _rename_parsed(body: bytes | bytearray, aliases: Mapping[bytes, bytes]) -> bytes | bytearray:
    """As `rename_model`, where a parser alone tells the body's own `model` from one inside its prompt."""
    named = _parsed_model(body)
    model = aliases.get(named) if named is not None else None
    if named is None or model is None:
        return body
    end = len(body)
    for _ in range(_MAX_FIELD_TRIES):
        span = _find_span(body, b'"model"', 0, end, _STRING_VALUE)
        if span is None:
            break
        renamed = spliced(body, span, model)
        if _parsed_model(renamed) == model:
            return renamed
        end = body.rfind(b'"model"', 0, span[0])
    return body


def _string_span(body: bytes | bytearray, key: bytes, prompt_at: int) -> tuple[int, int] | None:
    quoted = b'"' + key + b'"'
    found = _find_span(body, quoted, 0, prompt_at, _STRING_VALUE)
    if found is None:
        tail = max(prompt_at, len(body) - _TAIL_BYTES)
        found = _find_span(body, quoted, tail, len(body), _STRING_VALUE)
    return found


def _find_span(
    body: bytes | bytearray, quoted: bytes, begin: int, end: int, pattern: re.Pattern[bytes]
) -> tuple[int, int] | None:
    """The last of the values between `begin` and `end` whose name stands there in quotes."""
    for _ in range(_MAX_FIELD_TRIES):
        end = body.rfind(quoted, begin, end)
        if end < 0:
            break
        value = pattern.match(body, end + len(quoted))
        if value is not None:
            return value.span(1)
    return None


def error_body(refusal: Refusal, path: bytes = b"") -> bytes:
    """OpenAI's error object: `{"error": {"message", "type", "param", "code"}}`.

    On the paths of Anthropic's Messages API the type is one of Anthropic's, and `"type": "error"` stands
    before, as in its own errors.
    """
    error = {"message": refusal.message, "type": refusal.type, "param": refusal.param, "code": refusal.code}
    if not anthropic.serves(path):
        return json.dumps({"error": error}).encode()
    error["type"] = anthropic.error_type(refusal.status)
    return json.dumps({"type": "error", "error": error}).encode()


def response(
    status: int,
    body: bytes,
    *,
    content_type: bytes = b"application/json",
    request_id: bytes | None = None,
    keep_alive: bool = True,
    retry_after_seconds: int | None = None,
    is_head: bool = False,
    headers: bytes = b"",
) -> bytes:
    """A whole answer of the router's own; `headers` are further lines of its head."""
    lines = [
        b"HTTP/1.1 %d %s" % (status, HTTPStatus(status).phrase.encode()),
        b"content-type: " + content_type,
        b"content-length: %d" % len(body),
    ]
    if request_id is not None:
        lines.append(b"x-request-id: " + request_id)
    if retry_after_seconds is not None:
        lines.append(b"retry-after: %d" % retry_after_seconds)
    if not keep_alive:
        lines.append(b"connection: close")
    return b"\r\n".join(lines) + b"\r\n" + headers + b"\r\n" + (b"" if is_head else body)


def error_response(
    refusal: Refusal, *, request_id: bytes | None, keep_alive: bool, is_head: bool = False, path: bytes = b""
) -> bytes:
    """`refusal` as an answer to a request of this path; 503 and 429 carry `Retry-After`."""
    return response(
        refusal.status,
        error_body(refusal, path),
        request_id=request_id,
        keep_alive=keep_alive,
        retry_after_seconds=refusal.retry_after_seconds,
        is_head=is_head,
        headers=refusal.headers,
    )
