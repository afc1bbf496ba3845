from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hypertier.workload import Workload, prompts


def test_prompts_share_documents_evenly_and_end_alike_nowhere() -> None:
    workload = Workload(requests=12, prefixes=3, prompt_tokens=300)

    sent = prompts(workload)

    assert {len(prompt) for prompt in sent} == {300}
    assert sorted(Counter(prompt[:268] for prompt in sent).values()) == [4, 4, 4]
    assert len({prompt[:20] for prompt in sent}) == 3


def test_the_same_seed_sends_the_same_prompts() -> None:
    workload = Workload()

    assert prompts(workload) == prompts(workload) != prompts(replace(workload, seed=1))


def test_another_salt_makes_other_documents_in_the_same_order() -> None:
    workload = Workload(requests=12, prefixes=3, prompt_tokens=300)

    one, other = prompts(workload, "a"), prompts(workload, "b")

    assert [one.index(first) for first in one] == [other.index(first) for first in other]
    assert not {prompt[:40] for prompt in one} & {prompt[:40] for prompt in other}
    assert [prompt[-32:] for prompt in one] == [prompt[-32:] for prompt in other]


def test_prompts_are_as_long_as_the_models_tokens_are() -> None:
    assert {len(prompt) for prompt in prompts(Workload(prompt_tokens=300), "", 4.5)} == {1350}
