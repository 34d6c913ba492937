"""AFS-L and AFS-P (Hwang et al., NSDI 2021), which assume that every trainer keeps its current
share forever.

Of two trainers, let a be the one with less remaining time at its current share. Let p be the
throughput now, p' that with one more node, and p_b2 = p_b' (b keeps its larger share after a has
ended). The sum of the two completion times is smaller with the node at b if and only if

    (p_b' - p_b) / p_b'  >  (p_a' - p_a) / p_a        [AFS, two jobs]

This follows from the t1 and t2 of [AFS]; our notes on the paper print p_a' in the last denominator.
AFS-P does not know lengths: the larger (p' - p) / p' wins, ties are broken at random.

Departures from the paper: smallest sizes instead of single GPUs; where sizes are listed, "one more
node" is the next size and gains are per node of that step; a node that speeds up no trainer stays
idle.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bftrainer.decide.domain.events import Event
from bftrainer.decide.domain.model import rates
from bftrainer.decide.domain.needs import Need
from bftrainer.decide.domain.ports import Policy
from bftrainer.decide.domain.sizes import sizes_of
from bftrainer.decide.domain.state import Active, Decision, State
from bftrainer.decide.policies.settings import PolicySettings
from bftrainer_papers.policies import splitmix
from bftrainer_papers.policies.lengths import remaining


@dataclass(slots=True)
class _Side:
    """One trainer in the tournament for nodes: its sizes, its current position among them, and what
    the next size gains.
    """

    sizes: tuple[int, ...]
    rates: tuple[float, ...]
    left: float
    position: int = -1
    cost: int = 0
    time: float = math.inf
    of_next: float = 0.0  # (p' - p) / p', per node of the step
    of_now: float = 0.0  # (p' - p) / p, per node of the step

    def take(self) -> None:
        """Move the trainer to its next size, and compute what the size after that would gain.

        ``cost`` is then the number of further nodes of that step; 0 says that there is no larger
        size or that it is no faster.
        """
        self.position += 1
        now = self.rates[self.sizes[self.position]]
        self.time = self.left / now if now > 0 else math.inf
        self.cost = 0
        if self.position + 1 < len(self.sizes):
            step = self.sizes[self.position + 1] - self.sizes[self.position]
            more = self.rates[self.sizes[self.position + 1]]
            if more > now:
                self.cost = step
                self.of_next = (more - now) / more / step
                self.of_now = (more - now) / now / step if now > 0 else math.inf

    @property
    def nodes(self) -> int:
        return self.sizes[self.position] if self.position >= 0 else 0


def prefers(challenger: _Side, holder: _Side) -> bool:
    """Return whether the next node goes to ``challenger`` under AFS-L's rule for two trainers."""
    if challenger.time < holder.time:
        return not holder.of_next > challenger.of_now
    return challenger.of_next > holder.of_now


def share_out(
    sides: Sequence[_Side], nodes: int, first: Sequence[int], beats: Callable[[_Side, _Side], bool]
) -> tuple[int, ...]:
    """Return the number of nodes of each trainer after the tournament of AFS, in the trainers'
    order.

    Each trainer first gets its smallest size, in the order ``first``, while these fit. Then each
    step goes to the trainer that ``beats`` all others of those whose next step still fits. Cost:
    O(J * nodes).
    """
    for j in first:
        if sides[j].sizes and sides[j].sizes[0] <= nodes:
            sides[j].take()
            nodes -= sides[j].nodes
    able = [side for side in sides if side.cost]
    while nodes > 0 and (able := [side for side in able if 0 < side.cost <= nodes]):
        winner = able[0]
        for side in able[1:]:
            if beats(side, winner):
                winner = side
        nodes -= winner.cost
        winner.take()
    return tuple(side.nodes for side in sides)


@dataclass(frozen=True, slots=True)
class AfsL:
    """AFS-L, for known lengths. With more trainers than nodes, the shortest run, each at its
    smallest size (one node in [AFS]).
    """

    name: str = "afs-l"
    needs: frozenset[Need] = frozenset({Need.LENGTH})

    def decide(self, state: State, event: Event) -> tuple[Decision, object]:
        """Divide the pool by the remaining samples and curves; there is no memory.

        If not all fit, those that would end soonest at their smallest size run first.
        """
        sides = [
            _Side(
                sizes_of(admitted.trainer), rates(admitted.trainer), remaining(admitted, self.name)
            )
            for admitted in state.active
        ]
        alone = [
            _time_at_smallest(admitted, side)
            for admitted, side in zip(state.active, sides, strict=True)
        ]
        first = sorted(range(len(sides)), key=lambda j: (alone[j], j))
        return Decision(share_out(sides, len(state.pool), first, prefers)), None


@dataclass(frozen=True, slots=True)
class AfsP:
    """AFS-P, for unknown lengths. With more trainers than nodes, those with the least node-time so
    far run.
    """

    seed: int = 0
    name: str = "afs-p"

    def decide(self, state: State, event: Event) -> tuple[Decision, object]:
        """Divide the pool by what a further node gains each trainer, relative to its rate then.

        If not all fit, those that have used the least node-time run first. Ties are drawn, so the
        memory is the state of the random numbers.
        """
        seed = state.memory if isinstance(state.memory, int) else self.seed

        def beats(challenger: _Side, holder: _Side) -> bool:
            nonlocal seed
            if challenger.of_next == holder.of_next:
                chosen, seed = splitmix.draw(seed, 2)
                return chosen == 1
            return challenger.of_next > holder.of_next

        sides = [
            _Side(sizes_of(admitted.trainer), rates(admitted.trainer), 0.0)
            for admitted in state.active
        ]
        first = sorted(range(len(sides)), key=lambda j: (state.active[j].node_s, j))
        return Decision(share_out(sides, len(state.pool), first, beats)), seed


def _time_at_smallest(active: Active, side: _Side) -> float:
    rate = side.rates[side.sizes[0]] if side.sizes else 0.0
    return side.left / rate if rate > 0 else math.inf


def build_l(settings: PolicySettings) -> Policy:
    """Entry point ``bftrainer.policies``."""
    settings.option_values("afs-l")
    return AfsL()


def build_p(settings: PolicySettings) -> Policy:
    """Entry point ``bftrainer.policies``."""
    settings.option_values("afs-p")
    return AfsP(settings.seed)
