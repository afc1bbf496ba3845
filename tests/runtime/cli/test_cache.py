"""`hypertier cache` against a real Valkey and a real cluster."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from fakes_simulated import simulated_engine
from fakes_tier import FixedNamespace, RealCluster, RealValkey

from hypertier.cli.cache import command
from hypertier.errors import ConfigError, HypertierError, TierUnavailableError, shown
from hypertier.tier.address import parse_l2_url
from hypertier.tier.backends.resp import RespBackend
from hypertier.tier.backends.resp_admin import RespAdmin
from hypertier.tier.backends.resp_ledger import RespLedger
from hypertier.tier.credentials import FixedCredentials
from hypertier.tier.entries import Entries
from hypertier.tier.inventory import Value
from hypertier.tier.names import entry_name, ledger_name
from hypertier.tier.tenants import tenant_tag

CHUNK = 150_000
ONE, TWO = b"1" * 16, b"2" * 16
TENANTS = (tenant_tag("acme"), tenant_tag("-"))


class DescribedNamespace(FixedNamespace):
    """A namespace with facts of its own."""

    def describe(self) -> bytes:
        kept = {"ttl_seconds": 3600 + 1000 * (self.digest() == TWO)}
        facts = {"model": "org/model", "epoch": self.digest()[0], "kept": kept}
        return json.dumps(facts).encode()


@pytest.fixture(params=["valkey", "cluster"], scope="module")
def store(request: pytest.FixtureRequest) -> Iterator[RealValkey | RealCluster]:
    with RealValkey() if request.param == "valkey" else RealCluster() as server:
        yield server


@pytest.fixture
def url(store: RealValkey | RealCluster) -> Iterator[str]:
    backend = RespBackend(parse_l2_url(store.url), FixedCredentials())
    for namespace, num_chunks in ((ONE, 2), (TWO, 5)):
        entries = Entries(
            backend,
            DescribedNamespace(namespace),
            chunk_bytes=CHUNK,
            ttl_seconds=3600,
            lookup_timeout_seconds=20,
            io_timeout_seconds=20,
            stripe_bytes=64 * 1024,
        )
        for i in range(num_chunks):
            entries.store(TENANTS[i % 2] + b"key %d" % i, memoryview(bytes(CHUNK)))
    backend.put(b"somebody else's", [b"value"], 3600, 20)
    yield store.url
    for node in store.nodes if isinstance(store, RealCluster) else [store]:
        node.ask(b"FLUSHALL")
    backend.close()


def run(*arguments: str, url: str, **environ: str) -> Result:
    return CliRunner().invoke(command, list(arguments), env={"HYPERTIER_L2_URL": url, **environ})


def listed(url: str) -> dict[str, dict[str, object]]:
    return {each["namespace"]: each for each in json.loads(run("ls", "--format", "json", url=url).output)}


def test_ls_counts_chunks_values_and_bytes(url: str) -> None:
    found = listed(url)

    assert list(found) == [TWO.hex(), ONE.hex()]
    assert (found[TWO.hex()]["chunks"], found[TWO.hex()]["values"]) == (5, 15)
    assert found[TWO.hex()]["bytes"] == 5 * (CHUNK + 64)
    assert found[TWO.hex()]["model"] == "org/model"
    assert found[TWO.hex()]["epoch"] == ord("2")
    assert 3000 < int(str(found[ONE.hex()]["last_expires_seconds"])) <= 3600


def test_ls_prints_a_table(url: str) -> None:
    lines = run("ls", url=url).output.splitlines()

    assert lines[0].split() == [
        "namespace",
        "model",
        "label",
        "epoch",
        "tenant",
        "chunks",
        "values",
        "size",
        "expires",
        "in",
    ]
    assert lines[1].split()[:7] == [TWO.hex()[:8], "org/model", "-", "50", "all", "5", "15"]


def test_clear_removes_one_namespace_alone_and_proves_it(url: str) -> None:
    done = run("clear", "--namespace", TWO.hex()[:6], "--yes", url=url)

    audit = json.loads(done.output.splitlines()[-1])
    assert done.exit_code == 0
    assert (audit["namespaces"], audit["values_removed"], audit["values_left"]) == ([TWO.hex()], 16, 0)
    assert list(listed(url)) == [ONE.hex()]


def test_ls_tells_tenants_apart(url: str) -> None:
    rows = json.loads(run("ls", "--by", "tenant", "--tenant", "acme", "--format", "json", url=url).output)
    lines = run("ls", "--by", "tenant", url=url).output.splitlines()

    assert [(row["tenant"], row["namespace"], row["chunks"]) for row in rows] == [
        ("acme", TWO.hex(), 3),
        ("acme", ONE.hex(), 1),
    ]
    assert {line.split()[4] for line in lines[1:]} == {TENANTS[0].hex(), "-"}
    assert len(lines) == 5


def test_ls_finds_what_nobody_used_for_a_while(url: str) -> None:
    """The chunks of one namespace have 1,000 s less left than they live: so long ago they were used."""
    rows = json.loads(run("ls", "--unused-for", "900s", "--format", "json", url=url).output)

    assert [(row["namespace"], row["chunks"]) for row in rows] == [(TWO.hex(), 5)]
    assert run("ls", "--unused-for", "1h", url=url).output == "nothing in L2\n"


def test_ls_of_a_model_shows_its_namespaces_alone(url: str) -> None:
    assert len(json.loads(run("ls", "--model", "org/model", "--format", "json", url=url).output)) == 2


def test_looking_is_no_use(store: RealValkey | RealCluster, url: str) -> None:
    """A store that evicts by use must not take a look for one."""
    server = store.nodes[0] if isinstance(store, RealCluster) else store
    server.ask(b"CONFIG SET maxmemory-policy allkeys-lfu")
    name = server.keys()[0]
    before = server.ask(b"OBJECT FREQ " + name)

    for _ in range(5):
        run("ls", url=url)

    after = server.ask(b"OBJECT FREQ " + name)
    server.ask(b"CONFIG SET maxmemory-policy noeviction")
    assert int(after[1:]) <= int(before[1:])


def test_clear_of_a_tenant_takes_its_chunks_and_its_ledger_and_leaves_the_others(url: str) -> None:
    backend = RespBackend(parse_l2_url(url), FixedCredentials())
    ledger = RespLedger(backend)
    for tenant in TENANTS:
        ledger.note(ledger_name(ONE, tenant), {b"member": 1.0}, 0.0, 3600, 20)

    done = run("clear", "--tenant", "acme", "--yes", url=url)

    audit = json.loads(done.output.splitlines()[-1])
    left = [ledger.note(ledger_name(ONE, tenant), {}, 0.0, 3600, 20) for tenant in TENANTS]
    backend.close()
    assert (audit["tenants"], audit["values_removed"], audit["values_left"]) == (["acme"], 4 * 3 + 1, 0)
    assert left == [0, 1]
    assert {row["chunks"] for row in listed(url).values()} == {1, 2}


def test_clear_of_what_nobody_used_leaves_the_rest(url: str) -> None:
    done = run("clear", "--unused-for", "900s", "--tenant", "-", "--yes", url=url)

    audit = json.loads(done.output.splitlines()[-1])
    assert (audit["unused_for"], audit["values_removed"], audit["values_left"]) == ("900s", 2 * 3, 0)
    assert {name: row["chunks"] for name, row in listed(url).items()} == {TWO.hex(): 3, ONE.hex(): 2}


def test_clear_all_leaves_what_is_not_ours(url: str, store: RealValkey | RealCluster) -> None:
    done = run("clear", "--all", "--yes", url=url)

    nodes = store.nodes if isinstance(store, RealCluster) else [store]
    assert done.exit_code == 0
    assert run("ls", url=url).output == "nothing in L2\n"
    assert sum(int(node.ask(b"DBSIZE")[1:]) for node in nodes) == 1


def test_clear_that_an_engine_undoes_says_so(url: str) -> None:
    over = threading.Event()

    def store() -> None:
        """As an engine that runs: the same chunk, again and again."""
        backend = RespBackend(parse_l2_url(url), FixedCredentials())
        while not over.is_set():
            backend.put(entry_name(ONE, TENANTS[0] + b"key 0", 0), [b"value"], 3600, 20)
        backend.close()

    engines = [threading.Thread(target=store) for _ in range(8)]  # one may wait for a CPU all the while
    for engine in engines:
        engine.start()
    done = run("clear", "--namespace", ONE.hex(), "--yes", url=url)
    over.set()
    for engine in engines:
        engine.join()

    assert isinstance(done.exception, HypertierError)
    assert "engines that run stored them meanwhile" in str(done.exception)
    assert json.loads(done.output.splitlines()[-1])["values_left"] == 1


@pytest.mark.parametrize("problem", [KeyboardInterrupt(), TierUnavailableError("gone")], ids=["keys", "L2"])
def test_a_clear_that_ends_midway_tells_what_is_gone(
    url: str, monkeypatch: pytest.MonkeyPatch, problem: BaseException
) -> None:
    removes = RespAdmin.remove

    def remove_some(admin: RespAdmin, is_chosen: Callable[[Value], bool]) -> Iterator[int]:
        yield next(removes(admin, is_chosen))
        raise problem

    monkeypatch.setattr(RespAdmin, "remove", remove_some)
    before = num_values(url)

    done = run("clear", "--all", "--yes", url=url)

    audit = json.loads(next(line for line in done.output.splitlines() if line.startswith("{")))
    assert done.exit_code != 0
    assert audit["values_left"] is None
    assert 0 < audit["values_removed"] == before - num_values(url)


def num_values(url: str) -> int:
    """How many values of ours there are, ledgers and descriptions among them."""
    admin = RespAdmin(parse_l2_url(url), FixedCredentials())
    try:
        return admin.count(lambda value: True)
    finally:
        admin.close()


def test_a_ledger_that_an_engine_writes_again_is_left(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    removes = RespAdmin.remove
    backend = RespBackend(parse_l2_url(url), FixedCredentials())

    def write_again(admin: RespAdmin, is_chosen: Callable[[Value], bool]) -> Iterator[int]:
        yield from removes(admin, is_chosen)
        RespLedger(backend).note(ledger_name(ONE, TENANTS[0]), {b"member": 1.0}, 0.0, 3600, 20)

    monkeypatch.setattr(RespAdmin, "remove", write_again)

    done = run("clear", "--tenant", "acme", "--yes", url=url)

    backend.close()
    assert done.exit_code != 0
    assert json.loads(done.output.splitlines()[-1])["values_left"] == 1


def test_clear_asks_first(url: str) -> None:
    done = run("clear", "--all", url=url)

    assert done.exit_code == 1
    assert len(listed(url)) == 2


def test_explain_tells_what_a_namespace_stands_for_and_why_two_differ(url: str) -> None:
    one = json.loads(run("explain", ONE.hex()[:4], url=url).output)
    both = json.loads(run("explain", ONE.hex(), TWO.hex(), url=url).output)

    assert one == {"model": "org/model", "epoch": ord("1"), "kept": {"ttl_seconds": 3600}}
    assert both == {"epoch": {ONE.hex()[:8]: ord("1"), TWO.hex()[:8]: ord("2")}}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["ls", "--url", "http://x:1"], "--url is 'http://x:1'; expected redis://"),
        (
            ["ls", "--url", "sagemaker-hyperpod://x:9200"],
            "--url is 'sagemaker-hyperpod://x:9200'; expected a redis:// or rediss:// address",
        ),
        (["clear"], "--all is not set; expected --all alone, or one of --namespace, --tenant, --model, "),
        (
            ["clear", "--namespace", "ab", "--all"],
            "--all is true; expected --all alone, or one",
        ),
        (["clear", "--tenant", "ab", "--all"], "--all is true; expected --all alone, or one of --namespace"),
        (["ls", "--model", "org/other"], "--model is 'org/other'; expected one of: org/model"),
        (["ls", "--unused-for", "long"], "--unused-for is 'long'; expected"),
        (
            ["explain", "ffff"],
            "namespace is 'ffff'; expected the beginning of exactly one of: 31313131, 32323232",
        ),
        (["explain", "3"], "namespace is '3'; expected the beginning of exactly one of: 31313131, 32323232"),
    ],
    ids=[
        "url",
        "daemon",
        "nothing to clear",
        "too much to clear",
        "all of a tenant",
        "model",
        "duration",
        "unknown",
        "ambiguous",
    ],
)
def test_what_cannot_work_is_named(url: str, arguments: list[str], message: str) -> None:
    done = run(*arguments, url=url)

    assert isinstance(done.exception, ConfigError)
    assert str(done.exception).startswith(message)


@pytest.fixture
def endpoint() -> Iterator[str]:
    with simulated_engine() as url:
        yield url


def test_warm_has_each_prompt_computed_once(endpoint: str, tmp_path: Path) -> None:
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("What is a block? " * 40 + "\n\n" + "What is a tier? " * 40 + "\n")
    arguments = ["warm", str(prompts), "--endpoint", endpoint, "--model", "m"]

    first, second = (run(*arguments, url="").output.split() for _ in range(2))

    assert (first[0], first[4]) == ("2", "0")
    assert int(second[4]) > 0.8 * int(second[2])


@pytest.mark.parametrize(
    "endpoint", ["llama:8000", "", "http://", "http://a:b", "http://a:99999", "http://[::1"]
)
def test_warm_names_an_endpoint_that_cannot_work(endpoint: str, tmp_path: Path) -> None:
    (tmp_path / "prompts.txt").write_text("hello\n")

    done = run("warm", str(tmp_path / "prompts.txt"), "--endpoint", endpoint, "--model", "m", url="")

    assert isinstance(done.exception, ConfigError)
    assert str(done.exception).startswith(f"--endpoint is {shown(endpoint)}; expected http://HOST:PORT")


def test_warm_names_a_file_that_is_no_text(endpoint: str, tmp_path: Path) -> None:
    (tmp_path / "prompts.bin").write_bytes(b"\xff\xfe\x00")

    done = run("warm", str(tmp_path / "prompts.bin"), "--endpoint", endpoint, "--model", "m", url="")

    assert isinstance(done.exception, ConfigError)
    assert str(done.exception).startswith("FILE is ")


@pytest.mark.parametrize("kind", ["missing", "folder", "no certificate"])
def test_a_file_without_certificates_is_named(kind: str, tmp_path: Path) -> None:
    (tmp_path / "no certificate").write_text("hello\n")
    file = str(tmp_path if kind == "folder" else tmp_path / kind)

    done = run("ls", "--ca-file", file, url="rediss://127.0.0.1:1")

    assert isinstance(done.exception, ConfigError)
    assert str(done.exception).startswith(
        f"--ca-file is {file!r}; expected a file of certificates in PEM form"
    )


def test_a_store_that_does_not_answer_is_one_error() -> None:
    with RealValkey() as gone:
        url = gone.url

    done = run("ls", url=url)

    assert isinstance(done.exception, HypertierError)


def test_an_address_that_is_not_set_is_told_with_what_sets_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HYPERTIER_L2_URL", raising=False)

    result = CliRunner().invoke(command, ["ls"])

    assert str(result.exception).startswith("HYPERTIER_L2_URL is not set; expected the address of L2")
    assert "--url" in str(result.exception)


def test_a_store_that_is_not_there_is_told_in_words() -> None:
    done = run("ls", url="redis://127.0.0.1:1")

    assert isinstance(done.exception, TierUnavailableError)
    assert str(done.exception).startswith("127.0.0.1:1: Connection refused (within ")
