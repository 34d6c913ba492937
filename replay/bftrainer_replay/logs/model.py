"""The result of every importer: which nodes were idle when."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from bftrainer.decide.domain.events import PoolChanged
from bftrainer_replay.logs.columns import TIMES, Times, parts_of, started_or
from bftrainer_replay.logs.dialect import GENERIC, Dialect
from bftrainer_replay.logs.job_needs import NO_NEEDS, JobFact, JobNeeds
from bftrainer_replay.logs.logged_nodes import LoggedNodes
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


@dataclass(frozen=True, slots=True, eq=False)
class Queue:
    """The jobs of a log as parallel arrays, in order of ``eligible_s``. A job waits from
    ``eligible_s`` to ``start_s``.

    ``start_s`` is NaN for a job that never started (it waits until ``end_s``). ``end_s`` is
    infinite for a job without an end in the record. ``nodes`` is the number of nodes that the job
    asked for; it needs ``all_needs[needs]`` of each, and they for ``limit_s`` (NaN: not recorded).
    ``facts`` are recorded; all others are unknown of every job. ``only_smallest``: at any time only
    the smallest of the waiting jobs is here. ``dialect`` has the words of the log's format.
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
        jobs = len(self.nodes)
        if len(self.limit_s) != jobs:
            object.__setattr__(self, "limit_s", Times.of(np.full(jobs, np.nan)))
        if len(self.needs) != jobs:
            object.__setattr__(self, "needs", np.zeros(jobs, dtype=np.int16))

    def parts(self) -> Iterator[slice]:
        """All jobs, a million at a time: what is worked out for each of them takes memory for a
        part.
        """
        return parts_of(len(self.nodes))

    def waits_until(self, part: slice) -> NDArray[np.float64]:
        """When each job of a part starts or, if it never does, ends."""
        return started_or(self.start_s, self.end_s, part)

    def waited_s(self, part: slice, start_s: float, end_s: float) -> NDArray[np.float64]:
        """How long each job of a part waited within a span."""
        waited_s: NDArray[np.float64] = self.waits_until(part).clip(start_s, end_s)
        waited_s -= self.eligible_s[part].clip(start_s, end_s)
        return waited_s

    def of_needs(self, chosen: NDArray[np.bool_]) -> Queue:
        """Return a queue of the jobs whose needs are chosen; ``chosen`` is over ``all_needs``."""
        is_chosen = np.empty(len(self.nodes), dtype=np.bool_)
        for part in self.parts():
            is_chosen[part] = chosen[self.needs[part]]
        return self if is_chosen.all() else self.only(is_chosen)

    def only(self, which: NDArray[Any]) -> Queue:
        """Return a queue of the jobs at the places ``which``, in that order."""
        times: dict[str, Any] = {name: getattr(self, name).only(which) for name in TIMES[1:]}
        return replace(self, nodes=self.nodes[which], needs=self.needs[which], **times)


@dataclass(frozen=True, slots=True)
class SilentNodes:
    """Nodes that ran no job for 48 h or more and may have been down; the idle share with and
    without these periods.

    ``renamed``: so many of them ran their last job before as many others ran their first.
    """

    nodes: int
    idle_share: float
    idle_share_without: float
    renamed: int = 0

    @property
    def likely(self) -> str:
        """What became of them, in a word."""
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
    From ``down_s[k]`` to ``down_until_s[k]`` node ``down[k]`` (a number in ``nodes.names``) would
    have been idle, but was out of service or reserved. ``silent`` is of the whole log, of whatever
    part of it a window is. ``only_user``: the user of all jobs of the log. ``bounds``: idle shares
    under other readings of the whole log. ``missing_jobs``: what shows that the log lacks jobs.
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
        """Hours of each period inside a window."""
        down_s: NDArray[np.float64] = np.clip(self.down_until_s, start_s, end_s) - np.clip(
            self.down_s, start_s, end_s
        )
        return down_s / 3600


NO_FACTS = SiteFacts()


@dataclass(frozen=True, slots=True)
class GpuFacts:
    """What is known of a log whose unit is a GPU (:mod:`~bftrainer_replay.logs.gpus`).
    ``per_node``: the number of GPUs of every node.

    ``by_node``: the same log by node, where it tells more than idle GPUs. ``every``: all idle GPUs,
    with those that the log leaves out as they have no cores left beside them.
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

    events: tuple[PoolEvent, ...]
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
        seen: dict[str, None] = {}
        for event in self.events:
            seen.update(dict.fromkeys(sorted(event.change.joined)))
        return tuple(seen)


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
    events: tuple[PoolEvent, ...]
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
        return (
            sum(end_s - start_s for start_s, end_s in union((*self.outages, *self.gaps)))
            - self.unknown_s
        )

    @property
    def service_s(self) -> float:
        """Length without gaps and outages, which count neither as idle nor as not idle: shares
        refer to this time.
        """
        return self.span_s - self.unknown_s - self.outage_s

    @property
    def service_node_h(self) -> float:
        """What idle shares refer to: without gaps, outages, and nodes that were out of service
        while no job ran on them.
        """
        return self.service_s / 3600 * self.machine_nodes - float(
            self.site.down_h(self.start_s, self.end_s).sum()
        )


def cut(
    log: EventLog,
    *,
    start_s: float | None = None,
    end_s: float | None = None,
    nodes: Collection[str] | None = None,
    machine_nodes: int | None = None,
) -> LogWindow:
    """Restrict a log to ``[start_s, end_s]`` and to ``nodes``; by default to all of it.

    ``machine_nodes`` defaults to the number of chosen nodes, else to the log's own figure, else to
    the number of nodes that were ever idle (a lower bound).
    """
    first, last = log.events[0].at_s, log.events[-1].at_s
    start_s = first if start_s is None else start_s
    end_s = last if end_s is None else end_s
    chosen = None if nodes is None else frozenset(nodes)
    if log.gpus is not None and chosen is not None:
        chosen = frozenset(levels(log.gpus.per_node, chosen))
    initial, events = _between(log.events, start_s, end_s, chosen)
    if machine_nodes is None:
        machine_nodes = (log.machine_nodes or len(log.nodes())) if chosen is None else len(chosen)
    queue = log.queue if chosen is None else None
    gaps, outages = (within(spans, start_s, end_s) for spans in (log.gaps, log.outages))
    site = log.site if chosen is None else NO_FACTS
    window = LogWindow(
        start_s,
        end_s,
        initial,
        events,
        machine_nodes,
        log.source,
        log.note,
        queue,
        log.debounce_s,
        gaps,
        log.clock,
        outages=outages,
        site=site,
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
    """Restrict the facts of a log in GPUs to the time of ``window``, the nodes of ``per_node`` and
    the ``chosen`` GPUs (None: all).
    """
    restricted = partial(cut, start_s=window.start_s, end_s=window.end_s)
    by_node, every = facts.by_node, facts.every
    if by_node is None:
        window_by_node = whole_nodes(window, per_node)
    elif len(per_node) == by_node.machine_nodes:
        window_by_node = restricted(by_node)  # With all nodes, the queue is kept.
    else:
        window_by_node = restricted(by_node, nodes=per_node)
    window_of_every = None if every is None else restricted(every, nodes=chosen)
    return GpuWindow(per_node, window_by_node, window_of_every)


def _between(
    events: Iterable[PoolEvent], start_s: float, end_s: float, chosen: frozenset[str] | None
) -> tuple[frozenset[str], tuple[PoolEvent, ...]]:
    """Return which of the chosen nodes (None: all) are in the pool at ``start_s``, and the events
    that change them up to ``end_s``.
    """
    pool: set[str] = set()
    kept: list[PoolEvent] = []
    for event in events:
        if event.at_s > end_s:
            break
        joined, left = event.change.joined, event.change.left
        if chosen is not None:
            joined, left = joined & chosen, left & chosen
        elif event.at_s > start_s and (joined or left) and not event.all_joined:
            kept.append(event)  # of which a log may have millions
            continue
        if event.at_s <= start_s:
            pool -= left
            pool |= joined
        elif joined or left:
            kept.append(PoolEvent(event.at_s, PoolChanged(joined, left)))
    return frozenset(pool), tuple(kept)


def level(node: str, index: int) -> str:
    """Return the name of a node's GPU number ``index``, which is idle while more than ``index``
    GPUs of the node are: a log tells how many are idle, not which, so the last that joined leaves
    first.
    """
    return f"{node}:{index}"


def levels(per_node: Mapping[str, int], nodes: Iterable[str]) -> Iterator[str]:
    """All GPUs of these nodes."""
    return (level(node, index) for node in nodes for index in range(per_node.get(node, 0)))


def whole_nodes(window: LogWindow, per_node: Mapping[str, int]) -> LogWindow:
    """Turn a window of idle GPUs into one of idle nodes: a node is idle while all its GPUs are."""
    last = {level(node, gpus - 1): node for node, gpus in per_node.items()}

    def whole(names: frozenset[str]) -> frozenset[str]:
        return frozenset(last[name] for name in names & last.keys())

    return _seen_as(window, whole, len(per_node))


def _seen_as(
    window: LogWindow, nodes: Callable[[frozenset[str]], frozenset[str]], machine_nodes: int
) -> LogWindow:
    """Replace the names in the pool and in every event by ``nodes(names)``; leave out events that
    then change nothing.
    """
    changes = ((e.at_s, nodes(e.change.joined), nodes(e.change.left)) for e in window.events)
    events = tuple(
        PoolEvent(at_s, PoolChanged(joined, left))
        for at_s, joined, left in changes
        if joined or left
    )
    return replace(
        window, initial=nodes(window.initial), events=events, machine_nodes=machine_nodes
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


def within(
    spans: Iterable[tuple[float, float]], start_s: float, end_s: float
) -> tuple[tuple[float, float], ...]:
    """The parts of the spans between two times."""
    inside = ((max(begin, start_s), min(end, end_s)) for begin, end in spans)
    return tuple((begin, end) for begin, end in inside if begin < end)


def of_nodes(window: LogWindow, nodes: Collection[str]) -> LogWindow:
    """Restrict a window to these nodes; its queue is dropped."""
    chosen = frozenset(nodes)
    return replace(_seen_as(window, chosen.intersection, len(chosen)), queue=None)


def pieces(log: LogWindow, starts_s: Sequence[float], length_s: float) -> tuple[LogWindow, ...]:
    """Cut a window of ``length_s`` out of the log at each of the starts, which are in order of
    time. The queue is dropped.
    """

    def number_until(at_s: float) -> int:
        return bisect_right(log.events, at_s, key=lambda event: event.at_s)

    pool, place, windows = set(log.initial), 0, []
    for wanted_s in starts_s:
        start_s = max(wanted_s, log.start_s)
        end_s = min(start_s + length_s, log.end_s)
        begin = number_until(start_s)
        for event in log.events[place:begin]:
            pool -= event.change.left
            pool |= event.change.joined
        place = begin
        events, gaps = log.events[begin : number_until(end_s)], within(log.gaps, start_s, end_s)
        part = replace(
            log, start_s=start_s, end_s=end_s, initial=frozenset(pool), events=events, queue=None
        )
        windows.append(replace(part, gaps=gaps, outages=within(log.outages, start_s, end_s)))
    return tuple(windows)


def piece(log: LogWindow, start_s: float, end_s: float) -> LogWindow:
    """Cut the part of the log between two times; its queue is dropped."""
    return pieces(log, [start_s], end_s - start_s)[0]


def cut_short(window: LogWindow, end_s: float) -> LogWindow:
    """The window up to ``end_s``, if that is before its end."""
    if end_s >= window.end_s:
        return window
    return replace(
        window, end_s=end_s, events=tuple(event for event in window.events if event.at_s <= end_s)
    )
