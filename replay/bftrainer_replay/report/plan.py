"""The replays of a report: a few values of each setting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from bftrainer.decide.allocation.objectives import one_node_rate
from bftrainer.decide.domain.model import Trainer
from bftrainer_replay.sweep.cell import POOL, Cell, Inputs, Task, each_once, task
from bftrainer_replay.sweep.sample import LogSample

_MANY_TRAININGS = 40


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
        """Return the plan without the values of T_fwd and of costs with which growth would never
        pay.

        A replay refuses these, as its decisions look ahead for less time than a rescale takes
        (``rescale_s``). The base stays.
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
        """Return the replays that all cells need, one for each piece of the log.

        For the base, there is one more: of a pool (a workload that fills any node) beside the
        trainings.
        """
        replays = [
            task(cell_of_piece, inputs)
            for cell in self.cells
            for cell_of_piece in sample.cells(cell)
        ]
        pools = [task(cell_of_piece, inputs, POOL) for cell_of_piece in sample.cells(self.base)]
        return each_once([*replays, *pools])


def plan_of(base: Cell, workloads: Sequence[str] = ()) -> ReportPlan:
    """Return the replays of a report: ``base``, and one setting changed at a time.

    ``workloads`` are names of workloads with one model each.
    """
    # The pictures of the report show base: a replay with detail keeps all journal entries for them.
    # Other settings are compared by their totals; equal share, the reference, keeps its entries
    # too.
    base = replace(base, detail=True)
    totals_only = replace(base, detail=False)
    forward = [replace(totals_only, forward_s=forward_s) for forward_s in (30.0, 300.0, 900.0)]
    counts = _training_counts(base.max_parallel)
    parallel = [replace(totals_only, max_parallel=count) for count in counts]
    costs = [replace(totals_only, cost_factor=factor) for factor in (2.0, 4.0)]
    policies, objectives = [base], [base]
    if base.policy != "equal-share":
        policies.append(replace(base, policy="equal-share"))
    if base.objective != "throughput":
        objectives.append(replace(totals_only, objective="throughput"))
    return ReportPlan(
        base=base,
        policies=tuple(policies),
        forward=_with_base(base, forward, "forward_s"),
        parallel=_with_base(base, parallel, "max_parallel"),
        costs=_with_base(base, costs, "cost_factor"),
        objectives=tuple(objectives),
        models=tuple(replace(totals_only, workload=name) for name in workloads),
    )


def worst_and_best(trainers: Sequence[Trainer]) -> list[str]:
    """Return the models whose largest size gains least and most over one node.

    Empty if there is only one model.
    """
    gains = {
        trainer.model: trainer.curve.at(trainer.max_nodes) / one_node_rate(trainer)
        for trainer in trainers
    }
    if len(gains) < 2:
        return []
    by_gain = sorted(gains, key=lambda model: gains[model])
    return [by_gain[0], by_gain[-1]]


def _training_counts(base: int) -> tuple[int, ...]:
    """Return the numbers of trainings to replay beside ``base``: from a tenth of it, or from a
    quarter if it is large, since replays with many trainings take long.
    """
    if base < _MANY_TRAININGS:
        return (max(base // 10, 1), max(base // 3, 1), 3 * base)
    return (base // 4, base // 2, 2 * base)


def _with_base(base: Cell, others: Sequence[Cell], name: str) -> tuple[Cell, ...]:
    """Return ``base`` and the others in the order of their values of the setting ``name``, without
    others that have the value of ``base``.
    """
    kept = [cell for cell in others if getattr(cell, name) != getattr(base, name)]
    return tuple(sorted((base, *kept), key=lambda cell: getattr(cell, name)))
