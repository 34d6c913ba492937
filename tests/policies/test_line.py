"""How many train is part of the decision: the line, its weights, and that nobody starves."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from support import random_problems
from support.policy_states import active, decide, fresh, state
from support.policy_states import trainer as malleable

from bftrainer.decide.allocation.exact import Exact
from bftrainer.decide.allocation.gains import gain
from bftrainer.decide.allocation.objectives import OBJECTIVES
from bftrainer.decide.allocation.two_costs import stretched
from bftrainer.decide.domain.events import PoolChanged
from bftrainer.decide.domain.model import Curve, Trainer
from bftrainer.decide.domain.problem import Problem, TrainerDemand
from bftrainer.decide.domain.state import Active
from bftrainer.decide.policies.bftrainer import BFTrainer, demands_of
from bftrainer.decide.policies.line import (
    UNKNOWN_S,
    PriorityOrder,
    behind_starts,
    priority_order,
)
from bftrainer.decide.policies.plain import Plain
from bftrainer.errors import InvalidValueError
from bftrainer_papers.fixed_pool import fixed_window
from bftrainer_replay.logs.model import LogWindow, PoolEvent
from bftrainer_replay.simulation.play import Scenario, play
from bftrainer_replay.simulation.replay_world import Arrival
from bftrainer_replay.simulation.time_to_done import fluid_bound, time_to_done

FAIR = BFTrainer(Exact(), OBJECTIVES["fair"], OBJECTIVES["fair"].forward_s)
LINEAR = Curve((1, 64), (1.0, 64.0))
POLICIES = {name: BFTrainer(Exact(), OBJECTIVES[name], 120.0) for name in ("soon", "fair", "most")}


def waiting(
    name: str, samples: float | None, submitted_s: float = 0.0, done: float = 0.0, nodes: int = 0
) -> Active:
    """One sample per second and node."""
    return replace(
        active(name, nodes, samples=samples, done=done, curve=LINEAR, max_nodes=64),
        admitted_s=submitted_s,
    )


def trainer_of(name: str, curve: Curve, min_nodes: int, samples: float) -> Trainer:
    return Trainer(name, curve, min_nodes, 9, 18.0, 12.0, samples)


def test_the_weight_of_a_trainer_is_how_many_wait_for_it() -> None:
    trainers = [
        waiting("long", 900.0),
        waiting("short", 100.0),
        waiting("later", 100.0, submitted_s=50.0),
    ]
    line = priority_order(trainers, 1, 8, kappa=0.0, peak=10)
    assert dict(zip(line.members, line.weights, strict=True)) == {1: 1.0, 2: 3 / 4, 0: 2 / 4}
    assert line.guaranteed == 1
    line = priority_order(trainers, 1, 8, kappa=0.5, peak=10)
    assert line.weights == ((2 + 5) / 9, 1.0, (3 + 5) / 9)


def test_a_trainer_submitted_later_than_the_key_of_another_is_never_before_it() -> None:
    old, short = waiting("old", 5000.0), waiting("short", 1.0, submitted_s=5000.5)
    assert priority_order([short, old], 0, 8, 0.0, 2).guaranteed == 1


def test_an_unknown_length_counts_as_a_day_of_work_on_one_node() -> None:
    known = waiting("known", 86_000.0, submitted_s=100.0)
    fresh_one = waiting("unknown", None, submitted_s=100.0)
    assert priority_order([known, fresh_one], 0, 8, 0.0, 2).guaranteed == 0
    longer = waiting("known", 87_000.0, submitted_s=100.0)
    assert priority_order([longer, fresh_one], 0, 8, 0.0, 2).guaranteed == 1
    endless = replace(fresh_one, samples_done=UNKNOWN_S + 599.0)
    assert priority_order([longer, endless], 0, 8, 0.0, 2).guaranteed == 1
    endless = replace(fresh_one, samples_done=UNKNOWN_S + 601.0)
    assert priority_order([longer, endless], 0, 8, 0.0, 2).guaranteed == 0
    earlier = waiting("other", None, submitted_s=99.0)
    assert priority_order([fresh_one, earlier], 0, 8, 0.0, 2).guaranteed == 1, "by submission"


@pytest.mark.parametrize("name", POLICIES)
def test_submissions_of_unknown_length_do_not_evict_a_running_trainer(name: str) -> None:
    """Two nodes train ten hours of known work when three trainers of unknown length come."""
    policy = POLICIES[name]
    runs = replace(waiting("runs", 72_000.0, nodes=2), sized_s=0.0)
    new = [waiting(f"new{i}", None, submitted_s=3600.0) for i in range(3)]
    now = fresh([runs, *new], 2, at_s=3600.0)
    assert decide(policy, now).counts == (2, 0, 0, 0)


@pytest.mark.parametrize("name", POLICIES)
def test_a_start_pays_off_before_an_unknown_length_may_displace_it(name: str) -> None:
    """The running trainer is far longer than a day, so it gives way, but T_fwd after its start."""
    policy = POLICIES[name]
    runs = replace(waiting("runs", 1e7, nodes=2), sized_s=100.0)
    new = waiting("new", None, submitted_s=150.0)
    decision = decide(policy, fresh([runs, new], 2, at_s=150.0))
    assert (decision.counts, decision.wake_at_s) == ((2, 0), 100.0 + policy.forward_s)
    later = decide(policy, fresh([runs, new], 2, at_s=100.0 + policy.forward_s))
    assert later.counts[1] >= 1
    assert later.wake_at_s is None


def test_a_trainer_of_unknown_length_waits_at_most_t_fwd_for_starts() -> None:
    """A trainer that was started after the submission is not waited for: the policy has chosen it
    over the new one.
    """
    new = waiting("new", None, submitted_s=150.0)
    before, after = (
        replace(waiting(name, 1e7, nodes=1), sized_s=at_s)
        for name, at_s in (("before", 149.0), ("after", 150.0))
    )
    starts = behind_starts([before, after, new], 200.0, 120.0)
    assert {j: (start.trainer_id, start.until_s) for j, start in starts.items()} == {
        2: ("before", 269.0)
    }
    assert behind_starts([before, after, new], 269.0, 120.0) == {}
    assert behind_starts([before, replace(new, nodes=frozenset("n"))], 200.0, 120.0) == {}
    assert behind_starts([before, replace(new, samples_done=1.0)], 200.0, 120.0) == {}
    known = replace(new, trainer=replace(new.trainer, samples_total=1e9))
    assert behind_starts([before, known], 200.0, 120.0) == {}


def test_those_that_cannot_be_chosen_are_no_part_of_the_problem() -> None:
    pairs = [waiting(f"t{i}", 1000.0, submitted_s=float(i)) for i in range(50)]
    pairs = [replace(a, trainer=replace(a.trainer, min_nodes=2)) for a in pairs]
    other = replace(pairs[-1], trainer=replace(malleable("other", 1, 64), samples_total=1e9))
    assert priority_order([*pairs, other], 0, 5, 0.0, 51).members == (0, 1, 50), (
        "two alike could fill the pool"
    )
    singles = [waiting(f"s{i}", 100.0) for i in range(5)]
    assert priority_order([*pairs, *singles], 0, 5, 0.0, 55).members == (50, 51, 52, 53, 54)
    runs = replace(pairs[40], nodes=frozenset("a"))
    assert priority_order([*singles, runs], 0, 5, 0.0, 6).members == (0, 1, 2, 3, 4, 5)


@pytest.mark.parametrize("seed", range(60))
def test_the_optimum_is_that_of_all(seed: int) -> None:
    rng = random.Random(seed)
    pool, models = rng.randint(1, 14), [random_problems.curve(rng, 1, 9) for _ in range(3)]
    trainers, free = [], pool
    for i in range(rng.randint(1, 24)):
        t = trainer_of(f"t{i}", rng.choice(models), rng.choice((1, 1, 2, 3)), rng.uniform(1e3, 1e5))
        nodes = rng.choice((0, 0, rng.randint(0, min(free, 9))))
        free -= nodes
        trainers.append(Active(t, frozenset(f"{i}-{n}" for n in range(nodes)), admitted_s=float(i)))
    objective = OBJECTIVES[rng.choice(list(POLICIES))]
    kappa = objective.kappa or 0.0

    def optimum(line: PriorityOrder) -> float:
        chosen = [trainers[j] for j in line.members]
        demands = demands_of(replace(state(chosen, 0), active=tuple(chosen)), objective)
        return Exact().solve(Problem(pool, 120.0, demands, line.weights)).objective_value

    everyone = priority_order(trainers, 0, 10**6, kappa, 30)
    assert optimum(priority_order(trainers, 0, pool, kappa, 30)) == pytest.approx(
        optimum(everyone), rel=1e-9
    )


@pytest.mark.parametrize("name", POLICIES)
def test_the_first_of_the_line_always_trains(name: str) -> None:
    """Linear curves are indifferent, and growing costs something: without the rule, the one that
    runs would keep all nodes.
    """
    runs = waiting("runs", 1e9, nodes=64)
    first = waiting("first", 100.0)
    counts = decide(POLICIES[name], fresh([runs, first], 64)).counts
    assert counts[1] >= 1
    wide = replace(
        first,
        trainer=replace(
            first.trainer, id="wide", min_nodes=70, max_nodes=99, curve=Curve((1, 99), (1, 99))
        ),
    )
    assert sum(decide(POLICIES[name], fresh([runs, wide], 64)).counts) == 64, (
        "it does not fit: the next one is the first"
    )


def test_the_memory_is_the_most_unfinished_trainers_since_there_were_none() -> None:
    fair = POLICIES["fair"]
    trainers = [waiting(name, 1e5) for name in "abc"]
    _, memory = fair.decide(
        replace(fresh(trainers, 4), queue=(trainers[0].trainer,)), decide.event(0.0)
    )
    assert memory == 4
    _, memory = fair.decide(state(trainers[:1], 4, memory=memory), decide.event(0.0))
    assert memory == 4
    assert fair.decide(state([], 4, memory=memory), decide.event(0.0))[1] == 0


@pytest.mark.parametrize("name", POLICIES)
def test_nobody_waits_longer_than_those_before_it_take_one_after_another(name: str) -> None:
    """Endless short trainers, one every 40 s, and a long one of 1,000 s among them, on one node:
    T_j is 1,200 s.
    """
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


def test_soon_is_the_shortest_first_where_curves_are_linear_and_rescales_cost_nothing() -> None:
    rng = random.Random(5)
    lengths = [10.0 ** rng.uniform(1, 4) for _ in range(80)]
    arrivals = tuple(
        Arrival(5.0 * i, Trainer(f"t{i}", LINEAR, 1, 64, 0.0, 0.0, s))
        for i, s in enumerate(lengths)
    )
    window = fixed_window(20, 0.0, 50_000.0)
    bound = fluid_bound(window, arrivals)
    done = time_to_done(
        window, arrivals, play(Scenario(window, arrivals, None), POLICIES["soon"]).runs
    )
    assert bound.mean_h is not None
    assert done.mean_h is not None
    assert bound.mean_h <= done.mean_h <= 1.02 * bound.mean_h
    assert done.last_h == pytest.approx(bound.last_h)


RACE = Curve(tuple(range(1, 9)), tuple(n**0.947 for n in range(1, 9)))
BUSY = (
    (0, 3, 30),
    (15, 2, 20),
    (45, 4, 25),
    (60, 3, 15),
    (90, 2, 40),
    (100, 4, 20),
    (135, 3, 30),
    (150, 4, 15),
)
"""(second, nodes, seconds) of main jobs, again every 175 s; two at most run at once, on the first
or the last four nodes.
"""


def busy_window(rounds: int) -> LogWindow:
    """Eight nodes; main jobs take three to eight of them in turn."""
    events: list[PoolEvent] = []
    for number, (at_s, count, seconds) in enumerate(BUSY * rounds):
        nodes = frozenset(f"n{4 * (number % 2) + i:06}" for i in range(count))
        begin_s = 1.0 + at_s + 175.0 * (number // len(BUSY))
        none = frozenset[str]()
        events += [
            PoolEvent(begin_s, PoolChanged(none, nodes)),
            PoolEvent(begin_s + seconds, PoolChanged(nodes, none)),
        ]
    events.sort(key=lambda event: event.at_s)
    return replace(fixed_window(8, 0.0, 200.0 * rounds), events=tuple(events))


@pytest.mark.parametrize("rescale_s", [1.0, 2.0, 4.0])
@pytest.mark.parametrize("work_s", [20.0, 60.0])
def test_short_trials_are_done_no_later_than_as_plain_jobs(work_s: float, rescale_s: float) -> None:
    """A rescale is worth its cost only until the trainer's end: 24 trials, of which a start takes 2
    to 20 %.
    """
    trials = [Trainer(f"t{i:02}", RACE, 1, 8, rescale_s, rescale_s / 2, work_s) for i in range(24)]
    window, arrivals = busy_window(6), tuple(Arrival(0.0, trial) for trial in trials)
    done = [
        time_to_done(window, arrivals, play(Scenario(window, arrivals, None), p).runs)
        for p in (Plain(), FAIR)
    ]
    (mean, last), (fair_mean, fair_last) = [(d.mean_h or 0.0, d.last_h or 0.0) for d in done]
    assert 0 < fair_mean <= 1.02 * mean
    assert 0 < fair_last <= 1.02 * last


@pytest.mark.parametrize("seed", range(40))
def test_longer_costs_are_a_shorter_time_ahead(seed: int) -> None:
    rng = random.Random(seed)
    problem = random_problems.overlapping(rng) if seed % 2 else random_problems.mixed(rng)
    factor = rng.uniform(1.0, 9.0)
    for demand in problem.demands:
        for n in range(demand.max_nodes + 1):
            if demand.is_legal(n):
                short = gain(demand, n, 120.0)
                assert gain(stretched(demand, factor), n, factor * 120.0) == pytest.approx(
                    factor * short
                )


def test_weights_are_part_of_the_problem() -> None:
    demand = TrainerDemand("t", LINEAR, 1, 64, 5.0, 5.0, 2)
    with pytest.raises(InvalidValueError, match="2 weights for 1 trainer"):
        Problem(4, 120.0, (demand,), (1.0, 1.0))
    with pytest.raises(InvalidValueError, match="above 0"):
        Problem(4, 120.0, (demand,), (0.0,))
