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
_WORTH_A_NOTE = 0.01  # of the span: time in which nothing runs and nothing is known to wait

_LAST = (
    "submission",
    "time in the log (jobs are still running)",
    "time at which jobs were running, by their elapsed times",
)

Span = tuple[float, float]


@dataclass(frozen=True, slots=True)
class TrustedSpan:
    """The part to trust and the outages in it, as (start_s, end_s)."""

    start_s: float
    end_s: float
    outages: tuple[tuple[float, float], ...]


def span_of(source: Source, table: JobTable) -> TrustedSpan:
    """Return the span of the log to use and the outages in it, as the options specify or as
    guessed; add remarks to ``source``.
    """
    start_s, end_s = _to_trust(source, table)
    texts = source.options.outages
    outages: list[tuple[float, float]] = []
    for text in texts:
        if text == "auto":
            waiting, quiet = _empty_spans(table, start_s, end_s)
            outages += waiting
            source.remarks += _of_quiet(quiet, end_s - start_s)
        elif text != "none":
            outages.append(_given(source, text))
    if outages:
        hours = sum(end - start for start, end in outages) / 3600
        first = ", ".join(f"{format_time(start)}/{format_time(end)}" for start, end in outages[:3])
        guess = (
            "guessed: no job runs for an hour or more although one waits; --outage none "
            "counts such time as idle"
        )
        source.remarks.append(
            f"{counted(len(outages), 'outage')} excluded, {hours:,.1f} h in all "
            f"({guess if 'auto' in texts else 'as specified'}): "
            f"{first}{', ...' if len(outages) > 3 else ''}"
        )
    return TrustedSpan(start_s, end_s, tuple(outages))


@dataclass(frozen=True, slots=True)
class _RecordedSpan:
    """The time of which the log tells, before its edges are cut off.

    ``mean_busy`` is the mean number of busy nodes in it. ``has_running``: some jobs had not ended.
    ``is_taken``: it ends when the log was taken, as elapsed times show.
    """

    begin_s: float
    finish_s: float
    mean_busy: float
    has_running: bool
    is_taken: bool

    @property
    def length_s(self) -> float:
        return self.finish_s - self.begin_s


def _to_trust(source: Source, table: JobTable) -> tuple[float, float]:
    """Return start and end of the recorded span without the edges at which the log lacks jobs; add
    remarks.
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
        f"{_LAST[recorded.has_running + recorded.is_taken]}, less a warm-up of "
        f"{warm_s / 3600:.1f} h ({_how(options.warm_up_h)}) and a cool-down of "
        f"{cool_s / 3600:.1f} h "
        f"({_how(options.cool_down_h)})"
    )
    if options.warm_up_h is None:
        _remark_on_thin_edge(source, table, recorded, ("beginning", start_s, "--warm-up-h"))
    if options.cool_down_h is None and not recorded.has_running:
        _remark_on_thin_edge(source, table, recorded, ("end", end_s, "--cool-down-h"))
    return start_s, end_s


def _recorded_span(source: Source, table: JobTable) -> _RecordedSpan:
    """Return the time for which the log is complete: from the first end of a job to the last
    submission or, while jobs run, to the last time in the log.
    """
    edges = np.array([_edges_of(starts, ends) for starts, ends, _ in table.runs()])
    if not len(edges):
        raise InputFileError(source.name, "has no job that ran for any time")
    (first_start, _, first_end, *_), (_, last_start, _, last_end, unfinished) = (
        edges.min(axis=0),
        edges.max(axis=0),
    )
    running, submitted = bool(unfinished), max(table.submit_s[part].max() for part in table.parts())
    latest = max(last_start, last_end, submitted)
    begin = float(first_end) if math.isfinite(first_end) else float(first_start)
    finish = float(latest if running else min(last_start, submitted))
    if begin >= finish:
        begin, finish = float(first_start), float(latest)
    # Of a log that was selected by time, few jobs still run when it is taken, perhaps months later:
    # it ends at its last time.
    mean, taken_s = _mean_busy(table, begin, finish), source.rows.until_s
    if finish < taken_s and _unfinished_nodes(table) >= mean / 2:
        mean = _mean_busy(table, begin, taken_s)
        return _RecordedSpan(begin, taken_s, mean, running, is_taken=True)
    return _RecordedSpan(begin, finish, mean, running, is_taken=False)


def _edges_of(
    starts: NDArray[np.float64], ends: NDArray[np.float64]
) -> tuple[float, float, float, float, bool]:
    """Return the first and last start, the first and last end, and whether a job has no end."""
    finite = ends[np.isfinite(ends)]
    return (
        starts.min(),
        starts.max(),
        finite.min(initial=math.inf),
        finite.max(initial=-math.inf),
        len(finite) < len(ends),
    )


def _mean_busy(table: JobTable, begin_s: float, finish_s: float) -> float:
    """The mean number of busy nodes between two times."""
    node_s = 0.0
    for starts, ends, nodes in table.runs():
        whole = np.minimum(ends, finish_s) - np.maximum(starts, begin_s)
        node_s += float(np.dot(np.maximum(whole, 0), nodes))
    return node_s / max(finish_s - begin_s, 1.0)


def _unfinished_nodes(table: JobTable) -> int:
    """The nodes of jobs without an end."""
    return sum(int(nodes[np.isinf(ends)].sum()) for _, ends, nodes in table.runs())


def _busy_right_after(table: JobTable, at_s: float) -> int:
    """The number of nodes that are busy from this time on."""
    return sum(
        int(nodes[(starts <= at_s) & (ends > at_s)].sum()) for starts, ends, nodes in table.runs()
    )


def _busy_right_before(table: JobTable, at_s: float) -> int:
    """The number of nodes that are busy until this time."""
    return sum(
        int(nodes[(starts < at_s) & (ends >= at_s)].sum()) for starts, ends, nodes in table.runs()
    )


def _edges_s(source: Source, table: JobTable, recorded: _RecordedSpan) -> tuple[float, float]:
    """Return the seconds of warm-up and cool-down, as the options say or as guessed: an edge is cut
    off where fewer than half as many nodes are busy as on average.
    """
    options = source.options
    thin_start = _busy_right_after(table, recorded.begin_s) < recorded.mean_busy / 2
    thin_end = _busy_right_before(table, recorded.finish_s) < recorded.mean_busy / 2
    lengths = Times.gathered(
        np.maximum(np.minimum(ends, recorded.finish_s) - starts, 0)
        for starts, ends, _ in table.runs()
    )
    long_run_s = float(np.percentile(lengths.kept, 99, overwrite_input=True))
    guess_s = math.floor(min(long_run_s, LONGEST_GUESS_H * 3600, recorded.length_s / 10))
    warm_s: float = guess_s * thin_start
    cool_s: float = guess_s * (thin_end and not recorded.has_running)
    if options.warm_up_h is not None:
        warm_s = 3600 * options.warm_up_h
    if options.cool_down_h is not None:
        cool_s = 3600 * options.cool_down_h
    return warm_s, cool_s


def _remark_on_thin_edge(
    source: Source, table: JobTable, recorded: _RecordedSpan, edge: tuple[str, float, str]
) -> None:
    """Remark if few nodes are busy at an edge whose place was guessed; ``edge`` is its name, its
    time and the option that moves it.
    """
    name, at_s, option = edge
    runs = _busy_right_after(table, at_s)
    if runs < recorded.mean_busy / 2:
        source.remarks.append(
            f"at its {name} only {runs / recorded.mean_busy:.0%} as many nodes are busy as on "
            "average; "
            "if the log lacks jobs there, "
            f"exclude more with {option}"
        )


def _how(given: float | None) -> str:
    return "guessed" if given is None else "as specified"


def _given(source: Source, text: str) -> tuple[float, float]:
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
    """Return the spans of an hour or more in which no job runs, as two lists: those in which some
    job waits for all of the last hour (likely outages), and the others.
    """
    spans: list[Span] = []
    quiet: list[Span] = []
    for empty_from, empty_to in _gaps(table, start_s, end_s):
        if empty_to - empty_from < SHORTEST_OUTAGE_S:
            continue
        waits = any(
            (
                (table.eligible_s[part] <= empty_to - SHORTEST_OUTAGE_S)
                & (table.waits_until(part) >= empty_to)
            ).any()
            for part in table.parts()
        )
        (spans if waits else quiet).append((empty_from, empty_to))
    return spans, quiet


def _of_quiet(spans: list[Span], length_s: float) -> list[str]:
    """Return a remark if spans in which no job runs or waits are much of the log; in a log without
    waits, an outage looks like that.
    """
    hours = sum(end - start for start, end in spans) / 3600
    if 3600 * hours <= _WORTH_A_NOTE * length_s:
        return []
    start, end = max(spans, key=lambda span: span[1] - span[0])
    return [
        f"no job runs for {hours:,.1f} h in all, in {len(spans)} periods of an hour or more, "
        "and none waits: they count as "
        f"idle; the longest is {format_time(start)}/{format_time(end)}; if it is an outage, "
        "exclude it with --outage START/END"
    ]


def _gaps(table: JobTable, start_s: float, end_s: float) -> list[Span]:
    """The parts of [start_s, end_s] in which no job runs."""
    edges = np.array([(start_s, end_s), (start_s, end_s)])  # each without length
    busy = [_together(np.clip((starts, ends), start_s, end_s)) for starts, ends, _ in table.runs()]
    begins, ends = _together(np.concatenate((edges, *busy), axis=1))
    return list(zip(ends[:-1].tolist(), begins[1:].tolist(), strict=True))


def _together(runs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Merge runs (starts, ends) that overlap or touch, and return them in order of time."""
    starts, ends = runs[:, np.argsort(runs[0], kind="stable")]
    ends = np.maximum.accumulate(ends)
    is_new = np.append(True, starts[1:] > ends[:-1])
    return np.stack((starts[is_new], ends[np.append(is_new[1:], True)]))
