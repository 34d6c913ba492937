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
        guess = (
            "guessed: no job runs for an hour or more although one waits; --outage none "
            "counts such time as idle"
        )
        source.remarks.append(
            f"{counted(len(outages), 'outage')} excluded, {hours:,.1f} h in all "
            f"({guess if 'auto' in asked else 'as specified'}): "
            f"{first}{', ...' if len(outages) > 3 else ''}"
        )
    return TrustedSpan(start_s, end_s, tuple(outages))


def _to_trust(source: Source, table: JobTable) -> tuple[float, float]:
    edges = np.array(
        [
            (
                starts.min(),
                starts.max(),
                over.min(initial=math.inf),
                over.max(initial=-math.inf),
                len(over) < len(ends),
            )
            for starts, ends, _ in table.runs()
            for over in [ends[np.isfinite(ends)]]
        ]
    )
    if not len(edges):
        raise InputFileError(source.name, "has no job that ran for any time")
    (first_start, _, first_end, *_), (_, last_start, _, last_end, some) = (
        edges.min(axis=0),
        edges.max(axis=0),
    )
    running, submitted = bool(some), max(table.submit_s[part].max() for part in table.parts())
    latest = max(last_start, last_end, submitted)
    begin = float(first_end) if math.isfinite(first_end) else float(first_start)
    finish = float(latest if running else min(last_start, submitted))
    if begin >= finish:
        begin, finish = float(first_start), float(latest)

    def busy() -> float:
        node_s = 0.0
        for starts, ends, asked in table.runs():
            whole = np.minimum(ends, finish) - np.maximum(starts, begin)
            node_s += float(np.dot(np.maximum(whole, 0), asked))
        return node_s / max(finish - begin, 1.0)

    def right_after(at_s: float) -> int:
        return sum(
            int(asked[(starts <= at_s) & (ends > at_s)].sum())
            for starts, ends, asked in table.runs()
        )

    # Of a log that was selected by time, few jobs still run when it is taken, perhaps months later:
    # it ends at its last time.
    mean, taken_s = busy(), source.rows.until_s
    if (
        is_taken := finish < taken_s
        and sum(int(a[np.isinf(e)].sum()) for _, e, a in table.runs()) >= mean / 2
    ):
        finish = taken_s
        mean = busy()

    # Right after the beginning, or right before the end, fewer than half as many nodes are busy as
    # on average.
    thin_start = right_after(begin) < mean / 2
    before = sum(
        int(a[(starts < finish) & (ends >= finish)].sum()) for starts, ends, a in table.runs()
    )
    thin_end = before < mean / 2
    lengths = Times.gathered(
        np.maximum(np.minimum(ends, finish) - starts, 0) for starts, ends, _ in table.runs()
    )
    long_run_s = float(np.percentile(lengths.kept, 99, overwrite_input=True))
    guess_s = math.floor(min(long_run_s, LONGEST_GUESS_H * 3600, (finish - begin) / 10))
    options = source.options
    warm_s = (
        3600 * options.warm_up_h if options.warm_up_h is not None else guess_s * bool(thin_start)
    )
    cool_s = (
        3600 * options.cool_down_h
        if options.cool_down_h is not None
        else guess_s * bool(thin_end and not running)
    )
    start_s, end_s = np.round([begin + warm_s, finish - cool_s], 3).tolist()
    if start_s >= end_s:
        raise UserError(
            f"{source.path}: nothing is left of {format_time(begin)} .. {format_time(finish)} "
            "after a warm-up of "
            f"{warm_s / 3600:g} h and a cool-down of {cool_s / 3600:g} h; specify shorter ones "
            "with --warm-up-h and "
            "--cool-down-h"
        )
    source.remarks.append(
        f"using {format_time(start_s)} .. {format_time(end_s)} UTC: from the first end of a "
        "job to the last "
        f"{_LAST[running + is_taken]}, less a warm-up of "
        f"{warm_s / 3600:.1f} h ({_how(options.warm_up_h)}) and a cool-down of "
        f"{cool_s / 3600:.1f} h "
        f"({_how(options.cool_down_h)})"
    )
    for edge, at_s, option, given in (
        ("beginning", start_s, "--warm-up-h", options.warm_up_h),
        ("end", end_s, "--cool-down-h", options.cool_down_h if not running else 0.0),
    ):
        runs = right_after(at_s)
        if given is None and runs < mean / 2:
            source.remarks.append(
                f"at its {edge} only {runs / mean:.0%} as many nodes are busy as on average; "
                "if the log lacks jobs there, "
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
        raise UserError(
            f"--outage {text!r:.60}: expected START/END, auto or none ({error})"
        ) from error
    if not start < end:
        raise UserError(f"--outage {text}: expected an end later than the start")
    return start, end


def _empty_spans(table: JobTable, start_s: float, end_s: float) -> tuple[list[Span], list[Span]]:
    """Spans of an hour or more in which no job runs: although some job waits for all of the last
    hour, and others.
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
    """A remark, if it is much of the log: without waiting jobs, or in a log that does not have
    waits, outages look idle.
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
    """(starts, ends), in order of time; those that overlap or touch as one."""
    starts, ends = runs[:, np.argsort(runs[0], kind="stable")]
    ends = np.maximum.accumulate(ends)
    is_new = np.append(True, starts[1:] > ends[:-1])
    return np.stack((starts[is_new], ends[np.append(is_new[1:], True)]))
