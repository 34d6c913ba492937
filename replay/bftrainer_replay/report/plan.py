"""The replays of a report: a few values of each setting by default, or the paper's grids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from bftrainer_replay.sweep.cell import Cell, Inputs, Task, TaskKind, task
from bftrainer_replay.sweep.parallel import numbers_to_try
from bftrainer_replay.sweep.sample import LogSample

_BOUNDS = (TaskKind.BOUND, TaskKind.START_BOUND)


@dataclass(frozen=True, slots=True)
class ReportPlan:
    """Cells by the question they answer; ``base`` is in most. A full plan's ``objectives`` vary T_fwd and P_jmax too."""

    base: Cell
    policies: tuple[Cell, ...]
    forward: tuple[Cell, ...]
    parallel: tuple[Cell, ...]
    costs: tuple[Cell, ...]
    objectives: tuple[Cell, ...]

    @property
    def cells(self) -> tuple[Cell, ...]:
        """All cells, each once."""
        every = (self.base, *self.policies, *self.forward, *self.parallel, *self.costs, *self.objectives)
        return tuple(dict.fromkeys(every))

    def beyond(self, rescale_s: float) -> ReportPlan:
        """Without values of T_fwd and of costs with which growth would never pay, which a replay refuses."""
        return ReportPlan(
            self.base,
            *(
                tuple(cell for cell in cells if cell is self.base or cell.looks_beyond(rescale_s))
                for cells in (self.policies, self.forward, self.parallel, self.costs, self.objectives)
            ),
        )

    def tasks(self, sample: LogSample, inputs: Inputs) -> tuple[Task, ...]:
        """For each piece of the log: the replays, the runs on constant nodes for each P_jmax, and the base's bounds.

        The runs on constant nodes for each bin are those of the pictures: of the piece that is shown.
        """
        found = [
            self.static_bins(sample, inputs),
            *(task(kind, c, inputs) for c in sample.cells(self.base) for kind in _BOUNDS),
        ]
        for cell in self.cells:
            for each in sample.cells(cell):
                found += [task(TaskKind.REPLAY, each, inputs), task(TaskKind.STATIC, each, inputs)]
        return tuple({each.key: each for each in found}.values())

    def static_bins(self, sample: LogSample, inputs: Inputs) -> Task:
        """A_s of each bin of the pictures."""
        return task(TaskKind.STATIC_BINS, replace(self.base, log=sample.shown), inputs)


def default_plan(base: Cell) -> ReportPlan:
    """One setting changed at a time."""
    base = replace(base, detail=True)
    return _plan(
        base,
        policies=("equal-share",),
        forward=(30.0, 300.0, 900.0),
        parallel=numbers_to_try(base.max_parallel),
        costs=(2.0, 4.0),
        objectives=("throughput",),
    )


def full_plan(base: Cell, policies: Sequence[str]) -> ReportPlan:
    """The paper's values, and all given policies."""
    base = replace(base, detail=True)
    plan = _plan(
        base,
        policies=policies,
        forward=(10.0, 30.0, 60.0, 90.0, 240.0, 480.0, 900.0),
        parallel=(5, 15, 20, 25, 30, 35),
        costs=(0.5, 2.0, 4.0, 8.0),
        objectives=("throughput", "scaling-efficiency"),
    )
    unweighted = tuple(replace(cell, objective="throughput", detail=False) for cell in (*plan.forward, *plan.parallel))
    return replace(plan, objectives=tuple(dict.fromkeys((*plan.objectives, *unweighted))))


def _plan(
    base: Cell,
    policies: Sequence[str],
    forward: Sequence[float],
    parallel: Sequence[int],
    costs: Sequence[float],
    objectives: Sequence[str],
) -> ReportPlan:
    bare = replace(base, detail=False)
    return ReportPlan(
        base=base,
        policies=(base, *(replace(base, policy=p, detail=p == "equal-share") for p in policies if p != base.policy)),
        forward=_sorted(base, [replace(base, forward_s=s) for s in forward], "forward_s"),
        parallel=_sorted(base, [replace(bare, max_parallel=p) for p in parallel], "max_parallel"),
        costs=_sorted(base, [replace(bare, cost_factor=f) for f in costs], "cost_factor"),
        objectives=(base, *(replace(bare, objective=o) for o in objectives if o != base.objective)),
    )


def _sorted(base: Cell, others: Sequence[Cell], name: str) -> tuple[Cell, ...]:
    kept = [cell for cell in others if getattr(cell, name) != getattr(base, name)]
    return tuple(sorted((base, *kept), key=lambda cell: getattr(cell, name)))
