"""A guard against starvation around any policy: a trainer that could have run for H hours gets
nodes.

A trainer *starves* while it is admitted, has no nodes, and its smallest size fits the pool. After
``patience_s`` of uninterrupted starvation the guard gives it its smallest size for ``turn_s`` (as
long as the pool lasts), whatever the policy decides. The nodes come from idle nodes first, then
from the trainer with the most nodes above its own smallest size, and last from the trainer admitted
last that has no turn itself. Several starving trainers take turns, the longest starved first.

The promise: a trainer whose smallest size has fit the pool for H hours runs, unless the trainers
whose turn it is need the whole pool; then it is next. Trainers queued beyond P_jmax are not
admitted and not covered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from bftrainer.decide.allocation.check_decision import still_named
from bftrainer.decide.domain.events import Event
from bftrainer.decide.domain.sizes import largest_of, sizes_of
from bftrainer.decide.domain.state import Decision, State
from bftrainer.decide.policies.wrapped import Wrapped


@dataclass(frozen=True, slots=True)
class StarvationClock:
    """The memory of the guard, around the memory of the policy (``inner``).

    ``since`` holds (id, time at which it began to starve), ``turns`` (id, time at which its turn
    ends).
    """

    inner: object = None
    since: tuple[tuple[str, float], ...] = ()
    turns: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Guarded(Wrapped):
    """The policy ``policy`` with the guard against starvation around it."""

    patience_s: float
    turn_s: float = 900.0

    def decide(self, state: State, event: Event) -> tuple[Decision, object]:
        """Return the decision of the policy, changed where a trainer has starved for
        ``patience_s``: it gets its smallest size for a turn of ``turn_s``.

        A trainer starves while it has no nodes though its smallest size fits the pool. The timer of
        the decision is the next begin or end of a turn, or the policy's own if that is earlier.
        """
        memory = state.memory if isinstance(state.memory, StarvationClock) else StarvationClock()
        decision, inner = self.policy.decide(replace(state, memory=memory.inner), event)
        counts = list(decision.counts)
        index = {admitted.trainer.id: j for j, admitted in enumerate(state.active)}
        smallest = [min(sizes_of(admitted.trainer), default=0) for admitted in state.active]
        starved_since_s = _starvation_starts_s(state, memory, smallest)
        turn_ends_s = self._turn_ends(state, memory, starved_since_s, counts)
        served: set[int] = set()
        for name in sorted(turn_ends_s, key=lambda name: (turn_ends_s[name], index[name])):
            j = index[name]
            if _raise_to_smallest(state, counts, j, smallest, served):
                served.add(j)
            else:
                # Its turn comes when there is room; the time since when it starves is kept.
                del turn_ends_s[name]
        starved_since_s = {
            name: at_s for name, at_s in starved_since_s.items() if counts[index[name]] == 0
        }
        turn_starts_s = [at_s + self.patience_s for at_s in starved_since_s.values()]
        # A turn that is due but found no room needs no timer: every event tries it again.
        wakes_s = [start_s for start_s in turn_starts_s if start_s > state.at_s]
        wakes_s += turn_ends_s.values()
        if decision.wake_at_s is not None:
            wakes_s.append(decision.wake_at_s)
        is_unchanged = tuple(counts) == decision.counts
        guarded = Decision(
            tuple(counts),
            min(wakes_s, default=None),
            # With other counts the answer of the solver does not describe the decision.
            decision.answer if is_unchanged else None,
            nodes=still_named(state, decision, counts),
        )
        clock = StarvationClock(inner, tuple(starved_since_s.items()), tuple(turn_ends_s.items()))
        return guarded, clock

    def _turn_ends(
        self,
        state: State,
        memory: StarvationClock,
        starved_since_s: dict[str, float],
        counts: Sequence[int],
    ) -> dict[str, float]:
        """Return when the turn of each trainer ends, by id. A turn is the time for which a starving
        trainer gets its smallest size.

        These are the turns that go on, and new ones of trainers that have waited for
        ``patience_s``, the longest wait first. ``starved_since_s`` is when each trainer began to
        starve, by id, and ``counts`` is what the policy decides: a trainer that it serves needs no
        turn.
        """
        now_s = state.at_s
        index = {admitted.trainer.id: j for j, admitted in enumerate(state.active)}
        turn_ends_s = {
            name: end_s for name, end_s in memory.turns if end_s > now_s and name in starved_since_s
        }
        starved = [
            name
            for name, at_s in starved_since_s.items()
            if now_s - at_s >= self.patience_s and counts[index[name]] == 0
        ]
        for name in sorted(starved, key=lambda name: (starved_since_s[name], index[name])):
            turn_ends_s.setdefault(name, now_s + self.turn_s)
        return turn_ends_s


def _starvation_starts_s(
    state: State, memory: StarvationClock, smallest: Sequence[int]
) -> dict[str, float]:
    """Return the time since when each trainer that fits the pool starves, if this decision gives it
    nothing, by id.

    It is now for a trainer that still has nodes, or that did not starve before. ``memory`` has the
    earlier times, and ``smallest`` are the smallest sizes (0: none).
    """
    earlier_starts_s = dict(memory.since)
    starts_s: dict[str, float] = {}
    for active, size in zip(state.active, smallest, strict=True):
        if 0 < size <= len(state.pool):
            name, now_s = active.trainer.id, state.at_s
            starts_s[name] = now_s if active.nodes else earlier_starts_s.get(name, now_s)
    return starts_s


def _raise_to_smallest(
    state: State, counts: list[int], j: int, smallest: list[int], served: set[int]
) -> bool:
    """Raise trainer ``j`` to its smallest size in ``counts``, at the cost of others but for those
    in ``served``; return whether that was possible.

    ``smallest`` are the smallest sizes, and ``served`` the indices of trainers whose turn it is.
    ``counts`` is changed only if it was possible. The order in which others give up nodes is that
    of the module's text.
    """
    if counts[j] >= smallest[j]:
        return True
    new_counts = list(counts)
    new_counts[j] = smallest[j]
    free = len(state.pool) - sum(new_counts)  # below 0: others must give up nodes
    others = [k for k in range(len(new_counts)) if k != j and k not in served]
    while free < 0:
        can_shrink = [k for k in others if new_counts[k] > smallest[k] > 0]
        if can_shrink:
            donor = max(can_shrink, key=lambda k: (new_counts[k] - smallest[k], k))
            sizes = sizes_of(state.active[donor].trainer)
            # free is below 0: the count less the nodes that are missing.
            reduced = max(largest_of(sizes, new_counts[donor] + free), smallest[donor])
        else:
            running = [k for k in others if new_counts[k] > 0]
            if not running:
                return False
            donor = running[-1]  # the one admitted last stops
            reduced = 0
        free += new_counts[donor] - reduced
        new_counts[donor] = reduced
    counts[:] = new_counts
    return True
