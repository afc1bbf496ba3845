"""Prompts that begin alike have blocks that begin alike, and no others do."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from hypothesis import given, settings
from hypothesis import strategies as st

from hypertier.simulation.captured.blocks import CELL_BYTES, Blocks, digests
from hypertier.simulation.trace import BLOCK_TOKENS

BLOCK_BYTES = 4 * BLOCK_TOKENS
WORDS = st.text("abc", min_size=1, max_size=3).map(lambda word: (word * 2000)[:1700])
PROMPTS = st.lists(
    st.lists(WORDS, min_size=1, max_size=6).map(lambda words: "".join(words).encode()), min_size=1, max_size=8
)


def numbered(blocks: Blocks, prompt: bytes, num_tokens: int, seed: bytes = b"") -> list[int]:
    return blocks.number(digests(prompt, seed), num_tokens)[0]


def num_alike(one: Sequence[int], other: Sequence[int]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


@settings(deadline=None)
@given(PROMPTS)
def test_at_four_bytes_a_token_what_is_shared_is_the_blocks_that_are_equal(prompts: list[bytes]) -> None:
    blocks = Blocks()

    rows = [numbered(blocks, prompt, -(-len(prompt) // 4)) for prompt in prompts]

    for prompt, row in zip(prompts, rows, strict=True):
        assert len(row) == -(-len(prompt) // BLOCK_BYTES)
        for other, others in zip(prompts, rows, strict=True):
            if prompt == other:
                assert row == others
            else:
                alike = num_alike(prompt, other)
                # A token that is a part at the end moves what lies before it by less than a cell.
                assert alike // BLOCK_BYTES - 1 <= num_alike(row, others) <= alike // BLOCK_BYTES
            assert not {*row[num_alike(row, others) :]} & {*others[num_alike(row, others) :]}


@settings(deadline=None)
@given(st.integers(0, 12), st.data())
def test_whole_tokens_share_exactly_the_blocks_that_are_equal(num_cells: int, data: st.DataObject) -> None:
    common = data.draw(st.binary(min_size=num_cells * CELL_BYTES, max_size=num_cells * CELL_BYTES))
    ends = data.draw(st.tuples(*[st.sampled_from([1, 3, 9])] * 2))
    prompts = [common + bytes([65 + n]) * CELL_BYTES * end for n, end in enumerate(ends)]
    blocks = Blocks()

    one, other = (numbered(blocks, prompt, len(prompt) // 4) for prompt in prompts)

    assert num_alike(one, other) == len(common) // BLOCK_BYTES


@settings(deadline=None)
@given(PROMPTS, st.data())
def test_whatever_the_answers_say_of_tokens_blocks_fit_and_say_what_is_alike(
    prompts: list[bytes], data: st.DataObject
) -> None:
    tokens = {prompt: data.draw(st.integers(1, 9000)) for prompt in prompts}
    blocks = Blocks()

    rows = [numbered(blocks, prompt, tokens[prompt]) for prompt in prompts]

    in_order = [number for row in rows for number in row]
    assert list(dict.fromkeys(in_order)) == list(range(blocks.num_blocks))
    for prompt, row in zip(prompts, rows, strict=True):
        assert len(row) == -(-tokens[prompt] // BLOCK_TOKENS)
        for other, others in zip(prompts, rows, strict=True):
            shared = num_alike(row, others)
            if prompt == other:
                assert row == others
            assert not {*row[shared:]} & {*others[shared:]}
            assert not shared or prompt[:CELL_BYTES] == other[:CELL_BYTES] or prompt == other


def test_a_beginning_keeps_its_blocks_in_a_prompt_of_fewer_bytes_a_token() -> None:
    system, blocks = b"You are kind. " * 1000, Blocks()

    first = numbered(blocks, system, 3500)
    dense = numbered(blocks, system + bytes(range(256)) * 32, 3500 + 8000)

    assert num_alike(first, dense) == 3500 // BLOCK_TOKENS
    assert len(dense) == -(-11_500 // BLOCK_TOKENS)


def test_what_follows_a_known_beginning_has_the_density_of_the_rest() -> None:
    system, dense, blocks = b"You are kind. " * 1024, bytes(range(256)) * 32, Blocks()
    num_system, num_dense = len(system) // 4, len(dense)
    numbered(blocks, system, num_system)
    half = dense[: num_dense // 2]

    whole = numbered(blocks, system + dense, num_system + num_dense)
    other = numbered(blocks, system + half + b"z" * len(half), num_system + num_dense)

    assert num_alike(whole, other) == (num_system + num_dense // 2) // BLOCK_TOKENS


def test_a_prompt_has_no_more_blocks_than_its_own_tokens_are() -> None:
    blocks = Blocks()

    first, second = (
        numbered(blocks, b"x" * 600 + end, tokens) for end, tokens in ((b"a", 9000), (b"b", 700))
    )

    assert second == [first[0], blocks.num_blocks - 1]


def test_another_seed_shares_nothing() -> None:
    blocks = Blocks()

    one = numbered(blocks, b"x" * 9000, 2250, b"acme")
    other = numbered(blocks, b"x" * 9000, 2250, b"umbrella")

    assert not {*one} & {*other}


def test_full_blocks_that_were_there_are_counted_as_seen() -> None:
    blocks, prompt = Blocks(), digests(b"x" * 5000, b"")

    found = [blocks.number(prompt, 1250)[1] for _ in range(2)]

    assert found == [0, 2]
