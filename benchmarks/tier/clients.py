"""The clients that are compared. Each reads into and writes from the same kind of buffer, made once.

Those of other projects run in the engine environment, from a folder of their own on the path.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

Client = tuple[Callable[[], Any], Callable[[], Any]]  # one GET, one SET

KEY = b"bench"


def memcpy(port: int, size: int) -> Client:
    """Copying a value within memory."""
    source, target = memoryview(bytearray(size)), memoryview(bytearray(size))

    def copy() -> None:
        target[:] = source

    return copy, copy


def bare_socket(port: int, size: int) -> Client:
    """Receiving and sending as many bytes from and to a process that does nothing else: the floor."""
    connection = socket.create_connection(("127.0.0.1", port))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    value, answer = memoryview(bytearray(size)), memoryview(bytearray(1))

    def get() -> None:
        connection.sendall(b"g" + size.to_bytes(8, "little"))
        connection.recv_into(value, size, socket.MSG_WAITALL)

    def put() -> None:
        connection.sendall(b"s" + size.to_bytes(8, "little"))
        connection.sendall(value)
        connection.recv_into(answer)

    return get, put


def hypertier(port: int, size: int) -> Client:
    """This project's backend."""
    from hypertier.tier.address import L2Address
    from hypertier.tier.backends.resp import RespBackend
    from hypertier.tier.credentials import FixedCredentials

    backend = RespBackend(L2Address("127.0.0.1", port), FixedCredentials())
    value = [memoryview(bytearray(size))]
    return lambda: backend.get_into(KEY, value, 3600, 60), lambda: backend.put(KEY, value, 3600, 60)


def hypertier_encrypted(port: int, size: int) -> Client:
    """This project's entries, encrypted with AES-256-GCM."""
    from hypertier.tier.cipher import ChunkCipher

    return hypertier_entry(port, size, ChunkCipher(b"k" * 32))


def hypertier_entry(port: int, size: int, cipher: Any = None) -> Client:
    """This project's entries: the backend, with stripes of 4 MiB, header and checksum."""
    from hypertier.tier.address import L2Address
    from hypertier.tier.backends.resp import RespBackend
    from hypertier.tier.credentials import FixedCredentials
    from hypertier.tier.entries import Entries, Loaded

    class Fixed:
        def prepare(self) -> None: ...

        def digest(self) -> bytes:
            return b"n" * 16

        def describe(self) -> bytes:
            return b"{}"

    backend = RespBackend(L2Address("127.0.0.1", port), FixedCredentials())
    entries = Entries(
        backend,
        Fixed(),
        chunk_bytes=size,
        ttl_seconds=3600,
        lookup_timeout_seconds=60,
        io_timeout_seconds=60,
        cipher=cipher,
    )
    value = memoryview(bytearray(size))
    key = KEY + (b" encrypted" if cipher else b"")

    def get() -> None:
        assert entries.load(key, value) is Loaded.WHOLE

    return get, lambda: entries.store(key, value)


def redis_py(port: int, size: int) -> Client:
    """redis-py with the hiredis parser, and the copy into the buffer that a cache needs."""
    import hiredis  # noqa: F401  (redis-py takes it when it is there)
    import redis

    client = redis.Redis(port=port)
    value = memoryview(bytearray(size))

    def get() -> None:
        value[:] = client.get(KEY)

    return get, lambda: client.set(KEY, value, ex=3600)


def glide(port: int, size: int) -> Client:
    """valkey-glide's synchronous client, which takes the buffer as an argument."""
    from glide_sync import GlideClient, GlideClientConfiguration, NodeAddress

    addresses = [NodeAddress("127.0.0.1", port)]
    client = GlideClient.create(GlideClientConfiguration(addresses, request_timeout=60_000))
    value = memoryview(bytearray(size))

    return lambda: client.get(KEY, buffer=value), lambda: client.set(KEY, value)


def lmcache_redis(port: int, size: int) -> Client:
    """LMCache's own connector for `redis://`."""
    from lmcache.v1.storage_backend.connector.redis_connector import RedisConnector

    return lmcache(size, lambda loop, backend: RedisConnector(f"redis://127.0.0.1:{port}", loop, backend))


def lmcache_valkey(port: int, size: int) -> Client:
    """LMCache's own connector for `valkey://`, over valkey-glide."""
    from lmcache.v1.storage_backend.connector.valkey_connector import ValkeyConnector

    return lmcache(size, lambda loop, backend: ValkeyConnector("127.0.0.1", port, loop, backend))


def lmcache_resp(port: int, size: int) -> Client:
    """LMCache's own connector for `resp://`, in C++."""
    from lmcache.v1.storage_backend.connector.redis_connector import RESPConnector

    return lmcache(size, lambda loop, backend: RESPConnector("127.0.0.1", port, loop, backend))


def lmcache(size: int, connect: Callable[[Any, Any], Any]) -> Client:
    """One of LMCache's connectors, over LMCache's own memory allocator."""
    import asyncio
    import threading

    import torch
    from lmcache.utils import CacheEngineKey
    from lmcache.v1.config import LMCacheEngineConfig
    from lmcache.v1.memory_allocators.host_memory_allocator import HostMemoryAllocator
    from lmcache.v1.memory_management import MemoryFormat
    from lmcache.v1.metadata import LMCacheMetadata

    tokens, layers, heads, width = 256, 4, 2, size // (2 * 4 * 256 * 2 * 4)
    allocator = HostMemoryAllocator(8 * size)

    class Backend:
        """What the connector asks of LMCache's local backend."""

        config = LMCacheEngineConfig.from_defaults()
        metadata = LMCacheMetadata("bench", 1, 1, 0, 0, torch.float32, (layers, 2, tokens, heads, width))

        def allocate(self, shapes: Any, dtypes: Any, fmt: Any) -> Any:
            return allocator.allocate(shapes, dtypes, fmt)

    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()  # as in LMCache
    backend = Backend()
    connector = connect(loop, backend)
    key = CacheEngineKey("bench", 1, 0, 7, torch.float32)
    shapes, dtypes = backend.metadata.get_shapes(), backend.metadata.get_dtypes()
    stored = backend.allocate(shapes, dtypes, MemoryFormat.KV_2LTD)
    assert stored.get_size() == size

    def get() -> None:
        loaded = asyncio.run_coroutine_threadsafe(connector.get(key), loop).result()
        assert loaded.get_size() == size
        loaded.ref_count_down()

    def put() -> None:
        stored.ref_count_up()
        asyncio.run_coroutine_threadsafe(connector.put(key, stored), loop).result()

    return get, put


CLIENTS: dict[str, Callable[[int, int], Client]] = {
    "memcpy": memcpy,
    "bare socket": bare_socket,
    "hypertier": hypertier,
    "hypertier entry": hypertier_entry,
    "hypertier encrypted": hypertier_encrypted,
    "redis-py + hiredis": redis_py,
    "valkey-glide": glide,
    "LMCache redis://": lmcache_redis,
    "LMCache valkey://": lmcache_valkey,
    "LMCache resp://": lmcache_resp,
}
