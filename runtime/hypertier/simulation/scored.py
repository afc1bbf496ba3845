"""The router's scoring as a policy of the simulation."""

from __future__ import annotations

from hypertier.router.strategies.scoring import Scoring
from hypertier.simulation.policy import Prompt, Tracking, World
from hypertier.simulation.trace import BLOCK_TOKENS


class Scored(Tracking):
    """What `prefixaware` decides by: `router.scoring` over `router.holders`, and nothing else.

    `shares` is what several routers do that tell one another of their requests.
    """

    def __init__(self, world: World, *, shares: bool = True) -> None:
        super().__init__(world)
        self.shares = shares
        self.scoring = Scoring()
        for replica in range(world.num_replicas):
            self.scoring.add(replica, 0.0)
        self._all = (1 << world.num_replicas) - 1

    def pick(self, prompt: Prompt, now: float) -> int:
        """The lowest cost."""
        groups = [(blocks * BLOCK_TOKENS, mask) for blocks, mask in self.holders.groups(prompt.blocks)]
        return self.scoring.choose(prompt.tokens, groups, self._all, now).replica

    def sent(self, prompt: Prompt, replica: int, now: float) -> None:
        """Believe that the replica holds what it was sent before."""
        bit = 1 << replica
        groups = self.holders.groups(prompt.blocks)
        held = next((blocks * BLOCK_TOKENS for blocks, mask in groups if mask & bit), 0)
        self.scoring.sent(prompt.number, replica, held, prompt.tokens, now)
        super().sent(prompt, replica, now)
        if self.world.events:
            # Engines tell of blocks once they are computed; a prompt that comes behind will find them.
            self.holders.stored(replica, prompt.blocks[: prompt.tokens // BLOCK_TOKENS])

    def first_token(self, prompt: Prompt, replica: int, now: float) -> None:
        """Learn from it."""
        self.scoring.first_token(prompt.number, now)

    def finished(self, prompt: Prompt, replica: int, now: float) -> None:
        """Forget it."""
        self.scoring.finished(prompt.number, now)
        super().finished(prompt, replica, now)
