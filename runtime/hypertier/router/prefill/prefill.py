"""Prefill by one replica, decode by another: a long prompt's KV cache is computed where nothing else runs.

The first request is the client's own with one token to write and `kv_transfer_params` that keep its blocks
for a remote reader; its answer says where they are, which the second request carries to the replica that
decodes. So vLLM's NixlConnector, and those that follow it, want it
(https://docs.vllm.ai/en/stable/features/nixl_connector_usage/, read 2026-12-01, and vLLM 0.28's code).
Whatever fails in between, the request is served whole.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from collections.abc import Callable
from copy import copy
from typing import Any

from hypertier.errors import HttpError
from hypertier.router.admission import Admitted
from hypertier.router.api.openai import InferenceRequest
from hypertier.router.http.engine_http import OutOfTimeError, ask
from hypertier.router.http.heads import Request, request_head
from hypertier.router.picking import Picker
from hypertier.router.replicas.outliers import Outliers
from hypertier.router.replicas.replicas import Replica, ReplicaSet
from hypertier.router.strategies.strategy import Choice
from hypertier.router.telemetry.decisions import Prefilled

log = logging.getLogger("hypertier.router")

PATHS = (b"/v1/chat/completions", b"/v1/completions")
MAX_ANSWER_BYTES = 16 * 2**20
_REMOTE_DECODE = {
    "do_remote_decode": True,
    "do_remote_prefill": False,
    "remote_engine_id": None,
    "remote_block_ids": None,
    "remote_host": None,
    "remote_port": None,
}
# Of members with one name JSON's readers in Python, vLLM's among them, take the last.
_FIRST_MEMBERS = {
    "stream": False,
    "stream_options": None,
    "max_tokens": 1,
    "max_completion_tokens": 1,
    "min_tokens": 0,
    "n": 1,
    "kv_transfer_params": _REMOTE_DECODE,
}


def with_members(body: bytes | bytearray, members: dict[str, Any]) -> bytes | None:
    """The JSON object in `body` with these members behind its own; None where it ends like no object."""
    end = body.rfind(b"}")
    if end < 1 or body[end + 1 :].strip() or body[:end].rstrip().endswith((b"{", b",")):
        return None
    return b"%b,%b}" % (bytes(body[:end]), json.dumps(members, separators=(",", ":")).encode()[1:-1])


def without_members(body: bytes | bytearray, members: dict[str, Any]) -> bytes:
    """What `with_members` made, as it was but for white space at its end."""
    num_added = len(json.dumps(members, separators=(",", ":"))) - 1  # a comma for the brace
    return bytes(body[: -num_added - 1]) + b"}"


class Prefillers:
    """The replicas that prefill, and the rule for whom: prompts of more than `threshold_tokens`.

    `bytes_per_token` tells how long a prompt is; `legs` counts what became of first requests: `good`, or why
    the whole was sent to one replica. `sweep` is to be called once a second.
    """

    def __init__(
        self,
        replicas: ReplicaSet,
        picker: Picker,
        *,
        threshold_tokens: int,
        bytes_per_token: Callable[[], float],
        timeout_seconds: float,
        connect_seconds: float,
        suspect: Callable[[Replica], None],
        outliers: Outliers,
        now: Callable[[], float],
    ) -> None:
        self.replicas = replicas
        self.picker = picker
        self.legs: Counter[str] = Counter()
        self.timeout_seconds = timeout_seconds
        self.connect_seconds = connect_seconds
        self.suspect = suspect
        self.outliers = outliers
        self.heard: set[Replica] = set()
        """Replicas that answered since the last `sweep`."""
        self.now = now
        self._threshold_tokens = threshold_tokens
        self._bytes_per_token = bytes_per_token

    def want(self, request: Request, inference: InferenceRequest) -> bool:
        """This prompt is to be prefilled elsewhere, and there is somebody to do it."""
        if inference.num_bytes <= self._threshold_tokens * self._bytes_per_token():
            return False
        if request.path not in PATHS:
            return False
        if not self.replicas.healthy:
            self.legs["no_replica"] += 1
            return False
        return True

    def sweep(self) -> None:
        """See what stalls: a replica that says it is well, and answers nobody."""
        heard, self.heard = self.heard, set()
        self.outliers.sweep(heard)


class Leg:
    """The first request, as a client's connection sees it; `go_on` is called once it ended, anyhow.

    `prefilled` is what came of it, None where no replica was asked. It has `timeout_seconds`, and less where
    its replica turns out to be frozen: see `WaitingRequest`.
    """

    streamed = True
    """One token is asked for: whoever waits for it waits for a first token."""

    def __init__(
        self,
        prefillers: Prefillers,
        admitted: Admitted,
        timeout_seconds: float,
        go_on: Callable[[], None],
    ) -> None:
        self.last_tick = -1
        self.ends_with_connection = False
        self._prefillers = prefillers
        self._request = admitted.request
        self._inference = admitted.inference.replace(streamed=True)  # it ends with the first token
        self._request_id = admitted.request_id
        self._grant = admitted.grant
        self._timeout_seconds = timeout_seconds
        self._go_on = go_on
        self._task: asyncio.Task[None] | None = None
        self._patience: asyncio.Timeout | None = None
        self.prefilled: Prefilled | None = None
        self._choice: Choice | None = None
        self._sent_at = 0.0

    def start(self) -> None:
        """Send it."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    def cancel(self) -> None:
        """The client is gone: the engine sees its connection close."""
        if self._task is not None:
            self._task.cancel()
        if self._grant is not None:
            self._grant.end()

    def leave(self) -> None:
        """Its replica is silent, health checks and all: there is who serves the whole."""
        patience, self._patience = self._patience, None
        if patience is not None:
            patience.reschedule(0.0)

    def time_out(self) -> None:
        """It has a limit of its own, which is as long."""

    def pause(self) -> None:
        """Nothing is written yet."""

    def resume(self) -> None:
        """Nothing is written yet."""

    async def _run(self) -> None:
        prefillers, request = self._prefillers, self._request
        try:
            cause, params = await self._prefill()
        except asyncio.CancelledError:
            prefillers.legs["client_closed"] += 1
            raise
        except Exception:  # a fault of ours: nobody else would tell the client, who waits
            log.exception("a prompt could not be prefilled")
            cause, params = "failed", None
        if params is not None:
            body = with_members(request.body, {"kv_transfer_params": params})
            if body is not None:
                request.body = body
        prefillers.legs[cause] += 1
        choice = self._choice
        if choice is not None:
            took = prefillers.now() - self._sent_at
            self.prefilled = Prefilled(choice.replica, cause, choice.predicted_seconds, took)
        self._go_on()

    async def _prefill(self) -> tuple[str, dict[str, Any] | None]:
        """What became of it in a word, and the parameters of its blocks, if there are any."""
        prefillers, request = self._prefillers, self._request
        body = with_members(request.body, _FIRST_MEMBERS)
        if body is None:
            return "not_json", None
        picker, now = prefillers.picker, prefillers.now
        choice = picker.pick(self, self._inference, now())
        if choice is None:
            return "no_replica", None
        self._choice, self._sent_at = choice, now()
        replica = choice.replica
        pending = max(0, self._inference.num_bytes - choice.matched_bytes)
        prefillers.replicas.start(replica, pending)
        asked = copy(request)
        asked.body = body
        try:
            async with asyncio.timeout(None) as self._patience:
                replica.waiting.add(self)
                status, answer = await ask(
                    replica.address,
                    request_head(asked, self._request_id) + body,
                    timeout_seconds=self._timeout_seconds,
                    max_bytes=MAX_ANSWER_BYTES,
                    connect_seconds=prefillers.connect_seconds,
                )
            picker.strategy.first_token(self, now())
        except TimeoutError:
            return "silent", None
        except HttpError as error:
            # Its client may have given it less time than any engine takes.
            is_own = self._timeout_seconds >= prefillers.timeout_seconds
            if is_own or not isinstance(error, OutOfTimeError):
                prefillers.outliers.failed(replica)
                prefillers.suspect(replica)
            return "failed", None
        finally:
            self._patience = None
            replica.waiting.discard(self)
            replica.pending_bytes -= pending
            prefillers.replicas.finish(replica)
            picker.strategy.finished(self, now())
        prefillers.heard.add(replica)
        if status < 500:
            prefillers.outliers.succeeded(replica)
        else:
            prefillers.outliers.failed(replica, status)
        if status != 200:
            return f"status_{status}", None
        try:
            params = json.loads(answer).get("kv_transfer_params")
        except (AttributeError, RecursionError, ValueError):
            return "malformed", None
        return ("good", params) if isinstance(params, dict) else ("no_parameters", None)
