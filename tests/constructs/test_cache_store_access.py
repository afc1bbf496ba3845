"""The store's user, judged by a real Valkey: every command of the tier goes, none that harms."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fakes_tier import RealValkey

from hypertier_cdk.cache_store import ACCESS, USER_NAME


@pytest.fixture(scope="module")
def server() -> Iterator[RealValkey]:
    server = RealValkey()
    # ElastiCache takes the same rules; it sets the password in a way of its own.
    assert server.ask(f"ACL SETUSER {USER_NAME} reset nopass {ACCESS}".encode()) == b"+OK\r\n"
    yield server
    server.close()


def may(server: RealValkey, command: str) -> bool:
    return server.ask(f"ACL DRYRUN {USER_NAME} {command}".encode()) == b"+OK\r\n"


@pytest.mark.parametrize(
    "command",
    [
        "PING",
        "ASKING",
        "CLUSTER SLOTS",
        "CLUSTER SHARDS",
        "EXISTS key",
        "GET key",
        "GETEX key EX 60",
        "INFO",
        "MGET a b",
        "SCAN 0 MATCH * COUNT 10",
        "SET key value EX 60 NX",
        "STRLEN key",
        "TTL key",
        "UNLINK key",
    ],
)
def test_the_user_may_do_what_the_tier_does(server: RealValkey, command: str) -> None:
    assert may(server, command)


@pytest.mark.parametrize(
    "command",
    [
        "ACL LIST",
        "CLUSTER RESET",
        "CONFIG SET maxmemory 1",
        "DEBUG SLEEP 1",
        "EVAL return 0",
        "FAILOVER",
        "FLUSHALL",
        "FLUSHDB",
        "KEYS *",
        "MONITOR",
        "REPLICAOF NO ONE",
        "SHUTDOWN",
        "SUBSCRIBE channel",
    ],
)
def test_the_user_may_do_nothing_that_harms_the_store(server: RealValkey, command: str) -> None:
    assert not may(server, command)
