"""FlowCon ([FlowCon 4.1, 5.1; Algorithms 1 and 2]): resources for trainers whose evaluation
function still falls.

Progress P = |E(t_i) - E(t_i-1)| / dt [FlowCon Eqn 4.1], growth efficiency G = P / resource used
[FlowCon Eqn 4.2]. There are three lists with threshold alpha: NL grows, WL is watched, CL
converges. Two forms share the algorithms: limits on the processor of one worker
(``bftrainer_papers.containers``), and shares of the nodes of a pool (:class:`FlowCon`).

Our reading where the thesis is silent: E is normalized to [0, 1]. Time is in units of the initial
interval, so that G is the share of the whole reduction per interval on the whole resource; per
second, no published alpha would separate anything. A trainer that has not been measured has limit 1
and counts as G = 1 in the sum. Without time or resource use since the last measurement, G stays as
it was. Line 17 doubles the interval once per run (the print has it inside the loop).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from bftrainer.decide.domain.events import Event
from bftrainer.decide.domain.needs import Need
from bftrainer.decide.domain.ports import Policy
from bftrainer.decide.domain.state import Active, Decision, State
from bftrainer.decide.policies.settings import PolicySettings
from bftrainer_papers.policies.shares import by_weight


class Stage(Enum):
    """The three lists of FlowCon, between which a trainer moves as its loss falls more slowly."""

    NEW = "NL"
    WATCHING = "WL"
    COMPLETING = "CL"


@dataclass(frozen=True, slots=True)
class FlowConMember:
    """A trainer on a list: its limit L, its last G (None: not measured), and E and resource use at
    that time.
    """

    id: str
    stage: Stage = Stage.NEW
    limit: float = 1.0
    growth: float | None = None
    loss: float | None = None
    used_s: float = 0.0
    at_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Lists:
    """The memory of the policy: members in order of arrival, the current interval, and when
    Algorithm 1 runs next.
    """

    members: tuple[FlowConMember, ...] = ()
    interval_s: float = 0.0
    next_s: float = 0.0


@dataclass(frozen=True, slots=True)
class MeasuredGrowth:
    """What is observed of a trainer: E (None: not reported) and resource-seconds used, where the
    whole resource is 1.
    """

    loss: float | None
    used_s: float


@dataclass(frozen=True, slots=True)
class Rules:
    """The parameters of FlowCon: alpha, the initial interval, and beta of the floor 1 / (beta n)
    ([FlowCon 6.1.3]: limit 0.25 with two containers).
    """

    alpha: float = 0.05
    interval_s: float = 20.0
    beta: float = 2.0

    def listen(self, lists: Lists, seen: Mapping[str, MeasuredGrowth], at_s: float) -> Lists:
        """Return the lists after an event: [FlowCon Algorithm 2], which runs Algorithm 1 when it is
        due.

        It is due after an arrival or departure, which also resets the interval, or when the
        interval has passed. Otherwise the lists stay as they are.
        """
        members = tuple(member for member in lists.members if member.id in seen)  # lines 10-15
        member_ids = {member.id for member in members}
        new = tuple(
            FlowConMember(name, loss=now.loss, used_s=now.used_s, at_s=at_s)
            for name, now in seen.items()
            if name not in member_ids
        )
        interval_s = lists.interval_s or self.interval_s
        if new or len(members) < len(lists.members):
            interval_s = self.interval_s  # lines 8 and 16
        elif at_s < lists.next_s:
            return lists
        members, interval_s = self.run((*members, *new), seen, at_s, interval_s)  # lines 6-7, 9, 17
        return Lists(members, interval_s, at_s + interval_s)

    def run(
        self,
        members: tuple[FlowConMember, ...],
        seen: Mapping[str, MeasuredGrowth],
        at_s: float,
        interval_s: float,
    ) -> tuple[tuple[FlowConMember, ...], float]:
        """Move members between the lists, then set their limits: [FlowCon Algorithm 1].

        Return the members and the next interval. If all members are on CL (they converge), none is
        limited, and the interval doubles.
        """
        members = tuple(
            self.classified(self.measured(member, seen[member.id], at_s)) for member in members
        )  # lines 2-13
        if members and all(member.stage is Stage.COMPLETING for member in members):  # lines 14-17
            return tuple(_with_limit(member, 1.0) for member in members), 2 * interval_s
        total = sum(1.0 if member.growth is None else member.growth for member in members)
        return tuple(
            self._with_new_limit(member, total, len(members)) for member in members
        ), interval_s

    def measured(self, member: FlowConMember, now: MeasuredGrowth, at_s: float) -> FlowConMember:
        """Return a member with its G since its last measurement [FlowCon Eqns 4.1, 4.2].

        G is how much its loss changed per resource used (line 3 of Algorithm 1). Without a loss,
        passed time or resource use there is nothing to measure, and the first loss has none before
        it: G stays as it was.
        """
        passed_s, used_s = at_s - member.at_s, now.used_s - member.used_s
        if now.loss is None or passed_s <= 0 or used_s <= 0:
            return member
        if member.loss is None:
            return FlowConMember(
                member.id, member.stage, member.limit, member.growth, now.loss, now.used_s, at_s
            )
        # P / R with R = used / passed: the passed time cancels, the interval is the unit.
        growth = abs(now.loss - member.loss) * self.interval_s / used_s
        return FlowConMember(
            member.id, member.stage, member.limit, growth, now.loss, now.used_s, at_s
        )

    def classified(self, member: FlowConMember) -> FlowConMember:
        """Return a member on the list that its G belongs to (lines 4-13 of Algorithm 1).

        G of at least alpha leads to NL; below, a member steps from NL to WL, and from there to CL.
        One that has not been measured stays on NL.
        """
        if member.growth is None:
            return member
        next_stage = Stage.WATCHING if member.stage is Stage.NEW else Stage.COMPLETING
        stage = Stage.NEW if member.growth >= self.alpha else next_stage
        return FlowConMember(
            member.id, stage, member.limit, member.growth, member.loss, member.used_s, member.at_s
        )

    def _with_new_limit(
        self, member: FlowConMember, total: float, member_count: int
    ) -> FlowConMember:
        """Return a member with its new limit [FlowCon Algorithm 1, lines 18-26].

        On NL it is the member's share of ``total``, the sum of all G; equal shares if that is 0. On
        CL it is the same share, at least the floor 1 / (beta n) for n members. On WL the limit
        stays. A member that has not been measured has limit 1.
        """
        if member.growth is None:
            return _with_limit(member, 1.0)
        if member.stage is Stage.WATCHING:
            return member
        share = member.growth / total if total > 0 else 1.0 / member_count
        if member.stage is Stage.COMPLETING:
            share = max(share, 1 / (self.beta * member_count))
        return _with_limit(member, share)


def _with_limit(member: FlowConMember, limit: float) -> FlowConMember:
    return FlowConMember(
        member.id, member.stage, limit, member.growth, member.loss, member.used_s, member.at_s
    )


# Rescaling a trainer takes tens of seconds, changing a container's limit takes none: with the 20 to
# 60 s of the thesis, rescaling would cost more than it gains.
POOL_RULES = Rules(interval_s=600.0)


@dataclass(frozen=True, slots=True)
class FlowCon:
    """FlowCon on a pool: nodes are shared in proportion to the limits, by largest remainder, within
    legal sizes.

    The resource is the pool: a trainer on all nodes for a second has used one second. E is the loss
    over the first loss.
    """

    rules: Rules = POOL_RULES
    name: str = "flowcon"
    needs: frozenset[Need] = frozenset({Need.LOSSES})

    def decide(self, state: State, event: Event) -> tuple[Decision, object]:
        """Divide the pool in proportion to the limits that FlowCon sets; the memory is its lists.

        The resource of a trainer is its node-seconds over the pool's nodes; the evaluation function
        is its loss over its first loss.
        """
        before = state.memory if isinstance(state.memory, Lists) else Lists()
        pool = max(len(state.pool), 1)
        seen = {
            admitted.trainer.id: MeasuredGrowth(
                _normalized_growth(admitted), admitted.node_s / pool
            )
            for admitted in state.active
        }
        lists = self.rules.listen(before, seen, state.at_s)
        limits = {member.id: member.limit for member in lists.members}
        trainers = [admitted.trainer for admitted in state.active]
        # A weight of 0 would leave the trainer out of the division.
        weights = [max(limits[trainer.id], 1e-6) for trainer in trainers]
        counts = by_weight(trainers, weights, len(state.pool))
        return Decision(counts, lists.next_s if trainers else None), lists


def _normalized_growth(active: Active) -> float | None:
    losses = active.losses
    if losses is None or losses.first == 0:
        return None
    return losses.latest / losses.first


def build(settings: PolicySettings) -> Policy:
    """Entry point ``bftrainer.policies``: the form that shares a pool's nodes."""
    o = settings.option_values("flowcon", alpha=0.05, interval_s=600.0, beta=2.0)
    return FlowCon(Rules(o["alpha"], o["interval_s"], o["beta"]))
