"""Real vLLM behind a router with keys: what one tenant has cached is nobody else's, in any tier."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest
from fakes_access import ACME, ZETA, AccessFolder, router_process, salt_of

from hypertier.lab.lab import Lab
from hypertier.lab.metrics import read_counts

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]


@pytest.fixture
def router_url(lab: Lab, tmp_path: Path) -> Iterator[str]:
    """A router of its own before the lab's first engine, that asks for keys."""
    with router_process(AccessFolder(tmp_path), "--replica", lab.plan.replica_urls[0]) as (url, _):
        yield url


def new_prompt() -> str:
    """Some 500 tokens that nobody sent before."""
    return (
        f"{time.monotonic_ns()} is where this begins. "
        + "A tier keeps blocks; a lookup hits or misses. " * 40
    )


def cached_tokens(url: str, key: str, model: str, prompt: str, **extra: Any) -> int:
    """How many of the prompt's tokens came from a cache, as the engine says."""
    with openai.OpenAI(base_url=f"{url}/v1", api_key=key, timeout=300) as client:
        answer = client.chat.completions.create(
            model=model,
            messages=[{"role": "user", "content": prompt}],
            max_tokens=1,
            extra_body=extra,
        )
    assert answer.usage is not None
    details = answer.usage.prompt_tokens_details
    return (details.cached_tokens if details is not None else None) or 0


def test_a_tenant_hits_its_own_blocks_and_no_other_tenants(lab: Lab, router_url: str) -> None:
    model, prompt = lab.plan.model_name, new_prompt()

    cold = cached_tokens(router_url, ACME, model, prompt)
    warm = cached_tokens(router_url, ACME, model, prompt)
    others = cached_tokens(router_url, ZETA, model, prompt)
    others_warm = cached_tokens(router_url, ZETA, model, prompt)

    assert cold == others == 0
    assert warm == others_warm >= 256


def test_a_client_that_claims_another_tenants_salt_gets_its_own(lab: Lab, router_url: str) -> None:
    model, prompt = lab.plan.model_name, new_prompt()
    cached_tokens(router_url, ACME, model, prompt)

    claimed = cached_tokens(router_url, ZETA, model, prompt, cache_salt=salt_of("acme"))

    assert claimed == 0
    assert cached_tokens(router_url, ACME, model, prompt) >= 256


def test_nobody_gets_in_without_a_key_and_engines_themselves_ask_for_none(lab: Lab, router_url: str) -> None:
    with (
        openai.OpenAI(base_url=f"{router_url}/v1", api_key="sk-wrong", max_retries=0) as client,
        pytest.raises(openai.AuthenticationError),
    ):
        client.models.list()
    with openai.OpenAI(base_url=f"{router_url}/v1", api_key=ACME) as client:
        assert lab.plan.model_name in {model.id for model in client.models.list()}


def test_anthropics_messages_keep_tenants_apart_too(lab: Lab, router_url: str) -> None:
    model, prompt, engine = lab.plan.model_name, new_prompt(), lab.plan.replica_urls[0]

    def ask(key: str) -> int:
        """How many tokens the engine took from any tier, by its own count."""
        before = read_counts(engine)
        with anthropic.Anthropic(base_url=router_url, api_key=key, timeout=300) as client:
            client.messages.create(model=model, max_tokens=1, messages=[{"role": "user", "content": prompt}])
        return read_counts(engine).since(before).num_cached_tokens

    cold, warm, others = ask(ACME), ask(ACME), ask(ZETA)

    assert cold == others == 0
    assert warm >= 256
