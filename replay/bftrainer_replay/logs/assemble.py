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
from bftrainer_replay.logs.first_fit import NOTE, most_at_once, place_jobs
from bftrainer_replay.logs.idle import (
    NO_PERIODS,
    NodePeriods,
    idle_events,
    idle_periods,
    periods_of,
    uncovered_parts,
)
from bftrainer_replay.logs.idle_gpus import log_in_gpus
from bftrainer_replay.logs.job_needs import BEFORE_ELIGIBLE, Block, JobFact
from bftrainer_replay.logs.jobs import JobTable
from bftrainer_replay.logs.logged_nodes import LoggedNodes, nodes_from_jobs
from bftrainer_replay.logs.model import NO_FACTS, EventLog, IdleBound, Queue, SiteFacts
from bftrainer_replay.logs.node_events import read_events, read_reservations
from bftrainer_replay.logs.node_groups import NodeGroups, grouped
from bftrainer_replay.logs.node_info import with_node_info
from bftrainer_replay.logs.partial import signs_of_a_part
from bftrainer_replay.logs.plausible import with_ends, without_outliers
from bftrainer_replay.logs.resource_use import use_of
from bftrainer_replay.logs.silent import remark_on_silence, sum_h
from bftrainer_replay.logs.source import Source
from bftrainer_replay.logs.span import TrustedSpan, span_of

LEAST_SHARED = 1.05
"""Mean number of jobs on a busy node from which on nodes count as shared. Epilogs that overlap the
next job give a smaller number.
"""
MOST_NODES = 2_000_000
"""Limit for the size of a cluster. Sequoia had 1,572,864 processors, and each counts as a node in a
log that does not say how many processors a node has.
"""


@dataclass(frozen=True, slots=True)
class _PlacedJobs:
    """The jobs of a log on nodes, as many as the cluster has.

    ``size`` is the number of nodes of the cluster. ``is_simulated``: the log names no nodes, and
    jobs were placed by first-fit. ``used_part`` is then the part of a busy node that jobs use
    (None: not recorded), and ``busy_h`` are the node-hours of all jobs before they were placed.
    """

    table: JobTable
    size: int
    is_simulated: bool
    used_part: float | None = None
    busy_h: float = 0.0


def event_log_of(source: Source, format_name: str) -> EventLog:
    """Return the event log (which nodes were idle when) of a job log that has been read into
    ``source``.

    Guesses what the log does not tell, places jobs without node names on simulated nodes, derives
    the idle nodes, and completes ``source.remarks``. ``format_name`` is for messages. The rows of
    ``source`` cannot be used afterwards.
    """
    table = _checked_table(source, format_name)
    span = span_of(source, table)
    placed = _jobs_with_nodes(source, table, span)
    table, size = placed.table, placed.size
    down = _unavailable_periods(source, table, span, names_no_nodes=placed.is_simulated)
    jobs_of_groups, groups = _jobs_on_groups(source, table, down)
    groups_down = replace(down, nodes=groups.of_node[down.nodes])
    idle = idle_periods(jobs_of_groups, span, groups_down)
    lost = _lost_periods(source, placed, span, down, idle, groups)
    # The node-hours to which idle shares refer; at least 1, so that they can be divided by.
    service_h = max(size * sum_h(span) - lost.length_h.sum(), 1.0)
    idle_share = idle.node_h(groups) / service_h
    if source.tally.skipped:
        source.remarks.append(_on_skipped(source, table, span, idle_share, service_h))
    bounds: tuple[IdleBound, ...] = ()
    silent = None
    if placed.is_simulated:
        bounds = _bounds_of_simulated(source, placed, span, idle_share, service_h)
    else:
        silent = remark_on_silence(source, idle, groups, service_h, span)
    events = idle_events(idle, groups, span, source.options.debounce_s)
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
        facts = nodes_from_jobs(table, jobs_of_groups, groups, span.end_s)
        site = replace(_site_facts(source, table, span, lost, facts), silent=silent)
    site = replace(site, only_user=source.only_user, missing_jobs=missing_jobs)
    note = NOTE if placed.is_simulated else ""
    name = f"{source.name} ({NOTE.partition(':')[0]})" if placed.is_simulated else source.name
    log = EventLog(
        events=events,
        source=name,
        note="; ".join(filter(None, (note, *source.warnings))),
        machine_nodes=size,
        debounce_s=source.options.debounce_s,
        clock="UTC",
        outages=span.outages,
        site=site,
    )
    in_gpus = log_in_gpus(source, table, span, down, log) if source.options.unit == "gpu" else None
    # The queue is in another order and does not need the nodes of jobs, which take most of the
    # memory: they are freed before it is sorted.
    del placed, jobs_of_groups
    table = table.without_nodes()
    log = replace(log, queue=queue_of(table, source.facts, source.dialect))
    if in_gpus is None or in_gpus.gpus is None:
        return log
    return replace(in_gpus, gpus=replace(in_gpus.gpus, by_node=log))


def _checked_table(source: Source, format_name: str) -> JobTable:
    """Return the jobs of the log, without records that would bend every figure (:mod:`.plausible`).

    Jobs are checked to be of one cluster; those dated far from all others are left out, and those
    that ran beyond their limit get an end. Raises :class:`InputFileError` for a log without jobs.
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


def _jobs_with_nodes(source: Source, table: JobTable, span: TrustedSpan) -> _PlacedJobs:
    """Return the jobs with the nodes that the log names or, if it names none, with simulated ones.

    Simulated nodes are the first free ones at each start. Raises :class:`UserError` for an
    impossible size of the cluster, and :class:`InputFileError` for a log that names the nodes of
    some jobs only.
    """
    size = source.options.machine_nodes or source.machine_nodes
    if size is not None and not 1 <= size <= MOST_NODES:
        raise UserError(f"{source.path}: a cluster of {size} nodes, expected 1 to {MOST_NODES:,}")
    n_unnamed = source.rows.without_ids
    if not n_unnamed:
        return _PlacedJobs(table, _size_of_named(source, table, size), is_simulated=False)
    if len(table.members):
        raise InputFileError(
            source.name, f"names the nodes of some jobs, but not of {n_unnamed:,} others"
        )
    check_unit(source)
    used = used_part(source, table, span)
    if size is None:
        check_size(source, used)
    busy_h = node_hours(table, span)
    table, size = _place_by_first_fit(source, table, size)
    return _PlacedJobs(table, size, is_simulated=True, used_part=used, busy_h=busy_h)


def _jobs_on_groups(
    source: Source, table: JobTable, down: NodePeriods
) -> tuple[JobTable, NodeGroups]:
    """Return the jobs on groups of nodes that are alike, which save memory, and the groups.

    Nodes are alike if the same jobs ran on them (:func:`grouped`). Nodes that were down are not,
    nor are any if --node-info tells what each has.
    """
    if source.options.node_info is not None:
        return table, NodeGroups.alone(table.names)
    return grouped(table, np.unique(down.nodes))


def _lost_periods(
    source: Source,
    placed: _PlacedJobs,
    span: TrustedSpan,
    down: NodePeriods,
    idle: NodePeriods,
    groups: NodeGroups,
) -> NodePeriods:
    """Return the periods in which nodes ran no job but were down or reserved, and so are not idle.

    Adds a remark on them. ``down`` are the periods of nodes that were down, with or without a job;
    ``idle`` those in which ``groups`` of nodes are idle.
    """
    if not len(down.nodes):
        return NO_PERIODS
    table = placed.table
    idle = idle.of_nodes(groups)
    # Idle if nothing had been down, less what is idle as things were.
    lost = uncovered_parts(idle_periods(table, span), idle, len(table.names), span)
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
    """Return the largest possible idle share of a log without node names, if its jobs share nodes.

    Empty if they do not. Warns if jobs were placed on fewer nodes than they held.
    """
    bound = bound_if_shared(placed.used_part, placed.busy_h, service_h, idle_share)
    unplaced_share = 1.0 - node_hours_placed(placed.table, span) / max(placed.busy_h, 1.0)
    warn_of_unplaced(source, unplaced_share)
    return () if bound is None else (bound,)


def _signs_of_a_part(source: Source, table: JobTable) -> Iterator[str]:
    """Yield, in words, what shows that the log lacks jobs (:func:`signs_of_a_part`)."""
    yield from signs_of_a_part(
        jobs=len(table.node_counts),
        accounts=_accounts_of(source, table),
        account_word=source.dialect.account,
        states=source.states,
        partitions={table.all_needs[k].partition for k in np.unique(table.needs).tolist()},
        missing_ids=source.missing_ids,
    )


def _accounts_of(source: Source, table: JobTable) -> Set[str]:
    """Return the accounts of all jobs. For SWF it returns none: a site without groups writes group
    1 for every job, which would look like a single account.
    """
    if source.dialect is SWF:
        return set()
    return {table.all_needs[k].account for k in np.unique(table.needs).tolist()}


def queue_of(table: JobTable, facts: Set[JobFact], dialect: Dialect) -> Queue | None:
    """Return the log's queue, or None if no job ever waited (submit times missing, or equal to the
    start).

    The table cannot be used afterwards: a log may have 44 million jobs, so its columns are sorted
    in place and become those of the queue.

    A job with a dependency, a begin time or a hold is in the queue twice: see
    :func:`_with_early_waits`.
    """
    # The negation also finds jobs that never started, whose start is NaN.
    if not any((~(table.start_s[part] <= table.eligible_s[part])).any() for part in table.parts()):
        return None
    table = _with_early_waits(table)
    times = (table.eligible_s, table.start_s, table.end_s, table.limit_s)
    eligible = table.eligible_s.packed
    if (eligible[1:] < eligible[:-1]).any():
        order = np.argsort(eligible, kind="stable")
        columns = (*(column.packed for column in times), table.node_counts, table.needs)
        # Two columns may be the same array, which is sorted once.
        for column in {id(column): column for column in columns}.values():
            column[:] = column[order]
    return Queue(
        eligible_s=table.eligible_s,
        start_s=table.start_s,
        end_s=table.end_s,
        nodes=table.node_counts,
        limit_s=table.limit_s,
        needs=table.needs,
        all_needs=table.all_needs,
        facts=frozenset(facts),
        dialect=dialect,
    )


def _with_early_waits(table: JobTable) -> JobTable:
    """Return a table in which jobs with a reason not to be eligible at first have two rows.

    The reason is a dependency, a begin time or a hold. The added row waits from the submission to
    the time when the job is eligible, with that reason; the job's own row from then on, without it.
    The ``needs`` of the table are changed in place.

    Where the two times are equal, the log does not tell the two waits apart, and the reason counts
    for the whole wait. The table returned has no submit times, nodes or uses of the new rows.
    """
    is_early = np.array([needs.block in BEFORE_ELIGIBLE for needs in table.all_needs])
    split = table.jobs_where(
        lambda part: is_early[table.needs[part]] & (table.eligible_s[part] > table.submit_s[part])
    )
    # The same needs without the reason follow the others; unblocked[k] is the index of these for
    # all_needs[k].
    without_block = [replace(needs, block=Block.NONE) for needs in table.all_needs]
    unique = dict.fromkeys(without_block)
    index_of = {needs: len(table.all_needs) + k for k, needs in enumerate(unique)}
    unblocked = np.array([index_of[needs] for needs in without_block])
    all_needs = (*table.all_needs, *unique)
    if not len(split):
        return replace(table, all_needs=all_needs)
    eligible_s = table.eligible_s[split]
    early_end_s = np.where(np.isfinite(eligible_s), eligible_s, table.end_s[split])
    early_times = {
        "eligible_s": table.submit_s[split],
        "start_s": early_end_s,
        "end_s": early_end_s,
        "limit_s": table.limit_s[split],
    }
    # Indices beyond 32,767 do not fit into 16 bits.
    needs = table.needs if len(all_needs) < 2**15 else table.needs.astype(np.int32)
    early_needs = needs[split]
    needs[split] = unblocked[early_needs]
    columns: dict[str, Any] = {
        name: getattr(table, name).extended(times) for name, times in early_times.items()
    }
    return replace(
        table,
        node_counts=np.concatenate((table.node_counts, table.node_counts[split])),
        needs=np.concatenate((needs, early_needs)),
        all_needs=all_needs,
        **columns,
    )


def _on_skipped(
    source: Source, table: JobTable, span: TrustedSpan, idle_share: float, service_h: float
) -> str:
    """Return a remark with the bounds of the idle share for a log of which jobs were skipped.

    The nodes of skipped jobs count as idle, but these jobs may be as large as the largest of the
    others.
    """
    tally = source.tally
    skipped_h = _node_hours_of_largest(table, span, tally.skipped)
    least_share = max(idle_share - skipped_h / service_h, 0.0)
    return (
        f"{counted(tally.skipped, 'job was', 'jobs were')} skipped "
        f"({tally.bad_share:.1%}); what they held counts "
        f"as idle: {idle_share:.1%} of the "
        f"node-time, or down to {least_share:.1%} if they were as large as the {tally.skipped:,} "
        "largest of the others"
    )


def _node_hours_of_largest(table: JobTable, span: TrustedSpan, n_jobs: int) -> float:
    """Return the node-hours that the ``n_jobs`` largest jobs held inside the span.

    Only the largest so far are kept from one part of the log to the next.
    """
    largest_h = np.empty(0)
    for starts_s, ends_s, node_counts in table.runs():
        begin_s = np.clip(starts_s, span.start_s, span.end_s)
        end_s = np.clip(ends_s, span.start_s, span.end_s)
        job_h = (end_s - begin_s) * node_counts / 3600
        largest_h = np.sort(np.concatenate((largest_h, job_h)))[-n_jobs:]
    return float(largest_h.sum())


def _unavailable_periods(
    source: Source, table: JobTable, span: TrustedSpan, *, names_no_nodes: bool
) -> NodePeriods:
    """Return the periods in which nodes of the log were down or reserved, from the user's files.

    They are the files of --node-events and --reservations. Raises :class:`UserError` if there are
    such periods and the log names no nodes, or none of those in the files.
    """
    options = source.options
    outages = [] if options.node_events is None else read_events(source, options.node_events)
    outages += (
        [] if options.reservations is None else read_reservations(source, options.reservations)
    )
    if not outages:
        return NO_PERIODS
    if names_no_nodes:
        raise UserError(
            f"{source.path}: names no nodes, so --node-events and --reservations cannot be "
            "used; expected a log that names them"
        )
    index_of = {name: index for index, name in enumerate(table.names)}
    node_outages = [
        (index_of[name], outage) for outage in outages for name in outage.nodes if name in index_of
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


def _site_facts(
    source: Source, table: JobTable, span: TrustedSpan, lost: NodePeriods, facts: LoggedNodes
) -> SiteFacts:
    """Return what the log tells of its nodes, of the use of their cores and devices, and of
    outages.

    ``facts`` are those of the jobs, to which --node-info adds; in the ``lost`` periods, nodes were
    out of service. Adds remarks.
    """
    facts = with_node_info(source, facts)
    use = use_of(table, span.start_s, span.end_s, span.outages)
    if facts.left_out:
        source.remarks.append(
            f"{facts.left_out:,} rare partitions and constraints are treated as all nodes"
        )
    if facts.jobs_per_busy_node >= LEAST_SHARED:
        column = source.dialect.places.get(JobFact.USE, "")
        hint = f" ({column} has it)" if column else ""
        lack = "" if use else f"; which part of a busy node is idle is not in the log{hint}"
        source.remarks.append(
            f"jobs share nodes: {facts.jobs_per_busy_node:.1f} jobs a busy node{lack}"
        )
    return SiteFacts(
        nodes=facts,
        use=use,
        down=lost.nodes,
        down_s=span.start_s + lost.since / 1000,
        down_until_s=span.start_s + lost.until / 1000,
    )


def _place_by_first_fit(source: Source, table: JobTable, size: int | None) -> tuple[JobTable, int]:
    """Return the jobs on simulated nodes, the first free ones at each start, and the cluster's
    size.

    ``size`` is the number of nodes; None takes as many as were busy at once.
    """
    origin = "--machine-nodes" if source.options.machine_nodes else source.machine_why
    if size is None:
        size = most_at_once(table)
        origin = "guessed: the most nodes busy at once; specify the size with --machine-nodes"
    if not 1 <= size <= MOST_NODES:
        raise UserError(f"{source.path}: a cluster of {size} nodes, expected 1 to {MOST_NODES:,}")
    n_places = sum(int(np.minimum(counts, size).sum()) for _, _, counts in table.runs())
    # A simulated node takes 770 bytes at the peak, or six places: its name, and an idle period or
    # two.
    source.rows.take_room(0, 6 * size + n_places)
    placed, n_short = place_jobs(table, size)
    source.remarks.append(f"{NOTE}; a cluster of {counted(size, 'node')} ({origin})")
    if n_short:
        source.remarks.append(
            f"{counted(n_short, 'job')} asked for more nodes than were free and got "
            "the free ones; the "
            "cluster may have more than "
            f"{counted(size, 'node')}"
        )
    return placed, size


def _size_of_named(source: Source, table: JobTable, size: int | None) -> int:
    """Return the number of nodes that the log names, which idle shares refer to.

    ``size`` is the size that was specified or recorded (None: neither): a remark says how it
    compares. Nodes that never ran a job are not in the log, so a larger ``size`` does not count.
    """
    n_named = len(table.names)
    if size is None:
        source.remarks.append(
            f"a cluster of {counted(n_named, 'node')} (guessed: those named in the "
            "log; specify the size "
            "with --machine-nodes)"
        )
        return n_named
    origin = "--machine-nodes" if source.options.machine_nodes else source.machine_why
    if size < n_named:
        if source.options.machine_nodes:
            raise UserError(
                f"--machine-nodes {size}: {source.path} names {counted(n_named, 'node')}"
            )
        source.remarks.append(
            f"a cluster of {counted(n_named, 'node')} (named in the log; "
            f"{size:,} according to {origin})"
        )
        return n_named
    remainder = (
        f"; {size - n_named:,} of them never ran a job: shares are of the {n_named:,} others"
        if size > n_named
        else ""
    )
    source.remarks.append(f"a cluster of {counted(size, 'node')} ({origin}){remainder}")
    return n_named


def _remark_on_times(source: Source, table: JobTable) -> None:
    """Add remarks on the times of jobs: how many have started and still run, and doubtful time
    zones.

    A zone is doubtful if times name none and the user has not either, or if run times do not match.
    """
    flags = [
        (~np.isnan(table.start_s[part]), np.isinf(table.end_s[part])) for part in table.parts()
    ]
    n_jobs = len(table.node_counts)
    n_started = sum(int(has_started.sum()) for has_started, _ in flags)
    n_running = sum(int((has_started & has_no_end).sum()) for has_started, has_no_end in flags)
    source.remarks.append(
        f"{counted(n_jobs, 'job')}: {n_started:,} started, {n_running:,} of them still running; "
        f"{n_jobs - n_started:,} never started"
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
