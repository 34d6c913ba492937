"""All results that rows and figures need, from the cells' results and from computations of their
own.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from bftrainer import __version__
from bftrainer.decide.policies.bftrainer import BFTrainer
from bftrainer.errors import UserError
from bftrainer.system.files import write_atomically
from bftrainer_papers.bftrainer.big_m import PROBLEMS, largest_loss, over_a_replay
from bftrainer_papers.bftrainer.cells import STATIC_BINS, paper_task, results_of
from bftrainer_papers.bftrainer.experiments import WEEK_H, ExperimentGrid, ExperimentPlan
from bftrainer_papers.bftrainer.results import BigM, ExperimentResults
from bftrainer_papers.bftrainer.solver_times import Times, solve_times
from bftrainer_papers.bftrainer.speedups import Speedups, compare, outcomes_per_event
from bftrainer_papers.reproduction import OnStep
from bftrainer_replay.analysis.characterize import Characteristics, characterize
from bftrainer_replay.logs.model import LogWindow, cut_short
from bftrainer_replay.simulation.play import play, static_outcome
from bftrainer_replay.sweep.cell import Cell, Inputs
from bftrainer_replay.sweep.compute import policy_of, scenario_of
from bftrainer_replay.sweep.result_files import ResultStore


@dataclass(frozen=True, slots=True)
class Memo:
    """Keeps results in one folder, by name and a hash of what they depend on. A file that is not
    JSON is computed again.
    """

    folder: Path

    def get(
        self, name: str, depends_on: object, compute: Callable[[], dict[str, Any]]
    ) -> dict[str, Any]:
        """Return the stored result for this name and these inputs; if there is none, compute and
        store it.

        The name of the file contains a hash of the program's version and of ``depends_on``, so that
        a result of other inputs is never read. A damaged file is replaced.
        """
        content = json.dumps([__version__, depends_on], sort_keys=True)
        path = self.folder / f"{name}-{hashlib.sha256(content.encode()).hexdigest()[:16]}.json"
        try:
            kept = json.loads(path.read_bytes())
        except (FileNotFoundError, ValueError):
            kept = None
        except OSError as error:
            raise UserError(f"{path}: cannot be read: {error.strerror}") from error
        if isinstance(kept, dict):
            return kept
        result = compute()
        try:
            write_atomically(path, f"{json.dumps(result, indent=1)}\n".encode())
        except OSError as error:
            raise UserError(f"{self.folder}: cannot be written: {error.strerror}") from error
        return result


def collect(
    inputs: Inputs,
    grid: ExperimentGrid,
    plan: ExperimentPlan,
    folder: Path,
    others: Mapping[str, LogWindow],
    on_step: OnStep = lambda text: None,
    *,
    trainers_from_table: bool = True,
) -> ExperimentResults:
    """Return all results of the experiment.

    Those of the cells (replays) are in ``folder`` already; slow computations beside them are run
    now and stored there as well. ``others`` are the logs of other machines for Table 1.
    """
    memo, store = Memo(folder), ResultStore(folder)
    rows = {cell: results_of(cell, inputs, store) for cell in plan.cells}
    bins = store.get(paper_task(STATIC_BINS, plan.base, inputs))
    assert bins is not None, "all tasks have run"
    machine = inputs.windows["machine"]
    on_step("solving random maps (Fig. 5)")
    times = _solver_times(memo, grid)
    on_step("comparing MILP and equal share event by event (5.1.2)")
    speedups = _compare_by_event(memo, inputs, plan)
    on_step("evaluating Eqn 10 as printed")
    big_m = _big_m(memo, inputs, plan)
    on_step("computing A_s until all trainers complete (Fig. 14c)")
    static = {}
    # Only cells that run until all trainers are done have a last completion.
    for cell in (
        *plan.until_done.values(),
        *(c for cells in plan.parallel.values() for c in cells),
    ):
        done_s = rows[cell].result["all_done_s"]
        if done_s is not None:
            static[cell] = _static_outcome(memo, inputs, cell, float(done_s))
    return ExperimentResults(
        inputs=inputs,
        grid=grid,
        plan=plan,
        rows=rows,
        machine=characterize(machine),
        first_week=characterize(cut_short(machine, machine.start_s + WEEK_H * 3600)),
        slice_week=characterize(inputs.windows["week"]),
        others={name: _window_characteristics(window) for name, window in others.items()},
        times=times,
        speedups=speedups,
        big_m=big_m,
        static_until_done=static,
        static_bins=bins["samples"],
        trainers_from_table=trainers_from_table,
    )


def _window_characteristics(window: LogWindow) -> Characteristics:
    return characterize(replace(window, queue=None))


def _solver_times(memo: Memo, grid: ExperimentGrid) -> Times:
    sizes = (grid.solver_trainers, grid.solver_nodes, grid.solves)
    times: Times = memo.get("solver-times", sizes, lambda: dict(solve_times(*sizes)))
    return times


def _dependencies(inputs: Inputs, *cells: Cell) -> list[object]:
    """Return what a result from these cells depends on: hashes of logs and trainers, and the
    settings.

    Detail is left out, since it changes no result.
    """
    return [
        [
            inputs.window_digests[cell.log],
            inputs.arrival_digests[cell.log, cell.workload, cell.seed],
            repr(replace(cell, detail=False)),
        ]
        for cell in cells
    ]


def _compare_by_event(memo: Memo, inputs: Inputs, plan: ExperimentPlan) -> Speedups:
    """Return the comparison of MILP and equal share event by event (5.1.2), computed once and
    stored.
    """

    def compute() -> dict[str, object]:
        milp, equal = (
            outcomes_per_event(play(scenario_of(cell, inputs), policy_of(cell)))
            for cell in (plan.base, plan.equal)
        )
        return asdict(compare(milp, equal))

    values = memo.get("speedups", _dependencies(inputs, plan.base, plan.equal), compute)
    return Speedups(**{**values, "ratios": tuple(values["ratios"])})


def _big_m(memo: Memo, inputs: Inputs, plan: ExperimentPlan) -> BigM:
    """Return what Eqn 10 as printed costs: on random problems, and in a replay; stored as well."""

    def compute() -> dict[str, object]:
        policy = policy_of(plan.base)
        assert isinstance(policy, BFTrainer)
        binds, samples = over_a_replay(scenario_of(plan.base, inputs), policy)
        return asdict(BigM(largest_loss(), binds, samples))

    return BigM(**memo.get("big-m", [PROBLEMS, *_dependencies(inputs, plan.base)], compute))


def _static_outcome(memo: Memo, inputs: Inputs, cell: Cell, done_s: float) -> float:
    """Return A_s (samples on a constant number of nodes) up to ``done_s``, or NaN if it is 0.

    ``done_s`` is when the cell's last trainer completed.
    """

    def compute() -> dict[str, object]:
        scenario = scenario_of(cell, inputs)
        return {
            "samples": static_outcome(replace(scenario, window=cut_short(scenario.window, done_s)))
        }

    # A_s depends on neither the objective nor T_fwd: cells that differ only in these share one
    # stored result.
    plain = replace(cell, objective="throughput", forward_s=0.0)
    samples = float(
        memo.get("static-until-done", [done_s, *_dependencies(inputs, plain)], compute)["samples"]
    )
    return samples if samples else math.nan
