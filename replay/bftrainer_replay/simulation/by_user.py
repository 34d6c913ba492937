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
from bftrainer.decide.domain.model import Trainer
from bftrainer.decide.domain.ports import Policy
from bftrainer.decide.domain.state import Active, Decision, State
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
    """What :class:`ByUser` remembers, by user: the policy's memory, the pilot's memory of the
    split, and nodes that it holds beside those of trainers.
    """

    inner: Mapping[str, object] = field(default_factory=dict)
    shares: Mapping[str, ShareMemory] = field(default_factory=dict)
    unused: Mapping[str, Unused] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Unused:
    """The ``nodes`` of a user that no trainer has used since ``since_s``. They are released
    :data:`UNUSED_S` later, with a demand cap.
    """

    nodes: int = 0
    since_s: float = math.inf
    cap: DemandCap | None = None

    def now(
        self, trainers: frozenset[str], demand: int, used: int, free: int, now_s: float
    ) -> Unused:
        """Return what the pilot of a user still holds now without using it.

        That is no more than the ``free`` nodes, and nothing (but a demand cap) if they were unused
        for :data:`UNUSED_S`: a demand cap keeps the pilot from requesting nodes again that its
        trainers did not use. The user's ``trainers`` have ``used`` nodes and could use ``demand``.
        """
        cap = (
            self.cap if self.cap is not None and self.cap.is_valid(trainers, demand, used) else None
        )
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
    """A policy for several users: runs ``policy`` for the trainers of each user, on the nodes that
    the user has.

    ``user_of``: trainer's id to user. ``given_up``: the nodes that users gave up for others, by
    decision.
    """

    how: Users
    user_of: Mapping[str, str]
    seed: int = 0
    given_up: list[int] = field(default_factory=list, compare=False)

    def decide(self, state: State, event: Event) -> tuple[Decision, object]:
        """Divide the pool among the users, and let each user's policy decide on its part.

        The decision joins those of all users; the memory is a :class:`UserMemories`.
        """
        memory = state.memory if isinstance(state.memory, UserMemories) else UserMemories()
        states = self._states_by_user(state, memory)
        held = {user: _held_nodes(user_state) for user, user_state in states.items()}
        wants = {user: _largest_demand(user_state) for user, user_state in states.items()}
        held_count = {user: len(nodes) for user, nodes in held.items()}
        unused: dict[str, Unused] = {}
        if self.how is Users.SHARE:
            unused = self._unused_by_user(states, len(state.pool), wants, held_count, memory.unused)
        counts, shares, wake_at_s = self._nodes_by_user(state, wants, held_count, memory.shares)
        nodes_of = _divided_pool(state.pool, held, counts)
        count_of: dict[str, int] = {}
        policy_memories: dict[str, object] = {}
        for user, user_state in states.items():
            user_state = _on_nodes(user_state, nodes_of[user])
            decision, policy_memories[user] = self.policy.decide(user_state, event)
            for active, count in zip(user_state.active, decision.counts, strict=True):
                count_of[active.trainer.id] = count
            if decision.wake_at_s is not None:
                wake_at_s = min(wake_at_s, decision.wake_at_s)
            if user in unused:
                unused_count = counts[user] - sum(decision.counts)
                unused[user] = unused[user].after(unused_count, state.at_s)
                wake_at_s = min(wake_at_s, unused[user].since_s + UNUSED_S)
        decision = Decision(
            tuple(count_of[active.trainer.id] for active in state.active),
            wake_at_s if wake_at_s < math.inf else None,
        )
        return decision, UserMemories(policy_memories, shares, unused)

    def _states_by_user(self, state: State, memory: UserMemories) -> dict[str, State]:
        """Return the state of each user alone: the user's trainers, with the memory of the user's
        policy.
        """
        active_of: dict[str, list[Active]] = {}
        for active in state.active:
            active_of.setdefault(self.user_of[active.trainer.id], []).append(active)
        queue_of: dict[str, list[Trainer]] = {}
        for trainer in state.queue:
            queue_of.setdefault(self.user_of[trainer.id], []).append(trainer)
        return {
            user: replace(
                state,
                active=tuple(active_of.get(user, ())),
                queue=tuple(queue_of.get(user, ())),
                memory=memory.inner.get(user),
            )
            for user in sorted({*active_of, *queue_of})
        }

    def _unused_by_user(
        self,
        states: Mapping[str, State],
        pool: int,
        wants: dict[str, int],
        has: dict[str, int],
        before: Mapping[str, Unused],
    ) -> dict[str, Unused]:
        """Return the nodes that each user's pilot holds although no trainer uses them.

        The method adds these nodes to ``has``, and a demand cap (on what trainers were seen not to
        use) lowers ``wants``. ``before`` is what pilots held at the last decision.
        """
        unused = dict[str, Unused]()
        idle = pool - sum(has.values())
        for user, own in states.items():
            trainers = frozenset(trainer.id for trainer in _all_trainers(own))
            previous = before.get(user, Unused())
            present = previous.now(trainers, wants[user], has[user], idle, own.at_s)
            unused[user] = present
            idle -= present.nodes
            has[user] += present.nodes
            if present.cap and has[user] + idle <= present.cap.tried:
                wants[user] = min(wants[user], present.cap.nodes)
        return unused

    def _nodes_by_user(
        self,
        state: State,
        wants: Mapping[str, int],
        held: Mapping[str, int],
        before: Mapping[str, ShareMemory],
    ) -> tuple[dict[str, int], Mapping[str, ShareMemory], float]:
        """Return how many nodes each user gets, the memories of the pilots' split, and when they
        decide again.

        ``wants`` and ``held`` are the nodes that each user's trainers could use and have;
        ``before`` are the memories of the last split.
        """
        pool = len(state.pool)
        if self.how is Users.EQUAL:
            parts = whole_parts(pool, wants, held)
            self.given_up.append(sum(max(held[user] - part, 0) for user, part in parts.items()))
            return parts, {}, math.inf
        shares: dict[str, ShareMemory] = {}
        has, limits, wake_at_s = dict(held), dict[str, float](wants), math.inf
        if self.how is Users.SHARE:
            free = pool - sum(held.values())
            idle = [f"idle {i}" for i in range(free)]
            claims = self._claims_by_user(state, wants, held, is_short=not free)
            for user, claim in claims.items():
                others = [other for name, other in claims.items() if name != user]
                memory = before.get(user, ShareMemory())
                share = split(claim, 0, others, idle, math.inf, memory, state.at_s)
                shares[user] = share.memory
                limits[user] = min(share.part, wants[user])
                has[user] -= share.release_count
                wake_at_s = min(wake_at_s, share.next_change_s)
            self.given_up.append(sum(held.values()) - sum(has.values()))
        # What is free goes to users one after another, up to their limits.
        for user in self._poll_order(state, has):
            has[user] += max(min(pool - sum(has.values()), int(limits[user]) - has[user]), 0)
        # A wake-up has to be later than the decision.
        return has, shares, wake_at_s if wake_at_s > state.at_s else state.at_s + 1.0

    def _claims_by_user(
        self, state: State, wants: Mapping[str, int], held: Mapping[str, int], *, is_short: bool
    ) -> dict[str, Sharer]:
        """Return, for each user, what the user's pilot tells the others: what it wants and holds.

        ``is_short``: it finds no idle node.
        """
        smallest: dict[str, int] = {}
        for trainer in _all_trainers(state):
            user = self.user_of[trainer.id]
            smallest[user] = min(smallest.get(user, trainer.min_nodes), trainer.min_nodes)
        return {
            user: Sharer(user, "", wants[user], held[user], is_short=is_short, least=smallest[user])
            for user in wants
        }

    def _poll_order(self, state: State, has: Mapping[str, int]) -> Sequence[str]:
        """Draw the order in which the users' pilots poll; it depends only on the seed and the time,
        so it is the same in every replay.
        """
        chance = random.Random(f"{self.seed} {state.at_s}")
        return chance.sample(sorted(has), len(has))


@dataclass(frozen=True, slots=True)
class UserOutcome:
    """What a user's trainers did, in one-node hours: ``one_node_h`` on the shared nodes, and
    ``own_part_h`` if the user had a fixed part of the nodes alone (one of U, for U users).
    """

    user: str
    one_node_h: float
    own_part_h: float

    @property
    def relative(self) -> float:
        """The work on the shared nodes, relative to that on the user's own part."""
        return self.one_node_h / self.own_part_h if self.own_part_h else math.nan


def outcomes_by_user(
    scenario: Scenario, policy: Policy, outcome: ReplayOutcome
) -> tuple[UserOutcome, ...]:
    """Return each user's outcome beside that of the user alone on a fixed part of the nodes.

    With U users, that part is every U-th node, and the outcome is the mean of up to :data:`DEALS`
    choices of these nodes.
    """
    window, work = scenario.window, _work_by_user(scenario.arrivals, outcome)
    names = sorted(window.initial.union(*(event.change.joined for event in window.events)))
    users = sorted(work)
    outcomes = []
    deals = min(len(users), DEALS)
    for index, user in enumerate(users):
        own = tuple(arrival for arrival in scenario.arrivals if arrival.user == user)
        total = 0.0
        for deal in range(deals):
            part = of_nodes(window, names[(index + deal) % len(users) :: len(users)])
            alone = replace(scenario, window=part, arrivals=own)
            total += _work_by_user(own, play(alone, policy, keep_entries=False))[user]
        outcomes.append(UserOutcome(user, work[user], total / deals))
    return tuple(outcomes)


def _work_by_user(arrivals: Sequence[Arrival], outcome: ReplayOutcome) -> dict[str, float]:
    """The one-node hours that each user's trainers did."""
    user_of = {arrival.trainer.id: arrival.user for arrival in arrivals}
    work = dict.fromkeys(user_of.values(), 0.0)
    for run in outcome.runs:
        work[user_of[run.trainer.id]] += run.samples / one_node_rate(run.trainer) / 3600
    return work


def _all_trainers(state: State) -> list[Trainer]:
    """The admitted trainers, then those in the queue."""
    return [*(active.trainer for active in state.active), *state.queue]


def _held_nodes(state: State) -> frozenset[str]:
    """The nodes of all trainers."""
    return frozenset[str]().union(*(active.nodes for active in state.active))


def _largest_demand(state: State) -> int:
    """The nodes that all trainers could use together."""
    return sum(trainer.max_nodes for trainer in _all_trainers(state))


def _divided_pool(
    pool: frozenset[str], held: Mapping[str, frozenset[str]], counts: Mapping[str, int]
) -> dict[str, frozenset[str]]:
    """Return the nodes of the pool that each user gets, ``counts`` of them.

    First come those that the user's trainers hold, then free ones.
    """
    kept = {user: sorted(nodes)[: counts[user]] for user, nodes in held.items()}
    free = sorted(pool.difference(*kept.values()))
    divided = {}
    for user, nodes in kept.items():
        missing = counts[user] - len(nodes)
        divided[user] = frozenset([*nodes, *free[:missing]])
        free = free[missing:]
    return divided


def _on_nodes(state: State, nodes: frozenset[str]) -> State:
    """Return a state restricted to these nodes of the pool, as the pilot of one user sees it."""
    return replace(
        state,
        pool=nodes,
        active=tuple(replace(active, nodes=active.nodes & nodes) for active in state.active),
        classes=(),
        window_ends=tuple(end for end in state.window_ends if end[0] in nodes),
    )
