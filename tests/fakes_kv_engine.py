"""An engine whose tokens are characters: it says what it stored of each prompt."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from fakes_engine import FakeEngine, Received, json_answer

TEMPLATE = "<user>{}<assistant>"
TOKENIZE, CHAT, COMPLETIONS = b"/tokenize", b"/v1/chat/completions", b"/v1/completions"


async def nobody(*events: Any) -> None:
    """Hears nothing."""


@dataclass
class KvEngine(FakeEngine):
    """`say` takes events as maps. Chats are rendered by `template`, and by `told` for `/tokenize`.

    Answers 400 to the forms of `not_served`. With `num_ranks` its metrics are those of so many. With
    `window_block_size` it tells of a group of layers with a sliding window first, whose blocks are so long.
    """

    say: Callable[..., Awaitable[None]] = nobody
    block_size: int = 16
    template: str = TEMPLATE
    told: str = TEMPLATE
    names_salts: bool = True
    not_served: tuple[bytes, ...] = ()
    num_ranks: int = 1
    window_block_size: int | None = None
    hashes: itertools.count[int] = field(default_factory=itertools.count)

    def __post_init__(self) -> None:
        self.answer = self._serve_prompt
        self.metrics = b"".join(
            b'vllm:cache_config_info{block_size="%d",engine="%d",num_gpu_blocks="100"} 1.0\n'
            % (self.block_size, rank)
            for rank in range(self.num_ranks)
        )

    async def _serve_prompt(self, received: Received, writer: asyncio.StreamWriter) -> None:
        path = received.line.split(b" ")[1]
        if path in self.not_served:
            writer.write(json_answer(b"{}", b"400 Bad Request"))
            return
        if not received.body:
            writer.write(json_answer(b"{}"))
            return
        asked = json.loads(received.body)
        if path == TOKENIZE:
            text = self.text_of(asked, self.told)
            answer = {"tokens": list(map(ord, text)), "token_strs": list(text)}
            writer.write(json_answer(json.dumps(answer).encode()))
            return
        text = self.text_of(asked, self.template)
        salt = asked.get("cache_salt")
        if self.window_block_size is not None:
            windowed = {"kv_cache_spec_kind": "sliding_window", "group_idx": 1}
            await self.say(self.stored(text, salt, self.window_block_size) | windowed)
        await self.say(self.stored(text, salt))
        writer.write(json_answer(json.dumps({"usage": {"prompt_tokens": len(text)}}).encode()))

    def text_of(self, asked: dict[str, Any], template: str) -> str:
        """A prompt as it is computed."""
        if "prompt" in asked:
            return str(asked["prompt"])
        return "".join(template.format(message["content"]) for message in asked["messages"])

    def stored(self, text: str, salt: str | None = None, block_size: int | None = None) -> dict[str, Any]:
        """The event of a prompt's full blocks."""
        block_size = block_size or self.block_size
        num_blocks = len(text) // block_size
        keys: list[Any] = [None] * num_blocks
        if salt is not None and keys and self.names_salts:
            keys[0] = [salt]
        return {
            "type": "BlockStored",
            "block_hashes": [next(self.hashes) for _ in range(num_blocks)],
            "parent_block_hash": None,
            "token_ids": list(map(ord, text[: num_blocks * block_size])),
            "block_size": block_size,
            "extra_keys": keys,
        }
