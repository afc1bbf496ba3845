"""An endpoint's cache settings become vLLM's flags, or a message."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

import pytest

from hypertier.errors import ConfigError
from hypertier.tier.launch import (
    CacheSettings,
    kv_events_config,
    kv_transfer_config,
    server_arguments,
    server_environment,
)
from hypertier.tier.preflight import VLLM_TIER_KEYS
from hypertier.tier.settings import read_settings
from hypertier.tier.tenants import Terms
from hypertier.tier.transfer import Transfer

URL = "rediss://cache:6379"


def test_l1_and_l2_become_the_offloading_connector() -> None:
    config = kv_transfer_config(CacheSettings(l1_bytes=2**30, l2_url=URL, blocks_per_chunk=4, epoch=3))

    assert config == {
        "kv_connector": "OffloadingConnector",
        "kv_connector_module_path": "hypertier.tier.connector",
        "kv_role": "kv_both",
        "kv_load_failure_policy": "recompute",
        "kv_connector_extra_config": {
            "spec_name": "PortableTieringSpec",
            "spec_module_path": "hypertier.tier.spec",
            "cpu_bytes_to_use": 2**30,
            "blocks_per_chunk": 4,
            "self_describing_kv_events": True,
            "secondary_tiers": [
                {
                    "type": "HypertierTier",
                    "module_path": "hypertier.tier.tier",
                    "ttl_seconds": 86_400,
                    "lookup_deadline_ms": 200,
                    "epoch": 3,
                }
            ],
        },
    }
    assert URL not in json.dumps(config)


def test_what_was_prefilled_elsewhere_is_looked_for_before_our_tiers() -> None:
    whole = CacheSettings(l1_bytes=2**30, l2_url=URL)

    config = kv_transfer_config(replace(whole, transfer=Transfer("kv_consumer")))

    assert (config["kv_connector"], config["kv_role"]) == ("MultiConnector", "kv_both")
    assert config["kv_load_failure_policy"] == "recompute"
    first, second = config["kv_connector_extra_config"]["connectors"]
    assert (first["kv_connector"], first["kv_role"]) == ("NixlConnector", "kv_consumer")
    assert first["kv_connector_extra_config"] == {"backends": ["LIBFABRIC"]}
    assert second == kv_transfer_config(whole)


def test_beside_nixl_l1_has_our_connector_without_l2_too() -> None:
    alone, beside = (
        kv_transfer_config(CacheSettings(l1_bytes=2**30, transfer=transfer))
        for transfer in (None, Transfer("kv_consumer"))
    )

    _, second = beside["kv_connector_extra_config"]["connectors"]
    assert "kv_connector_module_path" not in alone
    assert second == alone | {"kv_connector_module_path": "hypertier.tier.connector"}


def test_without_tiers_nixl_stands_alone() -> None:
    config = kv_transfer_config(CacheSettings(transfer=Transfer("kv_producer", "UCX")))

    assert config == {
        "kv_connector": "NixlConnector",
        "kv_role": "kv_producer",
        "kv_load_failure_policy": "recompute",
        "kv_connector_extra_config": {"backends": ["UCX"]},
    }


def test_a_backend_that_nixl_does_not_have_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"transfer\.backend is 'EFA'; expected LIBFABRIC or UCX"):
        kv_transfer_config(CacheSettings(transfer=Transfer("kv_producer", "EFA")))


def test_l1_alone_has_no_secondary_tier() -> None:
    config = kv_transfer_config(CacheSettings(l1_bytes=1))

    assert "secondary_tiers" not in config["kv_connector_extra_config"]
    assert "kv_connector_module_path" not in config


def test_no_cache_is_no_flag() -> None:
    assert kv_transfer_config(CacheSettings()) == {}


def test_the_tier_accepts_what_launch_writes() -> None:
    settings = CacheSettings(
        1,
        URL,
        ttl_seconds=60,
        connections=8,
        lookup_deadline_ms=50,
        namespace="team",
        epoch=2,
        gate="open",
        tenants={"acme": Terms(5), "*": Terms(None, 10)},
        l2_events=True,
    )
    (tier,) = kv_transfer_config(settings)["kv_connector_extra_config"]["secondary_tiers"]

    read = read_settings(
        {key: value for key, value in tier.items() if key not in VLLM_TIER_KEYS}, {"HYPERTIER_L2_URL": URL}
    )

    assert (read.ttl_seconds, read.lookup_deadline_ms, read.namespace) == (60, 50, "team")
    assert (read.epoch, read.gate, read.connections) == (2, "open", 8)
    assert (read.tenants, read.enable_kv_events) == (settings.tenants, True)


def test_terms_that_cannot_work_are_refused_before_an_engine_sees_them() -> None:
    with pytest.raises(
        ConfigError, match=r"tenants.acme.ttl_seconds is 0; expected a whole number, 1 or more"
    ):
        kv_transfer_config(CacheSettings(1, URL, tenants={"acme": Terms(0)}))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (CacheSettings(l2_url=URL), "l1_bytes is not set; expected a size in bytes beside l2_url"),
        (CacheSettings(l1_bytes=0), "l1_bytes is 0; expected 1 or more"),
        (CacheSettings(l1_bytes=1, ttl_seconds=0), "ttl_seconds is 0; expected 1 to 315360000"),
        (CacheSettings(l1_bytes=1, epoch=-1), "epoch is -1; expected 0 or more"),
        (CacheSettings(l1_bytes=1, blocks_per_chunk=0), "blocks_per_chunk is 0; expected 1 or more"),
        (
            CacheSettings(l1_bytes=1, l2_url=URL, gate="ajar"),
            "gate is 'ajar'; expected one of auto, open, closed",
        ),
        (CacheSettings(l1_bytes=1, l2_url="http://x:1"), "l2_url is 'http://x:1'; expected redis://"),
    ],
    ids=["l2 without l1", "no size", "no ttl", "epoch", "chunk", "gate", "url"],
)
def test_what_cannot_work_is_named(settings: CacheSettings, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        kv_transfer_config(settings)

    assert str(refused.value).startswith(message)


def test_the_engine_binds_its_events_port() -> None:
    config = kv_events_config(port=5601, replay_port=5602, topic="kv@1")

    assert (config["endpoint"], config["replay_endpoint"]) == ("tcp://*:5601", "tcp://*:5602")
    assert (config["enable_kv_cache_events"], config["publisher"], config["topic"]) == (True, "zmq", "kv@1")
    assert "replay_endpoint" not in kv_events_config()


def test_the_model_becomes_an_option_of_the_servers_module() -> None:
    assert server_arguments(["org/model", "--port", "1"]) == ["--model", "org/model", "--port", "1"]
    assert server_arguments(["--model", "org/model"]) == ["--model", "org/model"]


def test_the_hash_seed_is_fixed_unless_it_is_chosen() -> None:
    assert server_environment({})["PYTHONHASHSEED"] == "0"
    assert server_environment({"PYTHONHASHSEED": "7"})["PYTHONHASHSEED"] == "7"


def test_launch_imports_neither_vllm_nor_torch_nor_what_only_engines_have() -> None:
    code = (
        "import sys, hypertier.tier.launch; "
        "print(sorted({'vllm', 'torch', 'xxhash', 'boto3', 'aws_cdk'} & set(sys.modules)))"
    )

    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )

    assert done.stdout == "[]\n"


@pytest.mark.cli
@pytest.mark.parametrize(
    ("arguments", "environ", "exit_code", "message"),
    [
        ([], {}, 2, "usage: python -m hypertier.tier.launch serve MODEL"),
        (["--help"], {}, 0, "usage: python -m hypertier.tier.launch serve MODEL"),
        (["serve"], {}, 2, "usage: python -m hypertier.tier.launch serve MODEL"),
        (
            ["serve", "m", "--kv-transfer-config", json.dumps(kv_transfer_config(CacheSettings(4096, URL)))],
            {"HYPERTIER_L2_URL": "http://cache:80"},
            1,
            "hypertier: HYPERTIER_L2_URL is 'http://cache:80'; expected redis://HOST:PORT",
        ),
    ],
    ids=["nothing", "help", "no model", "wrong url"],
)
def test_serve_says_what_is_wrong_before_anything_loads(
    arguments: list[str], environ: dict[str, str], exit_code: int, message: str
) -> None:
    command = [sys.executable, "-m", "hypertier.tier.launch", *arguments]

    done = subprocess.run(command, capture_output=True, text=True, env=environ, timeout=60, check=False)

    assert done.returncode == exit_code
    assert done.stderr.startswith(message)
    assert "Traceback" not in done.stderr
