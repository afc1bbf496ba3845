"""`hypertier cache --prompt`: what L2 holds of one prompt, and why not more."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from fakes_tier import RealCluster, RealValkey
from fakes_tokenizer import TEMPLATE, tokenizer

from hypertier.cli.cache import command
from hypertier.errors import ConfigError, TokenizeError
from hypertier.router.access.salt import derive
from hypertier.tier.address import parse_l2_url
from hypertier.tier.backends.resp import RespBackend
from hypertier.tier.block_hashes import ALGORITHMS, Adapter
from hypertier.tier.credentials import FixedCredentials
from hypertier.tier.entries import Entries
from hypertier.tier.namespace import Namespace
from hypertier.tier.prefix import Layout, PromptTokens, chunks_of, read_layout

CHUNK_BYTES, STRIPE_BYTES, TOKENS = 150_000, 64 * 1024, 16
ROOT = ALGORITHMS["sha256"]("0")
FACTS = {
    "epoch": 0,
    "vllm": "0.32.0",
    "tokens_per_hash": 8,
    "blocks_per_chunk": 2,
    "groups": [[8, ["layer"]]],
    "chunk_bytes": CHUNK_BYTES,
    "stripe_bytes": STRIPE_BYTES,
    "key": "",
}
TEXT = "A tier keeps blocks; a lookup is a hit or a miss."
RENDERED = list(TEMPLATE.format(TEXT).encode())
WHOLE = len(RENDERED) // TOKENS


class Engines:
    """Engines of one namespace, which store prompts."""

    def __init__(self, url: str, **facts: object) -> None:
        self._facts = FACTS | facts
        self._backend = RespBackend(parse_l2_url(url), FixedCredentials())
        labels = {"model": "org/model"}
        self._namespace = Namespace(self._facts, lambda: "weights", lambda: ROOT, labels, "0")
        self._entries = Entries(
            self._backend,
            self._namespace,
            chunk_bytes=CHUNK_BYTES,
            ttl_seconds=3600,
            lookup_timeout_seconds=20,
            io_timeout_seconds=20,
            stripe_bytes=STRIPE_BYTES,
        )
        self.name = self._namespace.digest().hex()

    def store(
        self, tokens: list[int], *numbers: int, salt: str | None = None, adapter: Adapter | None = None
    ) -> None:
        """Store the chunks of a prompt that have these numbers."""
        layout = read_layout(json.loads(self._namespace.describe()))
        assert isinstance(layout, Layout)
        (chunks,) = chunks_of(PromptTokens(tokens, salt, adapter), self._namespace.digest(), layout)
        for number in numbers:
            self.store_as(chunks[number].key)

    def store_as(self, key: bytes) -> None:
        """Store a chunk under a key."""
        self._entries.store(key, memoryview(bytes(CHUNK_BYTES)))

    def close(self) -> None:
        """Disconnect."""
        self._backend.close()


@pytest.fixture(params=["valkey", "cluster"], scope="module")
def store(request: pytest.FixtureRequest) -> Iterator[RealValkey | RealCluster]:
    with RealValkey() if request.param == "valkey" else RealCluster() as server:
        yield server


@pytest.fixture
def url(store: RealValkey | RealCluster) -> Iterator[str]:
    yield store.url
    for node in store.nodes if isinstance(store, RealCluster) else [store]:
        node.ask(b"FLUSHALL")


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with tokenizer() as address:
        yield address


@pytest.fixture
def engines(url: str) -> Iterator[Engines]:
    made = Engines(url)
    yield made
    made.close()


@pytest.fixture
def prompt(tmp_path: Path) -> Path:
    file = tmp_path / "prompt"
    file.write_text(TEXT)
    return file


def run(*arguments: object, url: str) -> Result:
    return CliRunner().invoke(command, [str(each) for each in arguments], env={"HYPERTIER_L2_URL": url})


def explained(prompt: Path, *options: object, endpoint: str, url: str) -> dict[str, Any]:
    result = run("explain", "--prompt", prompt, "--endpoint", endpoint, *options, "--format", "json", url=url)
    assert result.exit_code == 0, result.output
    told: dict[str, Any] = json.loads(result.output)
    return told


def test_explain_tells_how_many_tokens_are_held(
    engines: Engines, prompt: Path, endpoint: str, url: str
) -> None:
    engines.store(RENDERED, *range(WHOLE))

    told = explained(prompt, endpoint=endpoint, url=url)

    (own,) = told["namespaces"]
    assert told["tokens"] == len(RENDERED)
    assert (own["namespace"], own["held_tokens"], own["held_chunks"]) == (engines.name, WHOLE * TOKENS, WHOLE)
    assert own["held_bytes"] == WHOLE * (CHUNK_BYTES + 64)
    assert 3500 < own["first_expires_seconds"] <= 3600
    assert own["first_missing"] is None
    assert own["why"].startswith("all whole chunks are held")


@pytest.mark.parametrize(
    ("stored", "held", "why"),
    [
        ([], 0, "nothing of it: never stored here, expired, or evicted"),
        ([0, 1], 2, "nothing from tokens 32 on: other prompts went on differently, or it went"),
        ([0, 2, 3], 1, "tokens 16 to 31 expired or were evicted; 2 chunks behind them are there, unused"),
    ],
    ids=["nothing", "a beginning", "a hole"],
)
def test_explain_tells_which_chunk_is_missing_first(
    engines: Engines, prompt: Path, endpoint: str, url: str, stored: list[int], held: int, why: str
) -> None:
    engines.store(list(b"another prompt, of the same engine"), 0)
    engines.store(RENDERED, *stored)

    (own,) = explained(prompt, endpoint=endpoint, url=url)["namespaces"]

    assert (own["held_chunks"], own["held_tokens"], own["why"]) == (held, held * TOKENS, why)
    assert own["first_missing"]["tokens"] == [held * TOKENS, held * TOKENS + TOKENS]


def test_explain_sees_a_chunk_that_was_half_evicted(
    engines: Engines, store: RealValkey | RealCluster, prompt: Path, endpoint: str, url: str
) -> None:
    engines.store(RENDERED, *range(WHOLE))
    for node in store.nodes if isinstance(store, RealCluster) else [store]:
        for name in list(node.keys()):
            if name.endswith(b":1"):
                node.ask(b"DEL " + name)

    (own,) = explained(prompt, endpoint=endpoint, url=url)["namespaces"]

    assert own["held_tokens"] == 0
    assert own["why"] == "tokens 0 to 15: 2 of 3 values are there: half written, or half evicted"


def test_explain_tells_in_what_other_namespaces_differ(
    engines: Engines, prompt: Path, endpoint: str, url: str
) -> None:
    engines.store(RENDERED, *range(WHOLE))
    newer = Engines(url, epoch=1)
    newer.store(RENDERED, 0)
    newer.close()

    told = explained(prompt, endpoint=endpoint, url=url)
    shown = run("explain", "--prompt", prompt, "--endpoint", endpoint, url=url).output

    first, second = told["namespaces"]
    assert (first["namespace"], second["namespace"]) == (engines.name, newer.name)
    assert second["differs_in"] == {"epoch": {first["namespace"]: 0, second["namespace"]: 1}}
    assert f"{newer.name[:8]} (org/model, epoch 1): holds 16 of {len(RENDERED)} tokens" in shown
    assert f"epoch is 1, in {engines.name[:8]} 0" in shown


def test_explain_names_what_it_can_no_longer_look_at(
    engines: Engines, store: RealValkey | RealCluster, prompt: Path, endpoint: str, url: str
) -> None:
    engines.store(RENDERED, 0)
    older = Engines(url, epoch=1)
    older.store(RENDERED, 0)
    older.close()
    for node in store.nodes if isinstance(store, RealCluster) else [store]:
        node.ask(b"DEL ht1:%s:facts" % older.name.encode())

    told = explained(prompt, endpoint=endpoint, url=url)
    shown = run("explain", "--prompt", prompt, "--endpoint", endpoint, url=url).output

    assert [each["namespace"] for each in told["namespaces"]] == [engines.name, older.name]
    assert told["namespaces"][1]["why"] == "L2 no longer holds what it stands for: its facts expired"
    assert f"{older.name[:8]} (?, epoch ?): holds 0 of {len(RENDERED)} tokens" in shown


def test_explain_finds_a_salted_prompt_by_its_salt_alone(
    engines: Engines, prompt: Path, endpoint: str, url: str, tmp_path: Path
) -> None:
    key = tmp_path / "key"
    key.write_text(base64.b64encode(b"k" * 32).decode())
    salt = derive(b"k" * 32, "acme").decode()
    body = tmp_path / "body"
    body.write_text(
        json.dumps({"messages": [{"role": "user", "content": TEXT}], "cache_salt": salt, "max_tokens": 9})
    )
    engines.store(RENDERED, 0, 1, salt=salt)
    engines.store(RENDERED, 0, 1, 2)

    asked = [
        explained(prompt, *options, endpoint=endpoint, url=url)["namespaces"][0]
        for options in ((), ("--salt", salt), ("--salt-of", "acme", "--salt-key", key), ("--salt", "other"))
    ]
    of_body = explained(body, endpoint=endpoint, url=url)["namespaces"][0]

    assert [each["held_chunks"] for each in asked] == [3, 2, 2, 0]
    assert asked[3]["held_tokens_unsalted"] == 3 * TOKENS
    assert of_body["held_chunks"] == 2


def test_explain_finds_an_adapters_prompt(engines: Engines, prompt: Path, endpoint: str, url: str) -> None:
    engines.store(RENDERED, 0, adapter=Adapter("legal", "/adapters/legal"))

    told = [
        explained(prompt, *options, endpoint=endpoint, url=url)["namespaces"][0]["held_chunks"]
        for options in ((), ("--adapter", "legal=/adapters/legal"))
    ]

    assert told == [0, 1]


@pytest.mark.parametrize(
    ("content", "options"),
    [
        (TEXT, ("--text-is", "completion")),
        (json.dumps({"prompt": TEXT, "model": "m"}), ()),
    ],
    ids=["a text", "a body"],
)
def test_a_completions_prompt_is_not_rendered(
    engines: Engines, prompt: Path, endpoint: str, url: str, content: str, options: tuple[str, ...]
) -> None:
    engines.store(list(TEXT.encode()), 0, 1)
    prompt.write_text(content)

    (own,) = explained(prompt, *options, endpoint=endpoint, url=url)["namespaces"]

    assert own["held_chunks"] == 2


def test_ls_counts_what_is_a_prompts(engines: Engines, prompt: Path, endpoint: str, url: str) -> None:
    engines.store(RENDERED, 0, 1)
    engines.store(list(b"another prompt of the same engine"), 0, 1)

    (own,) = json.loads(
        run("ls", "--prompt", prompt, "--endpoint", endpoint, "--format", "json", url=url).output
    )

    assert own["chunks"] == 2


def test_clear_removes_what_is_a_prompts_and_nothing_else(
    engines: Engines, prompt: Path, endpoint: str, url: str
) -> None:
    engines.store(RENDERED, 0, 1)
    engines.store(list(b"another prompt of the same engine"), 0, 1)

    result = run("clear", "--prompt", prompt, "--endpoint", endpoint, "--yes", url=url)

    audit = json.loads(result.output.splitlines()[-1])
    left = json.loads(run("ls", "--format", "json", url=url).output)
    assert (audit["values_removed"], audit["values_left"], audit["prompt"]) == (6, 0, str(prompt))
    assert [each["chunks"] for each in left] == [2]
    assert explained(prompt, endpoint=endpoint, url=url)["namespaces"][0]["held_tokens"] == 0


def test_clear_tells_where_a_prompt_could_not_be_looked_for(
    engines: Engines, prompt: Path, endpoint: str, url: str
) -> None:
    engines.store(RENDERED, 0, 1)
    other = Engines(url, hash_algorithm=None)
    other.store_as(b"\0" * 44)

    shown = run("ls", "--prompt", prompt, "--endpoint", endpoint, url=url).output
    result = run("clear", "--prompt", prompt, "--endpoint", endpoint, "--yes", url=url)

    *lines, last = result.output.splitlines()
    not_looked_at = f"{other.name[:8]}: not looked at: its engines' hash seed is random"
    assert json.loads(last)["not_looked_at"] == [other.name]
    assert any(line.startswith(not_looked_at) for line in lines)
    assert not_looked_at in shown
    other.close()


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        (TEXT, ("--endpoint", ""), "--endpoint is empty; expected http://HOST:PORT"),
        (TEXT, ("--endpoint", "127.0.0.1:8000"), "--endpoint is '127.0.0.1:8000'; expected http://HOST:PORT"),
        ('{"input": "x"}', (), 'expected a request\'s body with "messages" or "prompt"'),
        (
            json.dumps({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}),
            (),
            "expected a text, or a chat of texts",
        ),
        (
            json.dumps({"prompt": TEXT, "cache_salt": "a"}),
            ("--salt", "b"),
            "--salt is 'b'; expected none, or that of the request's body",
        ),
        (TEXT, ("--salt", "a", "--salt-of", "b"), "--salt-of is 'b'; expected either --salt or --salt-of"),
        (TEXT, ("--salt-of", "b", "--salt-key", "/nowhere"), "--salt-key is '/nowhere'"),
        (TEXT, ("--salt-key", "/a/key"), "--salt-key is '/a/key'; expected --salt-of beside it"),
        (TEXT, ("--adapter", "legal"), "--adapter is 'legal'; expected NAME=PATH"),
    ],
)
def test_what_cannot_work_is_named(
    prompt: Path, endpoint: str, url: str, content: str, options: tuple[str, ...], message: str
) -> None:
    prompt.write_text(content)
    result = run("explain", "--prompt", prompt, "--endpoint", endpoint, *options, url=url)

    assert isinstance(result.exception, ConfigError)
    assert message in str(result.exception)


@pytest.mark.parametrize("option", ["--salt", "--salt-key"])
def test_options_of_a_prompt_are_not_ignored_without_one(url: str, option: str) -> None:
    result = run("explain", option, "a", "4f1c", url=url)

    assert isinstance(result.exception, ConfigError)
    assert f"{option} is 'a'; expected --prompt beside it" in str(result.exception)


def test_explain_without_anything_asks_for_something(url: str) -> None:
    result = run("explain", url=url)

    assert isinstance(result.exception, ConfigError)
    assert re.search("NAMESPACES is empty; expected one or more", str(result.exception))


def test_an_endpoint_that_does_not_tokenize_is_an_error(prompt: Path, url: str) -> None:
    result = run("explain", "--prompt", prompt, "--endpoint", "http://127.0.0.1:9", url=url)

    assert isinstance(result.exception, TokenizeError)
    assert str(result.exception).startswith("http://127.0.0.1:9: ")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"hash_algorithm": None}, "its engines' hash seed is random"),
        ({"chunk_bytes": "many"}, "what it stands for does not tell how its chunks are named"),
        ({"groups": []}, "what it stands for does not tell how its chunks are named"),
        ({"tokens_per_hash": 5}, "what it stands for does not tell how its chunks are named"),
        ({"stripe_bytes": 64}, "what it stands for does not tell how its chunks are named"),
        ({"stripe_bytes": 65, "chunk_bytes": 10**12}, "what it stands for does not tell how its chunks"),
        ({"tokens_per_hash": 0}, "what it stands for does not tell how its chunks are named"),
        ({"hash_algorithm": "md5"}, "what it stands for does not tell how its chunks are named"),
    ],
)
def test_facts_that_do_not_suffice_say_why(change: dict[str, object], why: str) -> None:
    facts = FACTS | {"hash_root": ROOT.hex(), "hash_algorithm": "sha256"}

    assert isinstance(read_layout(facts), Layout)
    assert str(read_layout(facts | change)).startswith(why)
    assert str(read_layout({})).startswith("L2 no longer holds what it stands for")
