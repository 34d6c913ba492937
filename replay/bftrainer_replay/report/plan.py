"""The replays of a report: a few values of each setting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from bftrainer.decide.allocation.objectives import one_node_rate
from bftrainer.decide.domain.model import Trainer
from bftrainer_replay.sweep.cell import POOL, Cell, Inputs, Task, each_once, task
from bftrainer_replay.sweep.sample import LogSample

_MANY = 40


@dataclass(frozen=True, slots=True)
class ReportPlan:
    """Cells by the question they answer; ``base`` is in most. ``models``: trainings of one model
    each.
    """

    base: Cell
    policies: tuple[Cell, ...]
    forward: tuple[Cell, ...]
    parallel: tuple[Cell, ...]
    costs: tuple[Cell, ...]
    objectives: tuple[Cell, ...]
    models: tuple[Cell, ...] = ()

    @property
    def cells(self) -> tuple[Cell, ...]:
        """All cells of the plan, each once."""
        every = (
            self.base,
            *self.policies,
            *self.forward,
            *self.parallel,
            *self.costs,
            *self.objectives,
            *self.models,
        )
        return tuple(dict.fromkeys(every))

    def beyond(self, rescale_s: float) -> ReportPlan:
        """Leave out values of T_fwd and of costs with which growth would never pay: a replay
        refuses them.
        """
        return ReportPlan(
            self.base,
            *(
                tuple(cell for cell in cells if cell is self.base or cell.looks_beyond(rescale_s))
                for cells in (
                    self.policies,
                    self.forward,
                    self.parallel,
                    self.costs,
                    self.objectives,
                    self.models,
                )
            ),
        )

    def tasks(self, sample: LogSample, inputs: Inputs) -> tuple[Task, ...]:
        """Return the replays that all cells need on each piece of the log, and that of a pool
        beside the trainings.
        """
        replays = [
            task(cell_of_piece, inputs)
            for cell in self.cells
            for cell_of_piece in sample.cells(cell)
        ]
        pools = [task(cell_of_piece, inputs, POOL) for cell_of_piece in sample.cells(self.base)]
        return each_once([*replays, *pools])


def plan_of(base: Cell, workloads: Sequence[str] = ()) -> ReportPlan:
    """Plan the report's replays: ``base``, and one setting changed at a time. ``workloads`` have
    one model each.
    """
    bare = replace(base, detail=False)
    base = replace(base, detail=True)
    return ReportPlan(
        base=base,
        policies=(base, *(replace(base, policy=p) for p in ("equal-share",) if p != base.policy)),
        forward=_sorted(
            base, [replace(bare, forward_s=s) for s in (30.0, 300.0, 900.0)], "forward_s"
        ),
        parallel=_sorted(
            base,
            [replace(bare, max_parallel=p) for p in _numbers(base.max_parallel)],
            "max_parallel",
        ),
        costs=_sorted(base, [replace(bare, cost_factor=f) for f in (2.0, 4.0)], "cost_factor"),
        objectives=(
            base,
            *(replace(bare, objective=o) for o in ("throughput",) if o != base.objective),
        ),
        models=tuple(replace(bare, workload=name) for name in workloads),
    )


def worst_and_best(trainers: Sequence[Trainer]) -> list[str]:
    """Return the models whose largest size gains least and most over one node; none if there is
    only one.
    """
    gains = {t.model: t.curve.at(t.max_nodes) / one_node_rate(t) for t in trainers}
    return (
        sorted(gains, key=lambda model: gains[model])[:: max(len(gains) - 1, 1)]
        if len(gains) > 1
        else []
    )


def _numbers(base: int) -> tuple[int, ...]:
    """Return the numbers of trainings to replay beside ``base``: from a tenth of it, or from a
    quarter if it is large, since replays with many trainings take long.
    """
    return (
        (max(base // 10, 1), max(base // 3, 1), 3 * base)
        if base < _MANY
        else (base // 4, base // 2, 2 * base)
    )


def _sorted(base: Cell, others: Sequence[Cell], name: str) -> tuple[Cell, ...]:
    kept = [cell for cell in others if getattr(cell, name) != getattr(base, name)]
    return tuple(sorted((base, *kept), key=lambda cell: getattr(cell, name)))
