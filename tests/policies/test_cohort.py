"""Policy cohort: the worth as its formula says, the best split, and what it remembers of joins."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from bftrainer.decide.allocation.exact import Exact
from bftrainer.decide.allocation.objectives import OBJECTIVES
from bftrainer.decide.core.coordinator import adopt, decide, observe
from bftrainer.decide.domain.events import Event, PoolChanged
from bftrainer.decide.domain.model import Curve, Trainer
from bftrainer.decide.domain.rescaling import Rescaling
from bftrainer.decide.domain.state import Active, Nodes, State
from bftrainer.decide.policies.cohort import Cohort, Cohorts
from bftrainer.decide.policies.cohort_split import Division
from bftrainer.decide.policies.cohort_worth import CohortModel
from bftrainer.decide.policies.settings import PolicySettings
from bftrainer.errors import InvalidValueError
from bftrainer.pilot.persistence import codec
from bftrainer.plugins import build_policy

MODEL = CohortModel()
POLICY = Cohort(OBJECTIVES["throughput"])
CURVE = Curve(tuple(range(1, 17)), tuple(10.0 * n**0.9 for n in range(1, 17)))


def trainer(name: str, up_s: float = 180.0, total: float | None = 1e7, **more: object) -> Trainer:
    return Trainer(name, CURVE, 1, 16, up_s, 120.0, total, **more)  # type: ignore[arg-type]


def nodes(letter: str, count: int) -> Nodes:
    return frozenset(f"{letter}{i:02d}" for i in range(count))


def after(state: State, event: Event) -> State:
    before = observe(state, event)
    return adopt(before, decide(before, POLICY, event))


def joined(at_s: float, *groups: Nodes) -> Event:
    return Event(at_s, (PoolChanged(frozenset().union(*groups)),))


def test_the_stall_that_is_left_is_known_for_a_trainer_without_a_start_too() -> None:
    first = nodes("a", 8)
    state = observe(State(1, active=(Active(trainer("t")),)), Event(0.0, (PoolChanged(first),)))
    state = adopt(state, decide(state, POLICY, Event(0.0, ())))

    def ready_s(at_s: float, *changes: PoolChanged) -> float | None:
        nonlocal state
        state = observe(state, Event(at_s, changes))
        left = state.active[0].rescaling
        return None if left is None else left.ready_s

    assert state.active[0].nodes == first
    assert ready_s(100.0) == 180.0  # R_up after the start
    assert (
        ready_s(170.0, PoolChanged(left=nodes("a", 1))) == 290.0
    )  # the longer of the two: R_dw after the loss
    assert ready_s(290.0) is None


def literal_worth(
    t: Trainer, held: list[tuple[float, int]], stall_s: float, left: float | None, whole: bool
) -> float:
    """The formula, one trainer at a time: ``held`` has (age, nodes) of each cohort; ``whole``: hits
    are not discounted.
    """
    n = sum(k for _, k in held)
    if n == 0:
        return 0.0
    within_s = 300.0 * max(t.scale_up_s / 18.0, 0.1) ** 0.9
    useful = hits = 0.0
    for age_s, k in held:
        a = max(age_s, 60.0)
        mean_s = 140.0 + min(a, 1200.0) + 0.35 * max(a - 1200.0, 0.0)
        useful += k * 1.3 * mean_s * math.log(1 + within_s / (1.3 * mean_s)) / n
        hits += within_s / (mean_s + within_s)
    if len(held) == 1 and not whole:
        hits *= 1 - 1 / (1 + 0.8 * math.log(n))
    rate = t.curve.at(n)
    end = 0.0 if left is None else t.scale_up_s / (1 + (stall_s + left / rate) / 300.0)
    return rate * (useful * math.exp(-t.scale_down_s * hits / within_s) - stall_s - end)


def best_by_hand(
    trainers: list[Trainer],
    held: list[list[tuple[float, int]]],
    stalls: list[float],
    age_s: float,
    k: int,
) -> tuple[tuple[int, ...], Callable[[tuple[int, ...]], float]]:
    """The split of one free cohort with the largest sum of worths, by trying all."""

    def sum_of(split: tuple[int, ...]) -> float:
        total = 0.0
        for t, own, stall_s, more in zip(trainers, held, stalls, split, strict=True):
            grown = [*own, (age_s, more)] if more else own
            total += literal_worth(
                t, grown, max(stall_s, t.scale_up_s) if more else stall_s, t.samples_total, False
            )
        return total

    splits = [s for s in itertools.product(range(k + 1), repeat=len(trainers)) if sum(s) <= k]
    return max(splits, key=sum_of), sum_of


@pytest.mark.parametrize("seed", range(25))
def test_a_free_cohort_is_split_as_the_formula_says(seed: int) -> None:
    rng = random.Random(seed)
    trainers = [trainer(f"t{j}", 180.0, rng.choice((None, 2e4, 1e6))) for j in range(3)]
    ages = [rng.uniform(0, 4000) for _ in range(3)]
    sizes = [rng.randint(0, 6) for _ in range(3)]
    now, stalls = 10_000.0, [rng.choice((0.0, 90.0)) for _ in range(3)]
    new, age_s = nodes("z", rng.randint(1, 6)), rng.choice((0.0, 900.0, 5000.0))
    own = [nodes("abc"[j], sizes[j]) for j in range(3)]
    cohorts = [(now - ages[j], own[j]) for j in range(3) if sizes[j]] + [(now - age_s, new)]
    active = tuple(
        Active(t, mine, rescaling=Rescaling(frozenset(), now + s, now + s) if s else None)
        for t, mine, s in zip(trainers, own, stalls, strict=True)
    )
    state = State(3, now, frozenset().union(new, *own), active)
    division = Division(MODEL, [CURVE] * 3, state, sorted(cohorts, key=lambda c: c[0]))
    free = next(c for c in division._cohorts if c.nodes)
    division._divide_cohort(free)
    found = tuple(len(set(given) & new) for given in division.nodes())
    held = [[(ages[j], sizes[j])] if sizes[j] else [] for j in range(3)]
    best, sum_of = best_by_hand(trainers, held, stalls, age_s, len(new))
    assert sum_of(found) == pytest.approx(sum_of(best), rel=1e-9)


def test_two_cohorts_that_pay_only_together_are_united() -> None:
    """Needs four nodes at least: neither of the two cohorts is enough alone."""
    big = replace(trainer("t1"), min_nodes=4)
    state = State(1, 0.0, active=(Active(big),))
    state = after(state, joined(0.0, nodes("a", 3)))
    assert not state.active[0].nodes
    state = after(state, joined(100.0, nodes("b", 3)))
    assert state.active[0].nodes == nodes("a", 3) | nodes("b", 3)


def test_a_trainer_that_waits_gets_a_cohort_whole_rather_than_a_running_one_being_moved() -> None:
    state = State(2, 0.0, active=(Active(trainer("t1")), Active(trainer("t2"))))
    state = after(replace(state, active=state.active[:1]), joined(0.0, nodes("a", 4)))
    state = after(
        replace(state, active=(*state.active, Active(trainer("t2")))), joined(3000.0, nodes("b", 4))
    )
    assert [a.nodes for a in state.active] == [nodes("a", 4), nodes("b", 4)]


def test_no_running_trainer_gives_a_node_to_another() -> None:
    state = after(State(2, active=(Active(trainer("t1")),)), joined(0.0, nodes("a", 16)))
    state = replace(state, at_s=9000.0, active=(*state.active, Active(trainer("t2"))))
    assert [len(a.nodes) for a in after(state, Event(9000.0, ())).active] == [16, 0]


def test_the_joins_are_remembered_through_a_restart_and_a_node_that_returns_is_new() -> None:
    state = after(State(1, 0.0, active=(Active(trainer("t1")),)), joined(0.0, nodes("a", 3)))
    state = after(state, joined(400.0, nodes("b", 2)))
    state = codec.loads(codec.dumps(state))
    assert state.memory == Cohorts(((0.0, nodes("a", 3)), (400.0, nodes("b", 2))))
    state = after(state, Event(500.0, (PoolChanged(left=frozenset({"a00"})),)))
    state = after(state, joined(800.0, frozenset({"a00"})))
    assert state.memory == Cohorts(
        ((0.0, frozenset({"a01", "a02"})), (400.0, nodes("b", 2)), (800.0, frozenset({"a00"})))
    )


def test_nodes_that_join_within_seconds_are_one_cohort() -> None:
    state = after(State(1), joined(0.0, nodes("a", 3)))
    state = after(state, joined(4.0, nodes("b", 2)))
    state = after(state, joined(9.0, nodes("c", 1)))
    assert state.memory == Cohorts(((0.0, nodes("a", 3) | nodes("b", 2)), (9.0, nodes("c", 1))))


def test_a_node_whose_window_ends_soon_is_left_free() -> None:
    state = State(1, active=(Active(trainer("t1", up_s=18.0)),))
    event = replace(joined(0.0, nodes("a", 4)), window_ends=(("a00", 30.0), ("a01", 30.0)))
    state = after(state, event)
    assert state.active[0].nodes == frozenset({"a02", "a03"})


def test_a_trainer_below_its_smallest_size_stops_and_its_nodes_serve_another() -> None:
    pair = trainer("t1", sizes=(4, 8))
    state = State(2, 1000.0, nodes("a", 2), (Active(pair, nodes("a", 2)), Active(trainer("t2"))))
    state = after(state, Event(1000.0, ()))
    assert [len(a.nodes) for a in state.active] == [0, 2]


def test_nodes_that_are_not_worth_a_start_yet_get_another_look_where_nothing_trains() -> None:
    state = State(1, active=(Active(trainer("t1", up_s=3600.0)),))
    event = joined(0.0, nodes("a", 4))
    state = after(state, event)
    looks = 0
    while not state.active[0].nodes:
        assert state.wake_at_s is not None
        assert looks < 12
        state, looks = after(state, Event(state.wake_at_s, ())), looks + 1
    assert looks


@pytest.mark.parametrize("option", ["first_s=0", "late=-1", "horizon_s=0", "together_s=-1"])
def test_constants_that_make_no_sense_are_refused(option: str) -> None:
    with pytest.raises(
        InvalidValueError, match=f"policy cohort: {option.partition('=')[0]} must be finite"
    ):
        build_policy(f"cohort?{option}", PolicySettings(Exact(), OBJECTIVES["throughput"]))
