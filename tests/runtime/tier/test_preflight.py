"""Before the model loads: what cannot work is refused, what was left behind is removed."""

from __future__ import annotations

import json
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hypertier.errors import ConfigError
from hypertier.tier.launch import CacheSettings, kv_transfer_config
from hypertier.tier.preflight import Host, check_engine, memory_limit, option, sweep_regions
from hypertier.tier.tenants import Terms
from hypertier.tier.transfer import Transfer

ENVIRON = {"HYPERTIER_L2_URL": "rediss://cache:6379", "PYTHONHASHSEED": "0"}


@pytest.fixture
def host(tmp_path: Path) -> Host:
    for name in ("shm", "proc", "cgroup"):
        (tmp_path / name).mkdir()
    (tmp_path / "proc" / "meminfo").write_text("MemTotal: 2097152 kB\nMemAvailable: 1048576 kB\n")
    return Host(tmp_path / "shm", tmp_path / "proc", tmp_path / "cgroup")


def arguments(l1_bytes: int = 2**20, **changes: Any) -> list[str]:
    config = kv_transfer_config(CacheSettings(l1_bytes, "redis://cache:6379")) | changes
    return ["--model", "org/model", "--kv-transfer-config", json.dumps(config)]


def process(host: Host, number: int, *, maps: str = "", opened: str = "") -> None:
    (host.proc / str(number) / "fd").mkdir(parents=True)
    (host.proc / str(number) / "maps").write_text(maps)
    if opened:
        (host.proc / str(number) / "fd" / "3").symlink_to(opened)


def region(host: Host, name: str) -> Path:
    path = host.shm / f"vllm_offload_{name}.mmap"
    path.write_bytes(b"x" * 4096)
    return path


def test_the_plan_is_one_line_without_a_secret(host: Host) -> None:
    region(host, "gone")

    plan = check_engine(arguments(2**29), {**ENVIRON, "HYPERTIER_L2_PASSWORD": "hunter2"}, host)

    assert plan == (
        "serves org/model, L1 0.5 GiB, L2 cache:6379 (TLS, a password, ttl 86400 s), hash seed 0, "
        "removed 1 stale L1 regions (0.0 GiB)"
    )


def test_terms_for_tenants_need_the_connector_that_knows_salts(host: Host) -> None:
    settings = CacheSettings(2**20, "redis://cache:6379", tenants={"acme": Terms(60)})
    config = kv_transfer_config(settings)
    flags = ["--model", "m", "--kv-transfer-config"]

    plan = check_engine([*flags, json.dumps(config)], ENVIRON, host)

    assert "ttl 86400 s, terms for acme)" in plan
    del config["kv_connector_module_path"]
    with pytest.raises(
        ConfigError, match=r"kv_connector_module_path is not set; expected hypertier\.tier\.connector"
    ):
        check_engine([*flags, json.dumps(config)], ENVIRON, host)


def moving(settings: CacheSettings) -> list[str]:
    return ["--model", "m", "--kv-transfer-config", json.dumps(kv_transfer_config(settings))]


def test_beside_nixl_our_tiers_are_checked_as_without(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "nixl.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    tiers = CacheSettings(2**29, "redis://cache:6379", transfer=Transfer("kv_consumer"))

    plan = check_engine(moving(tiers), ENVIRON, host)

    assert plan.startswith("serves m and moves KV by NIXL, L1 0.5 GiB, L2 cache:6379 (TLS, ")
    with pytest.raises(ConfigError, match="cpu_bytes_to_use is 1099511627776"):
        check_engine(moving(replace(tiers, l1_bytes=2**40)), ENVIRON, host)


@pytest.mark.parametrize("l2_url", ["redis://cache:6379", None], ids=["L2", "L1 alone"])
def test_vllms_own_connector_beside_nixl_is_refused_for_it_may_store_what_was_overwritten(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, l2_url: str | None
) -> None:
    (tmp_path / "nixl.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    config = kv_transfer_config(CacheSettings(2**29, l2_url, transfer=Transfer("kv_consumer")))
    _, second = config["kv_connector_extra_config"]["connectors"]
    del second["kv_connector_module_path"]

    with pytest.raises(ConfigError, match="kv_connector_module_path is not set; expected hypertier"):
        check_engine(["--kv-transfer-config", json.dumps(config)], ENVIRON, host)


def test_an_image_without_nixl_is_refused_before_the_model_loads(host: Host) -> None:
    with pytest.raises(ConfigError, match="is 'no package nixl'; expected an image with NIXL"):
        check_engine(moving(CacheSettings(transfer=Transfer("kv_producer"))), ENVIRON, host)


def test_an_engine_without_a_cache_is_fine(host: Host) -> None:
    assert check_engine(["--model", "m"], ENVIRON, host) == "serves m, no L1, no L2, hash seed 0"


def test_regions_that_nobody_uses_are_removed_and_no_others(host: Host) -> None:
    mapped, opened, stale = region(host, "mapped"), region(host, "opened"), region(host, "stale")
    other = host.shm / "something_else"
    other.write_bytes(b"x")
    process(host, 10, maps=f"7f00-7f01 rw-s 00000000 00:01 5   {mapped}\n")
    process(host, 11, opened=str(opened))

    num_swept, _ = sweep_regions(host)

    assert num_swept == 1
    assert [path.exists() for path in (mapped, opened, stale, other)] == [True, True, False, True]


def test_engines_that_start_at_once_sweep_side_by_side(host: Host) -> None:
    regions = [region(host, f"stale-{number}") for number in range(300)]
    together = threading.Barrier(4)

    def sweep() -> int:
        together.wait()
        return sweep_regions(host)[0]

    with ThreadPoolExecutor(4) as pool:
        swept = [started.result() for started in [pool.submit(sweep) for _ in range(4)]]

    assert sum(swept) == len(regions)
    assert not any(path.exists() for path in regions)


def test_this_process_counts_as_a_user_of_what_it_has_open(host: Host) -> None:
    path = region(host, "mine")

    with path.open("rb"):
        while_open = sweep_regions(Host(host.shm))[0]
    after = sweep_regions(Host(host.shm))[0]

    assert (while_open, after) == (0, 1)


@pytest.mark.parametrize(
    ("l1_bytes", "limit", "message"),
    [
        (2**60, None, "free in"),
        (2**29, 2**29, "the container's memory limit"),
        (2**30 + 1, 2**40, "the memory that this machine has left"),
    ],
    ids=["shm", "cgroup", "machine"],
)
def test_an_l1_that_does_not_fit_is_refused(
    host: Host, l1_bytes: int, limit: int | None, message: str
) -> None:
    if limit is not None:
        (host.cgroup / "memory.max").write_text(f"{limit}\n")

    with pytest.raises(ConfigError, match=message) as refused:
        check_engine(arguments(l1_bytes), ENVIRON, host)

    assert refused.value.setting == "cpu_bytes_to_use"
    assert refused.value.got == l1_bytes


@pytest.mark.parametrize(
    ("name", "text", "limit"),
    [
        ("memory.max", "1073741824\n", 2**30),
        ("memory.max", "max\n", None),
        ("memory/memory.limit_in_bytes", "1073741824\n", 2**30),
        ("memory/memory.limit_in_bytes", "9223372036854771712\n", None),
    ],
    ids=["v2", "v2 without", "v1", "v1 without"],
)
def test_the_memory_limit_is_read_from_either_cgroup(
    host: Host, name: str, text: str, limit: int | None
) -> None:
    (host.cgroup / name).parent.mkdir(exist_ok=True)
    (host.cgroup / name).write_text(text)

    assert memory_limit(host) == limit


@pytest.mark.parametrize(
    ("given", "setting"),
    [
        (arguments(kv_load_failure_policy="fail"), "kv_load_failure_policy"),
        ([*arguments(), "--nnodes", "2"], "--nnodes"),
        (["--kv-transfer-config", "{"], "--kv-transfer-config"),
        (["--kv-transfer-config=[]"], "--kv-transfer-config"),
    ],
    ids=["policy", "nodes", "no json", "no object"],
)
def test_what_cannot_work_is_named(host: Host, given: list[str], setting: str) -> None:
    with pytest.raises(ConfigError) as refused:
        check_engine(given, ENVIRON, host)

    assert refused.value.setting == setting


def test_a_token_of_iam_needs_tls(host: Host) -> None:
    iam = {"HYPERTIER_L2_IAM_CACHE": "l2", "HYPERTIER_L2_USERNAME": "tier", "AWS_REGION": "us-west-2"}

    plan = check_engine(arguments(2**20), {**ENVIRON, **iam}, host)

    assert "L2 cache:6379 (TLS, a token of IAM, ttl 86400 s)" in plan
    with pytest.raises(ConfigError, match="by TLS alone"):
        check_engine(arguments(2**20), {**ENVIRON, **iam, "HYPERTIER_L2_URL": "redis://cache:6379"}, host)


def test_a_ca_file_must_be_there(host: Host) -> None:
    config = kv_transfer_config(CacheSettings(2**20, "rediss://cache:6379"))
    config["kv_connector_extra_config"]["secondary_tiers"][0]["ca_file"] = os.fspath(host.shm / "absent.pem")

    with pytest.raises(ConfigError, match=r"secondary_tiers\.ca_file"):
        check_engine(["--kv-transfer-config", json.dumps(config)], ENVIRON, host)


def test_options_are_read_in_every_spelling() -> None:
    spellings = [["--a-b", "1"], ["--a-b=1"], ["--a_b", "1"], ["--a-b", "0", "--a_b=1"]]

    assert [option(spelling, "--a-b") for spelling in spellings] == ["1"] * 4
    assert option(["--c"], "--a-b") is None
    assert option(["--a-b"], "--a-b") is None
