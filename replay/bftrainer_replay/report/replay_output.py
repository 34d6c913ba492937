"""The files of a replay, written when it is complete: summary.json, trainers.csv, decisions.csv.gz
and a figure.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

from bftrainer.system.files import write_atomically
from bftrainer_replay.csv_tables import csv_bytes
from bftrainer_replay.figures.replays import nodes_figure
from bftrainer_replay.figures.style import png
from bftrainer_replay.logs.event_log import format_time
from bftrainer_replay.simulation.play import ReplayOutcome, Scenario
from bftrainer_replay.simulation.summary import Summary
from bftrainer_replay.sweep.detail import detail_of, read_detail

_TRAINER_COLUMNS = (
    "id",
    "model",
    "submitted",
    "admitted",
    "started",
    "finished",
    "runtime_s",
    "samples",
    "node_hours",
    "preemptions",
    "rescales",
    "lost_to_preemption_samples",
    "lost_to_rescale_samples",
)
_DECISION_COLUMNS = (
    "time",
    "joined",
    "left",
    "submitted",
    "finished",
    "pool_nodes",
    "used_nodes",
    "objective_value",
    "solver",
    "status",
    "fallbacks",
    "samples",
    "lost_to_preemption_samples",
    "lost_to_rescale_samples",
    "counts",
)


def write_all(
    out: Path, scenario: Scenario, outcome: ReplayOutcome, summary: Summary
) -> tuple[Path, ...]:
    """Write all files of a replay into ``out`` by atomic rename; return their paths.

    summary.json comes last: if it exists, the others are complete.
    """
    files = {
        "trainers.csv": csv_bytes(_TRAINER_COLUMNS, _trainer_rows(scenario, outcome)),
        "decisions.csv.gz": gzip.compress(
            csv_bytes(_DECISION_COLUMNS, _decision_rows(outcome)), mtime=0
        ),
        "timeline.png": png(
            nodes_figure(
                read_detail(detail_of(scenario, outcome)),
                f"policy {summary.policy}",
                scenario.window,
            )
        ),
        "summary.json": (json.dumps(asdict(summary), indent=2) + "\n").encode(),
    }
    for name, data in files.items():
        write_atomically(out / name, data)
    return tuple(out / name for name in files)


def _trainer_rows(scenario: Scenario, outcome: ReplayOutcome) -> Iterable[Sequence[object]]:
    """Yield the rows of trainers.csv, one per trainer that was submitted."""
    submitted_s = {arrival.trainer.id: arrival.at_s for arrival in scenario.arrivals}
    for run in outcome.runs:
        times_s = (submitted_s[run.trainer.id], run.admitted_s, run.started_s, run.finished_s)
        runtime = ""
        if run.finished_s is not None and run.started_s is not None:
            runtime = f"{run.finished_s - run.started_s:.3f}"
        yield (
            run.trainer.id,
            run.trainer.model,
            *("" if at_s is None else format_time(at_s) for at_s in times_s),
            runtime,
            f"{run.samples:.1f}",
            f"{run.node_s / 3600:.4f}",
            run.preemptions,
            run.rescales,
            f"{run.lost_to_preemption:.1f}",
            f"{run.lost_to_rescale:.1f}",
        )


def _decision_rows(outcome: ReplayOutcome) -> Iterable[Sequence[object]]:
    """Yield the rows of decisions.csv.gz, one per decision."""
    for entry in outcome.entries:
        answer = entry.answer
        yield (
            format_time(entry.at_s),
            entry.joined,
            entry.left,
            entry.submitted,
            entry.finished,
            entry.pool_nodes,
            entry.used_nodes,
            "" if answer is None else f"{answer.objective_value:.6f}",
            "" if answer is None else answer.solver,
            "" if answer is None else answer.status.value,
            ""
            if answer is None
            else "; ".join(
                f"{fallback.solver}: {fallback.reason.value}" for fallback in answer.fallbacks
            ),
            f"{entry.totals.samples:.1f}",
            f"{entry.totals.lost_to_preemption:.1f}",
            f"{entry.totals.lost_to_rescale:.1f}",
            " ".join(f"{name}:{n}" for name, n in entry.counts),
        )
