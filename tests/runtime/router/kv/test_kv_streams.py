"""Events over real sockets: nothing that an engine said is missed without being known as missed."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from fakes_cut_wire import cut_wires
from fakes_kv_publisher import Publisher, two_free_ports
from hypothesis import given
from hypothesis import strategies as st

from hypertier.router.discovery.addresses import Address
from hypertier.router.kv.kv_events import Event, Stored
from hypertier.router.kv.kv_streams import BLOCKS_A_TURN, NUM_COMPARED, KvStreams, Place
from hypertier.router.process.open_files import allow_all_open_files
from hypertier.router.replicas.replicas import Replica, ReplicaSet


def stored(block: int) -> list[Any]:
    return ["BlockStored", [block], None, [block], 1, None, "GPU"]


class Listener:
    """What a subscriber believes: the blocks stored since it last forgot."""

    def __init__(self, port: int, host: str = "127.0.0.1", **seconds: float) -> None:
        self.blocks: list[Any] = []
        self.num_forgotten = 0
        self.replicas = ReplicaSet()
        self.streams = KvStreams(
            self.replicas,
            events_of=lambda replica: Address(host, port),
            apply=self._apply,
            hear=lambda _: None,
            forget=self._forget,
            **({"retry_seconds": 0.01} | seconds),
        )
        self.replicas.replace([Address("127.0.0.1", 8000)])
        (self.replica,) = self.replicas.by_url.values()
        self.replicas.admit(self.replica)

    def _apply(self, replica: Replica, event: Event) -> None:
        assert isinstance(event, Stored)
        self.blocks += event.block_hashes

    def _forget(self, replica: Replica) -> None:
        self.blocks.clear()
        self.num_forgotten += 1

    async def until(self, true: Callable[[], bool]) -> None:
        """Return once it is; a test that waits for what never comes ends by its time-out."""
        while not true():
            await asyncio.sleep(0)


@asynccontextmanager
async def heard(publisher: Publisher, port: int | None = None, **seconds: float) -> AsyncIterator[Listener]:
    """Heard at its own port, or at another one that leads there."""
    listener = Listener(port or publisher.port, **seconds)
    try:
        await publisher.subscribed()
        await listener.until(lambda: listener.replica in listener.streams.in_step)
        yield listener
    finally:
        await listener.streams.stop()
        await publisher.close()


def run(test: Callable[[Publisher], Awaitable[None]], **publisher: Any) -> None:
    async def main() -> None:
        await test(Publisher(two_free_ports(), **publisher))

    asyncio.run(main())


def test_what_was_said_before_is_replayed_and_what_comes_is_heard() -> None:
    async def test(publisher: Publisher) -> None:
        await publisher.publish(stored(1), stored(2))
        async with heard(publisher) as listener:
            await publisher.publish(stored(3))

            await listener.until(lambda: listener.blocks == [1, 2, 3])

    run(test)


def test_a_long_batch_is_applied_in_many_turns_of_the_event_loop() -> None:
    async def test(publisher: Publisher) -> None:
        turn, applied = 0, Counter[int]()
        async with heard(publisher) as listener:
            apply = listener.streams._apply

            def noted(replica: Replica, event: Event) -> None:
                assert isinstance(event, Stored)
                applied[turn] += len(event.block_hashes)
                apply(replica, event)

            listener.streams._apply = noted
            hundred = ["BlockStored", list(range(100)), None, list(range(100)), 1, None, "GPU"]
            await publisher.publish(*[hundred] * 50)
            while applied.total() < 5000:
                turn += 1
                await asyncio.sleep(0)

        assert max(applied.values()) <= BLOCKS_A_TURN + 100

    run(test)


def test_a_gap_is_filled_by_replay() -> None:
    async def test(publisher: Publisher) -> None:
        async with heard(publisher) as listener:
            await publisher.publish(stored(1))
            await publisher.publish(stored(2), lost=True)
            await publisher.publish(stored(3))

            await listener.until(lambda: listener.blocks == [1, 2, 3])

            assert (listener.num_forgotten, dict(listener.streams.resyncs)) == (0, {})

    run(test)


def test_a_gap_that_is_no_longer_kept_makes_it_forget_and_begin_anew() -> None:
    async def test(publisher: Publisher) -> None:
        async with heard(publisher) as listener:
            await publisher.publish(stored(1))
            await listener.until(lambda: listener.blocks == [1])
            for block in range(2, 6):
                await publisher.publish(stored(block), lost=True)
            await publisher.publish(stored(6))

            await listener.until(lambda: listener.blocks == [5, 6])

            assert listener.streams.resyncs == {"gap": 1}

    run(test, keep=2)


def test_a_gap_that_an_empty_replay_leaves_open_is_not_passed_over() -> None:
    async def test(publisher: Publisher) -> None:
        async with heard(publisher) as listener:
            await publisher.publish(stored(1))
            await listener.until(lambda: listener.blocks == [1])
            await publisher.publish(stored(2), lost=True)
            await publisher.publish(stored(3))

            await listener.until(lambda: listener.streams.resyncs["gap"] == 1)

            assert listener.blocks == []

    run(test, keep=0)


def test_what_an_engine_no_longer_keeps_at_first_is_no_gap() -> None:
    async def test(publisher: Publisher) -> None:
        for block in range(5):
            await publisher.publish(stored(block))
        async with heard(publisher) as listener:
            await listener.until(lambda: listener.blocks == [3, 4])

            assert not listener.streams.resyncs

    run(test, keep=2)


def test_an_engine_that_restarts_holds_nothing_of_what_it_did() -> None:
    async def test(publisher: Publisher) -> None:
        async with heard(publisher) as listener:
            for block in range(3):
                await publisher.publish(stored(block))
            await listener.until(lambda: len(listener.blocks) == 3)
            await publisher.close()
            again = Publisher(publisher.port, started=1000.0)
            await again.subscribed()
            await again.publish(stored(7))

            await listener.until(lambda: listener.blocks == [7])

            assert listener.streams.resyncs == {"restart": 1}
            await again.close()

    run(test)


@pytest.mark.parametrize("num_unheard", [0, 1, 3, 8], ids=["behind", "less", "as-many", "more"])
@pytest.mark.parametrize("tells_more", [True, False], ids=["and-tells-more", "and-is-quiet"])
def test_an_engine_that_restarted_unheard_holds_nothing_of_what_it_did(
    num_unheard: int, tells_more: bool
) -> None:
    """However many batches it has told when it is heard again: their numbers may go on like the old ones'."""

    async def test(publisher: Publisher) -> None:
        async with heard(publisher) as listener:
            for block in range(3):
                await publisher.publish(stored(block))
            await listener.until(lambda: len(listener.blocks) == 3)
            await publisher.close()
            again = Publisher(publisher.port, started=1000.0)
            for block in range(10, 10 + num_unheard):
                await again.publish(stored(block), lost=True)
            expected = list(range(10, 10 + num_unheard))
            await again.subscribed()
            if tells_more:
                await again.publish(stored(99))
                expected.append(99)

            await listener.until(lambda: listener.num_forgotten > 0 and listener.blocks == expected)

            assert listener.streams.resyncs == {"restart": 1}
            await again.close()

    run(test)


def test_an_engine_whose_connection_was_cut_is_not_forgotten_and_what_it_told_meanwhile_is_heard() -> None:
    async def test(publisher: Publisher) -> None:
        port = two_free_ports()
        cut = cut_wires(port, publisher.port, publisher.port + 1)
        async with cut as wires, heard(publisher, port=port) as listener:
            for block in range(6):
                await publisher.publish(stored(block))
            await listener.until(lambda: len(listener.blocks) == 6)

            for wire in wires:
                wire.cut()
            await publisher.publish(stored(6))
            await listener.until(lambda: len(listener.blocks) == 7)
            await publisher.publish(stored(7))
            await listener.until(lambda: len(listener.blocks) == 8)

            assert listener.blocks == list(range(8))
            assert (listener.num_forgotten, dict(listener.streams.resyncs)) == (0, {})

    run(test)


def test_an_engine_that_keeps_no_batch_is_begun_anew_with_each_connection() -> None:
    """Nothing tells then whether it is the same one."""

    async def test(publisher: Publisher) -> None:
        port = two_free_ports()
        cut = cut_wires(port, publisher.port, publisher.port + 1)
        async with cut as wires, heard(publisher, port=port) as listener:
            await publisher.publish(stored(1))
            await listener.until(lambda: listener.blocks == [1])

            wires[0].cut()
            await listener.until(lambda: listener.streams.resyncs["restart"] == 1)

            assert listener.blocks == []

    run(test, keep=0)


def test_more_engines_are_heard_than_a_library_allows_sockets_unasked() -> None:
    num_engines = 300
    allow_all_open_files()

    async def test(publisher: Publisher) -> None:
        async with heard(publisher) as listener:
            listener.replicas.replace(Address("127.0.0.1", 8000 + number) for number in range(num_engines))
            for replica in list(listener.replicas.by_url.values()):
                listener.replicas.admit(replica)

            await listener.until(lambda: len(listener.streams.in_step) == num_engines)

            assert not listener.streams.resyncs

    run(test)


def test_a_loss_that_nothing_follows_is_found_by_asking() -> None:
    async def test(publisher: Publisher) -> None:
        async with heard(publisher, quiet_seconds=0.02) as listener:
            await publisher.publish(stored(1), lost=True)

            await listener.until(lambda: listener.blocks == [1])

    run(test)


def test_an_engine_that_sends_nothing_again_is_not_in_step() -> None:
    async def test(publisher: Publisher) -> None:
        listener = Listener(publisher.port, replay_seconds=0.02)
        try:
            await listener.until(lambda: listener.streams.resyncs["silent"] >= 2)

            assert not listener.streams.in_step
        finally:
            await listener.streams.stop()
            await publisher.close()

    run(test, answers=False)


def test_an_engine_that_is_not_heard_is_said_once_and_when_it_is(caplog: pytest.LogCaptureFixture) -> None:
    """Each try, one in some seconds for each of many engines, would fill the log."""
    caplog.set_level(logging.INFO, "hypertier.router")

    async def test(publisher: Publisher) -> None:
        publisher.answers = False
        listener = Listener(publisher.port, replay_seconds=0.02, quiet_seconds=0.02)
        try:
            await listener.until(lambda: listener.streams.resyncs["silent"] >= 3)
            publisher.answers = True
            await listener.until(lambda: "again" in caplog.text)
        finally:
            await listener.streams.stop()
            await publisher.close()

    run(test)

    said = [line.rpartition(" ")[2] for line in caplog.messages if line.startswith("KV events")]
    assert said[:2] == ["silent", "again"]


@pytest.mark.parametrize(
    "frames",
    [
        pytest.param([b"one"], id="one-part"),
        pytest.param([b"", b"short", b""], id="short-number"),
        pytest.param([b"", bytes(8), b"\xc1"], id="no-batch"),
        pytest.param([b"", bytes(8), msgspec.msgpack.encode([1, [["BlockStored"]], 0])], id="no-event"),
    ],
)
def test_what_is_no_batch_makes_it_begin_anew(frames: list[bytes]) -> None:
    async def test(publisher: Publisher) -> None:
        async with heard(publisher) as listener:
            await publisher.say(frames)
            await listener.until(lambda: listener.streams.resyncs["malformed"] == 1)
            await publisher.publish(stored(1))

            await listener.until(lambda: listener.blocks == [1])

    run(test)


def test_a_replica_that_is_ejected_is_forgotten_and_heard_again_once_healthy() -> None:
    async def test(publisher: Publisher) -> None:
        async with heard(publisher) as listener:
            await publisher.publish(stored(1))
            await listener.until(lambda: listener.blocks == [1])

            listener.replicas.eject(listener.replica, "test")
            gone = (list(listener.blocks), set(listener.streams.in_step))
            listener.replicas.admit(listener.replica)
            await listener.until(lambda: listener.blocks == [1])

            assert gone == ([], set())

    run(test)


def test_an_engine_whose_address_no_socket_takes_is_tried_again() -> None:
    async def test() -> None:
        listener = Listener(5557, host="a b")
        try:
            await listener.until(lambda: listener.streams.resyncs["socket"] >= 2)
        finally:
            await listener.streams.stop()

    asyncio.run(test())


@given(st.lists(st.integers(0, 12), max_size=30))
def test_batches_that_come_again_or_out_of_turn_are_never_taken_twice(numbers: list[int]) -> None:
    place, taken = Place(), []

    for number in numbers:
        if place.check(number, float(number)) == "next":
            place.take(number, float(number))
            taken.append(number)

    assert taken == list(range(len(taken)))


def test_a_number_that_begins_again_later_is_another_process() -> None:
    place = Place()
    place.take(5, 10.0)

    assert [place.check(*batch) for batch in [(6, 11.0), (8, 11.0), (3, 9.0), (0, 12.0)]] == [
        "next",
        "gap",
        "old",
        "restart",
    ]


def test_a_number_that_was_taken_with_another_time_is_another_process() -> None:
    place = Place()
    for number in range(10):
        place.take(number, 10.0 + number)

    assert place.compared_from == 10 - NUM_COMPARED
    assert (place.check(8, 18.0), place.check(8, 17.0), place.check(8, 19.0)) == ("old", "restart", "restart")
