"""The command as a pod runs it, against engines and a CloudWatch on loopback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import boto3
import pytest
from click.testing import CliRunner
from fakes_exporter import metrics_server, recorded
from fakes_moto import REGION, aws_environment, moto_server

from hypertier.cli.exporter import command, parse_listen
from hypertier.errors import ConfigError, shown
from hypertier.exporter.exporter import Exporter

BASE = ["--endpoint", "contracts", "--region", REGION]
REPLICA = ["--replica", "http://127.0.0.1:9"]
PREFILL = ["--prefill-replica", "http://127.0.0.1:9"]


def test_it_publishes_until_sigterm_and_ends_well(monkeypatch: pytest.MonkeyPatch) -> None:
    with moto_server() as url, metrics_server(recorded("busy")) as server:
        for name, value in aws_environment(url).items():
            monkeypatch.setenv(name, value)
        options = [
            *BASE,
            "--replica",
            server.url,
            "--listen",
            "127.0.0.1:0",
            "--interval",
            "1",
            "--timeout",
            "1",
        ]
        run = "from hypertier.cli.main import main; main()"
        with subprocess.Popen(
            [sys.executable, "-c", run, "exporter", *options],
            env=dict(os.environ),
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            client = boto3.client("cloudwatch", region_name=REGION)
            end = time.monotonic() + 60
            names: set[str] = set()
            while "ReplicasScraped" not in names and time.monotonic() < end and process.poll() is None:
                names = {m["MetricName"] for m in client.list_metrics(Namespace="Hypertier")["Metrics"]}
            process.send_signal(signal.SIGTERM)
            _, log = process.communicate(timeout=30)

    assert {"KvCacheUsageRatio", "QueuedRequests", "ReplicasScraped"} <= names, log
    assert process.returncode == 0, log


def test_it_publishes_engines_that_prefill_apart_from_those_that_decode(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    busy = recorded("busy")
    with moto_server() as url, metrics_server(busy) as decode, metrics_server(busy) as prefill:
        for name, value in aws_environment(url).items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(Exporter, "run", lambda self, _: self.step())
        addresses = ["--replica", decode.url, "--prefill-replica", prefill.url]

        result = CliRunner().invoke(command, [*BASE, *addresses, "--listen", "127.0.0.1:0"])

        client = boto3.client("cloudwatch", region_name=REGION)
        metrics = client.list_metrics(Namespace="Hypertier", MetricName="KvCacheUsageRatio")["Metrics"]
    told = [{entry["Name"]: entry["Value"] for entry in metric["Dimensions"]} for metric in metrics]
    assert result.exit_code == 0, result.output
    assert sorted(told, key=str) == [
        {"Endpoint": "contracts", "Role": "decode"},
        {"Endpoint": "contracts", "Role": "prefill"},
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param([], "--discover is not set; expected either", id="neither replicas nor a name"),
        pytest.param([*REPLICA, "--discover", "dns://a:1"], "not both", id="both"),
        pytest.param(
            [*REPLICA, *PREFILL, "--prefill-discover", "dns://a:1"],
            "--prefill-discover is 'dns://a:1 and 1 --prefill-replica'; expected either",
            id="both of those that prefill",
        ),
        pytest.param(PREFILL, "--discover is not set; expected either", id="nobody decodes"),
        pytest.param(
            [*REPLICA, "--prefill-replica", "engine:8000"],
            "--prefill-replica is 'engine:8000'",
            id="one that prefills without http",
        ),
        pytest.param(
            [*REPLICA, "--prefill-discover", "engine"],
            "--prefill-discover is 'engine'; expected dns://",
            id="a bare name of those that prefill",
        ),
        pytest.param(
            [*REPLICA, "--prefill-discover", ""], "--prefill-discover is empty", id="no name at all"
        ),
        pytest.param(
            [*REPLICA, "--interval", "0"], "--interval is 0.0; expected 1 to 86400", id="no interval"
        ),
        pytest.param(
            [*REPLICA, "--timeout", "61"], "--timeout is 61.0; expected", id="timeout over interval"
        ),
        pytest.param([*REPLICA, "--timeout", "0"], "--timeout is 0.0; expected", id="no timeout"),
        pytest.param(
            [*REPLICA, "--listen", "9400"], "--listen is '9400'; expected HOST:PORT", id="a port alone"
        ),
        pytest.param(["--replica", "engine:8000"], "--replica is 'engine:8000'", id="a replica without http"),
        *(
            pytest.param([*REPLICA, "--interval", value], "--interval is ", id=f"interval {value}")
            for value in ("nan", "inf", "1e30", "-1")
        ),
        *(
            pytest.param(
                [*REPLICA, "--region", value], f"--region is {shown(value)}; expected", id=f"region {value!r}"
            )
            for value in ("", "nowhere", "us west", "\u00e9", "us-west-2\n")
        ),
        *(
            pytest.param(
                [*REPLICA, "--endpoint", value], f"--endpoint is {shown(value)}", id=f"endpoint {value!r}"
            )
            for value in ("", " ", "\u00e9", "a\nb", "-a")
        ),
        *(
            pytest.param(
                [*REPLICA, "--namespace", value], f"--namespace is {shown(value)}", id=f"namespace {value!r}"
            )
            for value in ("", " ", "AWS/EC2", "\u00e9", "a\n")
        ),
        *(
            pytest.param([*REPLICA, "--listen", value], f"--listen is {value!r}", id=f"listen {value}")
            for value in ("127.0.0.1:99999", "no-host.invalid:0", "198.51.100.1:9400")
        ),
        pytest.param(["--discover", "engine"], "--discover is 'engine'; expected dns://", id="a bare name"),
    ],
)
def test_a_wrong_value_names_itself_and_what_works(options: list[str], message: str) -> None:
    result = CliRunner().invoke(command, [*BASE, *options])

    assert isinstance(result.exception, ConfigError)
    assert message in str(result.exception)


@pytest.mark.parametrize(
    ("text", "address"),
    [("0.0.0.0:9400", ("0.0.0.0", 9400)), ("[::]:0", ("::", 0))],
    ids=["IPv4", "IPv6"],
)
def test_listen_reads_a_host_and_a_port(text: str, address: tuple[str, int]) -> None:
    assert parse_listen(text) == address


def test_its_help_ends_with_an_example() -> None:
    result = CliRunner().invoke(command, ["--help"])

    assert result.exit_code == 0
    assert "Example: hypertier exporter" in result.output
