"""`hypertier verify` as it is typed: statuses, formats, refusals, CloudWatch."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import boto3
import pytest
from click.testing import CliRunner, Result
from fakes_endpoint import FakeEndpoint, fake_endpoint
from fakes_moto import REGION, aws_environment, moto_server
from fakes_tls import Authority

from hypertier.cli.verify import command
from hypertier.errors import ConfigError, PublishError
from hypertier.exporter.metrics import VERIFY_SERIES

KEY = "a-key-that-nobody-may-see"


def run(state: FakeEndpoint, *options: str, tls: object = None, env: dict[str, str] | None = None) -> Result:
    with fake_endpoint(state, tls):
        return CliRunner(env=env).invoke(command, [state.url, "--no-l2", "--prompt-tokens", "100", *options])


@pytest.mark.parametrize(
    ("state", "status", "verdict"),
    [
        pytest.param(FakeEndpoint(), 0, "All checks passed.", id="passed"),
        pytest.param(FakeEndpoint(caches=False), 1, "Something failed.", id="failed"),
        pytest.param(FakeEndpoint(tells_counts=False), 2, "not all could be told", id="untold"),
    ],
)
def test_it_ends_with_what_was_found(state: FakeEndpoint, status: int, verdict: str) -> None:
    done = run(state)

    assert (done.exit_code, verdict in done.output) == (status, True)


def test_the_table_has_a_row_for_each_request_and_a_line_for_each_check() -> None:
    lines = run(FakeEndpoint()).output.splitlines()

    assert lines[2].split() == ["request", "replica", "cached", "tokens", "TTFT"]
    assert lines[3].startswith("1 first  10.0.0.1:8000  0 of 101")
    assert lines[4].startswith("2 again  10.0.0.1:8000  96 of 101")
    assert [line.split()[:2] for line in lines[6:9]] == [
        ["passed", "endpoint"],
        ["passed", "answers"],
        ["passed", "cached"],
    ]


def test_what_a_check_says_to_do_stands_below_it() -> None:
    output = run(FakeEndpoint(tells_counts=False)).output

    assert "-> put --enable-prompt-tokens-details into spec.worker.args" in output
    assert max(map(len, output.splitlines())) <= 100


def test_json_tells_the_same() -> None:
    told = json.loads(run(FakeEndpoint(), "--format", "json").output)

    assert (told["status"], told["model"]) == (0, "m")
    assert [(each["why"], each["cached_tokens"]) for each in told["requests"]] == [
        ("first", 0),
        ("again", 96),
    ]
    assert [(each["check"], each["result"]) for each in told["checks"]][-1] == ("same answer", "passed")


def test_the_key_is_sent_and_told_nowhere() -> None:
    state = FakeEndpoint(refusal=(401, b"no"))
    done = run(state, "--api-key-env", "A_KEY", env={"A_KEY": f"{KEY}\n"})
    served = FakeEndpoint()
    run(served, "--api-key-env", "A_KEY", env={"A_KEY": f"{KEY}\n"})

    assert served.received[0][0]["Authorization"] == f"Bearer {KEY}"
    assert done.exit_code == 1
    assert KEY not in done.output


def test_tls_is_verified_by_the_ca_that_is_named(tmp_path: Path) -> None:
    authority, other = Authority(tmp_path), Authority(tmp_path, "other")

    good = run(FakeEndpoint(), "--ca", authority.ca, tls=authority.server())
    strange = run(FakeEndpoint(), "--ca", other.ca, tls=authority.server())
    misnamed = run(FakeEndpoint(), "--ca", authority.ca, tls=authority.server(host="engines.internal"))

    assert [each.exit_code for each in (good, strange, misnamed)] == [0, 1, 1]
    assert "--ca names a file with the CA" in " ".join(strange.output.split())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param(["router:8000"], "URL is 'router:8000'", id="no scheme"),
        pytest.param(["http://"], "URL is 'http://'", id="no host"),
        pytest.param(["http://a:b"], "URL is 'http://a:b'", id="no port"),
        pytest.param(["http://a/ b"], "URL is ", id="a space"),
        pytest.param(["http://a?x"], "URL is ", id="a query"),
        pytest.param([f"http://me:{KEY}@host"], "URL is 'host'", id="a password"),
        pytest.param(["http://a", "--timeout", "0"], "--timeout is 0.0; expected 1 to 3600", id="no time"),
        pytest.param(["http://a", "--timeout", "nan"], "--timeout is nan", id="no number"),
        pytest.param(["http://a", "--prompt-tokens", "63"], "--prompt-tokens is 63; expected 64", id="short"),
        pytest.param(["http://a", "--prompt-tokens", "200001"], "--prompt-tokens is 200001", id="long"),
        pytest.param(
            ["http://a", "--ca", "x.pem"], "--ca is 'x.pem'; expected none with", id="ca without TLS"
        ),
        pytest.param(["https://a", "--ca", "/no/x.pem"], "--ca is '/no/x.pem'; expected a file", id="no ca"),
        pytest.param(["http://a", "--api-key-env", "UNSET"], "--api-key-env is 'UNSET'", id="no key"),
        pytest.param(["http://a", "--api-key-env", "BROKEN"], "--api-key-env is 'BROKEN'", id="two lines"),
        pytest.param(["http://a", "--publish", "a b"], "--publish is 'a b'", id="no endpoint's name"),
        pytest.param(["http://a", "--publish", "a"], "--region is not set", id="no region"),
        pytest.param(["http://a", "--publish", "a", "--region", "x"], "--region is 'x'", id="no such region"),
    ],
)
def test_a_value_that_cannot_work_is_named_before_anything_is_sent(options: list[str], message: str) -> None:
    done = CliRunner(env={"BROKEN": f"{KEY}\r\nx: y", "AWS_REGION": ""}).invoke(command, options)

    assert isinstance(done.exception, ConfigError)
    assert message in str(done.exception)
    assert KEY not in str(done.exception)


def test_the_outcome_goes_to_cloudwatch_whatever_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    with moto_server() as url:
        for name, value in aws_environment(url).items():
            monkeypatch.setenv(name, value)
        options = ("--publish", "llama", "--region", REGION)
        run(FakeEndpoint(), *options)
        client = boto3.client("cloudwatch", region_name=REGION)
        names = {metric["MetricName"] for metric in client.list_metrics(Namespace="Hypertier")["Metrics"]}
        done = run(FakeEndpoint(caches=False), *options)
        failed = client.get_metric_statistics(
            Namespace="Hypertier",
            MetricName="VerifyFailed",
            Dimensions=[{"Name": "Endpoint", "Value": "llama"}],
            StartTime=datetime.now(UTC) - timedelta(hours=1),
            EndTime=datetime.now(UTC) + timedelta(hours=1),
            Period=3600,
            Statistics=["Sum", "SampleCount"],
        )["Datapoints"]

    assert names == {series.name for series in VERIFY_SERIES}
    assert done.exit_code == 1
    assert [(point["Sum"], point["SampleCount"]) for point in failed] == [(1.0, 2.0)]


def test_what_cloudwatch_did_not_take_is_said_below_what_was_found(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in aws_environment("http://127.0.0.1:9").items():
        monkeypatch.setenv(name, value)

    done = run(FakeEndpoint(), "--publish", "llama", "--region", REGION)

    assert isinstance(done.exception, PublishError)
    assert "All checks passed." in done.output
