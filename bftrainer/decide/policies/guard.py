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

from dataclasses import dataclass, replace

from bftrainer.decide.allocation.check_decision import still_named
from bftrainer.decide.domain.events import Event
from bftrainer.decide.domain.sizes import largest_of, sizes_of
from bftrainer.decide.domain.state import Decision, State
from bftrainer.decide.policies.wrapped import Wrapped


@dataclass(frozen=True, slots=True)
class StarvationClock:
    """Memory of the guard around the memory of the policy (``inner``).

    ``since`` holds (id, time at which it began to starve), ``turns`` (id, time at which its turn
    ends).
    """

    inner: object = None
    since: tuple[tuple[str, float], ...] = ()
    turns: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Guarded(Wrapped):
    """``policy`` with the guard."""

    patience_s: float
    turn_s: float = 900.0

    def decide(self, state: State, event: Event) -> tuple[Decision, object]:
        """The decision of the policy, changed where a trainer has starved for ``patience_s``."""
        memory = state.memory if isinstance(state.memory, StarvationClock) else StarvationClock()
        decision, inner = self.policy.decide(replace(state, memory=memory.inner), event)
        counts, now = list(decision.counts), state.at_s
        index = {a.trainer.id: j for j, a in enumerate(state.active)}
        smallest = [min(sizes_of(a.trainer), default=0) for a in state.active]
        fits = [0 < size <= len(state.pool) for size in smallest]
        before = dict(memory.since)
        # A trainer that held nodes until now was running: it starves from now on at the earliest.
        since: dict[str, float] = {}
        for name, j in index.items():
            if fits[j]:
                since[name] = now if state.active[j].nodes else before.get(name, now)
        turns = {
            name: until
            for name, until in memory.turns
            if until > now and name in index and fits[index[name]]
        }
        waiting = [
            n
            for n, at_s in since.items()
            if now - at_s >= self.patience_s and counts[index[n]] == 0
        ]
        for name in sorted(waiting, key=lambda n: (since[n], index[n])):
            turns.setdefault(name, now + self.turn_s)
        served: set[int] = set()
        for name in sorted(turns, key=lambda n: (turns[n], index[n])):
            j = index[name]
            if _give(state, counts, j, smallest, served):
                served.add(j)
            else:
                del turns[name]  # its turn comes when there is room; ``since`` is kept
        since = {name: at_s for name, at_s in since.items() if counts[index[name]] == 0}
        wakes = [at_s + self.patience_s for at_s in since.values() if at_s + self.patience_s > now]
        wakes += [*turns.values()]
        wakes += [] if decision.wake_at_s is None else [decision.wake_at_s]
        changed = tuple(counts) != decision.counts
        answer, named = None if changed else decision.answer, still_named(state, decision, counts)
        guarded = Decision(tuple(counts), min(wakes, default=None), answer, nodes=named)
        return guarded, StarvationClock(inner, tuple(since.items()), tuple(turns.items()))


def _give(state: State, counts: list[int], j: int, smallest: list[int], served: set[int]) -> bool:
    """Raise trainer ``j`` to its smallest size, at the cost of others. False, with nothing changed,
    if impossible.
    """
    if counts[j] >= smallest[j]:
        return True
    after = list(counts)
    free = len(state.pool) - sum(after)
    after[j] = smallest[j]
    free -= smallest[j] - counts[j]
    others = [k for k in range(len(after)) if k != j and k not in served]
    while free < 0:
        above = [k for k in others if after[k] > smallest[k] > 0]
        if above:
            k = max(above, key=lambda k: (after[k] - smallest[k], k))
            less = max(largest_of(sizes_of(state.active[k].trainer), after[k] + free), smallest[k])
        else:
            running = [k for k in others if after[k] > 0]
            if not running:
                return False
            k, less = running[-1], 0
        free += after[k] - less
        after[k] = less
    counts[:] = after
    return True
