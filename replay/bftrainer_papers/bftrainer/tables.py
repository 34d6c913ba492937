"""Tables 1, 3 and 4 with the paper's values beside ours, and all rows, as CSV."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from bftrainer_papers.bftrainer.claims import (
    PARALLEL,
    RUNTIMES,
    TABLE_1,
    TABLE_1_COLUMNS,
    runtime_tolerance_h,
)
from bftrainer_papers.bftrainer.results import ExperimentResults
from bftrainer_papers.reproduction import PaperResult
from bftrainer_replay.analysis.characterize import Characteristics
from bftrainer_replay.csv_tables import csv_bytes
from bftrainer_replay.sweep.cell import Cell

_RUNTIME_HEADER = (
    "model",
    "max_parallel",
    "paper_h",
    "ours_h",
    "tolerance_h",
    "verdict",
    "ours_forward_10_h",
)


def table_1(system: Characteristics) -> dict[str, float]:
    """Return the columns of Table 1 for one machine."""
    values = (
        system.per_hour(system.increases),
        system.per_hour(system.decreases),
        100 * system.idle_share,
        system.eq_nodes,
    )
    return dict(zip(TABLE_1_COLUMNS, values, strict=True))


def runtime_cells(
    results: ExperimentResults, objective: str, group: Mapping[str, Sequence[Cell]]
) -> list[tuple[str, int, float, float]]:
    """Return (model, P_jmax, paper's hours, our hours) of Table 3 or 4, for each P_jmax that was
    run.
    """
    cells = {cell.max_parallel: cell for cell in group[objective]}
    return [
        (model, p, paper, results.runtime_h(cells[p], model))
        for model, row in RUNTIMES[objective].items()
        for p, paper in zip(PARALLEL, row, strict=True)
        if p in cells
    ]


def rank_correlation(first: np.ndarray, second: np.ndarray) -> float:
    """Return Spearman's rank correlation of two rows of numbers; NaN if any number is NaN.

    Equal numbers share their mean rank.
    """
    if np.isnan(first).any() or np.isnan(second).any():
        return float("nan")

    def ranks(values: np.ndarray) -> np.ndarray:
        _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
        # Ranks count from 1: of a group of equal numbers, ``cumsum`` is the last rank, and half of
        # the group's size less one leads back to its middle.
        means: np.ndarray = np.cumsum(counts) - (counts - 1) / 2
        return means[place]

    return float(np.corrcoef(ranks(first), ranks(second))[0, 1])


def runtime_table(
    results: ExperimentResults, objective: str
) -> list[tuple[str, int, float, float, float, str, float]]:
    """Return the rows of Table 3 (throughput) or 4 (scaling efficiency), each with its own verdict.

    The last column is our hours at T_fwd 10 s.
    """
    table = []
    short = runtime_cells(results, objective, results.plan.parallel_short)
    for (model, p, paper, ours), (*_, at_10) in zip(
        runtime_cells(results, objective, results.plan.parallel), short, strict=True
    ):
        tolerance = runtime_tolerance_h(paper)
        verdict = PaperResult("", paper, ours, "h", tolerance, signed=False).verdict.value
        table.append((model, p, paper, ours, tolerance, verdict, at_10))
    return table


def files(results: ExperimentResults, rows: Sequence[PaperResult]) -> dict[str, bytes]:
    """Return the contents of the CSV files by name."""
    systems = {"Summit": results.machine, **results.others}
    first: list[tuple[object, ...]] = []
    for system, values in TABLE_1.items():
        ours = table_1(systems[system]) if system in systems else {}
        for column, paper in zip(TABLE_1_COLUMNS, values, strict=True):
            first.append((system, column, paper, ours.get(column, "")))
    runtimes = {
        f"table-{number}.csv": csv_bytes(
            _RUNTIME_HEADER, rounded(runtime_table(results, objective))
        )
        for number, objective in ((3, "throughput"), (4, "scaling-efficiency"))
    }
    judged = [_row_cells(row) for row in rows]
    return {
        "table-1.csv": csv_bytes(("system", "column", "paper", "ours"), rounded(first)),
        **runtimes,
        "rows.csv": csv_bytes(
            ("what", "paper", "ours", "tolerance", "unit", "verdict", "why"), rounded(judged)
        ),
    }


def _row_cells(row: PaperResult) -> list[object]:
    """Return a result with its verdict as the cells of rows.csv; empty where the paper has no
    value.
    """
    return [
        row.what,
        "" if row.paper is None else row.paper,
        row.ours,
        "" if row.tolerance is None else row.tolerance,
        row.unit,
        row.verdict.value,
        row.why,
    ]


def rounded(rows: Sequence[Sequence[object]]) -> list[list[object]]:
    """The rows with six digits of each number; NaN becomes an empty cell."""
    return [list(map(_rounded_value, row)) for row in rows]


def _rounded_value(value: object) -> object:
    if isinstance(value, float):
        return "" if value != value else f"{value:.6g}"
    return value
