"""Which part of a job log to trust, and when the cluster was down: guesses that are printed, and
options that override them.

A log is cut from a longer history. A log selected by submission or start lacks the jobs that were
already running when it begins; a log selected by end (accounting files, ``sacct -E``) lacks those
that were still running when it was taken. At that edge busy nodes look idle. Where far fewer nodes
are busy at an edge than on average, the edge is cut off: by the 99th percentile of the run times,
at most by 24 h or a tenth of the log.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bftrainer.counted import counted
from bftrainer.errors import InputFileError, UserError
from bftrainer_replay.logs.columns import Times
from bftrainer_replay.logs.event_log import format_time
from bftrainer_replay.logs.jobs import JobTable
from bftrainer_replay.logs.source import Source

LONGEST_GUESS_H = 24.0
SHORTEST_OUTAGE_S = 3600.0
_QUIET_SHARE = 0.01
"""Share of the span without running and waiting jobs from which on a remark tells of it."""

_LAST_START = "submission"
_LAST_TIME = "time in the log (jobs are still running)"
_LAST_ELAPSED = "time at which jobs were running, by their elapsed times"

Span = tuple[float, float]


@dataclass(frozen=True, slots=True)
class TrustedSpan:
    """The part of the log to trust, and the outages (start_s, end_s) in it."""

    start_s: float
    end_s: float
    outages: tuple[tuple[float, float], ...]


def span_of(source: Source, table: JobTable) -> TrustedSpan:
    """Return the part of the log to trust, and the outages in it; add remarks to ``source``.

    Both are as the options specify, or guessed: ``auto`` takes time without a running job, although
    one waits, for an outage.
    """
    start_s, end_s = _to_trust(source, table)
    texts = source.options.outages
    outages: list[tuple[float, float]] = []
    for text in texts:
        if text == "auto":
            likely_outages, quiet = _empty_spans(table, start_s, end_s)
            outages += likely_outages
            source.remarks += _remarks_on_quiet(quiet, end_s - start_s)
        elif text != "none":
            outages.append(_specified_outage(source, text))
    if outages:
        hours = sum(end - start for start, end in outages) / 3600
        listed = ", ".join(f"{format_time(start)}/{format_time(end)}" for start, end in outages[:3])
        guess = (
            "guessed: no job runs for an hour or more although one waits; --outage none "
            "counts such time as idle"
        )
        source.remarks.append(
            f"{counted(len(outages), 'outage')} excluded, {hours:,.1f} h in all "
            f"({guess if 'auto' in texts else 'as specified'}): "
            f"{listed}{', ...' if len(outages) > 3 else ''}"
        )
    return TrustedSpan(start_s, end_s, tuple(outages))


@dataclass(frozen=True, slots=True)
class _RecordedSpan:
    """The time span that the log covers, before its edges are cut off.

    ``mean_busy`` is the mean number of busy nodes in the span. ``has_running``: some jobs had not
    ended when the log was taken. ``ends_when_taken``: the span extends to that time, as the elapsed
    times of these jobs show.
    """

    begin_s: float
    finish_s: float
    mean_busy: float
    has_running: bool
    ends_when_taken: bool

    @property
    def length_s(self) -> float:
        return self.finish_s - self.begin_s

    @property
    def last_moment(self) -> str:
        """What the end of the span is the last of, in words."""
        if self.ends_when_taken:
            return _LAST_ELAPSED
        return _LAST_TIME if self.has_running else _LAST_START


def _to_trust(source: Source, table: JobTable) -> tuple[float, float]:
    """Return start and end of the recorded time, less the edges at which the log lacks jobs.

    These edges are called warm-up and cool-down. Adds remarks. Raises :class:`UserError` if nothing
    is left.
    """
    recorded = _recorded_span(source, table)
    warm_s, cool_s = _edges_s(source, table, recorded)
    begin_s, finish_s = recorded.begin_s, recorded.finish_s
    start_s, end_s = np.round([begin_s + warm_s, finish_s - cool_s], 3).tolist()
    if start_s >= end_s:
        raise UserError(
            f"{source.path}: nothing is left of {format_time(begin_s)} .. {format_time(finish_s)} "
            "after a warm-up of "
            f"{warm_s / 3600:g} h and a cool-down of {cool_s / 3600:g} h; specify shorter ones "
            "with --warm-up-h and "
            "--cool-down-h"
        )
    options = source.options
    source.remarks.append(
        f"using {format_time(start_s)} .. {format_time(end_s)} UTC: from the first end of a "
        "job to the last "
        f"{recorded.last_moment}, less a warm-up of "
        f"{warm_s / 3600:.1f} h ({_option_text(options.warm_up_h)}) and a cool-down of "
        f"{cool_s / 3600:.1f} h "
        f"({_option_text(options.cool_down_h)})"
    )
    if options.warm_up_h is None:
        _remark_on_thin_edge(source, table, recorded, "beginning", start_s, "--warm-up-h")
    if options.cool_down_h is None and not recorded.has_running:
        _remark_on_thin_edge(source, table, recorded, "end", end_s, "--cool-down-h")
    return start_s, end_s


def _recorded_span(source: Source, table: JobTable) -> _RecordedSpan:
    """Return the time for which the log is complete: from the first end of a job to the last
    submission or, while jobs run, to the last time in the log.

    Raises :class:`InputFileError` if no job ran.
    """
    bounds = np.array([_first_and_last(starts_s, ends_s) for starts_s, ends_s, _ in table.runs()])
    if not len(bounds):
        raise InputFileError(source.name, "has no job that ran for any time")
    first_start_s, _, first_end_s, _, _ = bounds.min(axis=0)
    _, last_start_s, _, last_end_s, has_unfinished = bounds.max(axis=0)
    has_running = bool(has_unfinished)
    last_submit_s = max(table.submit_s[part].max() for part in table.parts())
    latest_s = max(last_start_s, last_end_s, last_submit_s)
    begin_s = float(first_end_s) if math.isfinite(first_end_s) else float(first_start_s)
    finish_s = float(latest_s if has_running else min(last_start_s, last_submit_s))
    if begin_s >= finish_s:
        # No job started or was submitted after the first end: the span is all of the log.
        begin_s, finish_s = float(first_start_s), float(latest_s)
    # Elapsed times tell when the log was taken. A log that was selected by time may be taken months
    # after its last time, when few of its jobs still run: such a log ends at its last time.
    mean_busy = _mean_busy(table, begin_s, finish_s)
    taken_s = source.rows.until_s
    # Many jobs still run: the log was taken while the cluster worked on.
    ends_when_taken = finish_s < taken_s and _unfinished_nodes(table) >= mean_busy / 2
    if ends_when_taken:
        finish_s = taken_s
        mean_busy = _mean_busy(table, begin_s, finish_s)
    return _RecordedSpan(begin_s, finish_s, mean_busy, has_running, ends_when_taken)


def _first_and_last(
    starts_s: NDArray[np.float64], ends_s: NDArray[np.float64]
) -> tuple[float, float, float, float, bool]:
    """Return the first and last start, the first and last end, and whether a job has no end."""
    finite_s = ends_s[np.isfinite(ends_s)]
    return (
        starts_s.min(),
        starts_s.max(),
        finite_s.min(initial=math.inf),
        finite_s.max(initial=-math.inf),
        len(finite_s) < len(ends_s),
    )


def _mean_busy(table: JobTable, begin_s: float, finish_s: float) -> float:
    """Return the mean number of busy nodes between two times."""
    node_s = 0.0
    for starts, ends, nodes in table.runs():
        inside_s = np.minimum(ends, finish_s) - np.maximum(starts, begin_s)
        node_s += float(np.dot(np.maximum(inside_s, 0), nodes))
    return node_s / max(finish_s - begin_s, 1.0)


def _unfinished_nodes(table: JobTable) -> int:
    """Return the number of nodes of all jobs without an end."""
    return sum(int(nodes[np.isinf(ends)].sum()) for _, ends, nodes in table.runs())


def _busy_right_after(table: JobTable, at_s: float) -> int:
    """Return the number of nodes that are busy right after this time."""
    return sum(
        int(nodes[(starts <= at_s) & (ends > at_s)].sum()) for starts, ends, nodes in table.runs()
    )


def _busy_right_before(table: JobTable, at_s: float) -> int:
    """Return the number of nodes that are busy right before this time."""
    return sum(
        int(nodes[(starts < at_s) & (ends >= at_s)].sum()) for starts, ends, nodes in table.runs()
    )


def _edges_s(source: Source, table: JobTable, recorded: _RecordedSpan) -> tuple[float, float]:
    """Return the seconds to cut off at the beginning (warm-up) and at the end (cool-down) of the
    log.

    They are as the options say; else an edge is cut off where fewer than half as many nodes are
    busy as on average, because jobs seem to be missing there.
    """
    few_busy = recorded.mean_busy / 2
    run_times = Times.from_parts(
        np.maximum(np.minimum(ends, recorded.finish_s) - starts, 0)
        for starts, ends, _ in table.runs()
    )
    long_run_s = float(np.percentile(run_times.packed, 99, overwrite_input=True))
    # Nearly all jobs run for no longer, with two limits to what is cut off (see the module).
    guess_s = math.floor(min(long_run_s, LONGEST_GUESS_H * 3600, recorded.length_s / 10))
    warm_s = cool_s = 0.0
    if source.options.warm_up_h is not None:
        warm_s = 3600 * source.options.warm_up_h
    elif _busy_right_after(table, recorded.begin_s) < few_busy:
        warm_s = guess_s
    if source.options.cool_down_h is not None:
        cool_s = 3600 * source.options.cool_down_h
    elif not recorded.has_running and _busy_right_before(table, recorded.finish_s) < few_busy:
        # A log with running jobs was not selected by end: it lacks none at its end.
        cool_s = guess_s
    return warm_s, cool_s


def _remark_on_thin_edge(
    source: Source, table: JobTable, recorded: _RecordedSpan, name: str, at_s: float, option: str
) -> None:
    """Add a remark if few nodes are busy at an edge of the part of the log that is used.

    ``name`` is the edge, ``at_s`` its place, which was guessed, and ``option`` moves it.
    """
    busy = _busy_right_after(table, at_s)
    if busy < recorded.mean_busy / 2:
        source.remarks.append(
            f"at its {name} only {busy / recorded.mean_busy:.0%} as many nodes are busy as on "
            "average; "
            "if the log lacks jobs there, "
            f"exclude more with {option}"
        )


def _option_text(option_h: float | None) -> str:
    return "guessed" if option_h is None else "as specified"


def _specified_outage(source: Source, text: str) -> tuple[float, float]:
    """Parse START/END, the value of --outage, as (start_s, end_s); raise :class:`UserError`."""
    first, slash, last = text.partition("/")
    if not slash:
        raise UserError(f"--outage {text!r:.60}: expected START/END, auto or none")
    try:
        start, end = source.clock.seconds(first.strip()), source.clock.seconds(last.strip())
    except ValueError as error:
        raise UserError(
            f"--outage {text!r:.60}: expected START/END, auto or none ({error})"
        ) from error
    if not start < end:
        raise UserError(f"--outage {text}: expected an end later than the start")
    return start, end


def _empty_spans(table: JobTable, start_s: float, end_s: float) -> tuple[list[Span], list[Span]]:
    """Return the times of an hour or more in which no job runs: likely outages, and others.

    In a likely outage, some job waits for all of the last hour.
    """
    likely_outages: list[Span] = []
    quiet: list[Span] = []
    for empty_from, empty_to in _gaps_without_jobs(table, start_s, end_s):
        if empty_to - empty_from < SHORTEST_OUTAGE_S:
            continue
        last_hour_s = empty_to - SHORTEST_OUTAGE_S
        has_waiting = any(
            ((table.eligible_s[part] <= last_hour_s) & (table.waits_until(part) >= empty_to)).any()
            for part in table.parts()
        )
        (likely_outages if has_waiting else quiet).append((empty_from, empty_to))
    return likely_outages, quiet


def _remarks_on_quiet(spans: list[Span], length_s: float) -> list[str]:
    """Return a remark if no job runs or waits for much of the log; empty if that is not so.

    The log is ``length_s`` long. In a log without waits, an outage looks like such a span.
    """
    quiet_h = sum(end - start for start, end in spans) / 3600
    if 3600 * quiet_h <= _QUIET_SHARE * length_s:
        return []
    start, end = max(spans, key=lambda span: span[1] - span[0])
    return [
        f"no job runs for {quiet_h:,.1f} h in all, in {len(spans)} periods of an hour or more, "
        "and none waits: they count as "
        f"idle; the longest is {format_time(start)}/{format_time(end)}; if it is an outage, "
        "exclude it with --outage START/END"
    ]


def _gaps_without_jobs(table: JobTable, start_s: float, end_s: float) -> list[Span]:
    """Return the parts of [start_s, end_s] in which no job runs."""
    # Without them, there would be no gap before the first job or after the last.
    edges = np.array([(start_s, end_s), (start_s, end_s)])  # two periods without length
    busy = [
        _merged_periods(np.clip((starts, ends), start_s, end_s)) for starts, ends, _ in table.runs()
    ]
    begins, ends = _merged_periods(np.concatenate((edges, *busy), axis=1))
    # A gap is from the end of a busy period to the beginning of the next.
    return list(zip(ends[:-1].tolist(), begins[1:].tolist(), strict=True))


def _merged_periods(periods: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return periods (a row of starts, a row of ends), merged where they overlap or touch.

    They are in order of time.
    """
    starts, ends = periods[:, np.argsort(periods[0], kind="stable")]
    latest_ends = np.maximum.accumulate(ends)
    is_first = np.append(True, starts[1:] > latest_ends[:-1])
    is_last = np.append(is_first[1:], True)
    return np.stack((starts[is_first], latest_ends[is_last]))
