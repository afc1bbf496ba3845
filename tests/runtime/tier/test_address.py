"""L2's URL is right, or the message says what is wrong with it."""

from __future__ import annotations

import pytest

from hypertier.errors import ConfigError
from hypertier.tier.address import L2Address, parse_l2_url


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("redis://cache.local:6379", L2Address("cache.local", 6379)),
        (
            "rediss://master.x.use1.cache.amazonaws.com:6379",
            L2Address("master.x.use1.cache.amazonaws.com", 6379, True),
        ),
        ("redis://10.0.0.7:7000/2", L2Address("10.0.0.7", 7000, False, 2)),
        ("redis://[::1]:6379/", L2Address("::1", 6379)),
        (
            "redis://my_cache.default.svc.cluster.local.:6379",
            L2Address("my_cache.default.svc.cluster.local.", 6379),
        ),
    ],
    ids=["plain", "tls", "database", "ipv6", "kubernetes"],
)
def test_a_good_url_is_read(url: str, address: L2Address) -> None:
    assert parse_l2_url(url) == address


def test_the_daemon_of_hyperpod_has_a_scheme_of_its_own() -> None:
    address = parse_l2_url("sagemaker-hyperpod://10.0.0.7:9200")

    assert address == L2Address("10.0.0.7", 9200, is_daemon=True)
    with pytest.raises(ConfigError, match="nothing behind it"):
        parse_l2_url("sagemaker-hyperpod://10.0.0.7:9200/bucket")


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://cache:6379", "protocol of Redis"),
        ("cache:6379", "protocol of Redis"),
        ("", "protocol of Redis"),
        ("redis://:6379", "host is missing"),
        ("redis://ca che:6379", "no name, and no address"),
        ("redis://cache..local:6379", "no name, and no address"),
        ("redis://-cache:6379", "no name, and no address"),
        ("redis://%20:6379", "no name, and no address"),
        ("redis://10.0.0.700:6379", "no name, and no address"),
        (f"redis://{'a' * 64}.local:6379", "no name, and no address"),
        ("redis://cache", "port is missing"),
        ("redis://cache:0", "port is missing"),
        ("redis://cache:99999", "1 to 65535"),
        ("redis://cache:port", "1 to 65535"),
        ("redis://[::1:6379", "1 to 65535"),
        ("redis://cache:6379/db", "a number"),
        ("redis://cache:6379?ssl=true", "settings of the tier"),
    ],
    ids=lambda value: value or "empty",
)
def test_a_wrong_url_names_the_setting_the_value_and_what_works(url: str, reason: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_l2_url(url)

    message = str(refused.value)
    assert message.startswith(
        f"HYPERTIER_L2_URL is {repr(url) if url else 'empty'}; expected redis://HOST:PORT"
    )
    assert reason in message


@pytest.mark.parametrize(
    "url", ["redis://user:hunter2@cache:6379", "rediss://:hunter2@cache:6379", "redis://a:hunter2@b@cache"]
)
def test_credentials_in_a_url_are_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_l2_url(url)

    assert "hunter2" not in str(refused.value)
    assert "HYPERTIER_L2_PASSWORD" in str(refused.value)
