"""Several users on the same idle nodes, each with a pilot that decides for the user's own
trainers.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from bftrainer.decide.allocation.objectives import one_node_rate
from bftrainer.decide.core.demand_cap import DemandCap
from bftrainer.decide.domain.events import Event
from bftrainer.decide.domain.ports import Policy
from bftrainer.decide.domain.state import Decision, State
from bftrainer.decide.policies.wrapped import Wrapped
from bftrainer.sharing.fair_share import ShareMemory, Sharer, split, whole_parts
from bftrainer_replay.logs.model import of_nodes
from bftrainer_replay.simulation.play import ReplayOutcome, Scenario, play
from bftrainer_replay.simulation.replay_world import Arrival

DEALS = 5
UNUSED_S = 30.0
"""``nodes.unused_after_s`` of pilots."""


class Users(Enum):
    """How users come to nodes."""

    SHARE = "share"
    """As pilots split them (``nodes.share``)."""
    FIRST_COME = "first-come"
    """Idle nodes go to the user whose pilot polls first; no user gives any up for another."""
    EQUAL = "equal"
    """Divided again at every event."""
    ONE_OWNER = "one-owner"
    """One pilot has all trainers."""


@dataclass(frozen=True, slots=True)
class UserMemories:
    """By user: the policy's memory, the pilot's memory of the split, and nodes that it holds beside
    those of trainers.
    """

    inner: Mapping[str, object] = field(default_factory=dict)
    shares: Mapping[str, ShareMemory] = field(default_factory=dict)
    unused: Mapping[str, Unused] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Unused:
    """``nodes`` that no trainer has used since ``since_s``. They are released :data:`UNUSED_S`
    later, with a demand cap.
    """

    nodes: int = 0
    since_s: float = math.inf
    cap: DemandCap | None = None

    def now(
        self, trainers: frozenset[str], demand: int, used: int, free: int, now_s: float
    ) -> Unused:
        """Those of the ``free`` nodes that are still held, while trainers have ``used`` nodes and
        could use ``demand``.
        """
        cap = self.cap if self.cap is not None and self.cap.counts(trainers, demand, used) else None
        nodes = min(self.nodes, free)
        if nodes and now_s - self.since_s >= UNUSED_S:
            return Unused(
                cap=DemandCap(
                    "", trainers, used, max(used + nodes, cap.tried if cap else 0), demand
                )
            )
        return replace(self, nodes=nodes, cap=cap)

    def after(self, nodes: int, now_s: float) -> Unused:
        """After a decision that leaves ``nodes`` unused."""
        return replace(self, nodes=nodes, since_s=min(self.since_s, now_s) if nodes else math.inf)


@dataclass(frozen=True, slots=True)
class ByUser(Wrapped):
    """``policy`` for the trainers of each user, on the user's nodes. ``user_of``: trainer's id to
    user. ``given_up``: the nodes that users gave up for others, by decision.
    """

    how: Users
    user_of: Mapping[str, str]
    seed: int = 0
    given_up: list[int] = field(default_factory=list, compare=False)

    def decide(self, state: State, event: Event) -> tuple[Decision, object]:
        memory = state.memory if isinstance(state.memory, UserMemories) else UserMemories()
        users = sorted(
            {self.user_of[a.trainer.id] for a in state.active}
            | {self.user_of[t.id] for t in state.queue}
        )
        of_user = {
            u: replace(
                state,
                active=tuple(a for a in state.active if self.user_of[a.trainer.id] == u),
                queue=tuple(t for t in state.queue if self.user_of[t.id] == u),
                memory=memory.inner.get(u),
            )
            for u in users
        }
        held = {
            u: frozenset[str]().union(*(a.nodes for a in its.active)) for u, its in of_user.items()
        }
        wants = {
            u: sum(a.trainer.max_nodes for a in its.active) + sum(t.max_nodes for t in its.queue)
            for u, its in of_user.items()
        }
        has = {u: len(nodes) for u, nodes in held.items()}
        unused = (
            self._unused(of_user, len(state.pool), wants, has, memory.unused)
            if self.how is Users.SHARE
            else {}
        )
        counts, shares, again_s = self._nodes(state, wants, has, memory.shares)
        kept = {u: sorted(held[u])[: counts[u]] for u in users}
        free = sorted(state.pool.difference(*kept.values()))
        found: dict[str, int] = {}
        inner: dict[str, object] = {}
        for u, its in of_user.items():
            more = counts[u] - len(kept[u])
            nodes, free = frozenset([*kept[u], *free[:more]]), free[more:]
            active = tuple(replace(a, nodes=a.nodes & nodes) for a in its.active)
            its = replace(
                its, pool=nodes, active=active, classes=(), window_ends=_of(its.window_ends, nodes)
            )
            decision, inner[u] = self.policy.decide(its, event)
            found |= {a.trainer.id: n for a, n in zip(its.active, decision.counts, strict=True)}
            again_s = min(again_s, math.inf if decision.wake_at_s is None else decision.wake_at_s)
            if u in unused:
                unused[u] = unused[u].after(counts[u] - sum(decision.counts), state.at_s)
                again_s = min(again_s, unused[u].since_s + UNUSED_S)
        wake_at_s = again_s if again_s < math.inf else None
        decision = Decision(tuple(found[a.trainer.id] for a in state.active), wake_at_s)
        return decision, UserMemories(inner, shares, unused)

    def _unused(
        self,
        of_user: Mapping[str, State],
        pool: int,
        wants: dict[str, int],
        has: dict[str, int],
        before: Mapping[str, Unused],
    ) -> dict[str, Unused]:
        """What pilots hold beside the nodes of trainers. It is added to what each ``has``, and caps
        what each ``wants``.
        """
        unused, idle = dict[str, Unused](), pool - sum(has.values())
        for u, its in of_user.items():
            trainers = frozenset([*(a.trainer.id for a in its.active), *(t.id for t in its.queue)])
            unused[u] = before.get(u, Unused()).now(trainers, wants[u], has[u], idle, its.at_s)
            idle -= unused[u].nodes
            has[u] += unused[u].nodes
            if (cap := unused[u].cap) and has[u] + idle <= cap.tried:
                wants[u] = min(wants[u], cap.nodes)
        return unused

    def _nodes(
        self,
        state: State,
        wants: Mapping[str, int],
        held: Mapping[str, int],
        before: Mapping[str, ShareMemory],
    ) -> tuple[dict[str, int], Mapping[str, ShareMemory], float]:
        """How many nodes each user has now, the memories of the pilots, and when they decide
        again.
        """
        pool, free = len(state.pool), len(state.pool) - sum(held.values())
        if self.how is Users.EQUAL:
            parts = whole_parts(pool, wants, held)
            self.given_up.append(sum(max(held[u] - part, 0) for u, part in parts.items()))
            return parts, {}, math.inf
        shares: dict[str, ShareMemory] = {}
        has, most, again_s = dict(held), dict[str, float](wants), math.inf
        if self.how is Users.SHARE:
            trainers = [*(a.trainer for a in state.active), *state.queue]
            least = {
                u: min(t.min_nodes for t in trainers if self.user_of[t.id] == u) for u in wants
            }
            idle = [f"idle {i}" for i in range(free)]
            claims = {
                u: Sharer(u, "", wants[u], held[u], is_short=not free, least=least[u])
                for u in wants
            }
            for u, own in claims.items():
                others = [c for name, c in claims.items() if name != u]
                found = split(
                    own, 0, others, idle, math.inf, before.get(u, ShareMemory()), state.at_s
                )
                shares[u], most[u] = found.memory, min(found.part, wants[u])
                has[u] -= found.release_count
                again_s = min(again_s, found.next_change_s)
            self.given_up.append(sum(held.values()) - sum(has.values()))
        for u in self._order(state, has):
            more = max(min(pool - sum(has.values()), int(most[u]) - has[u]), 0)
            has[u] += more
        return has, shares, again_s if again_s > state.at_s else state.at_s + 1.0

    def _order(self, state: State, has: Mapping[str, int]) -> Sequence[str]:
        """Whose poll comes first is by chance, the same in every replay."""
        chance = random.Random(f"{self.seed} {state.at_s}")
        return chance.sample(sorted(has), len(has))


@dataclass(frozen=True, slots=True)
class UserOutcome:
    """What a user's trainers did, in one-node hours: on the shared nodes, and on nodes of the
    user's own, one of U.
    """

    user: str
    one_node_h: float
    own_part_h: float

    @property
    def relative(self) -> float:
        """Of what the own nodes would have given."""
        return self.one_node_h / self.own_part_h if self.own_part_h else math.nan


def outcomes_by_user(
    scenario: Scenario, policy: Policy, outcome: ReplayOutcome
) -> tuple[UserOutcome, ...]:
    """Each user's outcome beside that of ``policy`` on every U-th node, the mean of up to
    :data:`DEALS` deals.
    """
    window, work = scenario.window, _work(scenario.arrivals, outcome)
    names = sorted(window.initial.union(*(event.change.joined for event in window.events)))
    users, found = sorted(work), []
    deals = min(len(users), DEALS)
    for i, user in enumerate(users):
        own = tuple(a for a in scenario.arrivals if a.user == user)
        total = 0.0
        for deal in range(deals):
            part = of_nodes(window, names[(i + deal) % len(users) :: len(users)])
            alone = replace(scenario, window=part, arrivals=own)
            total += _work(own, play(alone, policy, keep_entries=False))[user]
        found.append(UserOutcome(user, work[user], total / deals))
    return tuple(found)


def _work(arrivals: Sequence[Arrival], outcome: ReplayOutcome) -> dict[str, float]:
    user_of = {a.trainer.id: a.user for a in arrivals}
    work = dict.fromkeys(user_of.values(), 0.0)
    for run in outcome.runs:
        work[user_of[run.trainer.id]] += run.samples / one_node_rate(run.trainer) / 3600
    return work


def _of(
    ends: tuple[tuple[str, float], ...], nodes: frozenset[str]
) -> tuple[tuple[str, float], ...]:
    return tuple(end for end in ends if end[0] in nodes)
