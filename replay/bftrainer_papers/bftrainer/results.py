"""The results of all runs: by cell, and the measurements that belong to no cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from bftrainer_papers.bftrainer.cells import CellDetail, CellResults, read_detail
from bftrainer_papers.bftrainer.experiments import ExperimentGrid, ExperimentPlan
from bftrainer_papers.bftrainer.solver_times import Times
from bftrainer_papers.bftrainer.speedups import Speedups
from bftrainer_replay.analysis.characterize import Characteristics
from bftrainer_replay.analysis.window_fragments import pool_sizes_of
from bftrainer_replay.logs.model import LogWindow
from bftrainer_replay.sweep.cell import Cell, Inputs
from bftrainer_replay.workload.curves import plain_name

Array = npt.NDArray[np.float64]
MOST_NODES = 64


@dataclass(frozen=True, slots=True)
class BigM:
    """Eqn 10 as printed: largest loss of the optimum (%), events at which it excludes our decision
    (%), samples of the week.
    """

    loss: float
    binds: float
    samples: float


@dataclass(frozen=True)
class ExperimentResults:
    """All results of the experiments, from which claims and figures are made. ``machine`` and
    ``first_week`` describe all nodes, ``slice_week`` the first 1,024 of them, ``others`` the logs
    of the other machines of Table 1.

    With ``trainers_from_table`` the diverse trainers are from a table and not generated.
    """

    inputs: Inputs
    grid: ExperimentGrid
    plan: ExperimentPlan
    rows: Mapping[Cell, CellResults]
    machine: Characteristics
    first_week: Characteristics
    slice_week: Characteristics
    others: Mapping[str, Characteristics]
    times: Times
    speedups: Speedups
    big_m: BigM
    static_until_done: Mapping[Cell, float]
    static_bins: Sequence[float]
    trainers_from_table: bool = True

    @property
    def week(self) -> LogWindow:
        """168 h of the 1,024 nodes."""
        return self.inputs.windows["week"]

    def u(self, cell: Cell) -> float:
        """U of a cell in percent; NaN if nothing could be trained."""
        efficiency = self.rows[cell].efficiency
        return float("nan") if efficiency is None else 100 * efficiency

    def done_s(self, cell: Cell) -> float:
        """Return when the cell's last trainer completed, in seconds since 1970; NaN if the log ends
        before.
        """
        at_s = self.rows[cell].result["all_done_s"]
        return float("nan") if at_s is None else float(at_s)

    def hours_until_done(self, cell: Cell) -> float:
        """Hours from the log's start to the completion of the last trainer."""
        return (self.done_s(cell) - self.inputs.windows[cell.log].start_s) / 3600

    def integral_h(self, cell: Cell) -> float:
        """Return the idle node-hours until the completion of the last trainer (Eqn 17); NaN if the
        log ends before.
        """
        return idle_node_s(self.inputs.windows[cell.log], self.done_s(cell)) / 3600

    def unoccupied(self, cell: Cell) -> float:
        """Return the percentage of idle node-hours until the last completion that no trainer could
        use.

        They are those on more nodes than P_jmax trainers of 64 nodes.
        """
        window, until_s = self.inputs.windows[cell.log], self.done_s(cell)
        return (
            100
            * idle_node_s(window, until_s, cell.max_parallel * MOST_NODES)
            / idle_node_s(window, until_s)
        )

    def u_until_done(self, cell: Cell) -> float:
        """U until the completion of the last trainer, in percent (Fig. 14c)."""
        static = self.static_until_done.get(cell, float("nan"))
        return 100 * self.rows[cell].samples / static if static else float("nan")

    def runtime_h(self, cell: Cell, model: str | None = None) -> float:
        """Return the mean hours from admission to completion, over the completed trainers of one
        model or of all.
        """
        result = self.rows[cell].result
        hours = result["mean_served_h"]
        if model is not None:  # the authors' table has DenseNet, the paper's curve densenet
            by_model = result["served_h_by_model"]
            hours = {plain_name(name): mean_h for name, mean_h in by_model.items()}.get(model)
        return float("nan") if hours is None else float(hours)

    @cached_property
    def details(self) -> dict[str, CellDetail]:
        """The details of the MILP and of equal share."""
        return {cell.policy: self.detail(cell) for cell in (self.plan.base, self.plan.equal)}

    def detail(self, cell: Cell) -> CellDetail:
        """The detail of a cell that was replayed with detail."""
        return read_detail(self.rows[cell].result["detail"])

    @property
    def u_by_bin(self) -> dict[str, Array]:
        """U of each six hours as fractions, by policy: the samples trained over A_s of the same six
        hours (Fig. 10).
        """
        static = np.array(self.static_bins)
        return {
            name: np.divide(
                detail.bins.samples, static, out=np.zeros_like(static), where=static > 0
            )
            for name, detail in self.details.items()
        }


def idle_node_s(window: LogWindow, until_s: float, beyond: int = 0) -> float:
    """Return the integral of the idle nodes above ``beyond``, from the window's start to
    ``until_s``; NaN if ``until_s`` is NaN.
    """
    # NaN: not all trainers were completed.
    if until_s != until_s:
        return float("nan")
    sizes = pool_sizes_of(window)
    lengths = np.clip(
        np.minimum(sizes.start_s + sizes.duration_s, until_s) - sizes.start_s, 0, None
    )
    return float(np.dot(np.maximum(sizes.nodes - beyond, 0), lengths))
