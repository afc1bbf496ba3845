"""Kubernetes' API for the EndpointSlices of any Service, on loopback: lists, and watches that go on.

It keeps what a watcher depends on: one resourceVersion for all, a watch told everything after the version it
names, bookmarks, an end after `timeoutSeconds`, 410 for a version that was compacted, 504 for one that was
never given out, 401 without the token and a label selector that is obeyed. Over TLS of its own CA.
"""

from __future__ import annotations

import asyncio
import copy
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from fakes_kubernetes import Authority

from hypertier.router.discovery.addresses import Address
from hypertier.router.discovery.api_server import ApiServer

SERVICE_LABEL = "kubernetes.io/service-name"


def endpoint(host: str, *, pod: str | None = None, **conditions: bool) -> dict[str, Any]:
    """An endpoint; its conditions are `ready`, `serving`, `terminating`, unknown where they are not given."""
    made: dict[str, Any] = {"addresses": [host], "conditions": conditions}
    if pod is not None:
        made["targetRef"] = {"kind": "Pod", "namespace": "ns", "name": pod, "uid": f"uid-{pod}"}
    return made


def slice_of(
    name: str,
    *endpoints: dict[str, Any],
    service: str = "engine",
    namespace: str = "ns",
    family: str = "IPv4",
    port: int = 8000,
) -> dict[str, Any]:
    """A slice of a Service, without a version."""
    return {
        "metadata": {"name": name, "namespace": namespace, "labels": {SERVICE_LABEL: service}},
        "addressType": family,
        "endpoints": list(endpoints),
        "ports": [{"name": "http", "port": port, "protocol": "TCP"}],
    }


@dataclass
class SlicesApi:
    """The server. `put`, `delete` and `compact` are what happens in the cluster; `targets` is what was asked.

    `answer_with` is a status that everything gets while it is set, `list_with` one of lists alone; `silent`
    watches are told nothing, and `slow` lists never end.
    """

    folder: Path
    namespace: str = "ns"
    token: str = "token-1"
    answer_with: int = 0
    list_with: int = 0
    slow: bool = False
    silent: bool = False
    targets: list[str] = field(default_factory=list)
    version: int = 1000
    oldest: int = 0
    slices: dict[str, dict[str, Any]] = field(default_factory=dict)
    num_watches: int = 0
    _events: list[tuple[int, dict[str, Any]]] = field(default_factory=list)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _writers: set[asyncio.StreamWriter] = field(default_factory=set)
    _server: asyncio.Server | None = None
    _port: int = 0

    async def start(self) -> SlicesApi:
        """Listen, on the port it had before; leaves what a pod's service account has in `folder`."""
        if not (self.folder / "ca.crt").exists():
            self._authority = Authority.create()
            (self.folder / "ca.crt").write_text(self._authority.pem)
            (self.folder / "token").write_text(self.token)
        tls = self._authority.server_context(self.folder)
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self._port, ssl=tls)
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    async def stop(self) -> None:
        """Go away, connections and all."""
        if self._server is not None:
            self._server.close()
        self.cut()
        while self._writers:
            self._wake()
            await asyncio.sleep(0.002)

    def cut(self) -> None:
        """Reset every connection; what happens before the next is on nobody's wire."""
        for writer in list(self._writers):
            writer.transport.abort()
        self._wake()

    @property
    def server(self) -> ApiServer:
        """As a pod would find it."""
        return ApiServer(Address("127.0.0.1", self._port), self.folder)

    def put(self, slice_: dict[str, Any]) -> None:
        """Create or replace."""
        self.version += 1
        made = copy.deepcopy(slice_)
        made["metadata"]["resourceVersion"] = str(self.version)
        kind = "MODIFIED" if made["metadata"]["name"] in self.slices else "ADDED"
        self.slices[made["metadata"]["name"]] = made
        self._event(kind, made)

    def delete(self, name: str) -> None:
        """Remove: the event carries the last state, with the version of the removal."""
        self.version += 1
        gone = self.slices.pop(name)
        gone["metadata"]["resourceVersion"] = str(self.version)
        self._event("DELETED", gone)

    def bookmark(self) -> None:
        """Other things changed in the cluster; watchers hear how far the server is."""
        self.version += 5
        self._event("BOOKMARK", {"metadata": {"resourceVersion": str(self.version)}})

    def compact(self) -> None:
        """Forget all history: a watch that wants to go on gets 410."""
        self.version += 5
        self.oldest = self.version
        self._events.clear()

    def restore(self) -> None:
        """Come back from an old copy: versions that watchers know are of the future."""
        self.version = 5
        self._events.clear()

    def say(self, line: bytes) -> None:
        """Send this to every watch."""
        for writer in self._writers:
            writer.write(b"%x\r\n%s\r\n" % (len(line), line))

    def _event(self, kind: str, thing: dict[str, Any]) -> None:
        self._events.append((self.version, {"type": kind, "object": copy.deepcopy(thing)}))
        self._wake()

    def _wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            target = head.split(" ")[1]
            self.targets.append(target)
            await self._answer(target, f"Authorization: Bearer {self.token}\r\n" in head, writer)
            await writer.drain()
            writer.close()
        except (asyncio.IncompleteReadError, ConnectionError, OSError):
            pass
        finally:
            self._writers.discard(writer)
            writer.transport.abort()

    async def _answer(self, target: str, is_known: bool, writer: asyncio.StreamWriter) -> None:
        url = urlsplit(target)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        if url.path != f"/apis/discovery.k8s.io/v1/namespaces/{self.namespace}/endpointslices":
            self._status(writer, 403)
        elif not is_known:
            self._status(writer, 401)
        elif self.answer_with:
            self._status(writer, self.answer_with)
        elif query.get("watch") == "true":
            await self._watch(query, writer)
        elif self.list_with:
            self._status(writer, self.list_with)
        elif self.slow:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
            while self.slow and not writer.transport.is_closing():
                writer.write(b" ")
                await asyncio.sleep(0.002)
            writer.transport.abort()
        else:
            chosen = [s for s in self.slices.values() if self._is_selected(s, query)]
            body = {"kind": "EndpointSliceList", "metadata": {"resourceVersion": str(self.version)}}
            self._whole(writer, 200, body | {"items": chosen})

    async def _watch(self, query: dict[str, str], writer: asyncio.StreamWriter) -> None:
        self.num_watches += 1
        after = int(query["resourceVersion"])
        if after > self.version:
            self._status(writer, 504)
            return
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        if after < self.oldest:
            gone = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"}
            self._line(writer, {"type": "ERROR", "object": gone})
            writer.write(b"0\r\n\r\n")
            return
        deadline = asyncio.get_running_loop().time() + float(query["timeoutSeconds"])
        while not writer.transport.is_closing():
            for version, event in [] if self.silent else list(self._events):
                if version > after and self._is_selected(event["object"], query):
                    self._line(writer, event)
                after = max(after, version)
            try:
                async with asyncio.timeout_at(deadline):
                    await self._changed.wait()
            except TimeoutError:
                writer.write(b"0\r\n\r\n")
                return

    def _is_selected(self, thing: dict[str, Any], query: dict[str, str]) -> bool:
        labels = thing["metadata"].get("labels")
        key, _, value = query["labelSelector"].partition("=")
        return labels is None or labels.get(key) == value

    def _status(self, writer: asyncio.StreamWriter, code: int) -> None:
        self._whole(writer, code, {"kind": "Status", "status": "Failure", "code": code})

    def _whole(self, writer: asyncio.StreamWriter, code: int, body: dict[str, Any]) -> None:
        text = json.dumps(body).encode() + b"\n"
        writer.write(b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n" % (code, len(text)) + text)

    def _line(self, writer: asyncio.StreamWriter, event: dict[str, Any]) -> None:
        text = json.dumps(event).encode() + b"\n"
        middle = len(text) // 2  # a line may come in any number of parts
        writer.write(b"%x\r\n%s\r\n" % (middle, text[:middle]))
        writer.write(b"%x\r\n%s\r\n" % (len(text) - middle, text[middle:]))
