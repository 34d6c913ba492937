"""The tasks of the paper's cells: replays with the data of its figures, and its yardsticks.

``STATIC`` is A_s, ``STATIC_BINS`` is A_s of each bin, ``BOUND`` the no-cost bound. Cells share what
does not depend on their policy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from bftrainer_papers.bftrainer.bins import Bins, bin_edges, bins_of
from bftrainer_papers.bftrainer.per_event import RescaleReturns, returns, taken_within
from bftrainer_replay.analysis.window_fragments import pool_sizes_of
from bftrainer_replay.logs.model import LogWindow
from bftrainer_replay.simulation.bounds import no_cost_bound
from bftrainer_replay.simulation.play import (
    MOST,
    ReplayOutcome,
    Scenario,
    on_constant_nodes,
    static_outcome,
)
from bftrainer_replay.sweep.cell import Cell, Inputs, Task, task
from bftrainer_replay.sweep.compute import replayed, scenario_of
from bftrainer_replay.sweep.result_files import Result, ResultStore

REPLAY, STATIC, STATIC_BINS, BOUND = "replay of the paper", "static", "static-bins", "bound"
_SPARE = 20  # trainers per P_jmax
Array = npt.NDArray[np.float64]


def paper_task(kind: str, cell: Cell, inputs: Inputs) -> Task:
    """Build the task of one of the kinds above for a cell."""
    return task(cell, inputs, kind, None if kind == REPLAY else ("max_parallel", "cost_model"))


def compute(task: Task, inputs: Inputs) -> Result:
    """Compute the result of one task of a cell, by the task's kind, as a JSON object.

    A cell is one replay: a log, a workload, a policy and its settings. ``STATIC`` and
    ``STATIC_BINS`` are A_s, the samples that the same trainers train on a constant number of nodes
    (as many as were idle on average), for the whole window or for each bin; ``BOUND`` is an upper
    bound without rescale costs. Any other kind is the replay itself; its ``all_done_s`` is None if
    some trainer did not end.
    """
    cell, whole = task.cell, scenario_of(task.cell, inputs)
    if task.kind == STATIC:
        return {"samples": static_outcome(whole)}
    if task.kind == STATIC_BINS:
        return {"samples": static_outcomes(whole, bin_edges(whole.window).tolist())}
    if task.kind == BOUND:
        return {"samples": no_cost_bound(whole)}
    result, outcome = replayed(cell, whole)
    ends = [run.finished_s for run in outcome.runs]
    done_s = None
    if None not in ends:
        done_s = max((end for end in ends if end is not None), default=None)
    return {
        **result,
        "all_done_s": done_s,
        **_mean_runtimes(outcome),
        "detail": _detail_results(whole, outcome) if cell.detail else None,
    }


@dataclass(frozen=True, slots=True)
class CellResults:
    """The results of a cell's tasks: ``static`` is A_s in samples, ``bound`` the no-cost bound
    (None: not computed).
    """

    result: Result
    static: float
    bound: float | None

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


def results_of(cell: Cell, inputs: Inputs, store: ResultStore) -> CellResults:
    """Read the results of a cell's three tasks (replay, A_s, bound) from the store.

    All tasks must have run, except that the bound is optional: some cells have none.
    """
    result, static, bound = (
        store.get(paper_task(kind, cell, inputs)) for kind in (REPLAY, STATIC, BOUND)
    )
    assert result is not None, "all tasks have run"
    assert static is not None, "all tasks have run"
    return CellResults(result, static["samples"], None if bound is None else bound["samples"])


@dataclass(frozen=True, slots=True)
class CellDetail:
    """A replay in bins of six hours, and what its decisions led to (:mod:`.per_event`)."""

    bins: Bins
    taken_within: tuple[tuple[float, float], ...]
    returns: RescaleReturns


def _detail_results(scenario: Scenario, outcome: ReplayOutcome) -> dict[str, object]:
    """Return the results over time, preemptions after decisions, and returns of rescales."""
    bins = bins_of(scenario.window, outcome.entries, outcome.totals)
    return {
        "bins": {name: values.tolist() for name, values in asdict(bins).items()},
        "taken_within": taken_within(outcome.entries),
        "returns": asdict(returns(outcome.entries, outcome.totals)),
    }


def read_detail(values_by_name: dict[str, Any]) -> CellDetail:
    """Build the detail of a cell from its stored result."""
    bins = Bins(
        **{
            name: np.array(values, dtype=np.float64)
            for name, values in values_by_name["bins"].items()
        }
    )
    within = tuple((span, share) for span, share in values_by_name["taken_within"])
    return CellDetail(bins, within, RescaleReturns(**values_by_name["returns"]))


def _mean_runtimes(outcome: ReplayOutcome) -> dict[str, object]:
    """Return the mean hours from admission to end of the trainers that ended, overall and by model.

    This is the runtime of Tables 3 and 4.
    """
    hours: dict[str, list[float]] = {}
    for run in outcome.runs:
        if run.finished_s is not None and run.started_s is not None and run.admitted_s is not None:
            hours.setdefault(run.trainer.model, []).append((run.finished_s - run.admitted_s) / 3600)
    ended = [hour for model_hours in hours.values() for hour in model_hours]
    means = {model: float(np.mean(model_hours)) for model, model_hours in sorted(hours.items())}
    return {
        "mean_served_h": float(np.mean(ended)) if ended else None,
        "served_h_by_model": means,
    }


def static_outcomes(scenario: Scenario, edges_s: Sequence[float]) -> tuple[float, ...]:
    """Return A_s of every span between two edges, in samples.

    A_s is what the same queue of trainers, from its beginning, trains on a constant number of
    nodes: as many as were idle on average in that span (its N_eq). Of the trainers submitted before
    a span, only the first ``_SPARE`` times P_jmax (the limit of concurrent trainers) take part;
    if they do not last, the rule of :func:`static_outcome` applies.
    """
    outcomes = []
    sizes = pool_sizes_of(scenario.window)
    node_s_until = np.concatenate(([0.0], np.cumsum(sizes.nodes * sizes.duration_s)))
    # Idle node-seconds from the window's start to each edge.
    at_edges = np.interp(edges_s, np.append(sizes.start_s, scenario.window.end_s), node_s_until)
    ordered = sorted(scenario.arrivals, key=lambda arrival: arrival.at_s)
    for (start_s, end_s), idle_node_s in zip(
        pairwise(edges_s), np.diff(at_edges).tolist(), strict=True
    ):
        early = [replace(a, at_s=start_s) for a in ordered if a.at_s <= start_s][
            : _SPARE * (scenario.max_parallel or MOST)
        ]
        later = [a for a in ordered if start_s < a.at_s < end_s]
        span = LogWindow(
            start_s, end_s, frozenset(), (), scenario.window.machine_nodes, scenario.window.source
        )
        part = replace(scenario, window=span, arrivals=(*early, *later))
        outcomes.append(on_constant_nodes(part, idle_node_s / (end_s - start_s)))
    return tuple(outcomes)
