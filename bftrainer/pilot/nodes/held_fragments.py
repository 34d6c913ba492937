"""The fragments that this pilot holds or waits for, their audit in the registry, and when they have
to be released.

A fragment is released before the scheduler's plans need its node, and before its holder's time
limit. That is in whole minutes, so it ends up to a minute before the window; and a site or a QOS
may limit it to less than any window. What the scheduler ends at the limit costs a trainer its work
since the last commit, as a preemption does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from bftrainer.cluster.model import Fragment, FragmentPhase, NodeRequest
from bftrainer.config.in_effect import ConfigCell
from bftrainer.decide.domain.state import Nodes
from bftrainer.pilot.facts import FragmentEvent
from bftrainer.pilot.memo import Memoized, Table
from bftrainer.pilot.nodes.classifier import NodeClassifier
from bftrainer.pilot.nodes.node_requests import NodeBackoff
from bftrainer.pilot.recorder import Recorder
from bftrainer.slots import Slot
from bftrainer.times import HostS, PilotS


@dataclass(frozen=True, slots=True)
class HeldFragment:
    """A fragment that this pilot holds or waits for. ``given_back_s``: when it left the pool, since
    the pilot releases it as soon as its trainer has left it.

    ``node_class`` is None until the scheduler was observed. ``is_released``: its holder has been
    told to end. ``slots``: what trainers get of it, if that is not itself. ``group`` and
    ``patience_s``: with which others it is released, and how long its trainer may take to leave.
    ``renewal``: the request for its node that is made as soon as its holder has been told to end;
    ``is_renewal``: it came from such a request.
    """

    fragment: Fragment
    node: str
    asked_s: PilotS
    node_class: str | None = None
    ready_s: PilotS | None = None
    given_back_s: PilotS | None = None
    reason: str = ""
    is_released: bool = False
    slots: tuple[str, ...] = ()
    group: str = ""
    patience_s: float | None = None
    renewal: NodeRequest | None = None
    is_renewal: bool = False

    @property
    def size(self) -> int:
        """The number of nodes, or of GPUs where trainers get single GPUs, in this fragment."""
        return len(self.slots) or 1

    @property
    def name(self) -> str:
        """``node#id``."""
        return self.fragment.name

    @property
    def is_ready(self) -> bool:
        """Whether workers may start in it."""
        return self.fragment.phase is FragmentPhase.READY and self.given_back_s is None


class FragmentBook:
    """Keeps the fragments that this pilot holds or waits for. Whatever happens to one is written to
    the registry first.
    """

    def __init__(
        self, config: ConfigCell, recorder: Recorder, classes: NodeClassifier, backoff: NodeBackoff
    ) -> None:
        self._config = config
        self._recorder = recorder
        self._classes = classes
        self._backoff = backoff
        self._grain = config.now.nodes.unit
        self._held: Table[HeldFragment] = Table()
        self._pool = Memoized(_usable_fragments)
        self._slots = Memoized(slots_of)
        self._leaving = Memoized(_fragments_to_end)

    def all(self) -> tuple[HeldFragment, ...]:
        return self._held.snapshot()

    def pool(self) -> Nodes:
        """Fragments that trainers may use."""
        return self._pool(self._held.snapshot())

    def slots(self) -> Nodes:
        """Return the slots that trainers may use: fragments, or each GPU of a fragment."""
        if not self._grain.divides_nodes:
            return self.pool()
        return self._slots(self.pool(), self._held.snapshot())

    def given_back(self) -> tuple[HeldFragment, ...]:
        """Fragments that have left the pool and are not released yet."""
        return self._leaving(self._held.snapshot())

    def joining(self) -> bool:
        """Whether a fragment may still join the pool: its holder starts, or its class is not known
        yet.
        """
        phases = (FragmentPhase.PENDING, FragmentPhase.READY)
        pool = self.pool()
        return any(
            held_fragment.fragment.phase in phases
            and held_fragment.given_back_s is None
            and held_fragment.name not in pool
            for held_fragment in self._held.snapshot()
        )

    def get(self, name: str) -> HeldFragment | None:
        return self._held.get(name)

    def classify(self) -> None:
        """Look up classes that could not be known before the first observation."""
        for held in self._held.snapshot():
            if held.node_class is None and (node_class := self._classes.of(held.name)) is not None:
                self._held[held.name] = replace(held, node_class=node_class)

    def update(self, reported: Iterable[Fragment], now_s: PilotS) -> None:
        """Update the fragments by the report of their holder."""
        for fragment in reported:
            held = self._held.get(fragment.name)
            if held is None or (held.fragment is not fragment and held.fragment != fragment):
                self._update_fragment(held, fragment, now_s)

    def _update_fragment(
        self, held: HeldFragment | None, fragment: Fragment, now_s: PilotS
    ) -> None:
        """Process one fragment of a holder's report: write what is new about it to the registry,
        and keep it, or close it if it is gone.
        """
        reached = () if held is None else held.fragment.reached
        if held is None:
            if fragment.phase is FragmentPhase.GONE:
                self._recorder.write_fragment_event(
                    fragment.name, FragmentEvent.RELEASED, now_s, fragment.why
                )
                return
            self._recorder.write_fragment_event(fragment.name, FragmentEvent.ASKED, now_s)
            held = HeldFragment(fragment, fragment.node, now_s, self._classes.of(fragment.name))
        if fragment.reached != reached:
            self._recorder.fragment_reached(
                fragment.name, [(stage, HostS(at_s)) for stage, at_s in fragment.reached]
            )
        was, held = held.fragment.phase, replace(held, fragment=fragment)
        if self._grain.divides_nodes:
            slots = (Slot(fragment.node, fragment.id, gpu) for gpu in fragment.gpus)
            held = replace(held, slots=tuple(slot.name for slot in slots))
        match fragment.phase:
            case FragmentPhase.READY if held.ready_s is None:
                held = replace(held, ready_s=now_s)
                self._recorder.write_fragment_event(fragment.name, FragmentEvent.TAKEN, now_s)
            case FragmentPhase.LEAVING if (
                was is not FragmentPhase.LEAVING and held.given_back_s is None
            ):
                self._recorder.write_fragment_event(
                    fragment.name, FragmentEvent.ASKED_BACK, now_s, fragment.why or "preempted"
                )
            case FragmentPhase.GONE:
                self._close_fragment(held, now_s)
                return
        self._held[fragment.name] = held

    def without_gpus(self) -> list[str]:
        """Return fragments that are ready but have no GPU, although trainers get single GPUs."""
        if not self._grain.divides_nodes:
            return []
        return [
            held_fragment.name
            for held_fragment in self._held.snapshot()
            if held_fragment.is_ready and not held_fragment.slots
        ]

    def give_back(
        self,
        names: Iterable[str],
        reason: str,
        now_s: PilotS,
        group: str = "",
        patience_s: float | None = None,
        renewals: Mapping[str, NodeRequest] | None = None,
    ) -> None:
        """Take fragments out of the pool. Those of a group are released together; trainers may take
        ``patience_s`` to leave them (None: as long as for a move). The nodes of ``renewals``, by
        fragment, are requested again at their release.
        """
        renewals = renewals or {}
        for name in sorted(names):
            held = self._held.get(name)
            if held is not None and held.given_back_s is None:
                self._held[name] = replace(
                    held,
                    given_back_s=now_s,
                    reason=reason,
                    group=group,
                    patience_s=patience_s,
                    renewal=renewals.get(name),
                )
                self._recorder.write_fragment_event(name, FragmentEvent.ASKED_BACK, now_s, reason)

    def hasten(self, names: Iterable[str], patience_s: float) -> None:
        """Let trainers take no longer than this to leave fragments that have been given back."""
        for name in sorted(names):
            held = self._held.get(name)
            if held is not None and held.given_back_s is not None:
                self._held[name] = replace(held, patience_s=patience_s)

    def renewals(self, names: Iterable[str]) -> None:
        """Remember that these were requested for nodes of jobs that are ending."""
        for name in sorted(names):
            if (held := self._held.get(name)) is not None:
                self._held[name] = replace(held, is_renewal=True)

    def released(self, names: Iterable[str]) -> None:
        """Remember that the holders of these have been told to end."""
        for name in sorted(names):
            self._held[name] = replace(self._held[name], is_released=True)

    def _close_fragment(self, held: HeldFragment, now_s: PilotS) -> None:
        """Forget a fragment that is gone, and write its release. If it was not given back, the
        scheduler took it: back off from its node.
        """
        if held.name in self._held:
            del self._held[held.name]
        for name in (held.name, *held.slots):
            self._classes.forget(name)
        reason = held.reason or held.fragment.why or "preempted"
        self._recorder.write_fragment_event(held.name, FragmentEvent.RELEASED, now_s, reason)
        if held.given_back_s is None:
            since_s = held.asked_s if held.ready_s is None else held.ready_s
            base_s = self._config.now.nodes.flap_back_off_s
            # Main jobs take some of its GPUs, and the rest may be held again.
            if held.fragment.is_part:
                base_s = min(base_s, PART_BACK_OFF_S)
            is_missed = held.ready_s is None and not held.fragment.is_part
            if is_missed:
                base_s = min(base_s, self._config.now.times.poll_s)
            self._backoff.add_preemption(held.node, now_s - since_s, base_s, now_s, is_missed)


def _usable_fragments(held: tuple[HeldFragment, ...]) -> Nodes:
    """Return the fragments that trainers may use: ready, not given back, and of a known class."""
    ready = FragmentPhase.READY
    return Nodes(
        [
            held_fragment.fragment.name
            for held_fragment in held
            if held_fragment.fragment.phase is ready
            and held_fragment.given_back_s is None
            and held_fragment.node_class is not None
        ]
    )


def slots_of(pool: Nodes, held: tuple[HeldFragment, ...]) -> Nodes:
    """Return the slots of the fragments in the pool: their GPUs, or the fragment itself if trainers
    get whole nodes.
    """
    return Nodes(
        [
            slot
            for held_fragment in held
            if held_fragment.name in pool
            for slot in held_fragment.slots or (held_fragment.name,)
        ]
    )


def _fragments_to_end(held: tuple[HeldFragment, ...]) -> tuple[HeldFragment, ...]:
    """Return the fragments that were given back and whose holders have not been told to end."""
    return tuple(
        [
            held_fragment
            for held_fragment in held
            if held_fragment.given_back_s is not None and not held_fragment.is_released
        ]
    )


Ends = tuple[tuple[str, float], ...]
"""(fragment, seconds since 1970)."""

PART_BACK_OFF_S = 2.0
"""The first back-off from a node of which a part was preempted, at most; from whole nodes, it is
``nodes.flap_back_off_s``.
"""
_NEAR_S = 3600.0
"""Ends of time limits that are further off matter to no decision; each event and its record would
carry all of them.
"""


def planned_ends(
    pool: Nodes, held: tuple[HeldFragment, ...], ends: Ends, leave_before_s: float
) -> Ends:
    """Return when each fragment of the pool has to be released so that its node is idle when its
    window ends. ``ends`` are (node, when its window ends); ``leave_before_s`` and the time until
    the node is idle (an Epilog) come off.
    """
    if not ends:
        return ()
    of_node = dict(ends)
    ends_of = (
        (
            held_fragment.name,
            of_node.get(held_fragment.node),
            leave_before_s + held_fragment.fragment.release_s,
        )
        for held_fragment in held
        if held_fragment.name in pool
    )
    return tuple(
        sorted((name, end_s - before_s) for name, end_s, before_s in ends_of if end_s is not None)
    )


def limit_ends(pool: Nodes, held: tuple[HeldFragment, ...], before_s: float, now_s: float) -> Ends:
    """Return when each fragment of the pool has to be released: ``before_s`` before its holder's
    time limit, where ``before_s`` includes the offset of the scheduler's clock. Distant ends are
    left out.
    """
    held_ends = (
        (held_fragment.name, held_fragment.fragment.ends_s)
        for held_fragment in held
        if held_fragment.name in pool
    )
    return tuple(
        (name, end_s - before_s)
        for name, end_s in held_ends
        if end_s is not None and end_s - before_s < now_s + _NEAR_S
    )


def earliest(planned: Ends, limits: Ends) -> Ends:
    """Return for each fragment the earlier of its two ends: by its node's window and by its
    holder's time limit.
    """
    if not planned or not limits:
        return planned or limits
    ends = dict(planned)
    for name, end_s in limits:
        ends[name] = min(end_s, ends.get(name, end_s))
    return tuple(sorted(ends.items()))
