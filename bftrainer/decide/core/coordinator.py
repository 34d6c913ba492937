"""The coordinator: the state after an event, and the decision on it. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace
from operator import attrgetter

from bftrainer.decide.allocation.placement import NEVER, NameOrder, check_placement
from bftrainer.decide.allocation.window_ends import drop_unprofitable_growth
from bftrainer.decide.core import node_classes
from bftrainer.decide.core.fill import filled, trainings
from bftrainer.decide.domain.events import (
    Change,
    Event,
    ParallelChanged,
    PoolChanged,
    TimerDue,
    TrainerFinished,
    TrainerSubmitted,
)
from bftrainer.decide.domain.model import Trainer
from bftrainer.decide.domain.ports import Policy
from bftrainer.decide.domain.rescaling import rescaled
from bftrainer.decide.domain.state import Active, Losses, Nodes, Plan, Rescale, State
from bftrainer.decide.estimation.update import (
    add_measurements,
    wake_s,
    with_estimates,
    with_lengths,
)
from bftrainer.errors import InvalidValueError
from bftrainer.slots import Grain

_ID = attrgetter("id")
_NONE: Nodes = frozenset()


def observe(state: State, event: Event, queued: QueuedIds | None = None) -> State:
    """Return the state after an event: nodes that left are gone, and trainers are admitted from the
    head of the queue.

    Nothing is decided here: trainers only lose nodes that left. Cost: O(|joined| + |left| + J),
    plus a copy of the pool when it changes, and of the queue when trainers are submitted. A caller
    with many events and a long queue passes the same ``queued`` at each event: then the ids of the
    queue are not collected again. Raises :class:`InvalidValueError` for a change that contradicts
    the state, such as a node that leaves without having been in the pool.
    """
    draft = _StateDraft(state, event.at_s, _trainers_at_event(state, event), queued or QueuedIds())
    for change in event.changes:
        draft.apply(change)
    admitted = draft.admit()
    after = State(
        max_parallel=draft.max_parallel,
        at_s=event.at_s,
        pool=draft.pool,
        active=draft.active,
        queue=draft.queue,
        memory=state.memory,
        classes=draft.classes,
        window_ends=event.window_ends,
        measurements=state.measurements,
        grain=draft.grain,
    )
    after = with_lengths(after, event.measured)
    if not _changes_estimates(state, after, event, admitted):
        return after
    measurements, learned = add_measurements(state, event.measured)
    return with_estimates(replace(after, measurements=measurements), learned)


def _changes_estimates(
    before: State, after: State, event: Event, admitted: Sequence[Trainer]
) -> bool:
    """Whether an event may change the estimate of any trainer's curve.

    ``before`` and ``after`` are the states around the event, and ``admitted`` the trainers that it
    admits. Apart from measurements and new trainers, a change of the pool may do so for trainers
    without a curve: their placeholder depends on the pool's size.
    """
    if event.measured or any(trainer.learning is not None for trainer in admitted):
        return True
    if after.pool is before.pool:  # the same object unless the event changes the pool
        return False
    return any(a.trainer.learning and a.trainer.learning.blank for a in after.active)


def _trainers_at_event(state: State, event: Event) -> tuple[Active, ...]:
    """Return the admitted trainers at the time of the event, with the reports that it contains and
    the training time that has passed.

    A trainer that waits without any report is the same object: thousands may wait.
    """
    samples_done, losses = dict(event.samples_done), dict(event.losses)
    # The clock of a host may have been set back while no pilot ran.
    passed_s = max(event.at_s - state.at_s, 0.0)
    reporting_ids = samples_done.keys() | losses.keys()
    advanced = []
    for active in state.active:
        if active.nodes or active.rescaling is not None or active.trainer.id in reporting_ids:
            active = _with_reports(active, event.at_s, passed_s, samples_done, losses)
        advanced.append(active)
    return tuple(advanced)


class _StateDraft:
    """The parts of a state that an event at ``at_s`` can change: :meth:`apply` makes one change
    after the other, then :meth:`admit` updates the queue and the admitted trainers (``active``).
    """

    def __init__(
        self, state: State, at_s: float, active: tuple[Active, ...], queued: QueuedIds
    ) -> None:
        """Begin with ``state`` at the time ``at_s``. ``active`` are its admitted trainers with the
        reports of the event, and ``queued`` keeps the ids of the queue.
        """
        self.pool = state.pool
        # Whether the pool is divided by nodes or by their GPUs.
        self.grain = state.grain
        self.classes = state.classes
        self.active = active
        self.queue = state.queue
        self.max_parallel = state.max_parallel
        self._at_s = at_s
        self._queued = queued
        self._submitted: list[Trainer] = []
        """Submitted since the queue was last updated: a workload may submit thousands at once."""
        self._submitted_pools: list[Trainer] = []
        """Pools that fill. They take no place of P_jmax, so they are admitted at once."""

    def apply(self, change: Change) -> None:
        """Apply one change of the event to this draft. Raises :class:`InvalidValueError` if it
        contradicts the state.
        """
        match change:
            case PoolChanged():
                self._change_pool(change)
            case TrainerSubmitted(trainer):
                (self._submitted_pools if trainer.fill else self._submitted).append(trainer)
            case TrainerFinished(trainer_id):
                # The trainer that finished may be one that was submitted in the same event.
                self._append_submitted()
                self.active, self.queue = _without_finished(trainer_id, self.active, self.queue)
            case ParallelChanged():
                self.max_parallel = change.max_parallel
            # Nothing has changed; the event only has the policy decide again.
            case TimerDue():
                pass

    def admit(self) -> tuple[Trainer, ...]:
        """Admit trainers from the head of the queue as far as P_jmax (``max_parallel``) allows, and
        all pools that fill; return the trainers and pools that were admitted.

        A pool that fills is a set of independent workers on the nodes that trainings leave; it
        takes no place of P_jmax. Raises :class:`InvalidValueError` for an id that is taken.
        """
        self._append_submitted()
        places = len(self.queue)
        if self.max_parallel is not None:
            admitted_count = sum(not a.trainer.fill for a in self.active)
            places = max(self.max_parallel - admitted_count, 0)
        admitted, self.queue = self.queue[:places], self.queue[places:]
        if self._submitted_pools:
            unfinished_ids = ({t.id for t in (*self.queue, *admitted)}, _trainer_ids(self.active))
            _check_new(self._submitted_pools, unfinished_ids)
            admitted = (*admitted, *self._submitted_pools)
        new = (Active(trainer, admitted_s=self._at_s) for trainer in admitted)
        self.active = (*self.active, *new)
        return admitted

    def _change_pool(self, change: PoolChanged) -> None:
        """Update the pool and its node classes for nodes that joined or left; trainers lose the
        nodes that left.

        Raises :class:`InvalidValueError` for a change that contradicts the pool.
        """
        _check_pool_change(self.pool, change)
        self.pool = (self.pool - change.left) | change.joined
        self.grain = self.grain.finer(Grain.of(change.joined))
        self.classes = node_classes.changed_classes(self.classes, change)
        if change.left:
            self.active = tuple(
                [_without_nodes(admitted, change.left, self._at_s) for admitted in self.active]
            )

    def _append_submitted(self) -> None:
        """Append the submitted trainers to the queue."""
        if self._submitted:
            self.queue = _extended_queue(self.active, self.queue, self._submitted, self._queued)
            self._submitted = []


def decide(state: State, policy: Policy, event: Event, order: NameOrder | None = None) -> Plan:
    """Return the plan for an event: decide on the trainings, then give the rest of the nodes to the
    pools that fill (:mod:`~bftrainer.decide.core.fill`).

    Every node class (nodes of the same hardware) is decided independently. ``order`` keeps the
    names of a large pool sorted for a caller with many events. Raises
    :class:`~bftrainer.errors.RejectedAnswerError` for a decision of the ``policy`` that breaks a
    rule.
    """
    without_pools = trainings(state)
    plan = _checked_plan(without_pools, policy, event, order)
    if without_pools is state:  # no pool fills
        return plan
    return filled(state, plan)


def _checked_plan(state: State, policy: Policy, event: Event, order: NameOrder | None) -> Plan:
    """Ask the policy, check its counts (Eqns 3, 5), place them on nodes (Eqn 6), and drop growth
    that cannot pay off; return the plan.

    Trainers whose nodes the policy names get these; the others get theirs by name order. Growth
    cannot pay off if the scheduler needs the new nodes back too soon.
    """
    # Each class of nodes with its trainers: a pool of its own.
    parts = node_classes.parts(state)
    decision, memory = node_classes.decide_by_class(policy, state, event, parts)
    ends = dict(state.window_ends) if state.window_ends else NEVER
    held = [admitted.nodes for admitted in state.active]
    named = dict(decision.nodes)
    # Placement leaves a set alone that is as large as its count, as named sets are.
    to_place = held
    if named:
        to_place = [named.get(admitted.trainer.id, admitted.nodes) for admitted in state.active]
    # Nodes that do not train yet are released first.
    starting = [_NONE] * len(state.active)
    for j, active in enumerate(state.active):
        if active.rescaling is not None:  # thousands may wait, without any
            starting[j] = _starting_nodes(active)
    nodes = node_classes.place_by_class(
        parts, to_place, decision.counts, ends, starting, order, state.grain
    )
    if ends:
        left_s = {node: end_s - state.at_s for node, end_s in ends.items()}
        nodes = drop_unprofitable_growth(
            [admitted.trainer for admitted in state.active], held, nodes, left_s
        )
        counts = tuple(len(placed) for placed in nodes)
        if counts != decision.counts:  # then they are not the solver's, nor all names the policy's
            still_named = tuple(
                (admitted.trainer.id, placed)
                for admitted, placed in zip(state.active, nodes, strict=True)
                if named.get(admitted.trainer.id) == placed
            )
            decision = replace(decision, counts=counts, answer=None, nodes=still_named)
    check_placement(state.pool, held, decision.counts, nodes)
    node_classes.check_one_class(parts, nodes)
    return Plan(decision, nodes, memory)


def adopt(state: State, plan: Plan) -> State:
    """Return the state with the node sets of the plan, and with the policy's memory.

    The time of its next timer, ``wake_at_s``, is that of the policy, or the earlier one at which a
    measurement will be complete.
    """
    adopted = []
    for active, nodes in zip(state.active, plan.nodes, strict=True):
        if active.nodes is not nodes:
            active = _with_nodes(active, nodes, state.at_s)
        adopted.append(active)
    decision = plan.decision
    after = replace(
        state,
        active=tuple(adopted),
        memory=plan.memory,
        wake_at_s=decision.wake_at_s,
        kept=decision.kept,
        blamed=decision.blamed,
    )
    # When estimates must be computed again, though no event may come.
    due_s = wake_s(after)
    if due_s is None or (after.wake_at_s is not None and after.wake_at_s <= due_s):
        return after
    return replace(after, wake_at_s=due_s)


def rescales(before: State, after: State, *, forced: bool = False) -> tuple[Rescale, ...]:
    """Return the rescales (changes of a trainer's nodes) that lead from ``before`` to ``after``,
    those of shrinking trainers first: nodes are released before they are taken.

    ``forced`` says of all of them that nodes left the pool. Trainers that have finished get none.
    """
    old_objects = set(map(id, before.active))  # hundreds may wait: most are the same object
    changed = [admitted for admitted in after.active if id(admitted) not in old_objects]
    if not changed:
        return ()
    held = {admitted.trainer.id: admitted.nodes for admitted in before.active}
    steps = [
        Rescale(admitted.trainer.id, old, admitted.nodes, forced)
        for admitted in changed
        if (old := held.get(admitted.trainer.id, _NONE)) is not admitted.nodes
        and old != admitted.nodes
    ]
    # The key is False for trainers that shrink, and False sorts first.
    return tuple(sorted(steps, key=lambda step: len(step.after) > len(step.before)))


def _starting_nodes(admitted: Active) -> Nodes:
    """Return the nodes of a trainer that do not train yet; they are the first to be released."""
    if admitted.rescaling is None or admitted.rescaling.switch_s is None:
        return _NONE
    return admitted.nodes - admitted.rescaling.training


def _without_nodes(active: Active, left: Nodes, at_s: float) -> Active:
    """Return the trainer after the nodes ``left`` have left the pool; the same object if it had
    none of them.
    """
    if active.nodes.isdisjoint(left):
        return active
    return _with_nodes(active, active.nodes - left, at_s)


def _with_nodes(admitted: Active, nodes: Nodes, at_s: float) -> Active:
    """Return the trainer on ``nodes`` from ``at_s`` on, with the rescale that this begins."""
    return Active(
        trainer=admitted.trainer,
        nodes=nodes,
        samples_done=admitted.samples_done,
        admitted_s=admitted.admitted_s,
        run_s=admitted.run_s,
        node_s=admitted.node_s,
        losses=admitted.losses,
        submitted=admitted.submitted,
        sized_s=admitted.sized_s if len(nodes) == len(admitted.nodes) else at_s,
        rescaling=rescaled(admitted.trainer, admitted.rescaling, admitted.nodes, nodes, at_s),
    )


def _with_reports(
    admitted: Active, at_s: float, passed_s: float, done: dict[str, float], losses: dict[str, float]
) -> Active:
    """Return the trainer at ``at_s``, ``passed_s`` seconds after the last event, with its latest
    reports and the time and node-seconds that it has trained since.

    ``done`` has the samples processed so far and ``losses`` the latest loss, by trainer id. The
    same object is returned if nothing of it changes.
    """
    trainer_id, nodes = admitted.trainer.id, admitted.nodes
    samples = done.get(trainer_id, admitted.samples_done)
    history = admitted.losses
    if (loss := losses.get(trainer_id)) is not None:
        history = (
            Losses(loss, loss, samples) if history is None else history.after_report(samples, loss)
        )
    rescaling_left = None if admitted.rescaling is None else admitted.rescaling.at(at_s)
    if (
        not nodes
        and samples == admitted.samples_done
        and history is admitted.losses
        and rescaling_left is admitted.rescaling
    ):
        return admitted
    return Active(
        trainer=admitted.trainer,
        nodes=nodes,
        samples_done=samples,
        admitted_s=admitted.admitted_s,
        run_s=admitted.run_s + passed_s if nodes else admitted.run_s,
        node_s=admitted.node_s + passed_s * len(nodes),
        losses=history,
        submitted=admitted.submitted,
        sized_s=admitted.sized_s,
        rescaling=rescaling_left,
    )


def _check_pool_change(pool: Nodes, change: PoolChanged) -> None:
    """Raise InvalidValueError unless nodes leave that are in the pool, and join that are not."""
    if not change.left <= pool:
        raise InvalidValueError(f"node {min(change.left - pool)} left but was not in the pool")
    if not change.joined.isdisjoint(pool):
        raise InvalidValueError(
            f"node {min(change.joined & pool)} joined but was in the pool already"
        )


def _extended_queue(
    active: tuple[Active, ...],
    queue: tuple[Trainer, ...],
    new: Sequence[Trainer],
    queued: QueuedIds,
) -> tuple[Trainer, ...]:
    """Return the queue with the ``new`` trainers at its end. Raises :class:`InvalidValueError` for
    an id that another trainer has. Cost: O(J + queue + new).
    """
    _check_new(new, (queued.ids_of(queue), _trainer_ids(active)))
    return queued.appended(queue, new)


def _check_new(new: Sequence[Trainer], taken: Sequence[Set[str]]) -> None:
    """Check that no two ``new`` trainers have the same id, and that none of their ids is in one of
    the sets ``taken``. Raises :class:`InvalidValueError` with the id.
    """
    new_ids: set[str] = set()
    for trainer in new:
        if trainer.id in new_ids:
            raise _taken_id_error(trainer.id)
        new_ids.add(trainer.id)
    for ids in taken:
        if not new_ids.isdisjoint(ids):
            raise _taken_id_error(next(trainer.id for trainer in new if trainer.id in ids))


def _trainer_ids(active: Sequence[Active]) -> set[str]:
    return {admitted.trainer.id for admitted in active}


class QueuedIds:
    """Keeps the ids of the last queue, so that they are not collected again at each event.

    A queue may be long, and mostly only grows at its end and shrinks at its head from one event to
    the next. What :meth:`ids_of` returns depends on its arguments only, and is valid until the next
    call.
    """

    def __init__(self) -> None:
        self._queue: tuple[Trainer, ...] = ()
        self._ids: set[str] = set()

    def ids_of(self, queue: tuple[Trainer, ...]) -> Set[str]:
        """Return the ids of the queue's trainers, updated from those of the queue of the last call
        where it only lost trainers at its head.
        """
        previous = self._queue
        if previous is not queue:
            admitted_count = len(previous) - len(queue)
            if admitted_count > 0 and previous[admitted_count:] == queue:  # it shrank at its head
                self._ids.difference_update(map(_ID, previous[:admitted_count]))
            else:
                self._ids = set(map(_ID, queue))
            self._queue = queue
        return self._ids

    def appended(self, queue: tuple[Trainer, ...], new: Sequence[Trainer]) -> tuple[Trainer, ...]:
        """Return the queue with the ``new`` trainers at its end, and keep their ids, which no
        trainer of the queue may have.
        """
        self.ids_of(queue)
        self._ids.update(map(_ID, new))
        self._queue = (*queue, *new)
        return self._queue


def _taken_id_error(trainer_id: str) -> InvalidValueError:
    return InvalidValueError(f"trainer id {trainer_id!r} is taken, expected a new one")


def _without_finished(
    trainer_id: str, active: tuple[Active, ...], queue: tuple[Trainer, ...]
) -> tuple[tuple[Active, ...], tuple[Trainer, ...]]:
    """Return the active trainers and the queue without the finished trainer.

    Raises :class:`InvalidValueError` for an id that neither has: the pilot or the replay then
    reports the end of a trainer that it never submitted, which is a bug.
    """
    rest = tuple(admitted for admitted in active if admitted.trainer.id != trainer_id)
    if len(rest) < len(active):
        return rest, queue
    waiting = tuple(trainer for trainer in queue if trainer.id != trainer_id)
    if len(waiting) == len(queue):
        raise InvalidValueError(f"trainer {trainer_id!r} finished but is not known")
    return rest, waiting
