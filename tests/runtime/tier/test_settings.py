"""The tier's settings are checked when the engine starts, each with a message of its own."""

from __future__ import annotations

from typing import Any

import pytest
from fakes_tier import RealValkey

from hypertier.errors import ConfigError
from hypertier.tier.settings import LARGEST, SMALLEST, TierSettings, read_settings

ENVIRON = {"HYPERTIER_L2_URL": "redis://cache:6379"}


def test_the_url_comes_from_the_environment_unless_it_is_given() -> None:
    given = read_settings({"url": "redis://other:6380"}, ENVIRON)

    assert read_settings({}, ENVIRON) == TierSettings("redis://cache:6379")
    assert (given.address.host, given.address.port) == ("other", 6380)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"conections": 4}, "secondary_tiers.conections is 4; expected one of ca_file, connections"),
        ({"ttl_seconds": "1h"}, "secondary_tiers.ttl_seconds is '1h'; expected a whole number"),
        ({"ttl_seconds": True}, "secondary_tiers.ttl_seconds is true; expected a whole number"),
        ({"ttl_seconds": 0}, "secondary_tiers.ttl_seconds is 0; expected 1 to 315360000"),
        ({"stripe_bytes": 100}, "secondary_tiers.stripe_bytes is 100; expected 65536 to 16777216"),
        ({"namespace": 7}, "secondary_tiers.namespace is 7; expected text"),
        ({"connections": 65}, "secondary_tiers.connections is 65; expected 1 to 64"),
        ({"url": "ftp://cache:1"}, "secondary_tiers.url is 'ftp://cache:1'; expected redis://"),
    ],
    ids=["unknown", "text", "bool", "too small", "tiny stripe", "number", "connections", "url"],
)
def test_a_wrong_setting_is_named(config: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        read_settings(config, ENVIRON)

    assert str(refused.value).startswith(message)


def test_no_url_at_all_names_the_variable() -> None:
    with pytest.raises(ConfigError, match="HYPERTIER_L2_URL is empty"):
        read_settings({}, {})


@pytest.mark.parametrize(("name", "largest"), LARGEST.items())
def test_what_no_server_and_no_clock_takes_is_refused(name: str, largest: int) -> None:
    read_settings({name: largest}, ENVIRON)

    with pytest.raises(
        ConfigError, match=f"secondary_tiers.{name} is {largest + 1}; expected .* to {largest}"
    ):
        read_settings({name: largest + 1}, ENVIRON)


def test_the_largest_life_is_one_that_valkey_takes() -> None:
    ttl = LARGEST["ttl_seconds"]
    with pytest.raises(ConfigError, match=r"secondary_tiers\.tenants\.acme\.ttl_seconds"):
        read_settings({"tenants": {"acme": {"ttl_seconds": ttl + 1}}}, ENVIRON)

    with RealValkey() as valkey:
        assert valkey.ask(b"SET k v EX %d" % ttl) == b"+OK\r\n"


def test_every_number_has_a_smallest_value_that_its_default_keeps() -> None:
    defaults = TierSettings("redis://cache:6379")

    assert all(getattr(defaults, name) >= smallest for name, smallest in SMALLEST.items())
