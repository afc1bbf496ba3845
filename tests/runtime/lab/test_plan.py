from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from fakes_rendered import ENGINE_ARGS, ENGINE_ENV, ROUTER_ARGS, rendered
from hypothesis import given, settings
from hypothesis import strategies as st

from hypertier.errors import ConfigError
from hypertier.lab.plan import LabPlan, LabSettings, l1_bytes_for, plan_lab
from hypertier.lab.rules import MIB
from hypertier.lab.translate import read_endpoint

STRANGE = rendered(
    [*ENGINE_ARGS, "--mine"],
    [*ENGINE_ENV, {"name": "STRANGE", "value": "1"}],
    [*ROUTER_ARGS, "--metrics-port", "9090"],
)


def plan(objects: list[dict[str, object]], *without: str, replicas: int = 2) -> LabPlan:
    lab_settings = LabSettings(
        engine="simulated",
        replicas=replicas,
        ports=(7000, 7001, 7002, 7003, 7004, 7010, 7012)[: 3 + 2 * replicas],
        model_directory=Path("/m"),
        engine_command=("engine",),
        router_command=("hypertier",),
        without=without,
        l2_password="sesame",
    )
    return plan_lab(read_endpoint(objects), lab_settings, {"PATH": "/bin", "AWS_SECRET_ACCESS_KEY": "x"})


def test_every_process_has_a_port_of_its_own() -> None:
    lab = plan(STRANGE, "--mine", "STRANGE")

    assert lab.replica_urls == ("http://127.0.0.1:7003", "http://127.0.0.1:7004")
    assert (lab.router_url, lab.l2_port) == ("http://127.0.0.1:7000", 7001)
    assert lab.router_metrics_url == "http://127.0.0.1:7002"


def test_with_kvaware_every_engine_publishes_where_the_router_listens() -> None:
    events = '{"enable_kv_cache_events": true, "endpoint": "tcp://*:5557"}'
    lab = plan(
        rendered(
            [*ENGINE_ARGS, "--kv-events-config", events],
            ENGINE_ENV,
            [*ROUTER_ARGS, "--kv-events-port", "5557"],
        )
    )

    published = [json.loads(spec.argv[spec.argv.index("--kv-events-config") + 1]) for spec in lab.engines]
    heard = [
        value
        for name, value in zip(lab.router.argv, lab.router.argv[1:], strict=False)
        if name == "--kv-events"
    ]
    assert [each["endpoint"] for each in published] == ["tcp://*:7010", "tcp://*:7012"]
    assert [each["replay_endpoint"] for each in published] == ["tcp://*:7011", "tcp://*:7013"]
    assert heard == ["127.0.0.1:7010", "127.0.0.1:7012"]
    assert "--kv-events-port" not in lab.router.argv


def test_without_a_metrics_port_the_routers_metrics_are_at_its_own() -> None:
    lab = plan(rendered())

    assert lab.router_metrics_url == lab.router_url


def test_processes_get_nothing_of_this_environment_but_the_basics() -> None:
    lab = plan(rendered())

    assert [spec.env["PATH"] for spec in lab.engines] == ["/bin", "/bin"]
    assert all("AWS_SECRET_ACCESS_KEY" not in spec.env for spec in (*lab.engines, lab.router))


def test_without_l2_there_is_no_valkey_and_no_password() -> None:
    lab = plan(rendered(["/opt/ml/model"], []))

    assert lab.l2_port is None
    assert "HYPERTIER_L2_PASSWORD" not in lab.engines[0].env


@pytest.mark.parametrize(
    ("without", "message"),
    [
        pytest.param(
            ("STRANGE",),
            "--mine is 'given'; expected nothing, or a setting that the lab knows",
            id="unknown",
        ),
        pytest.param(("--mine",), "does not know with --without STRANGE", id="the error says how to go on"),
        pytest.param(
            ("--mine", "STRANGE", "--no-such"),
            "--without is '--no-such'; expected",
            id="misspelled",
        ),
    ],
)
def test_what_the_lab_does_not_know_is_refused_or_left_out(without: tuple[str, ...], message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        plan(STRANGE, *without)


@settings(deadline=None)
@given(st.integers(0, 2**40), st.integers(1, 8))
def test_l1_of_all_replicas_fits_into_half_of_what_is_free(spare_bytes: int, replicas: int) -> None:
    free_bytes = 32 * MIB * replicas + spare_bytes

    l1_bytes = l1_bytes_for(free_bytes, replicas)

    assert 16 * MIB <= l1_bytes <= 128 * MIB
    assert l1_bytes * replicas <= free_bytes / 2


def test_too_little_shared_memory_is_told_with_what_helps() -> None:
    with pytest.raises(
        ConfigError, match=r"/dev/shm is '63 MiB free'; expected 64 MiB or more .*--shm-size 1g"
    ):
        l1_bytes_for(63 * MIB, 2)
