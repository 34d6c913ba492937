"""Why a trainer has n nodes: an analysis of one decision in the journal.

The policy repeats the decision on the original state, with the solutions that the journal recorded,
which shows the problem that was solved. The exact solver then computes what the next larger or
smaller node count would have gained.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from bftrainer.counted import counted
from bftrainer.decide.allocation.gains import gain, rescale_cost
from bftrainer.decide.allocation.recording import RecordingAllocator
from bftrainer.decide.allocation.what_if import WhatIf, next_sizes, what_if
from bftrainer.decide.core.coordinator import decide
from bftrainer.decide.core.node_classes import parts
from bftrainer.decide.domain.model import Trainer
from bftrainer.decide.domain.problem import Answer, Problem, TrainerDemand
from bftrainer.decide.domain.state import ClassMemories, State
from bftrainer.decide.policies.gather import GatheringArrivals
from bftrainer.decide.policies.line import behind_starts, key_s
from bftrainer.errors import BFTrainerError, UserError
from bftrainer.pilot.decision_maker import policy_of
from bftrainer.pilot.nodes.holding_permission import ALLOWED, REFUSED, WAY_KINDS, way_of
from bftrainer.pilot.persistence.journal import JournalEntry
from bftrainer.pilot.persistence.registry import Registry
from bftrainer.pilot.persistence.store import Store
from bftrainer.pilot.rerun import CORE_ERRORS, RecordedAnswers, damage_error, decisions_with_states
from bftrainer.plugins import find_objective
from bftrainer.sharing.fair_share import ALONE, EQUAL_PART, WEIGHTED_PART

_NOTES = 1000
"""Number of notes that are searched."""


@dataclass(frozen=True, slots=True)
class Stake:
    """What a trainer's node count was worth at the decision, in the objective's unit over T_fwd
    seconds (Eqn 16).

    ``gain`` is the trainer's summand, ``rate`` is O_j(n) per second, ``cost`` is O_j(C_j) * R_j.
    ``alone`` is what the next larger size would add for this trainer if nodes were free. ``more``
    and ``less`` are the effects of the next larger and smaller sizes on all trainers.
    """

    unit: str
    gain: float
    rate: float
    cost: float
    alone: float | None
    more: WhatIf | None
    less: WhatIf | None
    larger: int | None


@dataclass(frozen=True, slots=True)
class NodeShare:
    """A trainer's nodes before and after the decision."""

    id: str
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class Explanation:
    """What one decision meant for one trainer. ``place`` is its position in the queue, from 1, if
    it is not admitted yet.

    ``stake`` is None if the policy solves no problem, and for a trainer in the queue. ``shares``
    are those of all trainers. ``policy_view`` is the trainer as the policy saw it.
    """

    trainer: str
    entry: JournalEntry
    pool: int
    queue: int
    share: NodeShare
    shares: tuple[NodeShare, ...]
    place: int | None = None
    stake: Stake | None = None
    why: str = ""
    policy_view: Trainer | None = None

    @property
    def free(self) -> int:
        """Nodes that the decision left unallocated."""
        return self.pool - sum(share.after for share in self.shares)


@dataclass(slots=True)
class _Witness(RecordedAnswers):
    """Keeps the problems that the recorded answers solve. The pilot validated these answers."""

    decisions: list[tuple[Problem, Answer]] = field(default_factory=list)

    def solve(self, problem: Problem) -> Answer:
        """Return the next recorded answer, and keep the problem that it solves."""
        self.decisions.append((problem, self.next_answer()))
        return self.decisions[-1][1]


def explain(
    store: Store, trainer: str, at_s: float = math.inf, may_import: Collection[str] = ()
) -> Explanation:
    """Return what the latest decision at or before ``at_s`` (seconds since 1970) meant for
    ``trainer``, from the journal in ``store``.

    ``may_import``: policies and objectives of other packages (``module:function``) that the journal
    may name.

    Raises :class:`~bftrainer.errors.UserError` if there was no decision, or if the trainer had no
    part in it.
    """
    latest_decision: tuple[JournalEntry, State] | None = None
    # The reading begins at a snapshot shortly before, and ends at the first decision after at_s.
    for entry, state in decisions_with_states(store, at_s, may_import):
        if entry.event.at_s > at_s:
            break
        latest_decision = entry, state
    if latest_decision is None:
        raise UserError("no decision had been made by then; see `bftrainer events`")
    try:
        # The policy has been built, so the names in the row are allowed.
        explained = _decision_explanation(trainer, *latest_decision)
    except CORE_ERRORS as error:
        if isinstance(error, BFTrainerError):
            raise
        raise damage_error(latest_decision[0], error) from error
    # Nothing to divide: what keeps the pilot from holding nodes is the reason.
    if explained.pool == 0 and (obstacle := _latest_obstacle(store, at_s)):
        explained = replace(explained, why=f"{explained.why}; {obstacle}")
    if main_jobs_text := _main_jobs_text(store, at_s):
        explained = replace(explained, why=f"{explained.why}; {main_jobs_text}")
    # The pilot notes each change of its part of the nodes among users; the latest note is the
    # present one.
    share_notes = (
        note
        for note in reversed(Registry(store).notes(_NOTES))
        if note.kind == "share" and note.at_s <= at_s
    )
    latest_share = next(
        (
            note.text
            for note in share_notes
            if note.text.startswith((ALONE, EQUAL_PART, WEIGHTED_PART))
        ),
        ALONE,
    )
    if latest_share == ALONE:
        return explained
    return replace(explained, why=f"{explained.why}; {latest_share} (nodes.share)")


def _latest_obstacle(store: Store, at_s: float) -> str:
    """Return the latest obstacle to holding a node before ``at_s``, in the scheduler's or the
    holder job's own words; empty if there is none, or if nodes may be held again since.
    """
    # The kinds of notes, with the words before their text. ALLOWED ends an obstacle.
    kinds = {REFUSED: "latest refusal", "poll failed": "latest failed poll", ALLOWED: ""}
    notes = (
        note
        for note in reversed(Registry(store).notes(_NOTES))
        if note.kind in kinds and note.at_s <= at_s
    )
    note = next(notes, None)
    return "" if note is None or note.kind == ALLOWED else f"{kinds[note.kind]}: {note.line}"


def _main_jobs_text(store: Store, at_s: float) -> str:
    """Return who frees nodes for main jobs, if that is the pilot; empty otherwise."""
    return way_of(Registry(store).last_note(WAY_KINDS, at_s)).partition(" (")[0]


def _decision_explanation(trainer: str, entry: JournalEntry, state: State) -> Explanation:
    """Return what one decision meant for a trainer: its nodes, what they are worth, and why it has
    no more.

    ``state`` is what the decision was made on. Raises ``UserError`` if the trainer had no part in
    it.
    """
    counts = entry.plan.decision.counts
    shares = tuple(
        NodeShare(admitted.trainer.id, len(admitted.nodes), n)
        for admitted, n in zip(state.active, counts, strict=True)
    )
    share = next((s for s in shares if s.id == trainer), None)
    explanation = Explanation(
        trainer,
        entry,
        len(state.pool),
        len(state.queue),
        share or NodeShare(trainer, 0, 0),
        shares,
    )
    if share is None:
        return _queue_explanation(explanation, state)
    if why := _why_kept(entry, state, share):
        return replace(explanation, why=why)
    j = shares.index(share)
    policy_view = state.active[j].trainer
    # No policy decides on a pool that fills, so there is no worth to compute.
    if policy_view.fill:
        return replace(explanation, why=_why_filling(entry, state), policy_view=policy_view)
    stake = _stake_of(entry, state, trainer)
    why = _by_class_or_end(entry, state, j)
    if not why and stake is None and not share.after:
        why = _waits_behind_text(state, j)
    if not why:
        why = _limit_sentence(
            share, stake, shares, _of_class(state, share), policy_view.max_nodes, entry
        )
    if not share.after:
        why += _of_unknown_length(state, j, entry.settings.forward_s)
    return replace(explanation, stake=stake, why=why, policy_view=policy_view)


def _queue_explanation(explanation: Explanation, state: State) -> Explanation:
    """Return the ``explanation`` completed for a trainer that is not admitted: its place in the
    queue. Raises ``UserError`` if it is not in the queue either.
    """
    trainer, number = explanation.trainer, explanation.entry.number
    places = {queued.id: place for place, queued in enumerate(state.queue, 1)}
    if trainer not in places:
        raise UserError(
            f"trainer {trainer!r} had no part in decision {number}: it was not yet admitted, was "
            f"paused, or had finished; see `bftrainer show {trainer}`"
        )
    admitted = counted(len(explanation.shares), "trainer was", "trainers were")
    why = (
        f"it is number {places[trainer]} in the queue: {admitted} admitted before it, and at most "
        f"{state.max_parallel} are admitted at once (max_parallel)"
    )
    return replace(explanation, place=places[trainer], why=why)


def _why_kept(entry: JournalEntry, state: State, share: NodeShare) -> str:
    """Return why a decision did not move a trainer, if the policy failed or nodes have just joined;
    empty otherwise.

    After nodes have joined, running trainers keep their sizes for ``decisions.gather_s``, so that
    they are moved once for all of them.
    """
    if kept := entry.plan.decision.kept:
        return (
            f"the policy failed, so all trainers keep their sizes until the next decision ({kept})"
        )
    until_s = _gathers_until_s(entry.plan.memory)
    if share.before != share.after or until_s is None:
        return ""
    return (
        "nodes have just joined; running trainers are moved once, after "
        f"{until_s - state.at_s:.1f} s (gather_s)"
    )


def _why_filling(entry: JournalEntry, state: State) -> str:
    """Return the reason for the size of a pool that fills (independent workers): it takes only
    nodes that no training uses.
    """
    pool, counts = len(state.pool), entry.plan.decision.counts
    trained = sum(
        n for admitted, n in zip(state.active, counts, strict=True) if not admitted.trainer.fill
    )
    return (
        f"it takes what no training gains from: of {counted(pool, 'node')}, trainings have "
        f"{trained}, and pools that fill share the other {pool - trained}, up to max_nodes (fill)"
    )


def _gathers_until_s(memory: object) -> float | None:
    """Return until when the policy waits for more nodes to join before it moves running trainers;
    None if it does not wait.

    That is in the policy's ``memory``, or in those of all node classes, of which the first to end
    counts.
    """
    memories = [memory]
    if isinstance(memory, ClassMemories):
        memories = [class_memory for _, class_memory in memory.by_class]
    return min((m.until_s for m in memories if isinstance(m, GatheringArrivals)), default=None)


def _of_class(state: State, share: NodeShare) -> int:
    """Return how many nodes of the pool are of the class that a trainer runs on."""
    return next(
        len(part.pool)
        for part in parts(state)
        for j in part.members
        if state.active[j].trainer.id == share.id
    )


def _by_class_or_end(entry: JournalEntry, state: State, j: int) -> str:
    """Return why a trainer has no more nodes, if its node class or a known window end is the
    reason; empty otherwise.

    A window end is when the scheduler needs an idle node back. ``j`` is the trainer's index in
    ``State.active``.
    """
    part = next(p for p in parts(state) if j in p.members)
    if state.pool and not part.pool:
        return f"no node of class {part.name} is idle, and it runs only on that class (node_class)"
    if not state.window_ends:
        return ""
    policy = policy_of(entry.settings, RecordingAllocator(_Witness(list(entry.answers))))
    # The same decision without window ends: what it gives the trainer more was dropped for them.
    wanted = decide(replace(state, window_ends=()), policy, entry.event).decision.counts[j]
    if wanted <= entry.plan.decision.counts[j]:
        return ""
    return (
        f"{counted(wanted, 'node')} would not pay off: the scheduler needs some of them before the "
        f"gain outweighs the rescale's stall"
    )


def _waits_behind_text(state: State, j: int) -> str:
    """Return why a trainer has no nodes, if it waits behind others that would finish sooner; empty
    otherwise. ``j`` is its index in ``State.active``.
    """
    key = key_s(state.active[j])
    before = sum(key_s(admitted) < key for admitted in state.active if not admitted.trainer.fill)
    # With a limit on admitted trainers (max_parallel) there is no such order.
    if not state.pool or state.max_parallel is not None or not before:
        return ""
    return f"it waits: with these nodes, {counted(before, 'trainer')} before it would finish sooner"


def _of_unknown_length(state: State, j: int, forward_s: float) -> str:
    """Return what a trainer's unknown length means for its place in the priority order; empty if
    its length is known, or there is no such order.

    ``j`` is its index in ``State.active``, ``forward_s`` is T_fwd, the time that decisions look
    ahead.
    """
    trainer = state.active[j].trainer
    if trainer.samples_total is not None or state.max_parallel is not None:
        return ""
    part = next(part for part in parts(state) if j in part.members)
    if not part.pool:  # there is no node of its class that an order could decide
        return ""
    members = part.members
    starts = behind_starts([state.active[k] for k in members], state.at_s, forward_s)
    note = "; its length is unknown (samples_total), so it counts as a day of work on one node"
    if (start := starts.get(members.index(j))) is not None:
        left_s = start.until_s - state.at_s
        note += (
            f", and for {left_s:.0f} s more it does not displace {start.trainer_id}, which was "
            "started or rescaled just before"
        )
    return note


def _stake_of(entry: JournalEntry, state: State, trainer: str) -> Stake | None:
    """Return what a trainer's nodes were worth at a decision (:class:`Stake`); None if the policy
    solved no problem with this trainer.

    The decision is made again on ``state``, with the recorded answers in place of the solvers,
    which shows the problems that the policy posed.
    """
    witness = _Witness(list(entry.answers))
    decide(state, policy_of(entry.settings, RecordingAllocator(witness)), entry.event)
    for problem, answer in witness.decisions:
        for j, demand in enumerate(problem.demands):
            if demand.id == trainer:
                unit = find_objective(entry.settings.objective).unit
                return stake(problem, answer.counts, j, unit)
    return None


def stake(problem: Problem, counts: Sequence[int], j: int, unit: str) -> Stake:
    """Return what the count of demand ``j`` is worth in a solved problem (:class:`Stake`), and what
    its next larger and smaller sizes would change.

    ``counts`` are the solution, ``unit`` that of the objective.
    """
    demand, n = problem.weighted(j), counts[j]
    below, above = next_sizes(demand, n)
    return Stake(
        unit=unit,
        gain=gain(demand, n, problem.forward_s),
        rate=demand.value.at(n),
        cost=rescale_cost(demand, n),
        alone=None if above is None else _value_alone(demand, n, above, problem.forward_s),
        more=None if above is None else what_if(problem, counts, j, above),
        less=None if below is None else what_if(problem, counts, j, below),
        larger=above,
    )


def _value_alone(demand: TrainerDemand, n: int, above: int, forward_s: float) -> float:
    return gain(demand, above, forward_s) - gain(demand, n, forward_s)


def _limit_sentence(
    share: NodeShare,
    stake: Stake | None,
    shares: Sequence[NodeShare],
    pool: int,
    max_nodes: int,
    entry: JournalEntry,
) -> str:
    """Return in one sentence what keeps a trainer from having more nodes.

    ``share`` are its nodes, ``stake`` is their worth (None: the policy solves no problem), and
    ``shares`` are the nodes of all trainers. ``pool`` is the number of nodes of its class, and
    ``max_nodes`` its largest size.
    """
    name, forward_s = entry.settings.policy, entry.settings.forward_s
    if pool == 0:
        return "there are no idle nodes that the batch scheduler cannot fill"
    if stake is None:
        return (
            f"policy {name} follows its own rule and solves no optimization problem "
            "(docs/policies.md)"
        )
    if stake.larger is None:
        has_all = pool <= share.after < max_nodes
        return (
            "it has all nodes of the pool"
            if has_all
            else "it has as many nodes as it can use (max_nodes)"
        )
    if stake.larger > pool:
        return f"its next larger size is {counted(stake.larger, 'node')}, but the pool has {pool}"
    amount = (
        f"{counted(stake.larger, 'node')} would bring it "
        f"{quantity(stake.alone or 0.0, signed=True)} {stake.unit}"
    )
    if stake.alone is not None and stake.alone <= 0:
        within = "the forward-looking time"
        if find_objective(entry.settings.objective).kappa is not None:
            within += " or a quarter of what is left of it"
        return (
            f"growing does not pay off within {within}: {amount} in {forward_s:g} s, "
            "including the rescale"
        )
    # No solution with the larger size exists.
    if stake.more is None:
        return f"{amount}, but the other trainers' smallest sizes leave no room for that"
    # With the larger size forced, the optimum of this problem is better than what was decided.
    if stake.more.change > 0:
        return (
            f"{amount}: the policy gave it less than the optimum would ({name} takes more "
            "into account than this problem)"
        )
    givers = [s for s in stake.more.others if s.after < s.before]
    if not givers:
        return f"{amount}, but all trainers together would gain nothing"
    names = ", ".join(f"{giver.id} ({giver.before} -> {giver.after})" for giver in givers[:3])
    more = f" and {len(givers) - 3} more" if len(givers) > 3 else ""
    lost = sum(s.gain for s in stake.more.others)
    return (
        f"it is outbid: {amount}, but they would come from {names}{more}, a change of "
        f"{quantity(lost, signed=True)}"
    )


def quantity(value: float, *, signed: bool = False) -> str:
    """A number in the objective's unit, with four digits."""
    sign = "+" if signed else ""
    digits = ".0f" if abs(value) >= 1e4 else ".4g"
    return f"{value:{sign},{digits}}"
