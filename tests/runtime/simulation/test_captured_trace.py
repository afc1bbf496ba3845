"""A trace has lengths, times and numbers in the order of first sight, and nothing of a prompt."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from hypertier.simulation.captured import report
from hypertier.simulation.captured.lines import Exchange, read_line
from hypertier.simulation.captured.traced import TraceMaker
from hypertier.simulation.trace import BLOCK_TOKENS, read_trace

ROW = re.compile(
    r'\{"timestamp":\d+,"input_length":\d+,"output_length":\d+,"hash_ids":\[\d+(,\d+)*\](,"session":\d+)?\}'
)


def add(maker: TraceMaker, body: Any, at: float, tenant: str = "", usage: Any = None) -> None:
    row = {"body": body, **({"response": {"usage": usage}} if usage else {})}
    found = read_line(json.dumps(row).encode())
    assert isinstance(found, Exchange)
    maker.add(found, tenant, at)


def rows(maker: TraceMaker) -> list[dict[str, Any]]:
    return [json.loads(row) for row in maker.rows()]


def chat(*texts: str, model: str = "m") -> dict[str, Any]:
    roles = ("user", "assistant") * len(texts)
    return {
        "model": model,
        "messages": [{"role": r, "content": t} for r, t in zip(roles, texts, strict=False)],
    }


# Letters that no name of a member has, so that nothing stands there by chance.
SECRETS = st.lists(st.text("XYZÄ한글", min_size=8, max_size=3000), min_size=1, max_size=5)


@settings(deadline=None)
@given(
    st.lists(st.tuples(SECRETS, st.text("QVW", min_size=8, max_size=12), st.integers(0, 10**6)), min_size=1)
)
def test_nothing_of_a_prompt_stands_in_the_trace_nor_a_digest_of_it(
    sent: list[tuple[list[str], str, int]],
) -> None:
    maker = TraceMaker()
    for texts, name, at in sent:
        add(maker, chat(*texts, model=name), float(at), tenant=name)

    lines = [*maker.rows()]
    told = "\n".join([*lines, *report.lines(maker.holds, {}, 0, "t")])

    assert all(ROW.fullmatch(line) for line in lines)
    numbers = [number for line in lines for number in json.loads(line)["hash_ids"]]
    assert list(dict.fromkeys(numbers)) == list(range(len({*numbers})))
    for texts, name, _ in sent:
        for text in [*texts, name]:
            assert not any(text[start : start + 8] in told for start in range(len(text) - 7))
            for hashed in (hashlib.blake2b, hashlib.sha256, hashlib.md5):
                assert hashed(text.encode()).hexdigest()[:16] not in told


@settings(deadline=None)
@given(st.lists(st.tuples(SECRETS, st.integers(0, 10**6), st.integers(0, 5000)), min_size=1))
def test_what_is_written_is_a_trace_for_simulate(sent: list[tuple[list[str], int, int]]) -> None:
    maker = TraceMaker()
    for texts, at, tokens in sent:
        usage = {"prompt_tokens": tokens, "completion_tokens": 3} if tokens else None
        add(maker, chat(*texts), at / 10, usage=usage)
    with TemporaryDirectory() as folder:
        file = Path(folder) / "trace.jsonl"
        file.write_text("\n".join(maker.rows()), encoding="utf-8")

        trace = read_trace(file)

    assert len(trace) == len(sent)
    assert trace[0].at == 0
    assert [each.at for each in trace] == sorted(each.at for each in trace)


def test_turns_of_a_conversation_share_their_beginning_and_their_session() -> None:
    maker = TraceMaker()
    long = "what is said at length " * 400
    add(maker, chat(long), 20.0)
    add(maker, chat(long, "yes", "and more " * 300), 30.0)
    add(maker, chat("something else " * 400), 10.0)

    other, one, two = rows(maker)

    shared = len(long) // 4 // BLOCK_TOKENS
    assert one["hash_ids"][:shared] == two["hash_ids"][:shared]
    assert not {*other["hash_ids"]} & {*two["hash_ids"]}
    assert [each["session"] for each in (other, one, two)] == [0, 1, 1]
    assert [each["timestamp"] for each in (other, one, two)] == [0, 10_000, 20_000]
    assert maker.holds.seen == shared
    lengths = [each["input_length"] // BLOCK_TOKENS for each in (other, one, two)]
    assert maker.holds.distinct_tokens == (sum(lengths) - shared) * BLOCK_TOKENS


def test_tenants_models_and_salts_share_nothing_unless_tenants_share_the_cache() -> None:
    text = "the same for all " * 400
    requests = [
        (chat(text), "acme"),
        (chat(text), "umbrella"),
        (chat(text, model="n"), "acme"),
        ({**chat(text), "cache_salt": "x"}, "acme"),
    ]

    def sets(*, shares_cache: bool) -> int:
        maker = TraceMaker(shares_cache=shares_cache)
        for body, tenant in requests:
            add(maker, body, 0.0, tenant)
        return len({tuple(row["hash_ids"]) for row in rows(maker)})

    assert (sets(shares_cache=False), sets(shares_cache=True)) == (4, 3)


def test_what_keeps_blocks_apart_is_never_taken_for_a_prompts_beginning() -> None:
    text = "what everybody says first " * 200
    maker = TraceMaker()

    add(maker, {**chat(text), "system": "x"}, 0.0)
    add(maker, {**chat(text), "cache_salt": "x"}, 1.0)
    add(maker, {**chat(text), "model": "m\0x"}, 2.0)
    add(maker, {**chat(text), "cache_salt": "x\0"}, 3.0)

    blocks = [block for row in rows(maker) for block in row["hash_ids"]]
    assert len(blocks) == len(set(blocks))


def test_tokens_are_those_of_usage_and_estimates_follow_what_was_measured() -> None:
    maker = TraceMaker()
    usage = {"prompt_tokens": 1000, "completion_tokens": 50}
    add(maker, {"model": "m", "prompt": "x" * 1999}, 0.0, usage=usage)
    add(maker, {"model": "m", "prompt": "y" * 3999}, 1.0)
    add(maker, {"model": "m", "prompt": "x" * 1999}, 2.0)

    found = rows(maker)

    assert [row["input_length"] for row in found] == [1000, 2000, 1000]
    assert [row["output_length"] for row in found] == [50, 50, 50]
    assert (maker.holds.estimated_inputs, maker.holds.unknown_outputs) == (1, 2)


def test_requests_of_a_second_are_spread_over_it_where_captures_tell_no_more() -> None:
    coarse, fine = TraceMaker(), TraceMaker()
    for at in (5.0, 5.0, 6.0, 5.0, 5.0):
        add(coarse, chat("hi"), at)
    for at in (5.5, 5.5, 6.0):
        add(fine, chat("hi"), at)

    assert [row["timestamp"] for row in rows(coarse)] == [0, 250, 500, 750, 1000]
    assert [row["timestamp"] for row in rows(fine)] == [0, 0, 500]


def test_what_the_trace_does_not_show_is_said() -> None:
    maker = TraceMaker()
    add(maker, {**chat("hi"), "previous_response_id": "r"}, 0.0)
    add(maker, chat("hi", model="n"), 0.0)
    rows(maker)

    told = " ".join(report.warnings(maker.holds, {}, 3))

    for said in ("3 lines", "go on with a response", "shorter than a block", "--model NAME", "no answer"):
        assert said in told
