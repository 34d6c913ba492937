"""What to tell a trainer's driver next: (what is wanted, what the driver said) -> step. Pure.

A node changes from one trainer to another in this order: it leaves the hosts file of the first,
that trainer reports that it runs without the node, then it enters the hosts file of the second. So
a growing trainer is told of its new nodes when they are free. It waits for all of them for
``GATHER_S``, since two rescales cost more than one; then it uses those that are free.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from bftrainer.decide.domain.state import Nodes
from bftrainer.fragment_names import id_of
from bftrainer.pilot.memo import Memoized
from bftrainer.times import HostS, PilotS
from bftrainer.wires.reports import DriverView

_NOTHING: Nodes = frozenset()
GATHER_S = 3.0
SETTLE_S = 2.0
"""A driver may have read the hosts file just before it changed; its worker shows within this
time.
"""
KILL_AFTER_S = 10.0
"""A driver that still runs this long after its trainer's ``stop_s`` is killed."""


class TargetState(Enum):
    """The target of a trainer: to run on its nodes, or (paused, canceled, the pilot ends) to
    checkpoint and exit.
    """

    RUN = "run"
    STOP = "stop"


def _still_occupied(leaving: Nodes, on: Nodes, with_workers: frozenset[tuple[str, int]]) -> Nodes:
    """Return the nodes of ``leaving`` on which the driver says that it trains (``on``) or has
    workers (``with_workers``). The driver names nodes by the ids of their fragments.
    """
    occupied = on | {fragment for fragment, _ in with_workers}
    return frozenset(name for name in leaving if id_of(name) in occupied)


@dataclass(slots=True)
class TrainerState:
    """One trainer between core and driver.

    ``desired`` is what the core gave it, of class ``desired_class``, since ``desired_s``;
    ``ordered`` is its hosts file since ``ordered_s`` (``ordered_host_s`` by the host's clock, as in
    the driver's lines). ``started_class`` is the class of the nodes that its driver was started on.
    ``leaving`` are nodes that the last change of the hosts file took away; the trainer may still
    have processes there. ``lost`` are nodes that left the pool since it trained last.
    ``stop_requested_s`` is when the driver was asked to stop, or was killed, ``not_before_s`` the
    earliest time of its next start, ``view`` the last report of the driver.
    """

    min_nodes: int
    stop_s: float
    target: TargetState = TargetState.RUN
    desired: Nodes = frozenset()
    desired_class: str | None = None
    desired_s: PilotS = PilotS(0.0)
    ordered: Nodes = frozenset()
    ordered_s: PilotS = PilotS(0.0)
    ordered_host_s: HostS = HostS(0.0)
    started_class: str | None = None
    leaving: Nodes = frozenset()
    lost: Nodes = frozenset()
    stop_requested_s: PilotS | None = None
    not_before_s: PilotS = PilotS(0.0)
    view: DriverView = field(default_factory=DriverView)
    _still_occupied: Memoized[[Nodes, Nodes, frozenset[tuple[str, int]]], Nodes] = field(
        default_factory=lambda: Memoized(_still_occupied)
    )

    @property
    def class_in_use(self) -> str | None:
        """The class of the nodes that the core gave it; None while it has none."""
        return self.desired_class if self.desired else None

    @property
    def changes_class(self) -> bool:
        """Whether the core gave the trainer nodes of another class than those that its driver was
        started on, so that this driver has to end first.
        """
        return (
            None not in (self.desired_class, self.started_class)
            and self.desired_class != self.started_class
        )

    @property
    def still_occupied(self) -> Nodes:
        """Nodes of ``leaving`` on which the driver reports processes."""
        return self._still_occupied(self.leaving, self.view.on, self.view.with_workers)

    def assign(self, nodes: Nodes, node_class: str | None, now_s: PilotS) -> None:
        """Apply the core's allocation: ``nodes`` of class ``node_class``. ``desired_s`` is the
        time of the first call with these nodes.
        """
        if nodes != self.desired:
            self.desired, self.desired_class, self.desired_s = nodes, node_class, now_s


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
    """Request a checkpoint and the end of the driver."""


@dataclass(frozen=True, slots=True)
class Kill:
    """Kill the driver, since it did not stop."""


Step = StartDriver | ChangeHosts | AskToStop | Kill


def next_step(state: TrainerState, occupied: Nodes, now_s: PilotS) -> Step | None:
    """Return the next step for one trainer; None if there is nothing to do. ``occupied`` are
    fragments (held nodes) on which other trainers still have processes.

    A driver on nodes of another class than the desired ones loses its nodes and ends; the next one
    is started on the new class.
    """
    # Of another class than its driver runs on: the driver gets an empty hosts file first.
    desired = _NOTHING if state.view.alive and state.changes_class else state.desired
    free = desired - occupied
    # It waits a while for all of its nodes, since two rescales cost more than one.
    has_gathered = free == desired or now_s - state.desired_s >= GATHER_S
    if not state.view.alive:
        may_start = (
            state.target is TargetState.RUN
            and len(free) >= state.min_nodes
            and now_s >= state.not_before_s
        )
        return StartDriver(free) if may_start and has_gathered else None
    patience_s = state.stop_s + KILL_AFTER_S
    # It was asked to stop already: wait for its checkpoint, then kill it.
    if state.stop_requested_s is not None:
        return Kill() if now_s - state.stop_requested_s > patience_s else None
    if state.target is TargetState.STOP:
        return AskToStop()
    # A driver whose hosts file is empty has to end by itself.
    if not state.ordered and not desired and now_s - state.ordered_s > patience_s:
        return Kill()
    # Meanwhile it keeps those of its present nodes that it may keep.
    target = free if has_gathered else state.ordered & desired
    if len(target) < state.min_nodes <= len(desired):
        # Too few nodes are free yet: until more are, the trainer keeps those that it has.
        target = state.ordered & desired
    return ChangeHosts(target) if target != state.ordered else None


def runs_as_desired(state: TrainerState) -> bool:
    """Whether a trainer's driver runs on the nodes that the core gave it: then there is no step to
    take, unless another trainer occupies these nodes.
    """
    return (
        state.view.alive
        and state.target is TargetState.RUN
        and state.stop_requested_s is None
        and bool(state.ordered)
        # In most rounds both are the same object: then no set is compared.
        and (state.ordered is state.desired or state.ordered == state.desired)
        and not state.changes_class
    )


def occupied_nodes(state: TrainerState, now_s: PilotS) -> Nodes:
    """Return the fragments (held nodes) on which this trainer has, or may yet have, processes at
    ``now_s``.

    Nodes that left the hosts file count as occupied until the driver has reported after the change,
    or ``SETTLE_S`` have passed; from then on, only those on which it reports processes.
    """
    if not state.view.alive:
        return _NOTHING
    if not state.leaving:
        return state.ordered
    has_heard = (
        state.view.driver_reported_s > state.ordered_host_s or now_s - state.ordered_s > SETTLE_S
    )
    occupied = state.still_occupied if has_heard else state.leaving
    return state.ordered | occupied if occupied else state.ordered


def apply_step(state: TrainerState, step: Step, now_s: PilotS, ordered_host_s: HostS) -> None:
    """Update the state of a trainer after a step that was carried out at ``now_s`` of the pilot's
    clock, which is ``ordered_host_s`` by the host's clock, as in the driver's reports.
    """
    match step:
        case StartDriver(nodes):
            state.ordered = nodes
            state.leaving = _NOTHING
            state.stop_requested_s = None
            state.ordered_s, state.ordered_host_s = now_s, ordered_host_s
        case ChangeHosts(nodes):
            state.leaving = (occupied_nodes(state, now_s) | state.ordered) - nodes
            # The same object where the sets are equal, so that comparing them costs nothing.
            state.ordered = state.desired if nodes == state.desired else nodes
            state.ordered_s, state.ordered_host_s = now_s, ordered_host_s
        case AskToStop() | Kill():
            state.stop_requested_s = now_s
