"""Which part of a job log to trust, and when the cluster was down: guesses that are printed, and options that override them.

A log is cut from a longer history. A log selected by submission or start lacks the jobs that were already running when it
begins; a log selected by end (accounting files, ``sacct -E``) lacks those that were still running when it was taken. At that
edge busy nodes look idle. Where far fewer nodes are busy at an edge than on average, the edge is cut off: by the 99th
percentile of the run times, at most by 24 h or a tenth of the log.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bftrainer.errors import InputFileError, UserError
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
    """The span as the options specify it, or a guess; adds remarks to ``source``."""
    start_s, end_s = _to_trust(source, table)
    asked = source.options.outages
    outages: list[tuple[float, float]] = []
    for text in asked:
        if text == "auto":
            waiting, quiet = _empty_spans(table, start_s, end_s)
            outages += waiting
            source.remarks += _of_quiet(quiet, end_s - start_s)
        elif text != "none":
            outages.append(_given(source, text))
    if outages:
        hours = sum(end - start for start, end in outages) / 3600
        first = ", ".join(f"{format_time(start)}/{format_time(end)}" for start, end in outages[:3])
        guess = "guessed: no job runs for an hour or more although one waits; --outage none counts such time as idle"
        source.remarks.append(
            f"{len(outages)} outages excluded, {hours:,.1f} h in all ({guess if 'auto' in asked else 'as specified'}): "
            f"{first}{', ...' if len(outages) > 3 else ''}"
        )
    return TrustedSpan(start_s, end_s, tuple(outages))


def _to_trust(source: Source, table: JobTable) -> tuple[float, float]:
    ran: Any = table.end_s > table.start_s
    if not ran.any():
        raise InputFileError(source.name, "has no job that ran for any time")
    ran = slice(None) if ran.all() else ran  # without copies
    starts, ends, asked = table.start_s[ran], table.end_s[ran], table.asked[ran]
    over = ends[np.isfinite(ends)] if np.isinf(ends).any() else ends
    running = len(over) < len(ends)
    latest = max(starts.max(), over.max(initial=-math.inf), table.submit_s.max())
    begin = float(over.min()) if len(over) else float(starts.min())
    finish = float(latest if running else min(starts.max(), table.submit_s.max()))
    if begin >= finish:
        begin, finish = float(starts.min()), float(latest)

    def busy() -> float:
        node_s = 0.0
        for part in table.parts():
            whole = np.minimum(ends[part], finish) - np.maximum(starts[part], begin)
            node_s += float(np.dot(np.maximum(whole, 0), asked[part]))
        return node_s / max(finish - begin, 1.0)

    # Of a log that was selected by time, few jobs still run when it is taken, perhaps months later: it ends at its last time.
    mean, taken_s = busy(), source.rows.until_s
    if is_taken := finish < taken_s and bool(asked[np.isinf(ends)].sum() >= mean / 2):
        finish = taken_s
        mean = busy()

    # Right after the beginning, or right before the end, fewer than half as many nodes are busy as on average.
    thin_start = asked[(starts <= begin) & (ends > begin)].sum() < mean / 2
    thin_end = asked[(starts < finish) & (ends >= finish)].sum() < mean / 2
    runs_s = np.minimum(ends, finish)
    runs_s -= starts
    long_run_s = float(np.percentile(runs_s, 99, overwrite_input=True))
    del runs_s
    guess_s = math.floor(min(long_run_s, LONGEST_GUESS_H * 3600, (finish - begin) / 10))
    options = source.options
    warm_s = 3600 * options.warm_up_h if options.warm_up_h is not None else guess_s * bool(thin_start)
    cool_s = 3600 * options.cool_down_h if options.cool_down_h is not None else guess_s * bool(thin_end and not running)
    start_s, end_s = np.round([begin + warm_s, finish - cool_s], 3).tolist()
    if start_s >= end_s:
        raise UserError(
            f"{source.path}: nothing is left of {format_time(begin)} .. {format_time(finish)} after a warm-up of "
            f"{warm_s / 3600:g} h and a cool-down of {cool_s / 3600:g} h; specify shorter ones with --warm-up-h and "
            "--cool-down-h"
        )
    source.remarks.append(
        f"using {format_time(start_s)} .. {format_time(end_s)} UTC: from the first end of a job to the last "
        f"{_LAST[running + is_taken]}, less a warm-up of "
        f"{warm_s / 3600:.1f} h ({_how(options.warm_up_h)}) and a cool-down of {cool_s / 3600:.1f} h "
        f"({_how(options.cool_down_h)})"
    )
    for edge, at_s, option, given in (
        ("beginning", start_s, "--warm-up-h", options.warm_up_h),
        ("end", end_s, "--cool-down-h", options.cool_down_h if not running else 0.0),
    ):
        runs = asked[(starts <= at_s) & (ends > at_s)].sum()
        if given is None and runs < mean / 2:
            source.remarks.append(
                f"at its {edge} only {runs / mean:.0%} as many nodes are busy as on average; if the log lacks jobs there, "
                f"exclude more with {option}"
            )
    return start_s, end_s


def _how(given: float | None) -> str:
    return "guessed" if given is None else "as specified"


def _given(source: Source, text: str) -> tuple[float, float]:
    """START/END of --outage."""
    first, slash, last = text.partition("/")
    if not slash:
        raise UserError(f"--outage {text!r:.60}: expected START/END, auto or none")
    try:
        start, end = source.clock.seconds(first.strip()), source.clock.seconds(last.strip())
    except ValueError as error:
        raise UserError(f"--outage {text!r:.60}: expected START/END, auto or none ({error})") from error
    if not start < end:
        raise UserError(f"--outage {text}: expected an end later than the start")
    return start, end


def _empty_spans(table: JobTable, start_s: float, end_s: float) -> tuple[list[Span], list[Span]]:
    """Spans of an hour or more in which no job runs: although some job waits for all of the last hour, and others."""
    ran: Any = table.end_s > table.start_s
    ran = slice(None) if ran.all() else ran  # without copies
    spans: list[Span] = []
    quiet: list[Span] = []
    for empty_from, empty_to in _gaps(table.start_s[ran], table.end_s[ran], start_s, end_s):
        if empty_to - empty_from < SHORTEST_OUTAGE_S:
            continue
        waited_until = np.where(np.isnan(table.start_s), table.end_s, table.start_s)
        waiting = (table.eligible_s <= empty_to - SHORTEST_OUTAGE_S) & (waited_until >= empty_to)
        (spans if waiting.any() else quiet).append((empty_from, empty_to))
    return spans, quiet


def _of_quiet(spans: list[Span], length_s: float) -> list[str]:
    """A remark, if it is much of the log: without waiting jobs, or in a log that does not have waits, outages look idle."""
    hours = sum(end - start for start, end in spans) / 3600
    if 3600 * hours <= _WORTH_A_NOTE * length_s:
        return []
    start, end = max(spans, key=lambda span: span[1] - span[0])
    return [
        f"no job runs for {hours:,.1f} h in all, in {len(spans)} periods of an hour or more, and none waits: they count as "
        f"idle; the longest is {format_time(start)}/{format_time(end)}; if it is an outage, exclude it with --outage START/END"
    ]


def _gaps(
    starts: NDArray[np.float64], ends: NDArray[np.float64], start_s: float, end_s: float
) -> list[tuple[float, float]]:
    """The parts of [start_s, end_s] that no interval covers."""
    # Before the k-th start, all of the earlier k have ended if the k-th end is earlier.
    begin, covered = np.full(len(starts) + 1, end_s), np.full(len(ends) + 1, start_s)
    np.clip(starts, start_s, end_s, out=begin[:-1])
    np.clip(ends, start_s, end_s, out=covered[1:])
    begin.sort()
    covered.sort()
    gap = begin > covered
    return list(zip(covered[gap].tolist(), begin[gap].tolist(), strict=True))
