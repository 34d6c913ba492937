"""The result of every importer: which nodes were idle when."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, overload
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from bftrainer.decide.domain.events import PoolChanged
from bftrainer_replay.logs.columns import TIMES, Times, parts_of, started_or
from bftrainer_replay.logs.dialect import GENERIC, Dialect
from bftrainer_replay.logs.job_needs import NO_NEEDS, JobFact, JobNeeds
from bftrainer_replay.logs.logged_nodes import LoggedNodes
from bftrainer_replay.logs.node_groups import NodeGroups
from bftrainer_replay.logs.resource_use import ResourceUse

OWN_CLOCK = "the log's own clock"
"""The clock of an event log that does not say that its times are UTC."""


@dataclass(frozen=True, slots=True)
class PoolEvent:
    """A change of the pool at ``at_s``, in seconds since 1970 (UTC, or the log's own clock).

    ``all_joined``: the pilot that recorded it knew of no other node that was about to join.
    """

    at_s: float
    change: PoolChanged
    all_joined: bool = False


class GroupedEvents(Sequence[PoolEvent]):
    """The changes of a pool as arrays of node groups; an item is made when it is asked for.

    Event k is at ``at_s[k]``: the groups ``changed[cuts[k]:middles[k]]`` join, and those up to
    ``cuts[k + 1]`` leave. ``is_idle`` says of each group whether it is in the pool before the first
    event. A slice shares the arrays.
    """

    __slots__ = ("at_s", "changed", "cuts", "groups", "is_idle", "middles")

    def __init__(
        self,
        groups: NodeGroups,
        at_s: NDArray[np.float64],
        cuts: NDArray[np.int64],
        middles: NDArray[np.int64],
        changed: NDArray[Any],
        is_idle: NDArray[np.bool_],
    ) -> None:
        """Keep the arrays as they are; the class says what each of them has."""
        self.groups, self.at_s, self.is_idle = groups, at_s, is_idle
        self.cuts, self.middles, self.changed = cuts, middles, changed

    def __len__(self) -> int:
        return len(self.at_s)

    @overload
    def __getitem__(self, index: int) -> PoolEvent: ...
    @overload
    def __getitem__(self, index: slice) -> GroupedEvents: ...
    def __getitem__(self, index: int | slice) -> PoolEvent | GroupedEvents:
        """Return one event, or the events of a slice, which shares the arrays."""
        if isinstance(index, slice):
            begin, end, step = index.indices(len(self))
            assert step == 1, "events are in order of time"
            return self._slice_events(begin, max(begin, end))
        k = range(len(self))[index]
        joined = self.groups.nodes_of(self.changed[self.cuts[k] : self.middles[k]])
        left = self.groups.nodes_of(self.changed[self.middles[k] : self.cuts[k + 1]])
        return PoolEvent(float(self.at_s[k]), PoolChanged(joined, left))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or len(other) != len(self):
            return False
        return all(event == other_event for event, other_event in zip(self, other, strict=True))

    def __hash__(self) -> int:
        return hash((len(self), *self.at_s[:1].tolist()))

    def _slice_events(self, begin: int, end: int) -> GroupedEvents:
        """Return the events ``begin`` to ``end`` - 1."""
        return GroupedEvents(
            self.groups,
            self.at_s[begin:end],
            self.cuts[begin : end + 1],
            self.middles[begin:end],
            self.changed,
            self.idle_after(begin),
        )

    def idle_after(self, n_events: int) -> NDArray[np.bool_]:
        """Return which groups are in the pool after the first ``n_events`` events."""
        toggled = self.changed[self.cuts[0] : self.cuts[n_events]]
        # A group that is in the pool only leaves, and one that is out only joins.
        are_odd = np.bincount(toggled, minlength=len(self.groups)) % 2 == 1
        is_idle: NDArray[np.bool_] = np.logical_xor(self.is_idle, are_odd)
        return is_idle

    def until(self, at_s: float) -> int:
        """Return the number of events up to and including ``at_s``."""
        return int(np.searchsorted(self.at_s, at_s, side="right"))

    def with_changes(self) -> GroupedEvents:
        """Return the events without those that change nothing."""
        changes = np.flatnonzero(np.diff(self.cuts))
        cuts = np.append(self.cuts[changes], self.cuts[-1])
        middles = self.middles[changes]
        return GroupedEvents(
            self.groups, self.at_s[changes], cuts, middles, self.changed, self.is_idle
        )

    def joined_and_left(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the number of nodes that join and that leave at each event."""
        weights = self.groups.weights[self.changed[self.cuts[0] : self.cuts[-1]]]
        sums = np.concatenate(([0], np.cumsum(weights)))
        at_cuts, at_middles = sums[self.cuts - self.cuts[0]], sums[self.middles - self.cuts[0]]
        return at_middles - at_cuts[:-1], at_cuts[1:] - at_middles

    def periods(
        self, start_s: float, end_s: float
    ) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
        """Return when groups of nodes are idle, as arrays (group, start, end) in order of their
        ends.

        ``start_s`` and ``end_s`` lie around all events: a group that is idle before the first event
        is idle from ``start_s``, one that is idle after the last until ``end_s``. Of those that
        last until then, only periods of a positive length are returned.
        """
        before, after = self.is_idle.nonzero()[0], self.idle_after(len(self)).nonzero()[0]
        changed = self.changed[self.cuts[0] : self.cuts[-1]]
        group = np.concatenate((before, changed, after)).astype(np.int64)
        at_s = np.concatenate(
            (
                np.full(len(before), start_s),
                np.repeat(self.at_s, np.diff(self.cuts)),
                np.full(len(after), end_s),
            )
        )
        # By group, its joins and leaves alternate.
        order = np.argsort(group, kind="stable")
        at_s, group = at_s[order], group[order]
        begins_s, ends_s, groups = at_s[0::2], at_s[1::2], group[0::2]
        by_end = np.argsort(ends_s, kind="stable")
        by_end = by_end[(begins_s < ends_s)[by_end] | (ends_s < end_s)[by_end]]
        return groups[by_end], begins_s[by_end], ends_s[by_end]


Events = Sequence[PoolEvent]
"""A tuple, or :class:`GroupedEvents`."""


def times_of(events: Events) -> NDArray[np.float64]:
    """Return the times of all events."""
    if isinstance(events, GroupedEvents):
        return events.at_s
    return np.array([event.at_s for event in events], dtype=np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class Queue:
    """The jobs of a log as parallel arrays, in order of ``eligible_s``. A job waits from
    ``eligible_s`` to ``start_s``.

    ``start_s`` is NaN for a job that never started (it waits until ``end_s``). ``end_s`` is
    infinite for a job without an end in the record. ``nodes`` is the number of nodes that the job
    asked for, and ``limit_s`` its time limit (NaN: not recorded). ``needs`` is an index into
    ``all_needs``, which say what the job needs of each of its nodes. ``facts`` names the kinds of
    needs that the log records; all others are unknown of every job. ``only_smallest``: the queue
    has at any time only the smallest of the waiting jobs. ``dialect`` has the words of the log's
    format.
    """

    eligible_s: Times
    start_s: Times
    end_s: Times
    nodes: NDArray[Any]
    limit_s: Times = field(default_factory=lambda: Times(np.empty(0)))
    needs: NDArray[Any] = field(default_factory=lambda: np.empty(0, dtype=np.int16))
    all_needs: tuple[JobNeeds, ...] = (NO_NEEDS,)
    facts: frozenset[JobFact] = frozenset()
    only_smallest: bool = False
    dialect: Dialect = GENERIC

    def __post_init__(self) -> None:
        """Give all jobs unknown limits and needs, if these are missing."""
        n_jobs = len(self.nodes)
        if len(self.limit_s) != n_jobs:
            object.__setattr__(self, "limit_s", Times.from_seconds(np.full(n_jobs, np.nan)))
        if len(self.needs) != n_jobs:
            object.__setattr__(self, "needs", np.zeros(n_jobs, dtype=np.int16))

    def parts(self) -> Iterator[slice]:
        """Yield slices that cover all jobs (:func:`parts_of`)."""
        return parts_of(len(self.nodes))

    def waits_until(self, part: slice) -> NDArray[np.float64]:
        """Return when each job of a part starts or, if it never does, ends."""
        return started_or(self.start_s, self.end_s, part)

    def waited_s(self, part: slice, start_s: float, end_s: float) -> NDArray[np.float64]:
        """Return the seconds that each job of a part waited between ``start_s`` and ``end_s``."""
        waited_s: NDArray[np.float64] = self.waits_until(part).clip(start_s, end_s)
        waited_s -= self.eligible_s[part].clip(start_s, end_s)
        return waited_s

    def with_needs(self, are_chosen: NDArray[np.bool_]) -> Queue:
        """Return a queue of the jobs whose needs are chosen: ``are_chosen[k]`` is for
        ``all_needs[k]``.
        """
        job_is_chosen = np.empty(len(self.nodes), dtype=np.bool_)
        for part in self.parts():
            job_is_chosen[part] = are_chosen[self.needs[part]]
        return self if job_is_chosen.all() else self.selected(job_is_chosen)

    def selected(self, selection: NDArray[Any]) -> Queue:
        """Return a queue of the jobs that a mask or an index array selects, in its order."""
        # TIMES begins with the submit times, which a queue does not have.
        times: dict[str, Any] = {
            name: getattr(self, name).selected(selection) for name in TIMES[1:]
        }
        return replace(self, nodes=self.nodes[selection], needs=self.needs[selection], **times)


@dataclass(frozen=True, slots=True)
class SilentNodes:
    """The number of nodes that ran no job for 48 h or more and may have been down, and the idle
    share with and without these periods.

    ``renamed`` is the number of nodes that seem to have been renamed: they ran their last job
    before as many others ran their first.
    """

    nodes: int
    idle_share: float
    idle_share_without: float
    renamed: int = 0

    @property
    def likely(self) -> str:
        """What probably happened to these nodes, in a word."""
        return "renamed" if self.renamed else "down"


@dataclass(frozen=True, slots=True)
class IdleBound:
    """The idle share under another reading of the log, and the condition for it in words."""

    idle_share: float
    condition: str


@dataclass(frozen=True, slots=True, eq=False)
class SiteFacts:
    """What a job log tells beyond idle nodes and the queue; None: the log does not have it.

    ``nodes`` are the partitions and devices of each node, ``use`` the cores and devices in use.
    From ``down_s[k]`` to ``down_until_s[k]`` node ``down[k]`` (an index into ``nodes.names``) would
    have been idle, but was out of service or reserved. ``only_user``: the user of all jobs, if
    there is only one. ``missing_jobs``: sentences on what shows that the log lacks jobs.
    ``silent``, and ``bounds`` (idle shares under other readings of the log), are of the whole log,
    also in a window of it.
    """

    nodes: LoggedNodes | None = None
    use: ResourceUse | None = None
    down: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    down_s: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    down_until_s: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    silent: SilentNodes | None = None
    only_user: str = ""
    bounds: tuple[IdleBound, ...] = ()
    missing_jobs: tuple[str, ...] = ()

    def down_h(self, start_s: float, end_s: float) -> NDArray[np.float64]:
        """Return the hours of each down period that lie between ``start_s`` and ``end_s``."""
        down_s: NDArray[np.float64] = np.clip(self.down_until_s, start_s, end_s) - np.clip(
            self.down_s, start_s, end_s
        )
        return down_s / 3600


NO_FACTS = SiteFacts()


@dataclass(frozen=True, slots=True)
class GpuFacts:
    """Facts on a log whose unit is a GPU (:mod:`~bftrainer_replay.logs.gpus`). ``per_node``: the
    number of GPUs of every node.

    ``by_node`` is the same log in nodes (None: the log lists only idle GPUs). ``every`` is the log
    of all idle GPUs, including those without idle cores on their node, which the log itself leaves
    out (None: the log does not record cores).
    """

    per_node: Mapping[str, int]
    by_node: EventLog | None = None
    every: EventLog | None = None


@dataclass(frozen=True, slots=True)
class GpuWindow:
    """The :class:`GpuFacts` of a window. ``idle``: the idle GPUs from which a window of held slots
    was made.
    """

    per_node: Mapping[str, int]
    by_node: LogWindow
    every: LogWindow | None = None
    idle: LogWindow | None = None


@dataclass(frozen=True, slots=True)
class EventLog:
    """Idle nodes over time. The first event's joins are the nodes idle at the start of the record.

    Invariants (the importers keep them): times strictly increase; a node joins only when out and
    leaves only when in. ``note`` names facts that are not as recorded (such as nodes placed by
    simulation) and goes with every result. ``queue`` is None where the log does not record waiting
    jobs. ``machine_nodes`` is the size of the cluster if the log has it. Idle periods and waits
    shorter than ``debounce_s`` were dropped (0: none). ``gaps`` are periods (start, end) without
    data; the pool is empty in them, and the changes of the pool at their edges did not happen on
    the cluster. ``clock`` names the clock of all times. In ``outages`` no node counts as idle.
    """

    events: Events
    source: str
    note: str = ""
    queue: Queue | None = field(default=None, compare=False)
    machine_nodes: int | None = None
    debounce_s: float = 0.0
    gaps: tuple[tuple[float, float], ...] = ()
    clock: str = OWN_CLOCK
    outages: tuple[tuple[float, float], ...] = ()
    site: SiteFacts = field(default=NO_FACTS, compare=False)
    gpus: GpuFacts | None = None

    def nodes(self) -> tuple[str, ...]:
        """Every node that was ever idle, in order of first appearance (ties in order of name)."""
        ordered_names: dict[str, None] = {}
        for event in self.events:
            ordered_names.update(dict.fromkeys(sorted(event.change.joined)))
        return tuple(ordered_names)


@dataclass(frozen=True, slots=True)
class LogWindow:
    """A log restricted to a span of time and a set of nodes.

    The state at ``start_s`` is ``initial``; it counts as an event, but not as a join or leave.
    ``events`` are the changes after ``start_s`` up to and including ``end_s`` that affect a chosen
    node. Idle shares refer to ``machine_nodes``. ``note``, ``queue``, ``debounce_s``, ``gaps`` and
    ``clock`` are the log's, with the gaps inside the window. The queue is None where only some of
    the nodes were chosen: which jobs could have used those alone is not known; neither is ``site``.
    ``remarks`` are the importer's guesses and counts, for the reader of a result. ``zone`` is the
    time zone of the times that a reader sees (None: as they are).
    """

    start_s: float
    end_s: float
    initial: frozenset[str]
    events: Events
    machine_nodes: int
    source: str
    note: str = ""
    queue: Queue | None = field(default=None, compare=False)
    debounce_s: float = 0.0
    gaps: tuple[tuple[float, float], ...] = ()
    clock: str = OWN_CLOCK
    remarks: tuple[str, ...] = ()
    outages: tuple[tuple[float, float], ...] = ()
    zone: ZoneInfo | None = None
    site: SiteFacts = field(default=NO_FACTS, compare=False)
    gpus: GpuWindow | None = field(default=None, compare=False)

    @property
    def clock_name(self) -> str:
        """The clock of times that a reader sees."""
        return self.clock if self.zone is None else self.zone.key

    @property
    def span_s(self) -> float:
        """Length of the window, gaps included."""
        return self.end_s - self.start_s

    @property
    def unknown_s(self) -> float:
        """Total length of the gaps."""
        return sum(end_s - start_s for start_s, end_s in self.gaps)

    @property
    def outage_s(self) -> float:
        """Total length of the outages outside of the gaps."""
        merged = union((*self.outages, *self.gaps))
        return sum(end_s - start_s for start_s, end_s in merged) - self.unknown_s

    @property
    def service_s(self) -> float:
        """Length without gaps and outages, which count neither as idle nor as not idle: shares
        refer to this time.
        """
        return self.span_s - self.unknown_s - self.outage_s

    @property
    def service_node_h(self) -> float:
        """The node-hours in service, to which idle shares refer: all of the window, without gaps,
        outages, and the time in which a node ran no job and was out of service.
        """
        down_h = float(self.site.down_h(self.start_s, self.end_s).sum())
        return self.service_s / 3600 * self.machine_nodes - down_h


def restricted_log(
    log: EventLog,
    *,
    start_s: float | None = None,
    end_s: float | None = None,
    nodes: Collection[str] | None = None,
    machine_nodes: int | None = None,
) -> LogWindow:
    """Return the window of a log from ``start_s`` to ``end_s`` with ``nodes`` only; by default all
    of it.

    ``machine_nodes``, to which idle shares refer, defaults to the number of chosen nodes, else to
    the log's own figure, else to the number of nodes that were ever idle (a lower bound). In a log
    whose unit is a GPU, ``nodes`` are names of nodes, and all other counts are of GPUs.
    """
    if start_s is None:
        start_s = log.events[0].at_s
    if end_s is None:
        end_s = log.events[-1].at_s
    chosen = None if nodes is None else frozenset(nodes)
    if log.gpus is not None and chosen is not None:
        chosen = frozenset(levels(log.gpus.per_node, chosen))
    initial, events = _events_between(log.events, start_s, end_s, chosen)
    if machine_nodes is None:
        machine_nodes = (log.machine_nodes or len(log.nodes())) if chosen is None else len(chosen)
    queue = log.queue if chosen is None else None
    window = LogWindow(
        start_s=start_s,
        end_s=end_s,
        initial=initial,
        events=events,
        machine_nodes=machine_nodes,
        source=log.source,
        note=log.note,
        queue=queue,
        debounce_s=log.debounce_s,
        gaps=spans_within(log.gaps, start_s, end_s),
        clock=log.clock,
        outages=spans_within(log.outages, start_s, end_s),
        site=log.site if chosen is None else NO_FACTS,
    )
    if log.gpus is None:
        return window
    per_node = {
        node: gpus for node, gpus in log.gpus.per_node.items() if nodes is None or node in nodes
    }
    return replace(window, gpus=_cut_gpus(log.gpus, window, per_node, chosen))


def _cut_gpus(
    facts: GpuFacts, window: LogWindow, per_node: Mapping[str, int], chosen: frozenset[str] | None
) -> GpuWindow:
    """Return the facts of a log in GPUs for the time and the nodes of a window.

    The nodes are those of ``per_node``, and ``chosen`` are their GPUs (None: all).
    """
    cut_in_time = partial(restricted_log, start_s=window.start_s, end_s=window.end_s)
    by_node, every = facts.by_node, facts.every
    if by_node is None:
        window_by_node = whole_nodes(window, per_node)
    elif len(per_node) == by_node.machine_nodes:
        window_by_node = cut_in_time(by_node)  # Without a choice of nodes, the queue is kept.
    else:
        window_by_node = cut_in_time(by_node, nodes=per_node)
    window_of_every = None if every is None else cut_in_time(every, nodes=chosen)
    return GpuWindow(per_node, window_by_node, window_of_every)


def _events_between(
    events: Events, start_s: float, end_s: float, chosen: frozenset[str] | None
) -> tuple[frozenset[str], Events]:
    """Return which of the chosen nodes are idle at ``start_s``, and the events after it up to
    ``end_s``.

    ``chosen`` is None for all nodes. Events that change no chosen node are left out; none of them
    has ``all_joined`` set.
    """
    if isinstance(events, GroupedEvents) and chosen is None:
        part = events[events.until(start_s) : events.until(end_s)].with_changes()
        return events.groups.nodes_of(part.is_idle.nonzero()[0]), part
    pool: set[str] = set()
    inside: list[PoolEvent] = []
    for event in events:
        if event.at_s > end_s:
            break
        joined, left = event.change.joined, event.change.left
        if chosen is not None:
            joined, left = joined & chosen, left & chosen
        elif event.at_s > start_s and (joined or left) and not event.all_joined:
            # The event stays as it is: a log may have millions, and a copy of each takes memory.
            inside.append(event)
            continue
        if event.at_s <= start_s:
            pool -= left
            pool |= joined
        elif joined or left:
            inside.append(PoolEvent(event.at_s, PoolChanged(joined, left)))
    return frozenset(pool), tuple(inside)


def level(node: str, index: int) -> str:
    """Return the name of a node's GPU number ``index`` (from 0). A log tells how many GPUs of a
    node are idle, but not which: this one counts as idle while more than ``index`` of them are, so
    the GPU that joined last leaves first.
    """
    return f"{node}:{index}"


def levels(per_node: Mapping[str, int], nodes: Iterable[str]) -> Iterator[str]:
    """Yield the names of all GPUs of these nodes; ``per_node`` is the number of GPUs of each."""
    return (level(node, index) for node in nodes for index in range(per_node.get(node, 0)))


def whole_nodes(window: LogWindow, per_node: Mapping[str, int]) -> LogWindow:
    """Return a window of idle nodes from one of idle GPUs: a node is idle while all its GPUs are.

    ``per_node`` is the number of GPUs of each node.
    """
    # All GPUs of a node are idle exactly while its GPU with the highest number is (see level()).
    node_of_top_gpu = {level(node, gpus - 1): node for node, gpus in per_node.items()}

    def idle_nodes(gpu_names: frozenset[str]) -> frozenset[str]:
        return frozenset(node_of_top_gpu[name] for name in gpu_names & node_of_top_gpu.keys())

    return _with_names(window, idle_nodes, len(per_node))


def _with_names(
    window: LogWindow, renamed: Callable[[frozenset[str]], frozenset[str]], machine_nodes: int
) -> LogWindow:
    """Return the window with other names of nodes, in its pool and in every event.

    ``renamed`` gives the new names of a set of them; events that then change nothing are left out.
    ``machine_nodes`` is the new size of the cluster.
    """
    changes = (
        (event.at_s, renamed(event.change.joined), renamed(event.change.left))
        for event in window.events
    )
    events = tuple(
        PoolEvent(at_s, PoolChanged(joined, left))
        for at_s, joined, left in changes
        if joined or left
    )
    return replace(
        window, initial=renamed(window.initial), events=events, machine_nodes=machine_nodes
    )


def union(spans: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Merge spans that overlap or touch, and return them in order of time."""
    merged: list[tuple[float, float]] = []
    for begin_s, end_s in sorted(spans):
        if merged and begin_s <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end_s))
        else:
            merged.append((begin_s, end_s))
    return merged


def spans_within(
    spans: Iterable[tuple[float, float]], start_s: float, end_s: float
) -> tuple[tuple[float, float], ...]:
    """Return the parts of the spans between ``start_s`` and ``end_s``, without empty ones."""
    inside = ((max(begin, start_s), min(end, end_s)) for begin, end in spans)
    return tuple((begin, end) for begin, end in inside if begin < end)


def of_nodes(window: LogWindow, nodes: Collection[str]) -> LogWindow:
    """Restrict a window to these nodes; its queue is dropped."""
    chosen = frozenset(nodes)
    return replace(_with_names(window, chosen.intersection, len(chosen)), queue=None)


def pieces(log: LogWindow, starts_s: Sequence[float], length_s: float) -> tuple[LogWindow, ...]:
    """Return a window of ``length_s`` seconds of the log from each of ``starts_s`` on.

    The starts are in ascending order. A window ends no later than the log. The queue is dropped.
    """

    times_s = times_of(log.events)

    def count_until(at_s: float) -> int:
        return int(np.searchsorted(times_s, at_s, side="right"))

    windows: list[LogWindow] = []
    pool = set(log.initial)  # after the first n_applied events of the log
    n_applied = 0
    for requested_s in starts_s:
        start_s = max(requested_s, log.start_s)
        end_s = min(start_s + length_s, log.end_s)
        n_before = count_until(start_s)
        for event in log.events[n_applied:n_before]:
            pool -= event.change.left
            pool |= event.change.joined
        n_applied = n_before
        window = replace(
            log,
            start_s=start_s,
            end_s=end_s,
            initial=frozenset(pool),
            events=log.events[n_before : count_until(end_s)],
            queue=None,
            gaps=spans_within(log.gaps, start_s, end_s),
            outages=spans_within(log.outages, start_s, end_s),
        )
        windows.append(window)
    return tuple(windows)


def piece(log: LogWindow, start_s: float, end_s: float) -> LogWindow:
    """Cut the part of the log between two times; its queue is dropped."""
    return pieces(log, [start_s], end_s - start_s)[0]


def cut_short(window: LogWindow, end_s: float) -> LogWindow:
    """Return the window up to ``end_s``; all of it if it ends earlier."""
    if end_s >= window.end_s:
        return window
    n_events = int(np.searchsorted(times_of(window.events), end_s, side="right"))
    return replace(window, end_s=end_s, events=window.events[:n_events])
