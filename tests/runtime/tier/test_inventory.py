"""What L2 holds is counted from names, sizes and times alone."""

from __future__ import annotations

from hypertier.tier.inventory import Value, count, differences, read_facts
from hypertier.tier.names import entry_name, facts_name

ONE, TWO = b"1" * 16, b"2" * 16
A, B = b"tenant a", b"tenant b"


def test_values_are_counted_by_namespace_the_largest_first() -> None:
    values = [
        Value(entry_name(ONE, A + b"k1", 0), 10, 60),
        Value(entry_name(TWO, A + b"k1", 0), 100, 50),
        Value(entry_name(TWO, A + b"k1", 1), 100, 70),
        Value(entry_name(TWO, B + b"k2", 1), 100, 90),  # half evicted: no proving stripe
        Value(facts_name(ONE), 5, 60),
        Value(b"ht1:foreign", 7, None),
    ]

    counts = count(values, {TWO: {"model": "org/m", "epoch": 3, "namespace": "team"}})

    assert [each.namespace for each in counts] == [TWO, ONE]
    assert counts[0].as_json() == {
        "namespace": TWO.hex(),
        "model": "org/m",
        "label": "team",
        "epoch": 3,
        "chunks": 1,
        "values": 3,
        "bytes": 300,
        "first_expires_seconds": 50,
        "last_expires_seconds": 90,
    }
    assert counts[1].as_json()["model"] is None


def test_values_are_counted_by_tenant() -> None:
    values = [Value(entry_name(ONE, tenant + b"k", 0), 10, 60) for tenant in (A, A, B)]

    counts = count(values, {}, by_tenant=True)

    assert [(each.tenant, each.num_bytes) for each in counts] == [(A, 20), (B, 10)]


def test_a_value_without_a_time_to_live_does_not_hide_those_of_others() -> None:
    values = [Value(entry_name(ONE, A + b"k1", 0), 1, None), Value(entry_name(ONE, A + b"k2", 0), 1, 9)]

    (found,) = count(values, {})

    assert (found.first_expires_seconds, found.last_expires_seconds) == (9, 9)


def test_facts_that_cannot_be_read_are_none() -> None:
    assert [read_facts(stored) for stored in (None, b"", b"[1]", b"\xff", b'{"a": 1}')] == [
        {},
        {},
        {},
        {},
        {"a": 1},
    ]


def test_differences_are_what_keeps_namespaces_apart() -> None:
    facts = {
        "1": {"dtype": "bfloat16", "epoch": 0, "vllm": "0.32", "kept": {"ttl_seconds": 1}},
        "2": {"dtype": "bfloat16", "epoch": 1},
    }

    found = differences(facts)

    assert found == {"epoch": {"1": 0, "2": 1}, "vllm": {"1": "0.32", "2": None}}
