"""The last step of every job importer: the collected jobs become an event log with its queue, and remarks."""

from __future__ import annotations

import numpy as np

from bftrainer.errors import InputFileError, UserError
from bftrainer_replay.logs.first_fit import NOTE, most_at_once, place
from bftrainer_replay.logs.idle import idle_events
from bftrainer_replay.logs.jobs import JobTable
from bftrainer_replay.logs.model import EventLog, Queue
from bftrainer_replay.logs.source import Source
from bftrainer_replay.logs.span import span_of

MOST_NODES = 2_000_000
"""Sequoia had 1,572,864 processors, which count as nodes in a log that does not say how many are in one."""


def event_log_of(source: Source, format_name: str) -> EventLog:
    """Guess what the log does not tell, place jobs without node names, and derive the idle nodes; completes the remarks."""
    rows, tally = source.rows, source.tally
    if source.lines.cut:
        source.remarks.append("the last line does not end with a newline; the file may be truncated")
    if not len(rows):
        raise InputFileError(tally.path, f"looks like {format_name}, but none of its {tally.read:,} records is a job")
    table = rows.table()
    _remark_on_times(source, table)
    span = span_of(source, table)
    note, size = "", source.options.machine_nodes or source.machine_nodes
    if size is not None and not 1 <= size <= MOST_NODES:
        raise UserError(f"{source.path}: a cluster of {size} nodes, expected 1 to {MOST_NODES:,}")
    if rows.without_ids:
        if len(table.members):
            raise InputFileError(tally.path, f"names the nodes of some jobs, but not of {rows.without_ids:,} others")
        table, size = _simulate(source, table, size)
        note = NOTE
    else:
        size = _size_of_named(source, table, size)
    events = idle_events(table, span, source.options.debounce_s)
    if source.options.debounce_s:
        source.remarks.append(
            f"idle periods and waits shorter than {source.options.debounce_s:g} s are ignored (--debounce-s)"
        )
    name = f"{source.path} ({NOTE.partition(':')[0]})" if note else str(source.path)
    return EventLog(
        events, name, note, _queue_of(table), size, source.options.debounce_s, clock="UTC", outages=span.outages
    )


def _simulate(source: Source, table: JobTable, size: int | None) -> tuple[JobTable, int]:
    why = "--machine-nodes" if source.options.machine_nodes else source.machine_why
    if size is None:
        size, why = most_at_once(table), "guessed: the most nodes busy at once; specify the size with --machine-nodes"
    if not 1 <= size <= MOST_NODES:
        raise UserError(f"{source.path}: a cluster of {size} nodes, expected 1 to {MOST_NODES:,}")
    ran = table.end_s > table.start_s
    # A simulated node takes 770 bytes at the peak: its name, and an idle period or two.
    source.rows.take_room(0, 6 * size + int(np.minimum(table.asked[ran], size).sum()))
    placed, short = place(table, size)
    source.remarks.append(f"{NOTE}; a cluster of {size:,} nodes ({why})")
    if short:
        source.remarks.append(
            f"{short:,} jobs asked for more nodes than were free and got the free ones; the cluster may have more than "
            f"{size:,} nodes"
        )
    return placed, size


def _size_of_named(source: Source, table: JobTable, size: int | None) -> int:
    seen = len(table.names)
    if size is None:
        source.remarks.append(
            f"a cluster of {seen:,} nodes (guessed: those named in the log; specify the size with --machine-nodes)"
        )
        return seen
    why = "--machine-nodes" if source.options.machine_nodes else source.machine_why
    if size < seen:
        if source.options.machine_nodes:
            raise UserError(f"--machine-nodes {size}: {source.path} names {seen:,} nodes")
        source.remarks.append(f"a cluster of {seen:,} nodes (named in the log; {size:,} according to {why})")
        return seen
    unseen = f"; {size - seen:,} of them never ran a job and do not count as idle" if size > seen else ""
    source.remarks.append(f"a cluster of {size:,} nodes ({why}){unseen}")
    return size


def _remark_on_times(source: Source, table: JobTable) -> None:
    started, over = ~np.isnan(table.start_s), np.isfinite(table.end_s)
    jobs, ran, still = len(started), int(started.sum()), int((started & ~over).sum())
    source.remarks.append(
        f"{jobs:,} jobs: {ran:,} started, {still:,} of them still running; {jobs - ran:,} never started"
    )
    clock = source.clock
    if clock.used_local and source.options.timezone is None:
        source.remarks.append(
            "times without a zone are read as UTC; specify the site's zone with --timezone, like Europe/Zurich"
        )
    if clock.repeated:
        source.remarks.append(f"{clock.repeated:,} times are in the hour that is repeated when clocks go back")


def _queue_of(table: JobTable) -> Queue | None:
    """The queue, or None if no job of the log ever waited (submit times missing, or equal to the start)."""
    waited = np.isnan(table.start_s) | (table.start_s > table.eligible_s)
    if not waited.any():
        return None
    order = np.argsort(table.eligible_s, kind="stable")
    return Queue(
        table.submit_s[order],
        table.eligible_s[order],
        table.start_s[order],
        table.end_s[order],
        table.asked[order],
    )
