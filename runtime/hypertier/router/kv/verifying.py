"""Whether an engine's blocks are those that its `/tokenize` tells of: tried before what it says is believed.

An engine whose events are heard is sent two prompts of the router's own, a chat and a completion, each with a
`cache_salt` that nobody else has, and is asked for their tokens. What it says that it stored for that salt
must be these tokens and that salt. Which hash engines use, and with what seed, plays no part: blocks are
named anew by `kv_events.chain`. Another process, or another model, is tried again.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Protocol, TypeVar

import xxhash

from hypertier import http_client
from hypertier.errors import HttpError, KvEventError, SizeError, TokenizeError, VerifyError
from hypertier.router.api.openai import Prompt, prompt_start
from hypertier.router.discovery.addresses import Address
from hypertier.router.http import tls
from hypertier.router.kv import tokens
from hypertier.router.kv.kv_events import Event, Stored, chain
from hypertier.router.process.tasks import Tasks
from hypertier.router.replicas import sizing
from hypertier.router.replicas.cache_sizes import Reading
from hypertier.router.replicas.replicas import Replica

T = TypeVar("T")

log = logging.getLogger("hypertier.router")

FORMS = {"chat": "/v1/chat/completions", "completion": "/v1/completions"}
NOT_SERVED = (400, 404, 405, 501)
"""What an engine answers in a form that it does not serve: a chat without a template, say."""
ANSWER_SECONDS = 30.0
EVENT_SECONDS = 5.0
"""From an answer to the events of what was computed for it: engines publish them with each step."""
RETRY_SECONDS = 30.0
MAX_ANSWER_BYTES = 16 * 2**20
USUAL_BLOCK_SIZE = 16
NUM_BLOCKS = 3
"""So many blocks of a prompt show that each is named with those before it."""
GROWTHS = 4
"""Tries of a prompt, each four times as long, before an engine that tells of none is called silent."""
_TURNS = [
    {"role": "user", "content": "one"},
    {"role": "assistant", "content": "two"},
    {"role": "user", "content": "three"},
]
_TOOL = {"type": "function", "function": {"name": "look", "description": "looks", "parameters": {}}}
RENDERED: tuple[dict[str, Any], ...] = (
    {"prompt": "one, two, three", "return_token_strs": True},
    {"messages": _TURNS, "return_token_strs": True},
    {"messages": _TURNS, "tools": [_TOOL], "return_token_strs": True},
)
"""What every engine is asked to render."""
_CHARACTERS_PER_TOKEN = 6
_WORDS = "a prompt of the router's own, to see which of its tokens are cached; "


class Believer(Protocol):
    """Who goes by what engines say: the strategy."""

    def apply(self, replica: Replica, event: Event) -> None:
        """The replica said so."""

    def hear(self, replica: Replica, block_size: int | None = None, rendering: int | None = None) -> None:
        """It is believed from now on; `rendering` stands for how it makes tokens of prompts."""

    def doubt(self, replica: Replica) -> None:
        """It is not, until it is heard; what it says is applied all the same."""

    def forget(self, replica: Replica) -> None:
        """Nothing that it said holds any more."""


class Trial:
    """One prompt of the router's own, and what its engine says of it. `told` is set once that came."""

    def __init__(self, path: str, salt: str, num_characters: int, model: str | None) -> None:
        self.salt = salt
        self.said: Stored | None = None
        self.told = asyncio.Event()
        self.ids: Sequence[int] = ()
        self.names_salt = False
        text = f"{salt} {_WORDS * (num_characters // len(_WORDS) + 1)}"
        body: dict[str, Any] = {} if model is None else {"model": model}
        body |= {"max_tokens": 1, "cache_salt": salt}
        if path == FORMS["chat"]:
            body["messages"] = [{"role": "user", "content": text}]
        else:
            body["prompt"] = text
        self.body = json.dumps(body).encode()
        start = prompt_start(self.body, path.encode())
        self.prompt = Prompt(path.encode(), self.body, start, salt.encode())

    def hear(self, event: Event) -> None:
        """The engine said so, of this prompt or of another; what `KvIndex` passes over tells nothing here."""
        if self.said is not None or not isinstance(event, Stored) or event.parent is not None:
            return
        if event.medium != "GPU" or not event.token_ids or not event.is_whole or not event.is_local:
            return
        self.names_salt = bool(event.extra_keys and event.extra_keys[0] and self.salt in event.extra_keys[0])
        if self.names_salt or self._is_as_told(event):
            self.said = event
            self.told.set()

    def check(self) -> None:
        """Raise VerifyError where the engine says otherwise than `/tokenize` told."""
        said = self.said
        if said is None:
            raise VerifyError("silent", "it said nothing of a prompt that it computed")
        for number, (one, other) in enumerate(zip(self.ids, said.token_ids, strict=False)):
            if one != other:
                problem = f"token {number} of a prompt is {one} by /tokenize, and {other} in its KV events"
                raise VerifyError("tokens", problem)
        size = said.block_size
        num_blocks = min(len(said.token_ids), len(self.ids)) // size
        ids = self.ids[: num_blocks * size]
        keys = [[self.salt] if number == 0 and self.names_salt else [] for number in range(num_blocks)]
        if list(chain(ids, size, extra_keys=keys)) != list(chain(ids, size, extra_keys=said.extra_keys)):
            raise VerifyError("keys", f"a prompt's blocks have {said.extra_keys!r} beside their tokens")

    def _is_as_told(self, event: Stored) -> bool:
        """As an engine says it that names no salts."""
        return bool(self.ids) and list(self.ids[: len(event.token_ids)]) == list(event.token_ids)


class Verifier:
    """Stands between what is heard and the strategy, which hears of an engine once it was found good.

    Told of KV events as the strategy would be: by `apply`, `hear` and `forget`. `model_of` names what an
    engine serves, None where it is not known. `results` counts what came of the tries: `good`; `unsalted`,
    which is good but that its events name no `cache_salt`; or why it is not believed: `tokens`, `keys`,
    `block_size`, `data_parallel`, `silent`, `failed`. What is wrong is logged, once each, and tried again.
    """

    def __init__(
        self,
        strategy: Believer,
        *,
        model_of: Callable[[Replica], str | None],
        event_seconds: float = EVENT_SECONDS,
        retry_seconds: float = RETRY_SECONDS,
        read_metrics: Callable[[Address], Reading] = sizing.fetch,
        failures: Counter[str] | None = None,
    ) -> None:
        self.results: Counter[str] = Counter()
        self.verified: dict[Replica, int] = {}
        """Block sizes of those that are believed."""
        self._strategy = strategy
        self._model_of = model_of
        self._event_seconds = event_seconds
        self._retry_seconds = retry_seconds
        self._read_metrics = read_metrics
        self._trials: dict[Replica, Trial] = {}
        self._tasks: Tasks[Replica] = Tasks("verifying of KV events", failures)
        self._threads = ThreadPoolExecutor(4, thread_name_prefix="verify")

    def apply(self, replica: Replica, event: Event) -> None:
        """The replica said so."""
        self._strategy.apply(replica, event)
        trial = self._trials.get(replica)
        if trial is not None:
            trial.hear(event)

    def hear(self, replica: Replica) -> None:
        """All that the replica says is heard from now on: try it."""
        replica.kv_events = "being verified"
        self.verified.pop(replica, None)
        self._strategy.doubt(replica)
        self._tasks.end(replica)
        self._tasks.start(replica, lambda: self._run(replica))

    def again(self, replica: Replica) -> None:
        """It serves another model: what was found does not hold any more."""
        if replica in self._tasks:
            self.hear(replica)

    def forget(self, replica: Replica) -> None:
        """It is not heard any more."""
        replica.kv_events = "not heard"
        self._tasks.end(replica)
        self._trials.pop(replica, None)
        self.verified.pop(replica, None)
        self._strategy.forget(replica)

    async def stop(self) -> None:
        """Try no more."""
        await self._tasks.stop()
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _run(self, replica: Replica) -> None:
        known = ""
        while True:
            try:
                result, block_size = await self._verify(replica)
                rendering = await self._rendering(replica)
            except VerifyError as error:
                self.results[error.cause] += 1
                replica.kv_events = f"{error.cause}: {error}"
                if replica.kv_events != known:
                    log.warning(
                        "KV events of %s are not used (%s): %s; prefixaware chooses",
                        replica.url,
                        error.cause,
                        error,
                    )
                known = replica.kv_events
            else:
                self.results[result] += 1
                self.verified[replica] = block_size
                replica.kv_events = "verified"
                self._strategy.hear(replica, block_size, rendering)
                return
            await asyncio.sleep(self._retry_seconds)

    async def _verify(self, replica: Replica) -> tuple[str, int]:
        """`good` or `unsalted`, and how long its blocks are. Raises VerifyError."""
        known_size = await self._block_size(replica)
        found: list[Trial] = []
        for form, path in FORMS.items():
            try:
                trial = await self._try(replica, path, known_size)
                if trial is not None:
                    trial.check()
                    found.append(trial)
            except VerifyError as error:
                raise VerifyError(error.cause, f"{form}: {error}") from error
        if not found:
            raise VerifyError("failed", "it serves neither chats nor completions")
        sizes = {trial.said.block_size for trial in found if trial.said is not None}
        others = set(self.verified.values()) - sizes
        if len(sizes) > 1:
            said = " and of ".join(map(str, sorted(sizes)))
            raise VerifyError("block_size", f"its blocks are of {said} tokens; expected one length")
        if others:
            said = " and of ".join(map(str, sorted(others)))
            raise VerifyError(
                "block_size",
                f"its blocks are of {sizes.pop()} tokens, those of engines that are believed of {said}; "
                "expected one --block-size for all, as prompts are looked up by blocks of one length",
            )
        return "good" if all(trial.names_salt for trial in found) else "unsalted", sizes.pop()

    async def _rendering(self, replica: Replica) -> int:
        """A number for what it makes of prompts that are always the same; it differs with its chat template,
        what that does with tools, and its tokenizer. What it fails to render is no fault of its blocks.
        """
        model = self._model_of(replica)
        named = {} if model is None else {"model": model}
        told = []
        for asked in RENDERED:
            ids: Sequence[int] = ()
            with suppress(TokenizeError, VerifyError):
                answer = await self._post(replica, "/tokenize", json.dumps(asked | named).encode())
                ids = () if answer is None else tokens.read_tokens(answer).ids
            told.append(repr(ids).encode())
        return xxhash.xxh3_64_intdigest(b"|".join(told))

    async def _block_size(self, replica: Replica) -> int | None:
        """As its metrics tell. Raises VerifyError where several ranks stand behind its address."""
        try:
            reading = await self._in_thread(self._read_metrics, replica.address)
        except SizeError:
            return None
        if reading.num_ranks > 1:
            raise VerifyError(
                "data_parallel",
                f"{reading.num_ranks} data-parallel ranks share its address: they choose among "
                "themselves, and the first alone is heard",
            )
        return reading.block_size

    async def _try(self, replica: Replica, path: str, block_size: int | None) -> Trial | None:
        """What came of one prompt; None where the engine serves nothing of that form. Raises VerifyError."""
        num_tokens = NUM_BLOCKS * (block_size or USUAL_BLOCK_SIZE)
        model, last = self._model_of(replica), None
        try:
            for _ in range(GROWTHS):
                trial = Trial(path, secrets.token_hex(8), _CHARACTERS_PER_TOKEN * num_tokens, model)
                asked = await self._post(replica, "/tokenize", tokens.question(trial.prompt).body)
                if asked is None:
                    return last
                trial.ids = tokens.read_tokens(asked).ids
                self._trials[replica] = trial
                answer = await self._post(replica, path, trial.body)
                if answer is None:
                    return last
                last = trial
                _check_count(answer, len(trial.ids))
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._event_seconds):
                        await trial.told.wait()
                    break
                num_tokens *= 4
        except (KvEventError, TokenizeError) as error:
            raise VerifyError("failed", str(error)) from error
        finally:
            self._trials.pop(replica, None)
        return last

    async def _post(self, replica: Replica, path: str, body: bytes) -> bytes | None:
        """The answer; None where the engine serves nothing of the kind. Raises VerifyError."""
        address = replica.address
        try:
            reply = await self._in_thread(
                lambda: http_client.exchange(
                    tls.connection(address.host, address.port, address.tls),
                    path,
                    method="POST",
                    body=body,
                    headers={"Content-Type": "application/json"},
                    timeout_seconds=ANSWER_SECONDS,
                    max_bytes=MAX_ANSWER_BYTES,
                )
            )
        except HttpError as error:
            raise VerifyError("failed", f"{path} {error}") from error
        if reply.status in NOT_SERVED:
            return None
        if reply.status != 200:
            raise VerifyError("failed", f"{path} answered with {reply.status}")
        return reply.body

    async def _in_thread(self, work: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work, *arguments)


def _check_count(answer: bytes, num_tokens: int) -> None:
    """Raise VerifyError where an engine counts other tokens in a prompt than its `/tokenize` tells."""
    try:
        counted = json.loads(answer)["usage"]["prompt_tokens"]
    except (KeyError, RecursionError, TypeError, ValueError):
        return
    if counted != num_tokens:
        raise VerifyError(
            "tokens", f"a prompt has {num_tokens} tokens by /tokenize, and {counted} as computed"
        )
