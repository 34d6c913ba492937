"""What the runs gave, at hand for rows, tables and figures: results by cell, and what was measured besides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from bftrainer_papers.bftrainer.experiments import ExperimentPlan, Grid
from bftrainer_papers.bftrainer.solver_times import Times
from bftrainer_papers.bftrainer.speedups import Speedups
from bftrainer_replay.analysis.characterize import Characteristics
from bftrainer_replay.analysis.fragments import pool_sizes_of
from bftrainer_replay.logs.model import LogWindow
from bftrainer_replay.sweep.cell import Cell, Inputs
from bftrainer_replay.sweep.detail import Detail, read_detail
from bftrainer_replay.sweep.results import SweepRow
from bftrainer_replay.workload.curves import plain_name

Array = npt.NDArray[np.float64]
MOST_NODES = 64


@dataclass(frozen=True, slots=True)
class BigM:
    """Eqn 10 as printed: percent of the optimum lost at most, percent of events that it forbids, samples of the week."""

    loss: float
    binds: float
    samples: float


@dataclass(frozen=True)
class ExperimentResults:
    """All results. ``machine`` and ``first_week`` describe all nodes, ``others`` the logs of Table 1's other machines;
    ``told_trainers``: the diverse trainers are a table's and not generated.
    """

    inputs: Inputs
    grid: Grid
    plan: ExperimentPlan
    rows: Mapping[Cell, SweepRow]
    machine: Characteristics
    first_week: Characteristics
    slice_week: Characteristics
    others: Mapping[str, Characteristics]
    times: Times
    speedups: Speedups
    big_m: BigM
    static_until_done: Mapping[Cell, float]
    static_bins: Sequence[float]
    told_trainers: bool = True

    @property
    def week(self) -> LogWindow:
        """168 h of the chosen nodes."""
        return self.inputs.windows["week"]

    def u(self, cell: Cell) -> float:
        """U of a cell in percent; NaN where nothing could be trained."""
        efficiency = self.rows[cell].efficiency
        return float("nan") if efficiency is None else 100 * efficiency

    def done_s(self, cell: Cell) -> float:
        """When its last trainer ended; NaN if the log ends before."""
        at_s = self.rows[cell].result["all_done_s"]
        return float("nan") if at_s is None else float(at_s)

    def hours_until_done(self, cell: Cell) -> float:
        """From the log's start."""
        return (self.done_s(cell) - self.inputs.windows[cell.log].start_s) / 3600

    def integral_h(self, cell: Cell) -> float:
        """Node-hours that were idle until its last trainer ended (Eqn 17); NaN if the log ends before."""
        return idle_node_s(self.inputs.windows[cell.log], self.done_s(cell)) / 3600

    def unoccupied(self, cell: Cell) -> float:
        """Percent of those beyond P_jmax trainers of 64 nodes: more than all trainers could hold."""
        window, until_s = self.inputs.windows[cell.log], self.done_s(cell)
        return 100 * idle_node_s(window, until_s, cell.max_parallel * MOST_NODES) / idle_node_s(window, until_s)

    def u_until_done(self, cell: Cell) -> float:
        """U up to there, in percent (Fig. 14c)."""
        static = self.static_until_done.get(cell, float("nan"))
        return 100 * self.rows[cell].samples / static if static else float("nan")

    def runtime_h(self, cell: Cell, model: str | None = None) -> float:
        """Mean hours from admission to end of the trainers that were done, of one model or of all."""
        result = self.rows[cell].result
        told = result["mean_served_h"]
        if model is not None:  # the authors' table says DenseNet where the paper's curve is densenet
            models = {plain_name(name): each["mean_served_h"] for name, each in result["models"].items()}
            told = models.get(model)
        return float("nan") if told is None else float(told)

    @cached_property
    def details(self) -> dict[str, Detail]:
        """Of the MILP and of equal share."""
        return {cell.policy: self.detail(cell) for cell in (self.plan.base, self.plan.equal)}

    def detail(self, cell: Cell) -> Detail:
        """What a cell with detail kept."""
        return read_detail(self.rows[cell].result["detail"])

    @property
    def u_by_bin(self) -> dict[str, Array]:
        """U in each six hours, fractions: what was trained over what N_eq of these six hours would have (Fig. 10)."""
        static = np.array(self.static_bins)
        return {
            name: np.divide(detail.samples, static, out=np.zeros_like(static), where=static > 0)
            for name, detail in self.details.items()
        }


def idle_node_s(window: LogWindow, until_s: float, beyond: int = 0) -> float:
    """Integral of the idle nodes beyond so many, from the start to ``until_s``; NaN for a time that never came."""
    if until_s != until_s:
        return float("nan")
    sizes = pool_sizes_of(window)
    lengths = np.clip(np.minimum(sizes.start_s + sizes.duration_s, until_s) - sizes.start_s, 0, None)
    return float(np.dot(np.maximum(sizes.nodes - beyond, 0), lengths))
