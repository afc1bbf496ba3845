"""An engine whose model knows one answer by heart, with vLLM's streams: pieces, tokens, usage, seams."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any

from fakes_engine import SSE_HEAD, Received, chunk, json_answer

ANSWER = "Blöcke im 漢字-Cache, 🦙 und mehr."
PROMPT = [1000, 1001, 1002]
END = 256
"""The token behind the last byte of the answer; each byte of it is a token, and so the text is often late."""
NO_CHARACTER = "\ufffd"


@dataclass
class Reciter:
    """Answers chats and completions. What it says next follows from the tokens of its prompt alone.

    A piece has `piece_tokens`. After `num_pieces` of them it `ends`: `closed` is its connection, an `error`
    stands in the stream, or it is `idle` until it may `go`. `before` all of it stands a comment.
    """

    num_pieces: int | None = None
    ends: str = "closed"
    piece_tokens: int = 1
    answer: str = ANSWER
    knows_tokens: bool = True
    status: bytes = b"200 OK"
    before: bytes = b""
    go: asyncio.Event = field(default_factory=asyncio.Event)
    is_idle: bool = False
    asked: list[dict[str, Any]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)

    async def __call__(self, request: Received, writer: asyncio.StreamWriter) -> None:
        path = request.line.decode().split(" ")[1]
        body = json.loads(request.body)
        self.asked.append(body)
        self.paths.append(path)
        if path == "/detokenize":
            text = bytes(token for token in body["tokens"] if token < END).decode("utf-8", "replace")
            writer.write(json_answer(json.dumps({"prompt": text}).encode()))
            return
        if not self.status.startswith(b"200"):
            writer.write(json_answer(b'{"error": {"message": "no"}}', self.status))
            return
        writer.write(SSE_HEAD + chunk(self.before) if self.before else SSE_HEAD)
        for number, event in enumerate(self._events(path, body)):
            if number == self.num_pieces and self.ends == "error":
                error = {"message": "EngineCore died", "type": "InternalServerError", "code": 500}
                writer.write(_event({"error": error}) + chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n")
                return
            if number == self.num_pieces and self.ends == "closed":
                await writer.drain()
                writer.transport.close()
                return
            if number == self.num_pieces and self.ends == "idle":
                self.is_idle = True
                await self.go.wait()
            writer.write(_event(event))
        writer.write(chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n")

    def _events(self, path: str, body: dict[str, Any]) -> list[dict[str, Any]]:
        is_chat = path.endswith("/chat/completions")
        prompt = body.get("prompt")
        prompt = prompt if isinstance(prompt, list) else PROMPT
        wants = bool(body.get("return_token_ids")) and self.knows_tokens
        limit = int(body.get("max_tokens") or 1000)
        head = {"id": f"{'chat' if is_chat else ''}cmpl-{id(self)}", "created": id(self) % 1000, "model": "m"}
        head["object"] = "chat.completion.chunk" if is_chat else "text_completion"
        usage = {"prompt_tokens": len(prompt), "prompt_tokens_details": {"cached_tokens": len(prompt)}}
        options = body.get("stream_options") or {}
        events: list[dict[str, Any]] = []
        if is_chat:
            first = {"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}
            events.append({**head, "choices": [first], "prompt_token_ids": prompt if wants else None})
        written = 0
        for tokens, text, finish in _pieces(self.answer.encode(), prompt, self.piece_tokens, limit):
            written += len(tokens)
            choice: dict[str, Any] = {"index": 0, "logprobs": None, "finish_reason": finish}
            choice |= {"delta": {"content": text}} if is_chat else {"text": text}
            if finish or not is_chat:  # as vLLM 0.32's serving.py of either leaves members out
                choice["stop_reason"] = None
            choice["token_ids"] = tokens if wants else None
            if not is_chat:
                choice["prompt_token_ids"] = prompt if wants and written == len(tokens) else None
            events.append({**head, "choices": [choice]})
            if options.get("continuous_usage_stats"):
                so_far = {"completion_tokens": written, "total_tokens": len(prompt) + written}
                events[-1]["usage"] = {"prompt_tokens": len(prompt), **so_far}
        if options.get("include_usage"):
            usage |= {"completion_tokens": written, "total_tokens": len(prompt) + written}
            events.append({**head, "choices": [], "usage": usage})
        return events


def _event(told: dict[str, Any]) -> bytes:
    text = json.dumps(told, separators=(",", ":"), ensure_ascii=False)
    return chunk(b"data: " + text.encode() + b"\n\n")


def _pieces(
    answer: bytes, prompt: list[int], piece_tokens: int, limit: int
) -> list[tuple[list[int], str, str | None]]:
    """Tokens, text and finish reason of each, as `tokenizers`' DecodeStream writes them."""
    said = bytes(token for token in prompt if token < END)
    known = said.decode("utf-8", "replace")
    shown = 0 if known.endswith(NO_CHARACTER) else len(known)
    tokens = [*answer[len(said) :], END][:limit]
    pieces: list[tuple[list[int], str, str | None]] = []
    for begin in range(0, len(tokens), piece_tokens):
        piece, text = tokens[begin : begin + piece_tokens], ""
        for token in piece:
            said += bytes([token]) if token < END else b""
            whole = said.decode("utf-8", "replace")
            if not whole.endswith(NO_CHARACTER):
                text += whole[shown:]
                shown = len(whole)
        is_last = begin + piece_tokens >= len(tokens)
        finish = ("stop" if piece[-1] == END else "length") if is_last else None
        pieces.append((piece, text, finish))
    return pieces
