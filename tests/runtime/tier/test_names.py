"""Names of values are read back as they were written, and others are not taken for ours."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypertier.tier.backends.slots import key_slot
from hypertier.tier.names import (
    EntryName,
    entry_name,
    facts_name,
    ledger_name,
    parse_entry_name,
    parse_facts_name,
    parse_ledger_name,
)

NAMESPACE = b"n" * 16


@given(
    st.binary(min_size=16, max_size=16),
    st.binary(min_size=9, max_size=64),
    st.integers(min_value=0, max_value=9999),
)
def test_a_name_is_read_back(namespace: bytes, key: bytes, stripe: int) -> None:
    name = entry_name(namespace, key, stripe)

    assert parse_entry_name(name) == EntryName(namespace, key, stripe)
    assert parse_facts_name(name) is None


def test_the_name_of_facts_is_read_back() -> None:
    assert parse_facts_name(facts_name(NAMESPACE)) == NAMESPACE
    assert parse_entry_name(facts_name(NAMESPACE)) is None
    assert parse_ledger_name(facts_name(NAMESPACE)) is None


def test_the_name_of_a_ledger_is_read_back() -> None:
    name = ledger_name(NAMESPACE, b"tenant 1")

    assert parse_ledger_name(name) == (NAMESPACE, b"tenant 1")
    assert parse_entry_name(name) is None
    assert parse_facts_name(name) is None


def test_a_name_tells_the_tenant() -> None:
    found = parse_entry_name(entry_name(NAMESPACE, b"tenant 1" + b"k" * 36, 0))

    assert found is not None
    assert (found.tenant, found.key[8:]) == (b"tenant 1", b"k" * 36)


@pytest.mark.parametrize(
    "name",
    [
        b"",
        b"ht1:",
        b"ht1:00:00:0",
        b"ht2:" + b"0" * 32 + b":" + b"0" * 16 + b":00:0",
        b"ht1:" + b"0" * 32 + b":" + b"0" * 16 + b":000:0",
        b"ht1:" + b"0" * 32 + b":00:0",
        b"session:7",
    ],
    ids=["empty", "prefix", "short namespace", "other version", "odd key", "no tenant", "foreign"],
)
def test_other_names_are_none_of_ours(name: bytes) -> None:
    assert parse_entry_name(name) is None
    assert parse_facts_name(name) is None


def test_the_stripes_of_a_chunk_spread_over_a_cluster() -> None:
    slots = {key_slot(entry_name(NAMESPACE, b"k" * 36, stripe)) for stripe in range(16)}

    assert len(slots) > 8
