"""Node classes: nodes of one class are alike for a trainer, and a trainer runs on one class at a
time.

Decisions separate by class: each class is a pool of its own, with its own trainers, for which the
policy is asked (docs/decisions/0003-node-classes-and-window-ends.md). If all nodes are alike there
is one part, the whole state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from bftrainer.decide.allocation.check_decision import check_decision
from bftrainer.decide.allocation.placement import NameOrder, place
from bftrainer.decide.domain.events import Event, PoolChanged
from bftrainer.decide.domain.model import Trainer, rates
from bftrainer.decide.domain.ports import Policy
from bftrainer.decide.domain.problem import Answer, Status
from bftrainer.decide.domain.state import Active, Classes, ClassMemories, Decision, Nodes, State
from bftrainer.errors import RejectedAnswerError
from bftrainer.slots import Grain

ALIKE = ""


@dataclass(frozen=True, slots=True)
class Part:
    """One class: its nodes of the pool, and its trainers as indices into ``State.active``."""

    name: str
    pool: Nodes
    members: tuple[int, ...]


def changed_classes(classes: Classes, change: PoolChanged) -> Classes:
    """Return the node classes of the pool, as (class, its nodes), after nodes have joined and left;
    those without nodes are left out.
    """
    if not classes and not change.classes:
        return ()
    by_class = {name: nodes - change.left for name, nodes in classes}
    for name, joined in change.classes:
        by_class[name] = by_class.get(name, frozenset()) | joined
    return tuple((name, nodes) for name, nodes in sorted(by_class.items()) if nodes)


def parts(state: State) -> tuple[Part, ...]:
    """Return the node classes that have nodes or are named by a trainer, each with its nodes and
    its trainers.

    Every trainer belongs to one: to the class of its nodes, else to the class that it names. A
    trainer with neither, in order of admission, goes to the class where it would run fastest on the
    nodes that no trainer of the class holds; if it fits none, to the class with the largest fair
    share.
    """
    everyone = tuple(range(len(state.active)))
    if not state.classes and all(admitted.trainer.node_class is None for admitted in state.active):
        return (Part(ALIKE, state.pool, everyone),)
    pools = _pools_by_class(state)
    if len(pools) <= 1:  # no choice for any trainer
        return tuple(Part(name, nodes, everyone) for name, nodes in pools.items())
    members = _trainers_by_class(state, pools)
    return tuple(
        Part(name, pools[name], tuple(sorted(indices))) for name, indices in members.items()
    )


def _pools_by_class(state: State) -> dict[str, Nodes]:
    """Return the nodes of every class, by its name.

    These are the classes of the pool; ``ALIKE`` (the empty name) for nodes without a class; and
    classes that a trainer names, which may have no nodes.
    """
    pools = dict(state.classes)
    if rest := state.pool.difference(*pools.values()):
        pools[ALIKE] = rest
    for active in state.active:
        if active.trainer.node_class is not None:
            pools.setdefault(active.trainer.node_class, frozenset())
    return pools


def _trainers_by_class(state: State, pools: dict[str, Nodes]) -> dict[str, list[int]]:
    """Assign every trainer to a class, by the rules of :func:`parts`.

    Returns the indices of the trainers of each class, in the order of the classes' names.
    """
    members: dict[str, list[int]] = {name: [] for name in sorted(pools)}
    unassigned: list[int] = []
    for j, active in enumerate(state.active):
        class_name = _class_of(active, pools)
        if class_name is None:
            unassigned.append(j)
        else:
            members[class_name].append(j)
    unassigned_nodes = {}
    for name, indices in members.items():
        held = sum(len(state.active[j].nodes) for j in indices)
        unassigned_nodes[name] = len(pools[name]) - held

    def preference(name: str, trainer: Trainer) -> tuple[float, float, str]:
        """Return the sort key of a class for a trainer; the best class has the smallest key."""
        fair_share = len(pools[name]) / (1 + len(members[name]))
        return -_rate_within(trainer, unassigned_nodes[name]), -fair_share, name

    for j in unassigned:
        trainer = state.active[j].trainer
        name = min(members, key=lambda name: preference(name, trainer))
        members[name].append(j)
        unassigned_nodes[name] -= _largest_size(trainer, unassigned_nodes[name])
    return members


def decide_by_class(
    policy: Policy, state: State, event: Event, classes: Sequence[Part]
) -> tuple[Decision, object]:
    """Ask the policy once per class; return one decision for all, and the memories of all classes.

    With a single class so far, that is the decision and the memory of the policy; else the memory
    has one of the policy for each class. The counts are in the order of ``State.active``. Raises
    :class:`RejectedAnswerError` for counts that are not legal, and for named nodes that a trainer
    cannot have.
    """
    # Once there were several classes, the memory stays divided by class.
    if len(classes) == 1 and not isinstance(state.memory, ClassMemories):
        decision, memory = policy.decide(state, event)
        check_decision(state, decision)
        return decision, memory
    memories: dict[str, object]
    if isinstance(state.memory, ClassMemories):
        memories = dict(state.memory.by_class)
    else:  # the first event with several classes: each begins with the memory of the whole pool
        memories = {part.name: state.memory for part in classes}
    decisions = []
    for part in classes:
        part_state = replace(
            state,
            pool=part.pool,
            active=tuple(state.active[j] for j in part.members),
            memory=memories.get(part.name),
            classes=(),
            window_ends=tuple(end for end in state.window_ends if end[0] in part.pool),
        )
        decision, memories[part.name] = policy.decide(part_state, event)
        check_decision(part_state, decision)
        decisions.append(decision)
    return _joined_decision(classes, decisions), ClassMemories(tuple(sorted(memories.items())))


def place_by_class(
    classes: Sequence[Part],
    held: Sequence[Nodes],
    counts: Sequence[int],
    ends: Mapping[str, float],
    starting: Sequence[Nodes],
    order: NameOrder | None = None,
    grain: Grain = Grain.NODE,
) -> tuple[Nodes, ...]:
    """Return node sets, one per trainer, each chosen from the trainer's class by
    :func:`~bftrainer.decide.allocation.placement.place`.

    The arguments are those of that function, for all classes: ``held`` are the old sets, ``counts``
    the new sizes, ``ends`` the known window ends, and ``starting`` those of a trainer's nodes that
    do not train yet.
    """
    if len(classes) == 1:
        return place(classes[0].pool, held, counts, ends, starting, order, grain)
    nodes = list(held)
    for part in classes:
        # Without "order", which keeps the names of one pool only.
        placed = place(
            part.pool,
            [held[j] for j in part.members],
            [counts[j] for j in part.members],
            ends,
            [starting[j] for j in part.members],
            grain=grain,
        )
        for j, after in zip(part.members, placed, strict=True):
            nodes[j] = after
    return tuple(nodes)


def check_one_class(classes: Sequence[Part], placed: Sequence[Nodes]) -> None:
    """Check that a trainer has only nodes of its class. Raises :class:`RejectedAnswerError`."""
    if len(classes) == 1:
        return
    for part in classes:
        for j in part.members:
            if not placed[j] <= part.pool:
                raise RejectedAnswerError(
                    f"node {min(placed[j] - part.pool)} is not of class {part.name!r}"
                )


def _class_of(active: Active, pools: dict[str, Nodes]) -> str | None:
    """Return the class of a trainer's nodes, or else the class that it names; None for neither."""
    if active.nodes:
        return next(name for name, nodes in pools.items() if not nodes.isdisjoint(active.nodes))
    return active.trainer.node_class


def _largest_size(trainer: Trainer, nodes: int) -> int:
    """Return the largest legal size within ``nodes``; 0 if there is none."""
    return next((n for n in range(min(nodes, trainer.max_nodes), 0, -1) if trainer.is_legal(n)), 0)


def _rate_within(trainer: Trainer, nodes: int) -> float:
    """Return the samples per second on the largest legal size within ``nodes``; 0 if none is."""
    return rates(trainer)[_largest_size(trainer, nodes)]


def _joined_decision(classes: Sequence[Part], decisions: Sequence[Decision]) -> Decision:
    """Join the decisions of all classes into one, with counts in the order of ``State.active``.

    The timer is the earliest of all. There is a solver's answer only if every class has one.
    """
    counts: dict[int, int] = {}
    for part, decision in zip(classes, decisions, strict=True):
        counts.update(zip(part.members, decision.counts, strict=True))
    in_order = tuple(counts[j] for j in range(len(counts)))
    wakes_s = [d.wake_at_s for d in decisions if d.wake_at_s is not None]
    answers = [d.answer for d in decisions if d.answer is not None]
    has_all_answers = len(answers) == len(decisions)
    return Decision(
        counts=in_order,
        wake_at_s=min(wakes_s, default=None),
        answer=_joined_answer(in_order, answers) if has_all_answers else None,
        kept="; ".join(dict.fromkeys(d.kept for d in decisions if d.kept)),  # each error once
        blamed=tuple(name for d in decisions for name in d.blamed),
        nodes=tuple(named for d in decisions for named in d.nodes),
    )


def _joined_answer(counts: tuple[int, ...], answers: Sequence[Answer]) -> Answer:
    """Join the solvers' answers of all classes into one with these ``counts``: the sum of the
    values, the largest gap and the weakest status.
    """
    return Answer(
        counts=counts,
        objective_value=sum(answer.objective_value for answer in answers),
        solver="+".join(sorted({answer.solver for answer in answers})),
        # Status lists its members from the strongest to the weakest.
        status=max((answer.status for answer in answers), key=list(Status).index),
        gap=max(answer.gap for answer in answers),
        fallbacks=tuple(fallback for answer in answers for fallback in answer.fallbacks),
    )
