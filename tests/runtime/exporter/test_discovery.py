from __future__ import annotations

import pytest

from hypertier.errors import ConfigError, ScrapeError
from hypertier.exporter.discovery import by_dns, fixed


def test_a_fixed_list_is_what_it_says_once_each() -> None:
    discover = fixed(["http://10.0.0.2:8000/", "http://10.0.0.1:8000", "http://10.0.0.2:8000"])

    assert discover() == ["http://10.0.0.1:8000", "http://10.0.0.2:8000"]


@pytest.mark.parametrize(
    "url",
    [
        "10.0.0.1:8000",
        "ftp://10.0.0.1",
        "http://",
        "http://a?b=c",
        "",
        "http://a:b",
        "http://a:99999",
        "http://a:0",
        "http://[::1",
        "http://u:p@a:1",
        "http://a b:1",
        "http://a\n:1",
        "http://a..b:1",
        "http://" + "a" * 64 + ":1",
    ],
)
def test_what_is_no_replica_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="--replica is"):
        fixed([url])


def test_a_name_gives_every_address_with_the_port() -> None:
    assert "http://127.0.0.1:8000" in by_dns("dns://localhost:8000")()


@pytest.mark.parametrize(
    "target",
    [
        "localhost:8000",
        "dns://localhost",
        "dns://:8000",
        "dns://localhost:x",
        "dns://localhost:99999",
        "dns://a:1/b",
        "dns://a..b:1",
        "dns://a:0",
        "dns://[::1",
    ],
)
def test_what_is_no_name_with_a_port_is_refused(target: str) -> None:
    with pytest.raises(ConfigError, match=r"--discover is .*dns://HOST:PORT"):
        by_dns(target)


def test_a_name_that_cannot_be_resolved_is_a_failed_scrape() -> None:
    with pytest.raises(ScrapeError, match="cannot be resolved"):
        by_dns("dns://no-such-name.invalid:8000")()
