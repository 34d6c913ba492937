"""The table of results: one row per trainer, with its parameters, samples and metrics."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bftrainer.console.client.remarks import remark_of
from bftrainer.console.client.state_dir import has_registry, opened_registry, pending_submissions
from bftrainer.console.client.statuses import SubmissionStatus
from bftrainer.errors import UnknownNameError
from bftrainer.pilot.persistence.spool import open_state_dir
from bftrainer.wires.metrics import Metric
from bftrainer.wires.typed_json import parameter_value


@dataclass(frozen=True, slots=True)
class ResultRow:
    """The results of one trainer.

    ``metrics`` are sorted by name; ``texts`` are its parameters as they were given; ``samples``
    does not count the ``repeated_samples``.
    """

    name: str
    group: str
    status: SubmissionStatus
    texts: dict[str, str]
    samples: float
    node_hours: float
    metrics: tuple[Metric, ...]
    remark: str = ""
    repeated_samples: float = 0.0

    @property
    def parameters(self) -> dict[str, str | int | float | bool]:
        """Its parameters: numbers and truth values where they are some."""
        return {key: parameter_value(text) for key, text in self.texts.items()}

    def metric(self, name: str) -> Metric | None:
        """A metric, if the trainer has reported it."""
        return next((metric for metric in self.metrics if metric.name == name), None)

    def as_json(self) -> dict[str, object]:
        """The JSON object of the row."""
        return {
            "name": self.name,
            "group": self.group,
            "status": self.status.value,
            "parameters": self.parameters,
            "samples": self.samples,
            "repeated_samples": self.repeated_samples,
            "node_h": self.node_hours,
            "remark": self.remark,
            "metrics": {
                metric.name: {
                    "last": metric.last,
                    "min": metric.least,
                    "min_samples": metric.least_samples,
                    "max": metric.most,
                    "max_samples": metric.most_samples,
                }
                for metric in self.metrics
            },
        }


@dataclass(frozen=True, slots=True)
class Goal:
    """A metric by which results are sorted: trainers with its smallest or largest value come first.

    The value is the best that a trainer has ever reported.
    """

    metric: str
    maximize: bool = False

    def best_value(self, row: ResultRow) -> float | None:
        """Return the best value of a trainer; None if it has never reported the metric."""
        metric = row.metric(self.metric)
        if metric is None:
            return None
        return metric.most if self.maximize else metric.least


def result_rows(state: Path, group: str | None = None) -> tuple[ResultRow, ...]:
    """Read a row for each trainer of a group, or of the state directory.

    They are in the order of submission; those that no pilot has read come last.
    """
    folder = open_state_dir(state)
    pending = pending_submissions(folder)
    rows: list[ResultRow] = []
    if has_registry(folder):
        with opened_registry(folder) as registry:
            metrics = registry.metrics()
            rows = [
                ResultRow(
                    name=record.name,
                    group=record.spec.group or "",
                    status=SubmissionStatus(record.status.value),
                    texts=dict(record.spec.parameters),
                    samples=record.samples_done,
                    node_hours=record.held_node_s / 3600,
                    metrics=metrics.get(record.name, ()),
                    remark=remark_of(record),
                    repeated_samples=record.repeated_samples,
                )
                for record in registry.trainers()
            ]
    names = {row.name for row in rows}
    for submission in pending:
        spec = submission.spec
        if spec is not None and submission.trainer not in names:
            row = ResultRow(
                name=submission.trainer,
                group=spec.group or "",
                status=SubmissionStatus.SUBMITTED,
                texts=dict(spec.parameters),
                samples=0.0,
                node_hours=0.0,
                metrics=(),
            )
            rows.append(row)
    return tuple(row for row in rows if group in (None, row.group))


def best_first(rows: Sequence[ResultRow], goal: Goal) -> tuple[ResultRow, ...]:
    """Sort rows by the goal; trainers without its metric come last.

    Raises ``UnknownNameError`` if no trainer has it.
    """
    names = {metric.name for row in rows for metric in row.metrics}
    if rows and goal.metric not in names:
        raise UnknownNameError(
            "metric", goal.metric, names or ["none: no training has reported one"]
        )

    def key(row: ResultRow) -> float:
        value = goal.best_value(row)
        if value is None:
            return math.inf
        return -value if goal.maximize else value

    return tuple(sorted(rows, key=key))


def table(
    rows: Sequence[ResultRow], goal: Goal | None = None
) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
    """Return the headings and the cells of the table of results; an empty cell is None.

    It has one column per parameter, and for each metric its last, smallest and largest value. With
    a goal, only its metric has columns, and only with its last and best value.
    """
    parameters = list(dict.fromkeys(key for row in rows for key in row.texts))
    metrics = sorted({metric.name for row in rows for metric in row.metrics})
    kinds = ["", " min", " max"]
    if goal is not None:
        metrics = [goal.metric]
        kinds = ["", " max"] if goal.maximize else ["", " min"]
    columns = [(name, kind) for name in metrics for kind in kinds]
    heads = (
        "name",
        "status",
        *parameters,
        "samples",
        "node-hours",
        *(f"{name}{kind}" for name, kind in columns),
        "remark",
    )
    cells: list[tuple[object, ...]] = []
    for row in rows:
        values = [_metric_value(row.metric(name), kind) for name, kind in columns]
        texts = [row.texts.get(key) for key in parameters]
        cells.append(
            (row.name, row.status.value, *texts, row.samples, row.node_hours, *values, row.remark)
        )
    return heads, cells


def as_csv(rows: Sequence[ResultRow], goal: Goal | None = None) -> str:
    """Format the table as CSV; a value that is missing is empty."""
    out = io.StringIO()
    heads, cells = table(rows, goal)
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(heads)
    writer.writerows(_csv_cells(line) for line in cells)
    return out.getvalue()


def _csv_cells(line: Iterable[object]) -> list[object]:
    return list(map(_csv_cell, line))


def _csv_cell(value: object) -> object:
    """Return a value for CSV: empty for None, a number with ten digits."""
    if value is None:
        return ""
    return f"{value:.10g}" if isinstance(value, float) else value


def _metric_value(metric: Metric | None, kind: str) -> float | None:
    """Return the last (``kind`` is empty), smallest (" min") or largest (" max") value of a metric;
    None if the trainer has not reported it.
    """
    if metric is None:
        return None
    return {"": metric.last, " min": metric.least, " max": metric.most}[kind]
