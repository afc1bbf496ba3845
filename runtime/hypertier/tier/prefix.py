"""How much of a prompt's beginning a namespace holds in L2, and why not more. Pure.

The facts of a namespace tell how its engines name and cut chunks; what is held is told by `Value`s.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hypertier.tier.block_hashes import ALGORITHMS, TAGGED_SINCE, Adapter, block_hashes, chunk_keys
from hypertier.tier.cipher import OVERHEAD_BYTES
from hypertier.tier.entries import stripe_sizes
from hypertier.tier.entry import HEADER_BYTES
from hypertier.tier.inventory import Value
from hypertier.tier.names import entry_name
from hypertier.tier.tenants import tag_of_salt

MAX_STRIPES = 10**6  # of which a name has room for the number
UNTOLD = "what it stands for does not tell how its chunks are named"


@dataclass(frozen=True)
class PromptTokens:
    """A prompt of text as an engine tokenizes it; its `cache_salt` and adapter, where it has any."""

    ids: Sequence[int]
    salt: str | None = None
    adapter: Adapter | None = None


@dataclass(frozen=True)
class Layout:
    """How the engines of a namespace name and cut chunks.

    `groups` has the tokens of a chunk and the number of each group of layers.
    """

    root: bytes
    algorithm: str
    is_tagged: bool
    tokens_per_hash: int
    groups: tuple[tuple[int, int], ...]
    stripe_sizes: tuple[int, ...]


@dataclass(frozen=True)
class Chunk:
    """A chunk of a prompt: its tokens `first` to `end`, and the names of its stripes."""

    first: int
    end: int
    key: bytes
    names: tuple[bytes, ...]


@dataclass(frozen=True)
class Gap:
    """The first chunk that is not held, and what is there of it: `num_found` of its values."""

    first: int
    end: int
    num_values: int
    num_found: int
    num_held_behind: int


@dataclass(frozen=True)
class Held:
    """What L2 holds of a prompt in one namespace; `gap` is None where it holds every whole chunk."""

    num_tokens: int
    tokens_per_chunk: int
    num_chunks: int
    num_held: int
    num_held_tokens: int
    num_bytes: int
    first_expires_seconds: int | None
    gap: Gap | None

    def as_json(self) -> dict[str, Any]:
        """The same as JSON has it."""
        return {
            "tokens_per_chunk": self.tokens_per_chunk,
            "chunks": self.num_chunks,
            "held_chunks": self.num_held,
            "held_tokens": self.num_held_tokens,
            "held_bytes": self.num_bytes,
            "first_expires_seconds": self.first_expires_seconds,
            "first_missing": None
            if self.gap is None
            else {
                "tokens": [self.gap.first, self.gap.end],
                "values": self.gap.num_values,
                "values_found": self.gap.num_found,
                "held_chunks_behind": self.gap.num_held_behind,
            },
            "why": why(self),
        }


def read_layout(facts: Mapping[str, Any]) -> Layout | str:
    """What facts tell of names and sizes; or, in words, why a prompt's chunks can't be named by them."""
    if not facts:
        return "L2 no longer holds what it stands for: its facts expired"
    algorithm = facts.get("hash_algorithm", "")
    if algorithm is None:
        return "its engines' hash seed is random, so nobody else can name their chunks"
    try:
        release = tuple(int(part) for part in str(facts["vllm"]).split(".")[:2])
        blocks = int(facts["blocks_per_chunk"])
        groups = facts["groups"]
        stored_bytes = int(facts["chunk_bytes"]) + (OVERHEAD_BYTES if facts["key"] else 0)
        stripe_bytes = int(facts["stripe_bytes"])
        if not 0 < stored_bytes <= MAX_STRIPES * (stripe_bytes - HEADER_BYTES):
            return UNTOLD
        layout = Layout(
            bytes.fromhex(facts["hash_root"]),
            algorithm,
            release >= TAGGED_SINCE,
            int(facts["tokens_per_hash"]),
            tuple(
                (int(group[0]) * blocks, int(group[2]) if len(group) > 2 else index)
                for index, group in enumerate(groups)
            ),
            stripe_sizes(stored_bytes, stripe_bytes),
        )
    except (KeyError, IndexError, TypeError, ValueError):
        return UNTOLD
    sizes = [layout.tokens_per_hash, *(tokens for tokens, _ in layout.groups)]
    if algorithm not in ALGORITHMS or not layout.groups or any(size < 1 for size in sizes):
        return UNTOLD
    if any(tokens % layout.tokens_per_hash for tokens, _ in layout.groups):
        return UNTOLD
    return layout


def chunks_of(prompt: PromptTokens, namespace: bytes, layout: Layout) -> list[list[Chunk]]:
    """The whole chunks of a prompt, by group of layers."""
    tag = tag_of_salt(prompt.salt)
    hashes = list(
        block_hashes(
            prompt.ids,
            layout.tokens_per_hash,
            layout.root,
            layout.algorithm,
            salt=prompt.salt,
            adapter=prompt.adapter,
            is_tagged=layout.is_tagged,
        )
    )

    def chunks(size: int, group_id: int) -> Iterator[Chunk]:
        keys = chunk_keys(
            hashes,
            len(prompt.ids),
            tokens_per_chunk=size,
            tokens_per_hash=layout.tokens_per_hash,
            group_id=group_id,
        )
        for number, key in enumerate(keys):
            names = (entry_name(namespace, tag + key, stripe) for stripe in range(len(layout.stripe_sizes)))
            yield Chunk(number * size, (number + 1) * size, tag + key, tuple(names))

    return [list(chunks(size, group_id)) for size, group_id in layout.groups]


@dataclass
class _Group:
    chunks: Sequence[Chunk]
    is_held: Sequence[bool]
    num_leading: int = field(init=False)

    def __post_init__(self) -> None:
        self.num_leading = next((i for i, held in enumerate(self.is_held) if not held), len(self.is_held))

    @property
    def num_tokens(self) -> int:
        return self.chunks[self.num_leading - 1].end if self.num_leading else 0


def judge(
    prompt: PromptTokens, groups: Sequence[Sequence[Chunk]], layout: Layout, values: Mapping[bytes, Value]
) -> Held:
    """Tell what is held of a prompt, from the values that are there under the names of its chunks.

    A chunk is held with all of its stripes, each as long as it must be. The group that holds least decides.
    """

    def num_found(chunk: Chunk) -> int:
        sizes = [size + (HEADER_BYTES if i == 0 else 0) for i, size in enumerate(layout.stripe_sizes)]
        found = [values.get(name) for name in chunk.names]
        return sum(v is not None and v.num_bytes == size for v, size in zip(found, sizes, strict=True))

    judged = [_Group(chunks, [num_found(each) == len(each.names) for each in chunks]) for chunks in groups]
    least = min(judged, key=lambda group: group.num_tokens)
    held = [
        values[name] for group in judged for each in group.chunks[: group.num_leading] for name in each.names
    ]
    lives = [value.expires_seconds for value in held if value.expires_seconds is not None]
    gap = None
    if least.num_leading < len(least.chunks):
        missing = least.chunks[least.num_leading]
        behind = sum(least.is_held[least.num_leading :])
        gap = Gap(missing.first, missing.end, len(missing.names), num_found(missing), behind)
    return Held(
        len(prompt.ids),
        layout.groups[judged.index(least)][0],
        len(least.chunks),
        least.num_leading,
        least.num_tokens,
        sum(value.num_bytes for value in held),
        min(lives, default=None),
        gap,
    )


def why(held: Held) -> str:
    """Why no more of a prompt is held than is."""
    gap = held.gap
    if not held.num_chunks:
        return f"shorter than a chunk, {held.tokens_per_chunk} tokens: never stored"
    if gap is None:
        left = held.num_tokens - held.num_held_tokens
        return f"all whole chunks are held; {left} tokens behind them make none" if left else "all is held"
    where = f"tokens {gap.first} to {gap.end - 1}"
    if gap.num_found:
        return f"{where}: {gap.num_found} of {gap.num_values} values are there: half written, or half evicted"
    if gap.num_held_behind:
        return f"{where} expired or were evicted; {gap.num_held_behind} chunks behind them are there, unused"
    if held.num_held:
        return f"nothing from tokens {gap.first} on: other prompts went on differently, or it went"
    return "nothing of it: never stored here, expired, or evicted"
