"""From logs and workloads to the inputs of cells: trainers begin with the log, and there are enough to outlast it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bftrainer.domain.model import Curve
from bftrainer.errors import UnknownNameError, UserError
from bftrainer.policies.needs import check_needs
from bftrainer_replay.logs.model import LogWindow
from bftrainer_replay.simulation.play import resource_integral_node_s
from bftrainer_replay.simulation.world import Arrival
from bftrainer_replay.sweep.cell import Cell, Inputs
from bftrainer_replay.sweep.compute import policy_of
from bftrainer_replay.sweep.grid import WorkloadTable
from bftrainer_replay.workload.curves import TABLE_2, find_curve, read_curves
from bftrainer_replay.workload.workload import SAMPLES_TOTAL, diverse, hpo, read_workload, submissions

_SPARE = 1.1
_FEWEST, _MOST = 50, 50_000


@dataclass(frozen=True)
class SweepWorkload:
    """A named source of trainers: from a window and a seed."""

    name: str
    make: Callable[[LogWindow, int], tuple[Arrival, ...]]


def workload_of(table: WorkloadTable, folder: Path = Path()) -> SweepWorkload:
    """Read a table of trainers, or prepare to generate them; paths are relative to ``folder``."""
    curves = TABLE_2 if table.curves is None else read_curves(folder / table.curves)
    if table.trainers is not None:
        read = read_workload(folder / table.trainers, curves, table.model)
        return SweepWorkload(table.trainers.name, lambda window, seed: read.arrivals)
    if table.kind not in ("hpo", "diverse"):
        raise UnknownNameError("workload", table.kind, ("hpo", "diverse"))
    if table.count is not None and table.count < 1:
        raise UserError(f"count {table.count}: expected 1 or more")
    model = table.model or "shufflenet"
    if table.kind == "hpo":
        curves = {model: find_curve(model, curves)}

    def make(window: LogWindow, seed: int) -> tuple[Arrival, ...]:
        count = table.count or enough(window, curves)
        times = submissions(window.start_s, count, table.spacing_s)
        return hpo(model, times, curves) if table.kind == "hpo" else diverse(times, seed, curves)

    return SweepWorkload(f"hpo-{model}" if table.kind == "hpo" else "diverse", make)


def enough(window: LogWindow, curves: Mapping[str, Curve]) -> int:
    """So many trainers that even at their most efficient size they are not done before the log is over."""
    # The models come in turn: the node-seconds that one round of them takes at least.
    fewest_node_s = [SAMPLES_TOTAL / max(v / n for n, v in zip(c.nodes, c.per_s, strict=True)) for c in curves.values()]
    mean_node_s = sum(fewest_node_s) / len(fewest_node_s)
    wanted = math.ceil(_SPARE * resource_integral_node_s(window) / mean_node_s) + _FEWEST
    return min(wanted, _MOST)


def inputs_of(windows: Mapping[str, LogWindow], workloads: Sequence[SweepWorkload], cells: Sequence[Cell]) -> Inputs:
    """Whatever the cells refer to, checked: names of policies, objectives, solvers, and what policies need to know."""
    known = {workload.name: workload for workload in workloads}
    # Who waited is not looked at in a replay, and a million jobs are much to send to every process.
    bare = {name: replace(window, queue=None) for name, window in windows.items()}
    arrivals: dict[tuple[str, str, int], tuple[Arrival, ...]] = {}
    checked = set()
    for cell in cells:
        where = (cell.log, cell.workload, cell.seed)
        if where not in arrivals:
            arrivals[where] = known[cell.workload].make(bare[cell.log], cell.seed)
        what = (cell.workload, cell.policy, cell.objective, cell.solver)
        if what not in checked:
            checked.add(what)
            policy = policy_of(cell)
            for arrival in arrivals[where]:
                check_needs(policy, arrival.trainer)
    return Inputs(bare, arrivals)
