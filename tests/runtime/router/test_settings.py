"""What an operator can get wrong, and what the router says about it."""

from __future__ import annotations

from typing import Any

import pytest

from hypertier.errors import ConfigError
from hypertier.router.discovery.addresses import Address, parse_replica
from hypertier.router.settings import RouterSettings

ENGINE = "http://10.0.0.5:8000"


@pytest.mark.parametrize(
    ("wrong", "setting"),
    [
        pytest.param({"listen": "8000"}, "--listen", id="no-host"),
        pytest.param({"listen": "0.0.0.0:http"}, "--listen", id="port-word"),
        pytest.param({"listen": "0.0.0.0:70000"}, "--listen", id="port-large"),
        pytest.param({"listen": "::1:80"}, "--listen", id="bare-ipv6"),
        pytest.param({"metrics_port": 65536}, "--metrics-port", id="metrics-port"),
        pytest.param({"kv_events_port": 65535}, "--kv-events-port", id="no-port-for-replays"),
        pytest.param({"kv_events": ("a:1",)}, "--kv-events", id="events-without-use"),
        pytest.param({"trace_sample_ratio": 0.01}, "--trace-sample-ratio", id="sampled-for-nobody"),
        pytest.param(
            {"capture_sampling_percentage": 5}, "--capture-sampling-percentage", id="captured-nowhere"
        ),
        pytest.param({"capture_modes": ("Input",)}, "--capture-mode", id="captured-nowhere-of-requests"),
        pytest.param({"capture_redact": True}, "--capture-redact", id="redacted-nowhere"),
        pytest.param({"hold_requests": 5}, "--hold-requests", id="held-for-no-time"),
        pytest.param({"strategy": "kvaware", "kv_events": ("a",)}, "--kv-events", id="events-port"),
        pytest.param(
            {"strategy": "kvaware", "kv_events": ("a:1", "b:1")}, "--kv-events", id="events-of-none"
        ),
        pytest.param({"strategy": "round-robin"}, "--strategy", id="strategy"),
        pytest.param({"replicas": ()}, "--replica", id="no-replica"),
        pytest.param({"replicas": (ENGINE, ENGINE)}, "--replica", id="replica-twice"),
        pytest.param({"replicas": (ENGINE, ENGINE + "/")}, "--replica", id="replica-twice-with-slash"),
        pytest.param({"replicas": ("10.0.0.5:8000",)}, "--replica", id="no-scheme"),
        pytest.param({"replicas": ("https://a:1",)}, "--replica", id="https"),
        pytest.param({"replicas": ("http://a",)}, "--replica", id="no-port"),
        pytest.param({"replicas": ("http://a:0",)}, "--replica", id="port-zero"),
        pytest.param({"replicas": ("http://a:1/v1",)}, "--replica", id="path"),
        pytest.param({"replicas": ("http://u:p@a:1",)}, "--replica", id="user"),
        pytest.param({"replicas": ("http://[::1:80",)}, "--replica", id="broken-ipv6"),
        pytest.param({"discover": "engines:8000"}, "--discover", id="discover-scheme"),
        pytest.param({"discover": "dns://engines"}, "--discover", id="discover-port"),
        *(
            pytest.param({"discover": f"k8s://{text}", "replicas": ()}, "--discover", id=f"k8s-{name}")
            for name, text in {
                "no-port": "ns/engine",
                "no-service": "ns:8000",
                "port-0": "ns/engine:0",
                "port-too-large": "ns/engine:65536",
                "port-name": "ns/engine:-x",
                "path": "ns/engine/x:1",
                "capitals": "ns/Engine:1",
            }.items()
        ),
        pytest.param({"discover": "dns://engines:8000"}, "--discover", id="discover-and-replica"),
        pytest.param({"peers": "routers:9091", "peer_listen": "0.0.0.0:1"}, "--peers", id="peers-scheme"),
        pytest.param({"peer": ("a:0",), "peer_listen": "0.0.0.0:1"}, "--peer", id="peer-port-zero"),
        pytest.param({"peer": ("a:1",), "peer_listen": "1"}, "--peer-listen", id="peer-listen"),
        pytest.param({"peer": ("a:1",)}, "--peer-listen", id="peer-without-listen"),
        pytest.param({"peer_listen": "0.0.0.0:1"}, "--peers", id="listen-without-peer"),
        pytest.param(
            {"peers": "dns://a:1", "peer": ("a:1",), "peer_listen": "0.0.0.0:1"}, "--peer", id="peer-twice"
        ),
        pytest.param(
            {"peer": ("a:1",), "peer_listen": "0.0.0.0:1", "strategy": "roundrobin"},
            "--strategy",
            id="peer-without-use",
        ),
        pytest.param({"session_key": "x session"}, "--session-key", id="session-key"),
        pytest.param({"retries": -1}, "--retries", id="retries"),
        pytest.param({"max_body_bytes": 10}, "--max-body-bytes", id="body"),
        pytest.param({"max_head_bytes": 10}, "--max-head-bytes", id="head"),
        pytest.param({"max_buffered_bytes": 2048}, "--max-buffered-bytes", id="buffered"),
        pytest.param({"index_bytes": 1}, "--index-bytes", id="index"),
        pytest.param({"drain_seconds": -1}, "--drain-seconds", id="drain"),
        pytest.param({"drain_seconds": float("nan")}, "--drain-seconds", id="nan"),
        pytest.param({"lameduck_seconds": -1}, "--lameduck-seconds", id="lameduck"),
        pytest.param({"lameduck_seconds": float("inf")}, "--lameduck-seconds", id="lameduck-for-ever"),
        pytest.param({"drain_seconds": 1e30}, "--drain-seconds", id="drain-for-ever"),
        pytest.param({"idle_timeout_seconds": float("inf")}, "--idle-timeout", id="idle-for-ever"),
        pytest.param({"index_bytes": 10**30}, "--index-bytes", id="index-without-end"),
        pytest.param({"connect_timeout_seconds": 0}, "--connect-timeout", id="connect"),
        pytest.param({"response_timeout_seconds": 0}, "--response-timeout", id="response"),
        pytest.param({"gather_seconds": -0.001}, "--gather-seconds", id="gather-negative"),
        pytest.param({"gather_seconds": 2}, "--gather-seconds", id="gather-milliseconds"),
        pytest.param({"read_timeout_seconds": -1}, "--read-timeout", id="read"),
        pytest.param({"idle_timeout_seconds": 0}, "--idle-timeout", id="idle"),
        pytest.param({"health_interval_seconds": 0}, "--health-interval", id="health"),
        pytest.param({"health_timeout_seconds": float("nan")}, "--health-timeout", id="health-timeout"),
    ],
)
def test_wrong_value_names_its_flag_and_what_works(wrong: dict[str, Any], setting: str) -> None:
    with pytest.raises(ConfigError) as caught:
        RouterSettings(**({"replicas": (ENGINE,)} | wrong))

    assert caught.value.setting == setting
    assert caught.value.expected


def test_events_are_where_they_are_said_to_be_or_on_their_port() -> None:
    named = RouterSettings(replicas=(ENGINE,), strategy="kvaware", kv_events=("127.0.0.1:7001",))
    found = RouterSettings(discover="dns://engines:8000", strategy="kvaware", kv_events_port=7000)

    assert str(named.kv_events_of(parse_replica(ENGINE))) == "127.0.0.1:7001"
    assert str(found.kv_events_of(Address("10.0.0.7", 8000))) == "10.0.0.7:7000"


@pytest.mark.parametrize("strategy", ["roundrobin", "prefixaware", "session"])
def test_strategies_are_spelled_as_in_the_manifest(strategy: str) -> None:
    settings = RouterSettings(replicas=(ENGINE,), strategy=strategy)

    assert strategy in settings.plan()


@pytest.mark.parametrize("prefix", ["capture_", "hold_"])
def test_what_says_nothing_without_another_flag_is_refused_alone(prefix: str) -> None:
    """Each of them: a new one is added to the list."""
    fields = RouterSettings.__dataclass_fields__
    beside = {"capture_spool": "captures", "hold_seconds": 1.0}
    own = [name for name in fields if name.startswith(prefix) and name not in beside]
    other: dict[type, Any] = {int: 77, bool: True, tuple: ("Output",)}

    for name in own:
        told = {name: other[type(fields[name].default)]}
        if name == "capture_spool_bytes":
            told = {name: 2**21}
        RouterSettings(replicas=(ENGINE,), **(beside | told))
        with pytest.raises(ConfigError, match="beside it") as refused:
            RouterSettings(replicas=(ENGINE,), **told)
        assert refused.value.setting.startswith(f"--{prefix.rstrip('_')}-")
