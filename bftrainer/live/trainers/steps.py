"""What to tell a trainer's driver next: (what is wanted, what it said) -> steps. Pure.

A node changes hands in this order: it goes from the one trainer's hosts file, that trainer reports that it runs without it,
then it comes into the other's. So a growing trainer is told of its new nodes when they are free; it waits for all of them for
``GATHER_S`` (two rescales cost more than one), then makes do with those that are.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from bftrainer.domain.fragments import id_of
from bftrainer.domain.state import Nodes
from bftrainer.protocol.reports import DriverView

_NOTHING: Nodes = frozenset()  # one value: since Python 3.10 frozenset() is another one each time
GATHER_S = 3.0
SETTLE_S = 2.0
"""A driver may have read the hosts file just before it changed; its worker shows within this time."""
KILL_AFTER_S = 10.0
"""A driver that is still there so long after its trainer's ``stop_s`` is killed."""


class TargetState(Enum):
    """What is wanted of a trainer: to run on its nodes, or (paused, cancelled, the pilot ends) to checkpoint and leave."""

    RUN = "run"
    STOP = "stop"


@dataclass(slots=True)
class TrainerState:
    """One trainer between core and driver. ``desired`` is the core's word, ``ordered`` what its hosts file says.

    ``kind`` is the class of the nodes that its driver was started on. It ``moves``: they are of another class now, so this
    driver has to end first. What need not be worked out again while the very same values are there: ``within`` is the pool
    that ``desired`` is a part of, ``at_rest`` (desired, ordered) for which there was nothing to do, ``stays`` (view, leaving,
    those of leaving that the view still occupies).
    """

    min_nodes: int
    stop_s: float
    wish: TargetState = TargetState.RUN
    desired: Nodes = frozenset()
    desired_s: float = 0.0
    ordered: Nodes = frozenset()
    ordered_s: float = 0.0
    kind: str | None = None
    moves: bool = False
    leaving: Nodes = frozenset()
    stop_asked_s: float | None = None
    not_before_s: float = 0.0
    view: DriverView = field(default_factory=DriverView)
    within: Nodes | None = None
    at_rest: tuple[Nodes, Nodes] | None = None
    stays: tuple[DriverView, Nodes, Nodes] | None = None


@dataclass(frozen=True, slots=True)
class StartDriver:
    """Start a driver on these nodes."""

    nodes: Nodes


@dataclass(frozen=True, slots=True)
class ChangeHosts:
    """Replace the hosts file of the running driver."""

    nodes: Nodes


@dataclass(frozen=True, slots=True)
class AskToStop:
    """Ask for a checkpoint and the end."""


@dataclass(frozen=True, slots=True)
class Kill:
    """It did not listen."""


Step = StartDriver | ChangeHosts | AskToStop | Kill


def next_step(it: TrainerState, taken: Nodes, now_s: float) -> Step | None:
    """The next step for one trainer; ``taken`` are fragments on which others still have processes."""
    desired = frozenset() if it.moves and it.view.alive else it.desired
    free = desired - taken
    complete = free == desired or now_s - it.desired_s >= GATHER_S
    if not it.view.alive:
        wanted = it.wish is TargetState.RUN and len(free) >= it.min_nodes and now_s >= it.not_before_s
        return StartDriver(free) if wanted and complete else None
    patience_s = it.stop_s + KILL_AFTER_S
    if it.stop_asked_s is not None:
        return Kill() if now_s - it.stop_asked_s > patience_s else None
    if it.wish is TargetState.STOP:
        return AskToStop()
    if not it.ordered and not desired and now_s - it.ordered_s > patience_s:
        return Kill()
    target = free if complete else it.ordered & desired
    if len(target) < it.min_nodes <= len(desired):
        target = it.ordered & desired
    return ChangeHosts(target) if target != it.ordered else None


def holds(it: TrainerState, now_s: float) -> Nodes:
    """Fragments on which this trainer has, or may yet have, processes. The rest of the pool is free."""
    if not it.view.alive:
        return _NOTHING
    if not it.leaving:
        return it.ordered
    left = it.view.said_s > it.ordered_s or now_s - it.ordered_s > SETTLE_S
    there = _still_occupied(it) if left else it.leaving
    return it.ordered | there if there else it.ordered


def has_nothing_to_do(it: TrainerState) -> bool:
    """Whether it runs as it shall, and did so before; then nothing but a change of its own, or of who holds what, matters."""
    return (
        it.at_rest is not None
        and it.at_rest[0] is it.desired
        and it.at_rest[1] is it.ordered
        and it.view.alive
        and it.wish is TargetState.RUN
        and it.stop_asked_s is None
    )


def rest(it: TrainerState) -> None:
    """There was no step to take: remember it where only a change can lead to one."""
    runs = it.view.alive and it.wish is TargetState.RUN and it.stop_asked_s is None
    it.at_rest = (it.desired, it.ordered) if runs and it.ordered and it.desired == it.ordered else None


def _still_occupied(it: TrainerState) -> Nodes:
    if it.stays is None or it.stays[0] is not it.view or it.stays[1] is not it.leaving:
        occupied = it.view.occupied
        it.stays = it.view, it.leaving, frozenset(n for n in it.leaving if id_of(n) in occupied)
    return it.stays[2]


def carried_out(it: TrainerState, step: Step, now_s: float) -> None:
    """Note that a step was taken."""
    match step:
        case StartDriver(nodes):
            it.ordered, it.ordered_s, it.leaving, it.stop_asked_s = nodes, now_s, frozenset(), None
        case ChangeHosts(nodes):
            it.leaving = (holds(it, now_s) | it.ordered) - nodes
            it.ordered, it.ordered_s = nodes, now_s
        case AskToStop() | Kill():
            it.stop_asked_s = now_s
