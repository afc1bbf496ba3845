"""Which replica serves which models, adapters among them, and what clients may call them. Values alone.

An engine lists its models and its LoRA adapters at `/v1/models`
(https://docs.vllm.ai/en/stable/features/lora/, read 2026-12-01); `model_reading` asks.
"""

from __future__ import annotations

import json
import re
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any
from urllib.parse import quote_from_bytes, unquote_to_bytes

from hypertier.router.api.openai import Refusal, named_model
from hypertier.router.http.heads import Request
from hypertier.router.replicas.replicas import Replica, ReplicaSet, State

LIST_PATH = b"/v1/models"
MAX_MODELS = 16_384
"""Of one replica: what a longer list names beyond them is asked for as if the replica had said nothing."""
MAX_FOUND = 1024
"""Models of which it is kept who serves them; adapters may be ten thousands."""
# Nothing is tried twice, and few short lines stand behind the name, so many names take no longer than one.
_FORM_FIELD = re.compile(
    rb'name="?model"?[^\r\n]{0,256}+\r\n(?:[^\r\n]{1,256}+\r\n){0,4}+\r\n([^\r\n]{0,512}+)\r\n'
)
_FORM_BYTES = 64 * 1024


class Models:
    """What every replica said that it serves, and `aliases`: other names, by which the router knows models.

    A replica that said nothing is taken to serve whatever no other is known to; while it is being asked for
    the first time, nothing.
    """

    def __init__(self, replicas: ReplicaSet, aliases: Mapping[str, str] | None = None) -> None:
        self.aliases = {name.encode(): model.encode() for name, model in (aliases or {}).items()}
        self.is_mixed = False
        self.tells_apart = False
        """Not every replica may be picked for every model that is known."""
        self.named: Counter[bytes] = Counter()
        """In how many of the lists that differ a model stands."""
        self.version = 0
        """Another one where a list comes that no replica had, or goes, or a split changes."""
        self._split: Mapping[bytes, Sequence[bytes]] = {}
        self._replicas = replicas
        self._listed: dict[Replica, dict[bytes, Mapping[str, Any]]] = {}
        self._alike: Counter[frozenset[bytes]] = Counter()
        """How many replicas serve just these."""
        self._bases: dict[frozenset[bytes], frozenset[bytes]] = {}
        self._has_more: set[Replica] = set()
        self._untold: set[Replica] = set()
        """Those that may be picked and did not say."""
        self._awaited: set[Replica] = set()
        """Of these, who is being asked for the first time."""
        self._was_mixed = False
        self._gone: OrderedDict[bytes, None] = OrderedDict()
        """What replicas that left served, and none does now: the latest `MAX_MODELS`."""
        self._last_had_more = False
        self._answer: tuple[Mapping[bytes, Sequence[bytes]], bytes] | None = None
        self._found: dict[bytes | None, Sequence[Replica]] = {}
        self._found_among: Sequence[Replica] = ()
        """Who serves which models, of these."""
        self._watchers: list[Callable[[Replica], None]] = []
        self._hearers: list[Callable[[Replica | None], None]] = []
        replicas.watch(self._changed)

    def hear(self, hearer: Callable[[Replica | None], None]) -> None:
        """Call `hearer(replica)` where one is known to serve something else; with None for a split."""
        self._hearers.append(hearer)

    def watch(self, watcher: Callable[[Replica], None]) -> None:
        """Call `watcher(replica)` where one says that it serves other models than before, adapters aside."""
        self._watchers.append(watcher)

    def learn(self, replica: Replica, entries: Sequence[Mapping[str, Any]]) -> None:
        """The replica serves these: the `data` of its `/v1/models`."""
        if replica.state is State.LEAVING:
            return
        listed = {name: entry for entry in entries[:MAX_MODELS] if (name := _name(entry)) is not None}
        before = self._listed.get(replica)
        had_more = replica in self._has_more
        has_more = len(entries) > MAX_MODELS
        self._listed[replica] = listed
        self._untold.discard(replica)
        self._awaited.discard(replica)
        (self._has_more.add if has_more else self._has_more.discard)(replica)
        self.version += had_more != has_more
        names = frozenset(listed)
        self._count(names, 1)
        if names not in self._bases:
            self._bases[names] = frozenset(n for n, entry in listed.items() if entry.get("parent") is None)
        if before is not None:
            self._count(frozenset(before), -1)
        self._answer = None
        self._compare()
        if before is None or before.keys() != listed.keys() or had_more != has_more:
            self._tell(replica)
        if before is not None and _bases(before) != _bases(listed):
            for watcher in self._watchers:
                watcher(replica)

    @property
    def split(self) -> Mapping[bytes, Sequence[bytes]]:
        """Names behind each of which there are several models."""
        return self._split

    @split.setter
    def split(self, split: Mapping[bytes, Sequence[bytes]]) -> None:
        self.version += split != self._split
        self._split = split
        self._tell(None)

    @property
    def lists(self) -> Collection[frozenset[bytes]]:
        """What replicas serve, each list once."""
        return self._alike.keys()

    @property
    def bases(self) -> Mapping[frozenset[bytes], frozenset[bytes]]:
        """Of each of the `lists`, the models that are no adapters."""
        return self._bases

    @property
    def open_lists(self) -> Collection[Collection[bytes]]:
        """Those that are longer than what is known of them."""
        return [self._listed[replica].keys() for replica in self._has_more]

    @property
    def num_silent(self) -> int:
        """Replicas that may be picked, were asked, and did not say what they serve."""
        return len(self._untold) - len(self._awaited)

    @property
    def any_gone(self) -> bool:
        """Some models have no replica any more."""
        return bool(self._gone)

    def is_gone(self, model: bytes) -> bool:
        """The last replica that served it left."""
        return model in self._gone

    def names_of(self, replica: Replica) -> Collection[bytes] | None:
        """What it is picked for; None for whatever no other is known to serve."""
        listed = self._listed.get(replica)
        if listed is not None:
            return listed.keys()
        return () if replica in self._awaited and (self._alike or self._was_mixed) else None

    def expect(self, replica: Replica) -> None:
        """It is being asked what it serves; see `asked`."""
        if replica in self._untold:
            self._awaited.add(replica)
            self._compare()

    def asked(self, replica: Replica) -> None:
        """It was, and may have said nothing."""
        if replica in self._awaited:
            self._awaited.discard(replica)
            self._compare()
            self._tell(replica)

    def base_of(self, replica: Replica) -> str | None:
        """The first model that the replica lists and that is no adapter; None where it is not known."""
        names = _bases(self._listed.get(replica, {}))
        return names[0][0] if names else None

    def context_of(self, model: bytes | None) -> int | None:
        """Tokens of prompt and answer together, of the least among its replicas; None where none told."""
        told: list[int] = []
        for listed in self._listed.values():
            entry = listed.get(model) if model is not None else None
            parent = entry.get("parent") if entry is not None else None
            if isinstance(parent, str):  # an adapter's entry has no length of its own
                entry = listed.get(parent.encode(), entry)
            length = entry.get("max_model_len") if entry is not None else None
            if isinstance(length, int):
                told.append(length)
        return min(told, default=None)

    def groups_of(self, replica: Replica) -> list[list[Replica]]:
        """For each model of the replica's, adapters aside, those that serve it: itself, and all unknown ones.

        All there are, where it is not known what it serves.
        """
        every = list(self._replicas.by_url.values())
        names = [name.encode() for name, *_ in _bases(self._listed.get(replica, {}))]
        if not names:
            return [every]
        return [[r for r in every if r not in self._listed or name in self._listed[r]] for name in names]

    def servers(self, model: bytes, candidates: Sequence[Replica]) -> Sequence[Replica]:
        """Those of the candidates that serve the model, or, where none is known to, that did not say all.

        Where replicas that said it serve all the same, one that was asked and did not is like them. Of all
        that may be picked it is found once, and the same tuple, until something changes.
        """
        if candidates is not self._found_among:
            if candidates is not self._replicas.healthy:
                return self._find(model, candidates)
            self._found.clear()
            self._found_among = candidates
        name = model if model in self.named else None  # whom nobody is known to serve are alike, and many
        found = self._found.get(name)
        if found is None:
            if len(self._found) >= MAX_FOUND:
                self._found.clear()
            found = self._found[name] = tuple(self._find(model, candidates))
        return found

    def _find(self, model: bytes, candidates: Sequence[Replica]) -> Sequence[Replica]:
        listed, awaited = self._listed, self._awaited
        if not listed and (not awaited or not self._was_mixed):
            return candidates
        known = [r for r in candidates if model in listed.get(r, ())]
        if not known:
            known = [r for r in candidates if r in self._has_more or (r not in listed and r not in awaited)]
        elif not self.is_mixed:
            known = [r for r in candidates if r not in awaited]
        return candidates if len(known) == len(candidates) else known

    def refusal(self, model: bytes) -> Refusal | None:
        """The answer to a model that no replica has; None where one may have it."""
        listed = self._listed
        if not listed or self._has_more or model in self.named:
            return None
        if any(replica not in listed for replica in self._replicas.by_url.values()):
            return None
        name = model.decode("utf-8", "replace")[:200]
        return Refusal(404, f"The model `{name}` does not exist", "model_not_found", param="model")

    def may_come(self, model: bytes | None) -> bool:
        """Whether a replica that comes may serve it: one that left did, an alias or a split leads to it, or a
        replica that did not say may have it.
        """
        if model is None or model in self._gone or model in self.aliases.values():
            return True
        if any(model in models for models in self.split.values()):
            return True
        if self._listed:
            return self.refusal(model) is None
        return self._last_had_more or not self._gone

    def answer(self) -> bytes:
        """`/v1/models` of all replicas together, aliases and split names among them; each name once.

        Ten thousand take some 50 ms, so it is written anew only where something changed.
        """
        if self._answer is not None and self._answer[0] is self.split:
            return self._answer[1]
        text = json.dumps({"object": "list", "data": list(self._merged().values())}).encode()
        self._answer = self.split, text
        return text

    def answer_of(self, name: bytes) -> bytes | None:
        """What the list has of this name, which vLLM itself does not tell; None where it has nothing."""
        for model in (name, self.aliases.get(name, name), *self.split.get(name, ())):
            for listed in self._listed.values():
                if model in listed:
                    renamed = {} if model == name else {"id": name.decode(), "root": model.decode()}
                    return json.dumps({**listed[model], **renamed}).encode()
        return None

    def _merged(self) -> dict[bytes, Mapping[str, Any]]:
        merged: dict[bytes, Mapping[str, Any]] = {}
        for listed in self._listed.values():
            for name, entry in listed.items():
                merged.setdefault(name, entry)
        others = [(alias, model) for alias, model in self.aliases.items()]
        others += [(name, model) for name, models in self.split.items() for model in models]
        for name, model in others:
            if model in merged:
                merged.setdefault(name, {**merged[model], "id": name.decode(), "root": model.decode()})
        return merged

    @property
    def speaks_for_all(self) -> bool:
        """No single replica can say what there is."""
        return bool(self._listed) and (self.is_mixed or bool(self.aliases) or bool(self.split))

    @property
    def num_known(self) -> int:
        """Replicas that said what they serve."""
        return len(self._listed)

    def _count(self, names: frozenset[bytes], step: int) -> None:
        """So many more replicas, or fewer, serve just these."""
        alike, named = self._alike, self.named
        alike[names] += step
        if step > 0 and alike[names] == 1:
            self.version += 1
            named.update(names)
            for name in self._gone.keys() & names:
                del self._gone[name]
        elif not alike[names]:
            self.version += 1
            del alike[names], self._bases[names]
            for name in names:
                named[name] -= 1
                if not named[name]:
                    del named[name]

    def _compare(self) -> None:
        """Some replica serves, or may be picked for, something else than before."""
        self._found.clear()
        self.is_mixed = len(self._alike) > 1
        self._was_mixed = self._was_mixed or self.is_mixed
        self.tells_apart = self.is_mixed or bool(self._untold and (self._alike or self._was_mixed))

    def _tell(self, replica: Replica | None) -> None:
        for hearer in self._hearers:
            hearer(replica)

    def _changed(self, replica: Replica, reason: str) -> None:
        if replica.state is State.HEALTHY:
            if replica not in self._listed:
                self._untold.add(replica)
                self._compare()
            return
        if replica in self._untold:
            self._untold.discard(replica)
            self._awaited.discard(replica)
            self._compare()
        if replica.state is not State.LEAVING:
            return
        listed = self._listed.pop(replica, None)
        if listed is None:
            return
        self._last_had_more = replica in self._has_more
        self.version += self._last_had_more
        self._has_more.discard(replica)
        self._count(frozenset(listed), -1)
        for name in listed:
            if name not in self.named:
                self._gone.pop(name, None)
                self._gone[name] = None
        while len(self._gone) > MAX_MODELS:
            self._gone.popitem(last=False)
        self._answer = None
        self._compare()
        self._tell(replica)


def asked_model(request: Request, aliases: Mapping[bytes, bytes]) -> bytes | None:
    """The model that a request with a body is for, by its own name; None where it names none."""
    model = named_model(request.body, request.path)
    if model is None:
        span = form_model(request)
        model = model_in_path(request.path) if span is None else bytes(request.body[span[0] : span[1]])
    return aliases.get(model, model) if model is not None else None


def model_in_path(path: bytes) -> bytes | None:
    """Whose path it is, below the list of models: clients write the `/` of a name as it is, or as `%2F`."""
    return unquote_to_bytes(path[len(LIST_PATH) + 1 :]) if path.startswith(LIST_PATH + b"/") else None


def model_in_query(target: bytes) -> bytes | None:
    """As clients of OpenAI's realtime API name it: `?model=NAME`."""
    for pair in target.partition(b"?")[2].split(b"&"):
        if pair.startswith(b"model="):
            return unquote_to_bytes(pair[len(b"model=") :].replace(b"+", b" ")) or None
    return None


def with_model_in_path(target: bytes, model: bytes) -> bytes:
    """The path of another model, with the target's query."""
    _, mark, query = target.partition(b"?")
    return b"%b/%b%b%b" % (LIST_PATH, quote_from_bytes(model, safe="/:@+").encode(), mark, query)


def _bases(listed: Mapping[bytes, Mapping[str, Any]]) -> list[tuple[str, Any, Any]]:
    """What of the models tells one from another."""
    return [
        (str(entry["id"]), entry.get("root"), entry.get("max_model_len"))
        for entry in listed.values()
        if entry.get("parent") is None
    ]


def _name(entry: Any) -> bytes | None:
    """What clients call it, in bytes; None where it has no name that could be written."""
    name = entry.get("id") if isinstance(entry, Mapping) else None
    try:
        return name.encode() if isinstance(name, str) else None
    except UnicodeEncodeError:  # half a surrogate pair, which JSON can spell
        return None


def form_model(request: Request) -> tuple[int, int] | None:
    """Where a multipart form, as of audio, names its model: begin and end in the body."""
    if not (request.field(b"content-type") or b"").lower().startswith(b"multipart/form-data"):
        return None
    body = request.body
    size = len(body)
    for begin, end in ((0, min(size, _FORM_BYTES)), (max(0, size - _FORM_BYTES), size)):
        found = _FORM_FIELD.search(body, begin, end)
        if found is not None:
            return found.span(1)
    return None
