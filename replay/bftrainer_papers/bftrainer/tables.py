"""Tables 1, 3 and 4 with ours beside the paper's, and all rows, as CSV."""

from __future__ import annotations

from collections.abc import Sequence

from bftrainer_papers.bftrainer.found import ExperimentResults
from bftrainer_papers.bftrainer.measure import table_1
from bftrainer_papers.bftrainer.paper import TABLE_1, runtime_tolerance_h
from bftrainer_papers.bftrainer.runtimes import runtime_cells
from bftrainer_papers.report import ComparisonRow
from bftrainer_replay.csv_tables import csv_bytes

RUNTIME_HEADER = ("model", "max_parallel", "paper_h", "ours_h", "tolerance_h", "verdict", "ours_forward_10_h")


def runtime_table(found: ExperimentResults, objective: str) -> list[tuple[str, int, float, float, float, str, float]]:
    """Table 3 (throughput) or 4 (scaling efficiency), a row per cell, judged each by itself; last ours at T_fwd 10."""
    table = []
    short = runtime_cells(found, objective, found.plan.parallel_short)
    for (model, p, paper, ours), (*_, at_10) in zip(
        runtime_cells(found, objective, found.plan.parallel), short, strict=True
    ):
        tolerance = runtime_tolerance_h(paper)
        verdict = ComparisonRow("", paper, ours, "h", tolerance, signed=False).verdict.value
        table.append((model, p, paper, ours, tolerance, verdict, at_10))
    return table


def files(found: ExperimentResults, rows: Sequence[ComparisonRow]) -> dict[str, bytes]:
    """By file name."""
    systems = {"Summit": found.machine, **found.others}
    first = [
        (system, column, paper, _plain(table_1(systems[system])[column]) if system in systems else "")
        for system, values in TABLE_1.items()
        for column, paper in zip(("INC/h", "DEC/h", "ratio", "eq-nodes"), values, strict=True)
    ]
    runtimes = {
        f"table-{number}.csv": as_csv(RUNTIME_HEADER, runtime_table(found, objective))
        for number, objective in ((3, "throughput"), (4, "scaling-efficiency"))
    }
    judged = [
        (r.what, "" if r.paper is None else r.paper, r.ours, "" if r.tolerance is None else r.tolerance, r.unit,
         r.verdict.value, r.why)
        for r in rows
    ]  # fmt: skip
    return {
        "table-1.csv": as_csv(("system", "column", "paper", "ours"), first),
        **runtimes,
        "rows.csv": as_csv(("what", "paper", "ours", "tolerance", "unit", "verdict", "why"), judged),
    }


def as_csv(header: Sequence[str], rows: Sequence[Sequence[object]]) -> bytes:
    """One table."""
    return csv_bytes(header, ([_plain(value) for value in row] for row in rows))


def _plain(value: object) -> object:
    if isinstance(value, float):
        return "" if value != value else f"{value:.6g}"
    return value
