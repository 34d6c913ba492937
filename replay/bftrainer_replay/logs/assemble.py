"""The last step of every job importer: the collected jobs become an event log with its queue, and
remarks.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bftrainer.counted import counted
from bftrainer.errors import InputFileError, UserError
from bftrainer_replay.logs.count_only import (
    bound_if_shared,
    check_size,
    check_unit,
    node_hours,
    node_hours_placed,
    used_part,
    warn_of_unplaced,
)
from bftrainer_replay.logs.dialect import SWF, Dialect
from bftrainer_replay.logs.first_fit import NOTE, most_at_once, place
from bftrainer_replay.logs.idle import (
    NO_PERIODS,
    NodePeriods,
    idle_events,
    idle_periods,
    periods_of,
    without,
)
from bftrainer_replay.logs.idle_gpus import log_in_gpus
from bftrainer_replay.logs.job_needs import BEFORE_ELIGIBLE, Block, JobFact
from bftrainer_replay.logs.jobs import JobTable
from bftrainer_replay.logs.logged_nodes import nodes_from_jobs
from bftrainer_replay.logs.model import NO_FACTS, EventLog, IdleBound, Queue, SiteFacts
from bftrainer_replay.logs.node_events import read_events, read_reservations
from bftrainer_replay.logs.node_info import with_node_info
from bftrainer_replay.logs.partial import signs_of_a_part
from bftrainer_replay.logs.plausible import with_ends, without_outliers
from bftrainer_replay.logs.resource_use import use_of
from bftrainer_replay.logs.silent import remark_on_silence, sum_h
from bftrainer_replay.logs.source import Source
from bftrainer_replay.logs.span import TrustedSpan, span_of

LEAST_SHARED = 1.05
"""Jobs on a busy node from which on nodes count as shared; an epilog that overlaps the next job is
less.
"""
MOST_NODES = 2_000_000
"""Sequoia had 1,572,864 processors, which count as nodes in a log that does not say how many are in
one.
"""


@dataclass(frozen=True, slots=True)
class _PlacedJobs:
    """The jobs of a log on nodes, as many as the cluster has.

    ``is_simulated``: the log names no nodes, and jobs were placed by first-fit. ``used_part`` is
    then the part of a busy node that jobs use (None: not recorded), and ``busy_h`` are the
    node-hours of all jobs before they were placed.
    """

    table: JobTable
    size: int
    is_simulated: bool
    used_part: float | None = None
    busy_h: float = 0.0


def event_log_of(source: Source, format_name: str) -> EventLog:
    """Return the event log of a job log that has been read into ``source``: guess what the log does
    not tell, place jobs without node names, derive the idle nodes, and complete ``source.remarks``.
    """
    table = _checked_table(source, format_name)
    span = span_of(source, table)
    placed = _placed(source, table, span)
    table, size = placed.table, placed.size
    down = _unavailable(source, table, span, is_simulated=placed.is_simulated)
    idle = idle_periods(table, span, down)
    lost = _lost_periods(source, placed, span, down, idle)
    service_h = max(size * sum_h(span) - lost.length_h.sum(), 1.0)
    if source.tally.skipped:
        source.remarks.append(
            _on_skipped(source, table, span, idle.length_h.sum() / service_h, service_h)
        )
    bounds: tuple[IdleBound, ...] = ()
    silent = None
    if placed.is_simulated:
        idle_share = idle.length_h.sum() / service_h
        bounds = _bounds_of_simulated(source, placed, span, idle_share, service_h)
    else:
        silent = remark_on_silence(source, idle, table.names, service_h, span)
    events = idle_events(idle, table.names, span, source.options.debounce_s)
    missing_jobs = tuple(_signs_of_a_part(source, table))
    source.remarks += source.warnings
    if source.options.debounce_s:
        source.remarks.append(
            f"idle periods and waits shorter than {source.options.debounce_s:g} s are ignored "
            "(--debounce-s)"
        )
    if placed.is_simulated:
        site = replace(NO_FACTS, bounds=bounds)
    else:
        site = replace(_site(source, table, span, lost), silent=silent)
    site = replace(site, only_user=source.only_user, missing_jobs=missing_jobs)
    note = NOTE if placed.is_simulated else ""
    name = f"{source.name} ({NOTE.partition(':')[0]})" if placed.is_simulated else source.name
    log = EventLog(
        events,
        name,
        "; ".join(filter(None, (note, *source.warnings))),
        None,
        size,
        source.options.debounce_s,
        clock="UTC",
        outages=span.outages,
        site=site,
    )
    in_gpus = log_in_gpus(source, table, span, down, log) if source.options.unit == "gpu" else None
    # The queue, in another order, does not need the nodes of jobs, which take most of the memory.
    del placed
    table = table.without_nodes()
    log = replace(log, queue=queue_of(table, source.facts, source.dialect))
    if in_gpus is None or in_gpus.gpus is None:
        return log
    return replace(in_gpus, gpus=replace(in_gpus.gpus, by_node=log))


def _checked_table(source: Source, format_name: str) -> JobTable:
    """Return the jobs of the log, checked to be of one cluster, without outliers and with ends for
    jobs that ran beyond their limit (:mod:`.plausible`).

    Raises :class:`InputFileError` for a log without jobs.
    """
    rows = source.rows
    if source.lines.cut:
        source.remarks.append(
            "the last line does not end with a newline; the file may be truncated"
        )
    if not len(rows) and not (source.options.cluster and not source.clusters):
        raise InputFileError(
            source.name,
            f"looks like {format_name}, but none of its {source.tally.read:,} records is a job",
        )
    source.check_whose()
    table = rows.table()
    _remark_on_times(source, table)
    return with_ends(source, without_outliers(source, table))


def _placed(source: Source, table: JobTable, span: TrustedSpan) -> _PlacedJobs:
    """Return the jobs with the nodes that the log names or, if it names none, with nodes from a
    first-fit placement.
    """
    size = source.options.machine_nodes or source.machine_nodes
    if size is not None and not 1 <= size <= MOST_NODES:
        raise UserError(f"{source.path}: a cluster of {size} nodes, expected 1 to {MOST_NODES:,}")
    unnamed = source.rows.without_ids
    if not unnamed:
        return _PlacedJobs(table, _size_of_named(source, table, size), is_simulated=False)
    if len(table.members):
        raise InputFileError(
            source.name, f"names the nodes of some jobs, but not of {unnamed:,} others"
        )
    check_unit(source)
    used = used_part(source, table, span)
    if size is None:
        check_size(source, used)
    busy_h = node_hours(table, span)
    table, size = _simulate(source, table, size)
    return _PlacedJobs(table, size, is_simulated=True, used_part=used, busy_h=busy_h)


def _lost_periods(
    source: Source, placed: _PlacedJobs, span: TrustedSpan, down: NodePeriods, idle: NodePeriods
) -> NodePeriods:
    """Return the periods in which nodes ran no job but were down or reserved, and so are not idle;
    add a remark.
    """
    if not len(down.nodes):
        return NO_PERIODS
    table = placed.table
    lost = without(idle_periods(table, span), idle, len(table.names), span)
    share = lost.length_h.sum() / (placed.size * sum_h(span))
    source.remarks.append(
        f"{lost.length_h.sum():,.0f} node-hours ({share:.1%} of all) were out of service "
        "or reserved while no job ran: "
        "they do not count as idle (--node-events, --reservations)"
    )
    return lost


def _bounds_of_simulated(
    source: Source, placed: _PlacedJobs, span: TrustedSpan, idle_share: float, service_h: float
) -> tuple[IdleBound, ...]:
    """Return the largest possible idle share of a log without node names, if its jobs share nodes
    (else nothing); warn if jobs did not find as many nodes as they held.
    """
    shared = bound_if_shared(placed.used_part, placed.busy_h, service_h, idle_share)
    unplaced = 1.0 - node_hours_placed(placed.table, span) / max(placed.busy_h, 1.0)
    warn_of_unplaced(source, unplaced)
    return () if shared is None else (shared,)


def _signs_of_a_part(source: Source, table: JobTable) -> Iterator[str]:
    """Yield, in words, what shows that the log lacks jobs (:func:`signs_of_a_part`)."""
    yield from signs_of_a_part(
        len(table.node_counts),
        _accounts_of(source, table),
        source.dialect.account,
        source.states,
        {table.all_needs[place].partition for place in np.unique(table.needs).tolist()},
        source.missing_ids,
    )


def _accounts_of(source: Source, table: JobTable) -> Set[str]:
    """Return the accounts of all jobs. For SWF it returns none: a site without groups writes group
    1 for every job, which would look like a single account.
    """
    if source.dialect is SWF:
        return set()
    return {table.all_needs[place].account for place in np.unique(table.needs).tolist()}


def queue_of(table: JobTable, facts: Set[JobFact], dialect: Dialect) -> Queue | None:
    """Return the log's queue, or None if no job ever waited (submit times missing, or equal to the
    start).

    The table cannot be used afterwards: a log may have 44 million jobs, so its columns are sorted
    in place and become those of the queue.

    A dependency, a begin time or a hold keeps a job from being eligible. Such a job is in the queue
    twice: from its submission to when it is eligible with that reason, and from then on without it.
    Where the two times are equal, the log does not tell them apart, and the reason counts for the
    whole wait.
    """
    if not any((~(table.start_s[part] <= table.eligible_s[part])).any() for part in table.parts()):
        return None
    early = np.array([needed.block in BEFORE_ELIGIBLE for needed in table.all_needs])
    twice = table.where(
        lambda part: early[table.needs[part]] & (table.eligible_s[part] > table.submit_s[part])
    )
    freed = dict.fromkeys(replace(needed, block=Block.NONE) for needed in table.all_needs)
    all_needs = (*table.all_needs, *freed)
    place = {needs: len(table.all_needs) + k for k, needs in enumerate(freed)}
    free = np.array([place[replace(needed, block=Block.NONE)] for needed in table.all_needs])
    if len(twice):
        eligible_s, submit_s = table.eligible_s[twice], table.submit_s[twice]
        until_s = np.where(np.isfinite(eligible_s), eligible_s, table.end_s[twice])
        held = {
            "eligible_s": submit_s,
            "start_s": until_s,
            "end_s": until_s,
            "limit_s": table.limit_s[twice],
        }
        needs = table.needs if len(all_needs) < 2**15 else table.needs.astype(np.int32)
        before, needs[twice] = needs[twice], free[needs[twice]]
        columns: dict[str, Any] = {
            name: getattr(table, name).plus(times) for name, times in held.items()
        }
        node_counts = np.concatenate((table.node_counts, table.node_counts[twice]))
        table = replace(
            table, node_counts=node_counts, needs=np.concatenate((needs, before)), **columns
        )
    times = (table.eligible_s, table.start_s, table.end_s, table.limit_s)
    eligible = table.eligible_s.kept
    if (eligible[1:] < eligible[:-1]).any():
        order = np.argsort(eligible, kind="stable")
        every = (*(column.kept for column in times), table.node_counts, table.needs)
        for column in {id(column): column for column in every}.values():
            column[:] = column[order]
    return Queue(
        *times[:3],
        table.node_counts,
        table.limit_s,
        table.needs,
        all_needs,
        frozenset(facts),
        dialect=dialect,
    )


def _on_skipped(
    source: Source, table: JobTable, span: TrustedSpan, idle_share: float, service_h: float
) -> str:
    """Return a remark with the bounds of the idle share: what skipped jobs held counts as idle, but
    they may be as large as the largest of the others.
    """
    tally = source.tally
    least = max(idle_share - _node_hours_of_largest(table, span, tally.skipped) / service_h, 0.0)
    return (
        f"{counted(tally.skipped, 'job was', 'jobs were')} skipped "
        f"({tally.bad_share:.1%}); what they held counts "
        f"as idle: {idle_share:.1%} of the "
        f"node-time, or down to {least:.1%} if they were as large as the {tally.skipped:,} "
        "largest of the others"
    )


def _node_hours_of_largest(table: JobTable, span: TrustedSpan, jobs: int) -> float:
    """Return the node-hours that the ``jobs`` largest jobs held inside the span."""
    largest = np.empty(0)
    for start_s, end_s, nodes in table.runs():
        held_h = (
            (np.clip(end_s, span.start_s, span.end_s) - np.clip(start_s, span.start_s, span.end_s))
            * nodes
            / 3600
        )
        largest = np.sort(np.concatenate((largest, held_h)))[-jobs:]
    return float(largest.sum())


def _unavailable(
    source: Source, table: JobTable, span: TrustedSpan, *, is_simulated: bool
) -> NodePeriods:
    """Return the periods of --node-events and --reservations in which nodes of the log were down or
    reserved.

    Raises :class:`UserError` if the log names no nodes, or none of those in the files.
    """
    options = source.options
    outages = [] if options.node_events is None else read_events(source, options.node_events)
    outages += (
        [] if options.reservations is None else read_reservations(source, options.reservations)
    )
    if not outages:
        return NO_PERIODS
    if is_simulated:
        raise UserError(
            f"{source.path}: names no nodes, so --node-events and --reservations cannot be "
            "used; expected a log that names them"
        )
    number = {name: place for place, name in enumerate(table.names)}
    node_outages = [
        (number[name], outage) for outage in outages for name in outage.nodes if name in number
    ]
    if not node_outages:
        raise UserError(
            f"none of the nodes in --node-events and --reservations is in {source.path}; its "
            "nodes have names like "
            f"{table.names[0]}, those have names like {outages[0].nodes[0]}"
        )
    return periods_of(
        [node for node, _ in node_outages],
        [outage.start_s for _, outage in node_outages],
        [outage.end_s for _, outage in node_outages],
        span,
    )


def _site(source: Source, table: JobTable, span: TrustedSpan, lost: NodePeriods) -> SiteFacts:
    """Return what the log tells of nodes, of the use of their cores and devices, and of the
    ``lost`` periods; add remarks.
    """
    facts = with_node_info(source, nodes_from_jobs(table, span.end_s))
    use = use_of(table, span.start_s, span.end_s, span.outages)
    if facts.left_out:
        source.remarks.append(
            f"{facts.left_out:,} rare partitions and constraints are treated as all nodes"
        )
    if facts.jobs_per_busy_node >= LEAST_SHARED:
        place = source.dialect.places.get(JobFact.USE, "")
        hint = f" ({place} has it)" if place else ""
        more = "" if use else f"; which part of a busy node is idle is not in the log{hint}"
        source.remarks.append(
            f"jobs share nodes: {facts.jobs_per_busy_node:.1f} jobs a busy node{more}"
        )
    return SiteFacts(
        facts, use, lost.nodes, span.start_s + lost.since / 1000, span.start_s + lost.until / 1000
    )


def _simulate(source: Source, table: JobTable, size: int | None) -> tuple[JobTable, int]:
    """Place the jobs by first-fit on a cluster of ``size`` nodes (None: as many as were busy at
    once); return the placed jobs and the size.
    """
    why = "--machine-nodes" if source.options.machine_nodes else source.machine_why
    if size is None:
        size, why = (
            most_at_once(table),
            "guessed: the most nodes busy at once; specify the size with --machine-nodes",
        )
    if not 1 <= size <= MOST_NODES:
        raise UserError(f"{source.path}: a cluster of {size} nodes, expected 1 to {MOST_NODES:,}")
    # A simulated node takes 770 bytes at the peak: its name, and an idle period or two.
    source.rows.take_room(
        0,
        6 * size
        + sum(int(np.minimum(node_counts, size).sum()) for *_, node_counts in table.runs()),
    )
    placed, short = place(table, size)
    source.remarks.append(f"{NOTE}; a cluster of {counted(size, 'node')} ({why})")
    if short:
        source.remarks.append(
            f"{counted(short, 'job')} asked for more nodes than were free and got "
            "the free ones; the "
            "cluster may have more than "
            f"{counted(size, 'node')}"
        )
    return placed, size


def _size_of_named(source: Source, table: JobTable, size: int | None) -> int:
    """Return the number of nodes that the log names, which idle shares refer to; add a remark on
    how it compares with ``size``, the size that was specified or recorded (None: neither).
    """
    seen = len(table.names)
    if size is None:
        source.remarks.append(
            f"a cluster of {counted(seen, 'node')} (guessed: those named in the "
            "log; specify the size "
            "with --machine-nodes)"
        )
        return seen
    why = "--machine-nodes" if source.options.machine_nodes else source.machine_why
    if size < seen:
        if source.options.machine_nodes:
            raise UserError(f"--machine-nodes {size}: {source.path} names {counted(seen, 'node')}")
        source.remarks.append(
            f"a cluster of {counted(seen, 'node')} (named in the log; {size:,} according to {why})"
        )
        return seen
    unseen = (
        f"; {size - seen:,} of them never ran a job: shares are of the {seen:,} others"
        if size > seen
        else ""
    )
    source.remarks.append(f"a cluster of {counted(size, 'node')} ({why}){unseen}")
    return seen


def _remark_on_times(source: Source, table: JobTable) -> None:
    """Add remarks on how many jobs started and still run, and on times whose time zone is a guess
    or seems wrong.
    """
    started = [
        (~np.isnan(table.start_s[part]), np.isinf(table.end_s[part])) for part in table.parts()
    ]
    jobs, ran = len(table.node_counts), sum(int(has_started.sum()) for has_started, _ in started)
    still = sum(int((has_started & endless).sum()) for has_started, endless in started)
    source.remarks.append(
        f"{counted(jobs, 'job')}: {ran:,} started, {still:,} of them still running; {jobs - ran:,} "
        "never started"
    )
    clock = source.clock
    if clock.used_local and source.options.timezone is None:
        source.remarks.append(
            "times without a zone are read as UTC; specify the site's zone with --timezone, "
            "like Europe/Zurich"
        )
    if clock.shifted:
        zone = source.options.timezone
        source.remarks.append(
            f"{counted(clock.shifted, 'job')} ran exactly an hour (or half of "
            "one) longer or shorter "
            "than their elapsed time says: the "
            f"times are not in {zone or 'UTC'}, or clocks were set; "
            + (f"check --timezone {zone}" if zone else "specify the site's zone with --timezone")
        )
    if clock.repeated:
        source.remarks.append(
            f"{counted(clock.repeated, 'time is', 'times are')} in the hour that "
            "is repeated when clocks go back"
        )
