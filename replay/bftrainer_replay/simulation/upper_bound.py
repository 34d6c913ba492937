"""An upper bound on the samples of any policy, for trainers that differ: a linear program over the
time at each pool size.

A replay without rescale costs is no bound if trainers differ: which model holds the P_jmax places
decides the outcome, and a policy that finishes slow models early can train more than one that
always maximizes throughput. The program knows nothing of when things happen, only of how long the
pool has each size. If K trainers are admitted in all:

* x[m,n,b] >= 0: seconds that places of model m spend on n nodes while the pool size is in bin b, n
  a breakpoint of O_m (sizes between breakpoints are mixtures of both neighbors),
* s_j: samples of trainer j, at most its total, and 0 for all but the first K trainers in order of
  submission,
* P_jmax places in every bin of length w_b and mean pool size N_b:
  sum x <= P_jmax w_b,  sum n x <= N_b w_b,
* no more places of a model than it has trainers:  sum over n of x[m,n,b] <= count_m w_b,
* what the places of a model train:  sum of s_j over m <= sum O_m(n) x,
* at most P_jmax of the K are unfinished, so  sum s_j / total_j >= K - P_jmax,

maximizing sum s_j; the bound is the maximum over K. Every schedule satisfies these constraints for
its K, and merging pool sizes into bins only adds up constraints that hold. The program has no
rescale costs, no arrival times and no integers but K.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import highspy
import numpy as np

from bftrainer.decide.allocation.highs import loaded
from bftrainer.decide.allocation.milp import ConstraintRows
from bftrainer.decide.domain.model import Curve, Trainer
from bftrainer.decide.domain.sizes import sizes_of
from bftrainer.errors import BFTrainerError
from bftrainer_replay.analysis.window_fragments import PoolSizes

_MAX_BINS = 48
_UNIT_SAMPLES = 1e6  # samples per unit of the program: keeps its numbers near 1
_TOLERANCE = 1e-9  # the share that may be missing from all the work


@dataclass(frozen=True, slots=True)
class _Levels:
    """The time spent at each pool size, merged into bins: the seconds and the mean number of nodes
    of each bin.
    """

    seconds: list[float]
    nodes: list[float]


@dataclass(frozen=True, slots=True)
class _Model:
    """The ``count`` trainers with the same curve and sizes; ``points`` are the node counts at which
    the curve bends or its sizes end.
    """

    curve: Curve
    points: tuple[int, ...]
    count: int


@dataclass(slots=True)
class _Admitted:
    """The linear program with the first K trainers admitted. ``group_of[i]`` is the group (model
    and length) of trainer i, ``lengths`` and ``counts`` are the length of a trainer and the number
    of admitted trainers by group.
    """

    solver: highspy.Highs
    finished_row: int
    group_of: Sequence[int]
    lengths: Sequence[float]
    max_parallel: int
    counts: list[int]

    def maximum(self, k: int) -> float | None:
        """Return the program's maximum with the first ``k`` trainers admitted; None if it is
        infeasible.

        From the last call, only the bounds of groups change in which a trainer was added or
        removed, and the number of trainers that must have finished.
        """
        admitted = sum(self.counts)  # by the last call
        changed_groups = self.group_of[min(admitted, k) : max(admitted, k)]
        for group in changed_groups:
            self.counts[group] += 1 if k > admitted else -1
        for group in set(changed_groups):
            self.solver.changeColBounds(group, 0.0, self.counts[group] * self.lengths[group])
        self.solver.changeRowBounds(
            self.finished_row, float(max(0, k - self.max_parallel)), highspy.kHighsInf
        )
        return _solve_from_basis(self.solver)


def upper_bound(sizes: PoolSizes, trainers: Sequence[Trainer], max_parallel: int) -> float:
    """Return samples that no policy exceeds on pools of these sizes without costs.

    They are the maximum, over the number K of trainers admitted, of a linear program (see the
    module). ``trainers`` are in order of submission, with their true curves.
    """
    levels = _levels_of(sizes)
    if not trainers or not levels.seconds:
        return 0.0
    model_of_trainer, models = _models_of(trainers)
    span_s = sum(levels.seconds)
    # Trainers of one model and length share a column.
    groups: dict[tuple[int, float | None], int] = {}
    group_of = [
        groups.setdefault((m, trainer.samples_total), len(groups))
        for m, trainer in zip(model_of_trainer, trainers, strict=True)
    ]
    lengths = []
    for m, total in groups:
        # A trainer of unknown length trains for all of the time at most.
        samples = max(models[m].curve.per_s) * span_s if total is None else total
        lengths.append(samples / _UNIT_SAMPLES)
    solver, finished_row = _linear_program(levels, models, list(groups), max_parallel)
    program = _Admitted(solver, finished_row, group_of, lengths, max_parallel, [0] * len(groups))
    # While all trainers can be finished, one more of them is more samples: the maximum is at the
    # last such K, or beyond.
    whole = np.cumsum([lengths[group] for group in group_of])
    low, high = min(max_parallel, len(trainers)), len(trainers)
    # The largest K with which all work can be done, by bisection.
    while low < high:
        middle = (low + high + 1) // 2
        if (program.maximum(middle) or 0.0) < whole[middle - 1] * (1 - _TOLERANCE):
            high = middle - 1
        else:
            low = middle
    best = 0.0
    for k in range(low, len(trainers) + 1):
        # Since no more than P_jmax of the first K + 1 are unfinished, neither are of the first K:
        # no larger K is feasible.
        optimum = program.maximum(k)
        if optimum is None:
            break
        best = max(best, optimum)
    return best * _UNIT_SAMPLES


def _models_of(trainers: Sequence[Trainer]) -> tuple[list[int], list[_Model]]:
    """Return the index of each trainer's model, and the models.

    Trainers of one model have the same curve and sizes.
    """
    places: dict[tuple[Curve, tuple[int, ...]], int] = {}
    model_of_trainer = [
        places.setdefault((trainer.curve, sizes_of(trainer)), len(places)) for trainer in trainers
    ]
    models = []
    for (curve, sizes), m in places.items():
        bends = {n for n in curve.nodes if sizes and sizes[0] <= n <= sizes[-1]}
        limits = {*sizes[:1], *sizes[-1:]}
        models.append(_Model(curve, tuple(sorted(bends | limits)), model_of_trainer.count(m)))
    return model_of_trainer, models


def _linear_program(
    levels: _Levels,
    models: Sequence[_Model],
    groups: Sequence[tuple[int, float | None]],
    max_parallel: int,
) -> tuple[highspy.Highs, int]:
    """Return the solver of the program without any trainer admitted, and the row of finished
    trainers.

    The columns are the samples of each group of trainers, then x: seconds of trainers of a model on
    a number of nodes in a bin of the pool size.
    """
    program = ConstraintRows(native_sos=True)
    samples = [program.variable(0.0, 0.0, objective=1.0) for _ in groups]
    longest_s = max_parallel * max(levels.seconds)
    spent = {
        (m, n, b): program.variable(0.0, longest_s)
        for m, model in enumerate(models)
        for n in model.points
        for b in range(len(levels.seconds))
    }

    def limit(entries: Sequence[tuple[int, float]], upper: float) -> None:
        program.row(-highspy.kHighsInf, upper, entries)

    for b, (seconds, nodes) in enumerate(zip(levels.seconds, levels.nodes, strict=True)):
        in_bin = [(n, x) for (_, n, x_bin), x in spent.items() if x_bin == b]
        # No more places than P_jmax at any time.
        limit([(x, 1.0) for _, x in in_bin], max_parallel * seconds)
        # No more nodes than the pool has.
        limit([(x, float(n)) for n, x in in_bin], nodes * seconds)
        for m, model in enumerate(models):
            if model.count < max_parallel:
                # No more trainers of a model than there are.
                limit([(spent[m, n, b], 1.0) for n in model.points], model.count * seconds)
    for m, model in enumerate(models):
        model_samples = [
            (x, 1.0) for x, (x_model, _) in zip(samples, groups, strict=True) if x_model == m
        ]
        place_samples = [
            (x, -model.curve.at(n) / _UNIT_SAMPLES)
            for (x_model, n, _), x in spent.items()
            if x_model == m
        ]
        # No more samples than the places of the model train.
        limit([*model_samples, *place_samples], 0.0)
    finished = []
    for x, (_, total) in zip(samples, groups, strict=True):
        finished.append((x, 0.0 if total is None else _UNIT_SAMPLES / total))
    limit(finished, highspy.kHighsInf)
    solver = loaded(highspy, program.milp(0), "the upper bound", {"threads": 1})
    return solver, len(program.rows) - 1


def _levels_of(sizes: PoolSizes) -> _Levels:
    """Return the time at each pool size, merged into at most ``_MAX_BINS`` bins.

    Sizes are merged in order, into bins of about the same length in time, with the mean size of
    each. Time without nodes does not count.
    """
    kept = (sizes.nodes > 0) & (sizes.duration_s > 0)
    if not kept.any():
        return _Levels([], [])
    levels, place = np.unique(sizes.nodes[kept], return_inverse=True)
    seconds = np.bincount(place, sizes.duration_s[kept], minlength=len(levels))
    ends = np.cumsum(seconds)
    # The bin of a size is where the middle of its time is.
    bin_numbers = (_MAX_BINS * (ends - seconds / 2) / ends[-1]).astype(np.int64)
    bin_numbers = np.minimum(bin_numbers, _MAX_BINS - 1)
    used_numbers, bins = np.unique(bin_numbers, return_inverse=True)
    bin_s = np.bincount(bins, seconds, minlength=len(used_numbers))
    bin_node_s = np.bincount(bins, seconds * levels, minlength=len(used_numbers))
    return _Levels(bin_s.tolist(), (bin_node_s / bin_s).tolist())


def _solve_from_basis(solver: highspy.Highs) -> float | None:
    """Solve the program from the basis of the last solution; None if it is infeasible.

    HiGHS seldom gives up from a basis ("Unknown"); it then starts again.
    """
    solver.run()
    if solver.getModelStatus() == highspy.HighsModelStatus.kUnknown:
        solver.clearSolver()
        solver.run()
    status = solver.getModelStatus()
    if status == highspy.HighsModelStatus.kOptimal:
        return float(solver.getInfo().objective_function_value)
    if status in (
        highspy.HighsModelStatus.kInfeasible,
        highspy.HighsModelStatus.kUnboundedOrInfeasible,
    ):
        return None
    raise BFTrainerError(
        f"the upper bound was not found: HiGHS ended with {solver.modelStatusToString(status)}"
    )
