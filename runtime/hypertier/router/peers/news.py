"""What routers of one endpoint tell one another, as bytes on a TCP connection.

Both sides begin with a greeting: `htrn`, a byte with the version, 16 bytes that name this start of this router.
Then the one that connected speaks, and the other listens. Each message is the length of its body in 2 bytes, a
byte that says which it is, and the body; numbers are in network order:

| kind | body |
|---|---|
| 1 sent | number of the request (8), prompt bytes (8), of these believed cached there (8), 1 if its answer is streamed (1), length of the replica's name (2), the name, hashes of the prompt's blocks (8 each) |
| 2 first token | number of the request (8) |
| 3 finished | number of the request (8) |
| 4 alive | |
| 5 answered | number of the request (8): its first event came, and it finished |

A request's number is unique on its connection. What ends with the connection is finished.
"""  # noqa: E501 (a row of a table)

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import cache
from typing import Any, Final

from hypertier.errors import PeerError
from hypertier.router.api.openai import BLOCK_ENDS

VERSION: Final = 2
ID_BYTES: Final = 16
MAX_NAME_BYTES: Final = 512
MAX_PROMPT_BYTES: Final = 2**48

_MAGIC: Final = b"htrn"
_GREETING: Final = struct.Struct(f"!4sB{ID_BYTES}s")
_HEAD: Final = struct.Struct("!HB")
_SENT: Final = struct.Struct("!QQQBH")
_HEAD_BYTES: Final = 3
_SENT_BYTES: Final = 27
_NUMBER_BYTES: Final = 8
_HASH_BYTES: Final = 8
_NEWS_OF_A_NUMBER: Final = struct.Struct("!HBQ")
_SENT_KIND: Final = 1
_FIRST_TOKEN_KIND: Final = 2
_FINISHED_KIND: Final = 3
_ALIVE_KIND: Final = 4
_ANSWERED_KIND: Final = 5
_MAX_HASHES: Final = len(BLOCK_ENDS)

GREETING_BYTES: Final = _GREETING.size
MAX_BODY_BYTES: Final = _SENT_BYTES + MAX_NAME_BYTES + _HASH_BYTES * _MAX_HASHES
ALIVE_MESSAGE: Final = _HEAD.pack(0, _ALIVE_KIND)


class Sent:
    """A request went to a replica. `replica` is its `HOST:PORT`; the rest is as in `InferenceRequest`."""

    __slots__ = ("block_hashes", "matched_bytes", "num_bytes", "number", "replica", "streamed")

    def __init__(
        self,
        number: int,
        replica: bytes,
        num_bytes: int,
        matched_bytes: int,
        streamed: bool,
        block_hashes: tuple[int, ...],
    ) -> None:
        self.number = number
        self.replica = replica
        self.num_bytes = num_bytes
        self.matched_bytes = matched_bytes
        self.streamed = streamed
        self.block_hashes = block_hashes


class _Progress:
    """What became of a request, by its number."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number


class FirstToken(_Progress):
    """The first event of its answer came."""

    __slots__ = ()


class Finished(_Progress):
    """It ended, well or not."""

    __slots__ = ()


class Answered(_Progress):
    """Both at once, as of most answers that are not streamed."""

    __slots__ = ()


class Alive:
    """Nothing happened."""

    __slots__ = ()


News = Sent | FirstToken | Finished | Answered | Alive


def greeting(router_id: bytes) -> bytes:
    """The first bytes of either side."""
    return _GREETING.pack(_MAGIC, VERSION, router_id)


def read_greeting(data: bytes) -> bytes:
    """The other router's id, from its first `GREETING_BYTES`. Raises PeerError for a foreign one."""
    magic, version, router_id = _GREETING.unpack(data)
    if magic != _MAGIC:
        raise PeerError("malformed", "this is no router")
    if version != VERSION:
        raise PeerError("version", f"it speaks version {version}, this router version {VERSION}")
    return bytes(router_id)


def sent_message(
    number: int,
    replica: bytes,
    num_bytes: int,
    matched_bytes: int,
    streamed: bool,
    block_hashes: Sequence[int],
) -> bytes:
    """A `Sent` as bytes; its fields must be within the bounds that `Reader` holds others to."""
    num_hashes = len(block_hashes)
    length = _SENT_BYTES + len(replica) + _HASH_BYTES * num_hashes
    return _form(len(replica), num_hashes).pack(
        *(length, _SENT_KIND, number, num_bytes, matched_bytes, streamed, len(replica), replica),
        *block_hashes,
    )


@cache
def _form(name_bytes: int, num_hashes: int) -> struct.Struct:
    """A whole `Sent`, head included."""
    return struct.Struct(f"!HBQQQBH{name_bytes}s{num_hashes}Q")


def first_token_message(number: int) -> bytes:
    """A `FirstToken` as bytes."""
    return _NEWS_OF_A_NUMBER.pack(_NUMBER_BYTES, _FIRST_TOKEN_KIND, number)


def finished_message(number: int) -> bytes:
    """A `Finished` as bytes."""
    return _NEWS_OF_A_NUMBER.pack(_NUMBER_BYTES, _FINISHED_KIND, number)


def answered_message(number: int) -> bytes:
    """An `Answered` as bytes."""
    return _NEWS_OF_A_NUMBER.pack(_NUMBER_BYTES, _ANSWERED_KIND, number)


class Reader:
    """Takes messages out of a stream of bytes; holds less than one message in between."""

    def __init__(self) -> None:
        self._rest = b""

    @property
    def num_held(self) -> int:
        """Bytes of a message that has not come whole."""
        return len(self._rest)

    def feed(self, data: bytes) -> list[News]:
        """The messages that are whole with `data`. Raises PeerError for one that no router writes."""
        data = self._rest + data if self._rest else data
        found: list[News] = []
        at = 0
        while len(data) - at >= _HEAD_BYTES:
            length = data[at] << 8 | data[at + 1]
            if length > MAX_BODY_BYTES:
                raise PeerError("malformed", f"a message of {length} bytes; {MAX_BODY_BYTES} are the most")
            begin = at + _HEAD_BYTES
            if begin + length > len(data):
                break
            found.append(_read(data[at + 2], data, begin, length))
            at = begin + length
        self._rest = data[at:]
        return found


def _read(kind: int, data: bytes, begin: int, length: int) -> News:
    """The message whose body has `length` bytes of `data` from `begin` on."""
    if kind == _SENT_KIND and length >= _SENT_BYTES:
        return _read_sent(data, begin, begin + length)
    if length == _NUMBER_BYTES:
        if kind == _ANSWERED_KIND:
            return Answered(_number(data, begin))
        if kind == _FIRST_TOKEN_KIND:
            return FirstToken(_number(data, begin))
        if kind == _FINISHED_KIND:
            return Finished(_number(data, begin))
    if kind == _ALIVE_KIND and not length:
        return Alive()
    raise PeerError("malformed", f"a message of kind {kind} and {length} bytes")


def _number(data: bytes, begin: int) -> int:
    number = 0
    for at in range(begin, begin + _NUMBER_BYTES):
        number = number << 8 | data[at]
    return number


def _read_sent(data: bytes, begin: int, end: int) -> Sent:
    read: tuple[Any, ...] = _SENT.unpack_from(data, begin)
    num_bytes: int = read[1]
    matched_bytes: int = read[2]
    streamed: int = read[3]
    name_length: int = read[4]
    name_begin = begin + _SENT_BYTES
    hashes_begin = name_begin + name_length
    num_hashes, left = divmod(end - hashes_begin, _HASH_BYTES)
    if name_length > MAX_NAME_BYTES or left or not 0 <= num_hashes <= _MAX_HASHES:
        raise PeerError("malformed", f"a request with a name of {name_length} bytes among {end - begin}")
    if streamed > 1 or not matched_bytes <= num_bytes <= MAX_PROMPT_BYTES:
        raise PeerError("malformed", f"a prompt of {num_bytes} bytes, {matched_bytes} of them cached")
    hashes: tuple[Any, ...] = _hashes(num_hashes).unpack_from(data, hashes_begin)
    return Sent(read[0], data[name_begin:hashes_begin], num_bytes, matched_bytes, streamed == 1, hashes)


@cache
def _hashes(count: int) -> struct.Struct:
    return struct.Struct(f"!{count}Q")
