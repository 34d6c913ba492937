"""What no policy exceeds on a log: without rescale costs, and by nodes that have had the time to
start.

* The *no-cost bound*. If trainers are alike, it is the outcome of the same replay with all R = 0
  and a decision at every event; if they differ, that is no bound, and it is the maximum of a linear
  program (:mod:`.upper_bound`). The replay of trainers that are alike may run out of work, and then
  more trainers could do more.
* The *start bound*. A node that joins the pool trains R_up later at the earliest, whatever the
  policy does (sooner if a start from no nodes is shorter): at each moment at most P_jmax trainers
  share the nodes that joined R_up ago or earlier, those of the window's start included. Trainers
  that are alike then train no more than the integral of the best rate on that many nodes; for those
  that differ, the linear program counts these nodes only. Under ``paper`` costs nothing takes time
  to start, and there is no such bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from bftrainer.decide.allocation.exact import Exact
from bftrainer.decide.allocation.objectives import OBJECTIVES
from bftrainer.decide.domain.model import Trainer
from bftrainer.decide.domain.problem import Problem, TrainerDemand
from bftrainer.decide.domain.sizes import sizes_of
from bftrainer.decide.policies.bftrainer import BFTrainer
from bftrainer_replay.analysis.window_fragments import PoolSizes, pool_sizes_of, sizes_once_started
from bftrainer_replay.simulation.play import (
    OnTime,
    Scenario,
    free_of_costs,
    play,
    ran_out_s,
    static_outcome,
    trainings_of,
)
from bftrainer_replay.simulation.progress import CostModel
from bftrainer_replay.simulation.replay_world import DecideOn
from bftrainer_replay.simulation.upper_bound import upper_bound


@dataclass(frozen=True, slots=True)
class Bounds:
    """Upper bounds of a replay, in samples. ``no_cost`` holds without rescale costs, and
    ``ran_out_s`` is when the replay behind it ran out of work (None: never). ``start`` holds under
    the scenario's cost model; None under ``paper`` costs.

    ``static`` is A_s, to which U and the bounds are relative; 0: unknown, and so are they.
    """

    no_cost: float = 0.0
    start: float | None = None
    ran_out_s: float | None = None
    static: float = 0.0


def references(scenario: Scenario, begin: Callable[[str], OnTime]) -> Bounds:
    """Return the figures with which a replay's outcome is compared: A_s and two upper bounds.

    A_s is what the trainers do on a constant number of nodes. All depend on P_jmax (the limit of
    concurrent trainers): without it they are unknown, and the returned ``static`` is 0.

    ``begin`` is called with the name of each of the two computations; it returns the function that
    the computation calls with the time of every event, for a progress bar.
    """
    if scenario.max_parallel is None:
        return Bounds()
    static = static_outcome(scenario, on_time=begin("static nodes"))
    return replace(bounds_of(scenario, on_time=begin("no-cost bound")), static=static)


def bounds_of(scenario: Scenario, *, on_time: OnTime | None = None) -> Bounds:
    """Compute the no-cost bound and the start bound, of trainings alone."""
    trained = trainings_of(scenario)
    return replace(without_costs(trained, on_time=on_time), start=start_bound(trained))


def no_cost_bound(scenario: Scenario, *, on_time: OnTime | None = None) -> float:
    """Samples that no policy exceeds; if trainers are alike, provided that there is enough work."""
    return without_costs(scenario, on_time=on_time).no_cost


def without_costs(scenario: Scenario, *, on_time: OnTime | None = None) -> Bounds:
    """Return the no-cost bound, the most samples without rescale costs, and when its work ran out.

    If trainers are alike, it is the outcome of an optimal replay, else of the linear program of
    :func:`upper_bound`, which does not tell when work runs out.
    """
    trainers = _true_trainers(scenario)
    if not _are_alike(trainers):
        return Bounds(upper_bound(pool_sizes_of(scenario.window), trainers, _place_count(scenario)))
    free = replace(scenario, arrivals=free_of_costs(scenario.arrivals), decide_on=DecideOn.ALL)
    # Without costs, T_fwd scales all gains alike: any positive value gives the same decisions.
    policy = BFTrainer(Exact(), OBJECTIVES["throughput"], forward_s=1.0)
    outcome = play(free, policy, on_time=on_time, keep_entries=False, skip_queueing=True)
    return Bounds(outcome.totals.samples, ran_out_s=ran_out_s(outcome, free))


def start_bound(scenario: Scenario) -> float | None:
    """Return samples that no policy exceeds, as a node trains only some time after it joined.

    None under ``paper`` costs, where nothing takes time. No outcome is above the work of all
    trainers either.
    """
    if scenario.cost_model is CostModel.PAPER:
        return None
    trainers = _true_trainers(scenario)
    if not trainers:
        return 0.0
    wait_s = min(_shortest_start_s(scenario.cost_model.costs_of(trainer)) for trainer in trainers)
    started = sizes_once_started(scenario.window, wait_s)
    if not _are_alike(trainers):
        return upper_bound(started, trainers, _place_count(scenario))
    lengths = [
        math.inf if trainer.samples_total is None else trainer.samples_total for trainer in trainers
    ]
    places = min(_place_count(scenario), len(trainers))
    return min(_best_samples(started, trainers[0], places), sum(lengths))


def _shortest_start_s(trainer: Trainer) -> float:
    """Return the fewest seconds from a decision until new nodes of the trainer train: added to
    nodes that train, or as its first nodes.
    """
    return min(trainer.growth_s, trainer.starts_s(0) + trainer.scale_up_s)


def _best_samples(sizes: PoolSizes, trainer: Trainer, places: int) -> float:
    """Return the most samples of ``places`` trainers like this one on pools of these sizes.

    The nodes are divided for the largest rate at all times, without rescale costs.
    """
    demand = TrainerDemand(
        trainer.id,
        trainer.curve,
        trainer.min_nodes,
        trainer.max_nodes,
        scale_up_s=0.0,
        scale_down_s=0.0,
        sizes=trainer.sizes_with_zero,
    )
    # Each distinct number of usable nodes is solved once.
    usable_nodes, solution_index = np.unique(
        np.minimum(sizes.nodes, places * trainer.max_nodes), return_inverse=True
    )
    solve = Exact().solve
    best_per_s = [
        solve(Problem(int(nodes), forward_s=1.0, demands=(demand,) * places)).objective_value
        for nodes in usable_nodes
    ]
    return float(np.dot(np.array(best_per_s)[solution_index], sizes.duration_s))


def _place_count(scenario: Scenario) -> int:
    """Return P_jmax or, without it, the number of trainers."""
    return len(scenario.arrivals) if scenario.max_parallel is None else scenario.max_parallel


def _true_trainers(scenario: Scenario) -> list[Trainer]:
    """Return the trainers in order of submission, with their true curves."""
    ordered = sorted(scenario.arrivals, key=lambda arrival: arrival.at_s)
    return [arrival.actual or arrival.trainer for arrival in ordered]


def _are_alike(trainers: Sequence[Trainer]) -> bool:
    """Whether all trainers have the same curve and the same sizes."""
    return len({(trainer.curve, sizes_of(trainer)) for trainer in trainers}) <= 1
