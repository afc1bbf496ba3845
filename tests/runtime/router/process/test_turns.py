"""Long work takes one turn of the event loop for each piece of it."""

from __future__ import annotations

import asyncio

from hypertier.router.process.turns import Turns


class Work:
    """So many pieces; `done` tells in which turn each was done."""

    def __init__(self, num_pieces: int) -> None:
        self.left = num_pieces
        self.turn = 0
        self.done: list[int] = []

    def piece(self) -> bool:
        self.left -= 1
        self.done.append(self.turn)
        return self.left > 0


def test_each_piece_has_a_turn_of_its_own_however_often_it_is_begun() -> None:
    work = Work(3)
    turns = Turns(work.piece)

    async def main() -> None:
        for _ in range(6):
            turns.begin()
            await asyncio.sleep(0)
            work.turn += 1
            if not work.left:
                break

    asyncio.run(main())

    assert work.done == [0, 1, 2]


def test_what_is_begun_by_a_piece_goes_on_in_the_next_turn() -> None:
    work = Work(1)
    turns: list[Turns] = []

    def piece() -> bool:
        if not work.done:
            work.left = 2
            turns[0].begin()
        return work.piece()

    turns.append(Turns(piece))

    async def main() -> None:
        turns[0].begin()
        for work.turn in range(4):
            await asyncio.sleep(0)

    asyncio.run(main())

    assert work.done == [0, 1]


def test_without_an_event_loop_all_is_done_at_once() -> None:
    work = Work(3)

    Turns(work.piece).begin()

    assert work.left == 0


def test_what_a_loop_left_undone_is_done_in_the_next_one() -> None:
    work = Work(100)
    turns = Turns(work.piece)

    async def main() -> None:
        turns.begin()

    async def again() -> None:
        turns.begin()
        while work.left:
            await asyncio.sleep(0)

    asyncio.run(main())
    left = work.left
    asyncio.run(again())

    assert (left > 0, work.left) == (True, 0)
