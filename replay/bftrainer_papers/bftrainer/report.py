"""The reproduction of BFTrainer's paper: assumptions, rows, and files."""

from __future__ import annotations

from pathlib import Path

from bftrainer.system.files import write_atomically
from bftrainer_papers.bftrainer.claims import SOURCE, rows_of
from bftrainer_papers.bftrainer.evaluate import evaluate
from bftrainer_papers.bftrainer.experiments import BASE_FORWARD_S, DIVERSE, SPACING_S
from bftrainer_papers.bftrainer.figures import figures
from bftrainer_papers.bftrainer.results import ExperimentResults
from bftrainer_papers.bftrainer.tables import files
from bftrainer_papers.reproduction import Reproduction
from bftrainer_replay.logs.event_log import format_time


def reproduction_of(results: ExperimentResults) -> Reproduction:
    """Return the rows of the reproduction, with what was assumed and generated."""
    week, grid = results.week, results.grid
    mixed = len(results.inputs.arrivals["whole", DIVERSE, 0])
    origin = (
        "from the given table"
        if results.trainers_from_table
        else "generated, R_up uniform in 17-19 s, R_dw in 11-13 s"
    )
    model = (
        f"{week.machine_nodes:,} nodes, {week.span_s / 3600:.4g} h from "
        f"{format_time(week.start_s)}, the whole log if a "
        f"queue has to become empty; {grid.trials:,} equal trainers and {mixed:,} diverse "
        f"trainers ({origin}), one every "
        f"{SPACING_S:g} s, 1 to 64 nodes, 130 million samples each",
        "as in the authors' replayer: decisions only when the pool changes, rescaling costs "
        "lumps of samples; T_fwd "
        f"{BASE_FORWARD_S:g} s and 10 concurrent trainers unless stated otherwise; the exact "
        "solver (the MILP's optimum)",
        f"T_fwd {_values(grid.forward_s)} s; P_jmax {_values(grid.parallel)}; rescale cost x "
        f"{_values(grid.cost_factors)}",
        "tolerances (bftrainer_papers/bftrainer/claims.py) were fixed before the first run; "
        "runtimes are from admission to "
        "completion",
    )
    return Reproduction("bftrainer", SOURCE, model, rows_of(evaluate(results)))


def write(out: Path, results: ExperimentResults, report: Reproduction) -> int:
    """Write figures as PNG and CSV, tables as CSV, and rows.csv last; return the number
    of files.
    """
    tables = files(results, report.rows)
    rows = {"rows.csv": tables.pop("rows.csv")}
    drawn = {
        f"{picture.name}.{suffix}": data
        for picture in figures(results)
        for suffix, data in (("png", picture.file), ("csv", picture.csv))
    }
    everything = {**tables, **drawn, **rows}
    for name, data in everything.items():
        write_atomically(out / name, data)
    return len(everything)


def _values(values: tuple[float, ...]) -> str:
    return ", ".join(f"{value:g}" for value in values)
