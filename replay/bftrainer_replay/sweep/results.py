"""The results of a sweep: a row per cell, in the order of the grid, without anything that depends on the machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from enum import Enum

from bftrainer_replay.csv_tables import csv_bytes
from bftrainer_replay.sweep.cell import Cell, Inputs, TaskKind, task
from bftrainer_replay.sweep.store import Result, ResultStore

_SETTINGS = tuple(f.name for f in fields(Cell) if f.name != "detail")
_MEASURES = (
    "outcome_samples", "outcome_one_node_h", "static_outcome_samples", "efficiency", "no_cost_bound",
    "preemption_cost_samples", "rescale_cost_samples", "return_on_rescaling", "preemptions", "rescales",
    "resource_integral_node_h", "unused_node_h", "mean_runtime_h", "longest_wait_h", "completed", "submitted", "pool_events",
    "decisions", "work_ran_out_at",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class SweepRow:
    """A cell and its results. ``static`` and ``bound`` are in samples; ``bound`` is None if it was not computed."""

    cell: Cell
    result: Result
    static: float
    bound: float | None = None

    @property
    def samples(self) -> float:
        """A_e."""
        return float(self.result["outcome_samples"])

    @property
    def efficiency(self) -> float | None:
        """U = A_e / A_s."""
        return self.samples / self.static if self.static else None

    @property
    def no_cost_bound(self) -> float | None:
        """An upper bound of U for every policy if trainers are alike."""
        return self.bound / self.static if self.static and self.bound is not None else None

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


def rows_of(cells: Sequence[Cell], inputs: Inputs, store: ResultStore) -> tuple[SweepRow, ...]:
    """The rows of all cells that have results."""
    rows = []
    for cell in cells:
        replayed, static, bound = (
            store.get(task(kind, cell, inputs)) for kind in (TaskKind.REPLAY, TaskKind.STATIC, TaskKind.BOUND)
        )
        if replayed is not None and static is not None:
            rows.append(SweepRow(cell, replayed, static["samples"], None if bound is None else bound["samples"]))
    return tuple(rows)


def as_csv(rows: Sequence[SweepRow]) -> bytes:
    """results.csv: the settings of each cell, then its results. The same bytes on any machine, in any order of work."""
    return csv_bytes([*_SETTINGS, *_MEASURES], ([_plain(value) for value in as_dict(row).values()] for row in rows))


def as_dict(row: SweepRow) -> dict[str, object]:
    """The row as a JSON object."""
    return {n: _jsonable(getattr(row.cell, n)) for n in _SETTINGS} | {n: row.measure(n) for n in _MEASURES}


def _jsonable(value: object) -> object:
    return value.value if isinstance(value, Enum) else value


def _plain(value: object) -> object:
    if value is None:
        return ""
    return f"{value:.10g}" if isinstance(value, float) else value
