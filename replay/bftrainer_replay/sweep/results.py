"""The results of a sweep: a row per cell, in the order of the grid, without anything that depends on the machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from enum import Enum
from typing import Any

from bftrainer_replay.sweep.cell import Cell, Inputs, TaskKind, task
from bftrainer_replay.sweep.store import Result, ResultStore

_SETTINGS = tuple(f.name for f in fields(Cell) if f.name != "detail")
_MEASURES = (
    "work_share", "mean_done_h", "p95_done_h", "last_done_h", "bound_mean_done_h", "bound_last_done_h",
    "outcome_samples", "outcome_one_node_h", "static_outcome_samples", "efficiency", "no_cost_bound", "start_bound",
    "preemption_cost_samples", "rescale_cost_samples", "return_on_rescaling", "preemptions", "rescales",
    "resource_integral_node_h", "unused_node_h", "mean_runtime_h", "longest_wait_h", "completed", "submitted", "pool_events",
    "decisions", "work_ran_out_at", "bound_work_ran_out_at",
)  # fmt: skip
SUMMED = (
    "span_h", "resource_integral_node_h", "decisions", "outcome_samples", "outcome_one_node_h", "rescale_cost_samples",
    "preemption_cost_samples", "preemptions", "rescales", "unused_node_h", "completed", "submitted",
)  # fmt: skip
"""Results of a replay that are sums over its parts: pieces of the log."""
_KINDS = (TaskKind.REPLAY, TaskKind.STATIC, TaskKind.BOUND, TaskKind.START_BOUND)
_WORDS: Mapping[str, object] = {"max_parallel": "auto"}
_MEANS = ("mean_runtime_h", "mean_served_h")


@dataclass(frozen=True, slots=True)
class SweepRow:
    """A cell and its results. ``static`` (0 without P_jmax) and the bounds are in samples; None if not computed.

    ``bound_work_ran_out_at``: when the replay behind ``bound`` had too few trainers left. ``parts`` are the rows of the
    pieces of a log of which this is the sum. ``usable_node_h``: what P_jmax trainers of the largest size could use of the idle
    node-hours of such a piece, or of all; ``log_usable_share``: of the idle node-hours of the whole log.
    """

    cell: Cell
    result: Result
    static: float
    bound: float | None = None
    start: float | None = None
    bound_work_ran_out_at: str | None = None
    parts: tuple[SweepRow, ...] = ()
    usable_node_h: float = 0.0
    log_usable_share: float | None = None

    @property
    def samples(self) -> float:
        """A_e."""
        return float(self.result["outcome_samples"])

    @property
    def work_share(self) -> float | None:
        """The outcome in one-node hours per idle node-hour."""
        idle_h = float(self.result["resource_integral_node_h"])
        return float(self.result["outcome_one_node_h"]) / idle_h if idle_h else None

    @property
    def efficiency(self) -> float | None:
        """U = A_e / A_s."""
        return self.samples / self.static if self.static else None

    @property
    def no_cost_bound(self) -> float | None:
        """An upper bound of U for every policy if trainers are alike."""
        return self.bound / self.static if self.static and self.bound is not None else None

    @property
    def start_bound(self) -> float | None:
        """An upper bound of U for every policy under this cell's costs: nodes count once they have had the time to start."""
        return self.start / self.static if self.static and self.start is not None else None

    @property
    def return_on_rescaling(self) -> float | None:
        """Samples trained per sample lost to planned rescales: the paper's ROI (Fig. 8)."""
        cost = float(self.result["rescale_cost_samples"])
        return self.samples / cost if cost > 0 else None

    def measure(self, name: str) -> float | int | str | None:
        """The value in a column of results.csv."""
        if name == "static_outcome_samples":
            return self.static
        found: float | int | str | None = getattr(self, name) if hasattr(self, name) else self.result[name]
        return found


def rows_of(
    cells: Sequence[Cell], inputs: Inputs, store: ResultStore, *, with_static: bool = True
) -> tuple[SweepRow, ...]:
    """The rows of all cells that have results, with A_s among them unless ``with_static`` is False."""
    rows = []
    for cell in cells:
        replayed, static, bound, start = (store.get(task(kind, cell, inputs)) for kind in _KINDS)
        bound, start = bound or {}, start or {}
        if not cell.max_parallel or not with_static:
            static = {"samples": 0.0}
        if replayed is not None and static is not None:
            rows.append(
                SweepRow(
                    cell,
                    replayed,
                    static["samples"],
                    bound.get("samples"),
                    start.get("samples"),
                    bound.get("work_ran_out_at"),
                )
            )
    return tuple(rows)


def summed(cell: Cell, parts: Sequence[SweepRow], shown: int = 0) -> SweepRow:
    """One row for the pieces of a log; the data of its pictures are those of the piece ``shown``."""
    if len(parts) == 1:
        return replace(parts[0], cell=cell)
    results = [part.result for part in parts]
    completed = [int(result["completed"]) for result in results]
    models: dict[str, dict[str, Any]] = {}
    for model in sorted({model for result in results for model in result["models"]}):
        each = [result["models"][model] for result in results if model in result["models"]]
        done = [int(one["completed"]) for one in each]
        models[model] = {
            "completed": sum(done),
            "samples": sum(one["samples"] for one in each),
            **{name: _mean([one[name] for one in each], done) for name in _MEANS},
        }
    found = {
        **{name: sum(result[name] for result in results) for name in (*SUMMED, "pool_events")},
        **{name: _mean([result[name] for result in results], completed) for name in _MEANS},
        "work_ran_out_at": _first([result["work_ran_out_at"] for result in results]),
        "models": models,
        "timing": {name: sum(result["timing"][name] for result in results) for name in ("cpu_s", "wall_s")},
    }
    if "detail" in results[shown]:
        found["detail"] = results[shown]["detail"]
    return SweepRow(
        cell, found, sum(part.static for part in parts), _sum([part.bound for part in parts]),
        _sum([part.start for part in parts]), _first([part.bound_work_ran_out_at for part in parts]), tuple(parts),
    )  # fmt: skip


def _sum(values: Sequence[float | None]) -> float | None:
    """The sum of values that are all known."""
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def _first(times: Sequence[str | None]) -> str | None:
    """The earliest of those that are known."""
    return min((at for at in times if at is not None), default=None)


def _mean(values: Sequence[float | None], weights: Sequence[int]) -> float | None:
    """The mean over all trainers of means over those of each piece; None if there are none."""
    known = [(value, weight) for value, weight in zip(values, weights, strict=True) if value is not None and weight]
    return sum(v * w for v, w in known) / sum(w for _, w in known) if known else None


def as_dict(row: SweepRow) -> dict[str, object]:
    """The row as a JSON object."""
    return {n: _jsonable(n, getattr(row.cell, n)) for n in _SETTINGS} | {n: row.measure(n) for n in _MEASURES}


def _jsonable(name: str, value: object) -> object:
    if not value and name in _WORDS:
        return _WORDS[name]
    return value.value if isinstance(value, Enum) else value
