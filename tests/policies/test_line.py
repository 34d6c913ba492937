"""How many train is part of the decision: the line, its weights, and that nobody starves."""

from __future__ import annotations

from dataclasses import replace

import pytest
from policy_states import active, decide, fresh, state
from policy_states import trainer as malleable

from bftrainer.allocation.exact import Exact
from bftrainer.allocation.objectives import OBJECTIVES
from bftrainer.domain.model import Curve, Trainer
from bftrainer.domain.problem import Problem, TrainerDemand
from bftrainer.domain.state import Active
from bftrainer.errors import InvalidValueError
from bftrainer.policies.bftrainer import BFTrainer
from bftrainer.policies.line import UNKNOWN_S, line_of
from bftrainer_replay.simulation.fixed_pool import fixed_window
from bftrainer_replay.simulation.play import Scenario, play
from bftrainer_replay.simulation.world import Arrival

LINEAR = Curve((1, 64), (1.0, 64.0))
POLICIES = {name: BFTrainer(Exact(), OBJECTIVES[name], 120.0) for name in ("soon", "fair", "most")}


def waiting(name: str, samples: float | None, submitted_s: float = 0.0, done: float = 0.0, nodes: int = 0) -> Active:
    """One sample per second and node."""
    return replace(active(name, nodes, samples=samples, done=done, curve=LINEAR, max_nodes=64), admitted_s=submitted_s)


def test_the_weight_of_a_trainer_is_how_many_wait_for_it() -> None:
    trainers = [waiting("long", 900.0), waiting("short", 100.0), waiting("later", 100.0, submitted_s=50.0)]
    line = line_of(trainers, 1, 8, kappa=0.0, peak=10)
    assert dict(zip(line.members, line.weights, strict=True)) == {1: 1.0, 2: 3 / 4, 0: 2 / 4}
    assert line.first == 1
    line = line_of(trainers, 1, 8, kappa=0.5, peak=10)
    assert line.weights == ((2 + 5) / 9, 1.0, (3 + 5) / 9)


def test_a_trainer_submitted_later_than_the_key_of_another_is_never_before_it() -> None:
    old, short = waiting("old", 5000.0), waiting("short", 1.0, submitted_s=5000.5)
    assert line_of([short, old], 0, 8, 0.0, 2).first == 1


def test_unknown_lengths_stand_by_submission_until_a_day_of_work() -> None:
    known = waiting("known", 1000.0, submitted_s=100.0)
    endless = waiting("endless", None, submitted_s=500.0, done=UNKNOWN_S + 599.0)
    assert line_of([known, endless], 0, 8, 0.0, 2).first == 1
    assert line_of([known, replace(endless, samples_done=UNKNOWN_S + 601.0)], 0, 8, 0.0, 2).first == 0


def test_those_that_cannot_be_chosen_are_no_part_of_the_problem() -> None:
    alike = [waiting(f"t{i}", 1000.0, submitted_s=float(i)) for i in range(50)]
    other = replace(alike[-1], trainer=replace(malleable("wide", 3, 64), samples_total=1e9))
    line = line_of([*alike, other], 0, 4, 0.0, 51)
    assert line.members == (0, 1, 2, 3, 50), "four alike could fill the pool; one of another kind could be better"
    runs = replace(alike[40], nodes=frozenset("a"))
    assert 40 in line_of([*alike[:40], runs], 0, 4, 0.0, 41).members


@pytest.mark.parametrize("name", POLICIES)
def test_the_first_of_the_line_always_trains(name: str) -> None:
    """Linear curves are indifferent, and growing costs something: without the rule, the one that runs would keep all nodes."""
    runs = waiting("runs", 1e9, nodes=64)
    first = waiting("first", 100.0)
    counts = decide(POLICIES[name], fresh([runs, first], 64)).counts
    assert counts[1] >= 1
    wide = replace(
        first, trainer=replace(first.trainer, id="wide", min_nodes=70, max_nodes=99, curve=Curve((1, 99), (1, 99)))
    )
    assert sum(decide(POLICIES[name], fresh([runs, wide], 64)).counts) == 64, (
        "it does not fit: the next one is the first"
    )


def test_the_memory_is_the_most_unfinished_trainers_since_there_were_none() -> None:
    fair = POLICIES["fair"]
    trainers = [waiting(name, 1e5) for name in "abc"]
    _, memory = fair.decide(replace(fresh(trainers, 4), queue=(trainers[0].trainer,)), decide.event(0.0))
    assert memory == 4
    _, memory = fair.decide(state(trainers[:1], 4, memory=memory), decide.event(0.0))
    assert memory == 4
    assert fair.decide(state([], 4, memory=memory), decide.event(0.0))[1] == 0


@pytest.mark.parametrize("name", POLICIES)
def test_nobody_waits_longer_than_those_before_it_take_one_after_another(name: str) -> None:
    """Endless short trainers, one every 40 s, and a long one of 1,000 s among them, on one node: T_j is 1,200 s."""
    trainers = [(200.0, Trainer("long", LINEAR, 1, 64, 5.0, 5.0, 1000.0))]
    trainers += [(40.0 * i, Trainer(f"s{i}", LINEAR, 1, 64, 5.0, 5.0, 36.0)) for i in range(400)]
    arrivals = tuple(Arrival(at_s, trainer) for at_s, trainer in trainers)
    runs = play(Scenario(fixed_window(1, 0.0, 16_000.0), arrivals, None), POLICIES[name]).runs
    long = next(run for run in runs if run.trainer.id == "long")
    before_s = sum(41.0 for at_s, _ in trainers if at_s <= 1200.0)
    assert long.longest_wait_s(16_000.0) <= before_s
    assert long.finished_s is not None


def test_linear_trainers_run_one_after_another_and_concave_ones_side_by_side() -> None:
    linear = [waiting(f"t{i}", 1e5, submitted_s=float(i)) for i in range(4)]
    concave = [replace(active(f"t{i}"), admitted_s=float(i)) for i in range(4)]
    for name, counts in (("soon", (2, 1, 0, 0)), ("fair", (1, 1, 1, 0)), ("most", (1, 1, 1, 0))):
        assert decide(POLICIES[name], fresh(linear, 3)).counts == (3, 0, 0, 0)
        assert decide(POLICIES[name], fresh(concave, 3)).counts == counts


def test_weights_are_part_of_the_problem() -> None:
    demand = TrainerDemand("t", LINEAR, 1, 64, 5.0, 5.0, 2)
    with pytest.raises(InvalidValueError, match="2 weights for 1 trainers"):
        Problem(4, 120.0, (demand,), (1.0, 1.0))
    with pytest.raises(InvalidValueError, match="above 0"):
        Problem(4, 120.0, (demand,), (0.0,))
