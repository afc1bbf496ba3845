"""Keys are found by hash, end when they should, and never come back out."""

from __future__ import annotations

import hashlib

import pytest

from hypertier.errors import ConfigError
from hypertier.router.access import keys

JANUARY = 1_798_761_600.0  # 2027-01-01T00:00Z
KEY = "sk-ht-of-acme"
OTHER = "sk-ht-of-zeta"


def whose(ring: keys.KeyRing, key: bytes, now: float) -> str | None:
    found = ring.find(key, now)
    return None if found is None else found.tenant


def test_key_is_its_tenants_and_nobody_elses() -> None:
    ring = keys.parse(f"{keys.line(KEY, 'acme', None)}\n{keys.line(OTHER, 'zeta', None)}\n", "--api-keys")

    found = [whose(ring, key, 0.0) for key in (KEY.encode(), OTHER.encode(), b"", KEY.encode()[:-1])]

    assert found == ["acme", "zeta", None, None]


@pytest.mark.parametrize("until", ["2027-01-01", "2027-01-01T00:00Z", "2027-01-01T01:00+01:00"])
def test_key_ends_with_its_date(until: str) -> None:
    ring = keys.parse(keys.line(KEY, "acme", until), "--api-keys")

    assert whose(ring, KEY.encode(), JANUARY - 1) == "acme"
    assert whose(ring, KEY.encode(), JANUARY) is None


def test_old_and_new_key_are_valid_together() -> None:
    text = f"{keys.line(KEY, 'acme', '2027-01-01')}  # old\n\n# new:\n{keys.line(OTHER, 'acme', None)}\n"

    ring = keys.parse(text, "--api-keys")

    assert [whose(ring, key.encode(), JANUARY - 1) for key in (KEY, OTHER)] == ["acme", "acme"]
    assert [whose(ring, key.encode(), JANUARY + 1) for key in (KEY, OTHER)] == [None, "acme"]
    assert ring.tenants == {"acme"}


def test_file_keeps_no_key() -> None:
    line = keys.line(KEY, "acme", None)

    assert KEY not in line
    assert line == f"sha256:{hashlib.sha256(KEY.encode()).hexdigest()} acme"


def test_new_keys_have_256_bits_each_of_their_own() -> None:
    made = {keys.new_key() for _ in range(100)}

    assert len(made) == 100
    assert {len(key) for key in made} == {len(keys.PREFIX) + 43}


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("sk-ht-plain acme", id="key-itself"),
        pytest.param("sha256:" + "A" * 64 + " acme", id="upper-case"),
        pytest.param("sha256:" + "a" * 63 + " acme", id="short"),
        pytest.param("sha256:" + "a" * 64, id="no-tenant"),
        pytest.param("sha256:" + "a" * 64 + " acme soon", id="no-date"),
        pytest.param("sha256:" + "a" * 64 + " acme 2027-01-01 more", id="more"),
        pytest.param("sha256:" + "a" * 64 + " a\nsha256:" + "a" * 64 + " b", id="two-tenants"),
    ],
)
def test_error_names_the_file_and_line_and_not_what_stands_there(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        keys.parse("\n" + text, "--api-keys", "/etc/keys")

    assert "--api-keys is '/etc/keys line " in str(caught.value)
    assert "plain" not in str(caught.value)
    assert "aaaa" not in str(caught.value)


@pytest.mark.parametrize("tenant", ["", "a b", " a", "ä", "a\n", "x" * 129])
def test_tenant_of_a_new_key_fits_into_a_line(tenant: str) -> None:
    with pytest.raises(ConfigError, match="--tenant"):
        keys.line(KEY, tenant, None)
