"""A price has a source and a date; a team's own are read from a file."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from hypertier.catalog.prices import PRICES, UNVERIFIED, Price, load_prices
from hypertier.errors import ConfigError, ManifestError


@pytest.mark.parametrize("key", PRICES, ids=" in ".join)
def test_every_price_says_where_it_was_read(key: tuple[str, str]) -> None:
    price = PRICES[key]

    assert price.usd_per_hour > 0
    assert price.source.startswith("https://")
    assert price.read_on <= date(2026, 12, 3)


@pytest.mark.parametrize("key", PRICES, ids=" in ".join)
def test_a_price_that_aws_itself_did_not_tell_says_so(key: tuple[str, str]) -> None:
    source = PRICES[key].source

    assert source.startswith("https://aws.amazon.com/") != source.endswith(f"({UNVERIFIED})")


def test_own_prices_are_read_for_the_region(tmp_path: Path) -> None:
    file = tmp_path / "prices.yaml"
    file.write_text("ml.p5.48xlarge: {usdPerHour: 60, source: our contract, date: 2026-11-30}\n")

    prices = load_prices(file, "us-west-2")

    assert prices == {("ml.p5.48xlarge", "us-west-2"): Price(60.0, "our contract", date(2026, 11, 30))}


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        pytest.param("ml.p5.84xlarge", "ml.p5", id="no size of the family"),
        pytest.param("p5.48xlarge", "ml.p5.48xlarge?", id="without its prefix"),
        pytest.param("nat gateway", "NAT gateway?", id="case"),
        pytest.param("load balancer", "an instance or cache node type", id="no item of a bill"),
    ],
)
def test_a_price_of_what_no_bill_has_is_refused(item: str, expected: str, tmp_path: Path) -> None:
    file = tmp_path / "prices.yaml"
    file.write_text(f"{item}: {{usdPerHour: 60, source: our contract, date: 2026-11-30}}\n")

    with pytest.raises(ManifestError) as refused:
        load_prices(file, "us-west-2")

    cause = refused.value.__cause__
    assert isinstance(cause, ConfigError)
    assert (cause.setting, cause.got) == ("prices", item)
    assert expected in cause.expected


@pytest.mark.parametrize("item", ["alarm", "secret", "cache.r7g.large", "ml.t3.medium", "ml.p7-x1.96xlarge"])
def test_a_price_of_what_a_bill_may_have_is_read(item: str, tmp_path: Path) -> None:
    file = tmp_path / "prices.yaml"
    file.write_text(f"{item}: {{usdPerHour: 60, source: our contract, date: 2026-11-30}}\n")

    assert list(load_prices(file, "us-west-2")) == [(item, "us-west-2")]


@pytest.mark.parametrize(
    ("entry", "setting"),
    [
        pytest.param("60", "prices.ml.g5.xlarge", id="a bare number"),
        pytest.param("{usdPerHour: -1, source: a, date: 2026-11-30}", "prices.ml.g5.xlarge", id="negative"),
        pytest.param("{usdPerHour: true, source: a, date: 2026-11-30}", "prices.ml.g5.xlarge", id="a truth"),
        pytest.param("{usdPerHour: 1, source: a}", "prices.ml.g5.xlarge", id="no date"),
        pytest.param(
            '{usdPerHour: 1, source: a, date: "May"}', "prices.ml.g5.xlarge.date", id="no real date"
        ),
        pytest.param(
            "{usdPerHour: 1, source: a, date: 2026-13-45}", "prices.ml.g5.xlarge.date", id="no day of a year"
        ),
        pytest.param(
            "{usdPerHour: .nan, source: a, date: 2026-11-30}", "prices.ml.g5.xlarge", id="not a number"
        ),
    ],
)
def test_what_is_no_price_is_refused_by_name(entry: str, setting: str, tmp_path: Path) -> None:
    file = tmp_path / "prices.yaml"
    file.write_text(f"# ours\nml.g5.xlarge: {entry}\n")

    with pytest.raises(ManifestError, match=rf"^{file}:2:1: {setting} is ") as refused:
        load_prices(file, "us-west-2")

    assert isinstance(refused.value.__cause__, ConfigError)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("[1]", id="a list"),
        pytest.param("{", id="no YAML"),
        pytest.param(None, id="no file"),
        pytest.param("[" * 20_000, id="too deep"),
        pytest.param("? [a]\n: 1\n", id="a key that is no text"),
        pytest.param("", id="empty"),
    ],
)
def test_what_is_no_table_is_refused(text: str | None, tmp_path: Path) -> None:
    file = tmp_path / "prices.yaml"
    if text is not None:
        file.write_text(text)

    with pytest.raises(ManifestError):
        load_prices(file, "us-west-2")
