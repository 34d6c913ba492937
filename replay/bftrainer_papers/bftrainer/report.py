"""The whole: what was assumed, the rows, and the files."""

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


def report_of(results: ExperimentResults) -> Reproduction:
    """The rows under what was assumed."""
    week, grid = results.week, results.grid
    mixed = len(results.inputs.arrivals["whole", DIVERSE, 0])
    origin = "of the table given" if results.told_trainers else "generated, R_up uniform in 17-19 s, R_dw in 11-13 s"
    model = (
        f"{week.machine_nodes:,} nodes, {week.span_s / 3600:.4g} h from {format_time(week.start_s)}, all of the log where a "
        f"queue has to become empty; {grid.trials:,} equal trainers and {mixed:,} diverse ones ({origin}), one every "
        f"{SPACING_S:g} s, 1 to 64 nodes, 130 million samples each",
        f"as the authors' replayer: decisions at changes of the pool only, rescaling costs lumps of samples; T_fwd "
        f"{BASE_FORWARD_S:g} s and 10 at once where nothing else is said; the exact solver, which has the MILP's optimum",
        f"T_fwd {_values(grid.forward_s)} s; P_jmax {_values(grid.parallel)}; rescale cost x {_values(grid.cost_factors)}",
        "tolerances stand in reproduce/bftrainer/paper.py since before the first run; runtimes count from admission to end",
    )
    return Reproduction("bftrainer", SOURCE, model, rows_of(evaluate(results)))


def write(out: Path, results: ExperimentResults, report: Reproduction) -> int:
    """Figures as PNG and CSV, tables as CSV, rows.csv last; returns how many files."""
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
