"""Replays in which the policy does not know the curves, or knows them wrongly."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import pytest
from core.test_loop_properties import POOL_POLICIES
from replay.windows import summit_names, summit_window, window
from support.command_line import bftrainer, complaint
from support.data import data_file
from support.node_names import first, last

from bftrainer.decide.allocation.exact import Exact
from bftrainer.decide.allocation.objectives import OBJECTIVES
from bftrainer.decide.core.loop import run
from bftrainer.decide.domain.events import RateSeen, StallSeen
from bftrainer.decide.domain.model import Curve, Learning, Trainer
from bftrainer.decide.domain.state import State
from bftrainer.decide.policies.bftrainer import BFTrainer
from bftrainer.decide.policies.timed import TimedPolicy
from bftrainer_replay.comparison.compare import with_sizes_and_losses
from bftrainer_replay.conformance.checks import plans
from bftrainer_replay.conformance.policy_contract import builder_of
from bftrainer_replay.logs.model import LogWindow
from bftrainer_replay.simulation.bounds import no_cost_bound
from bftrainer_replay.simulation.learned_curves import without_curves
from bftrainer_replay.simulation.ledger import Ledger
from bftrainer_replay.simulation.meter import Meter
from bftrainer_replay.simulation.play import Scenario, play, static_outcome
from bftrainer_replay.simulation.progress import CostModel, ReplayedTrainer
from bftrainer_replay.simulation.replay_world import Arrival, ReplayWorld
from bftrainer_replay.workload.curves import TABLE_2, read_curves
from bftrainer_replay.workload.workload import read_workload, submissions, trainers_of_many_users

POLICY = BFTrainer(Exact(), OBJECTIVES["throughput"], 120.0)
CURVE = Curve((1, 8), (10.0, 70.0))


def restless(hours: float = 3.0, nodes: int = 40, seed: int = 1) -> LogWindow:
    """A pool that changes about every two minutes."""
    rng, names = random.Random(seed), [f"n{i:02d}" for i in range(nodes)]
    flips, at_s = [], 0.0
    while (at_s := at_s + rng.expovariate(1 / 120)) < hours * 3600:
        flips.append((at_s, rng.sample(names, rng.randint(1, 6))))
    return window(hours * 3600, names[: nodes // 2], *flips, nodes=nodes)


def scenario(**changes: object) -> Scenario:
    arrivals = trainers_of_many_users(submissions(0.0, 60, 60.0), seed=3)
    return replace(Scenario(restless(), arrivals, 6), **changes)  # type: ignore[arg-type]


def test_noise_moves_nothing_where_curves_are_known() -> None:
    plain = scenario()
    noisy = play(replace(plain, noise=0.5, noise_seed=7), POLICY)
    quiet = play(plain, POLICY)
    assert [e.counts for e in noisy.entries] == [e.counts for e in quiet.entries]
    assert noisy.totals == quiet.totals


def flat(arrivals: tuple[Arrival, ...], learning: Learning | None = None) -> tuple[Arrival, ...]:
    """As users describe them who take every size for as fast as the smallest."""
    slow = [
        Curve(a.trainer.curve.nodes, (a.trainer.curve.at(1),) * len(a.trainer.curve.nodes))
        for a in arrivals
    ]
    return tuple(
        replace(a, trainer=replace(a.trainer, curve=curve, learning=learning), actual=a.trainer)
        for a, curve in zip(arrivals, slow, strict=True)
    )


@pytest.mark.parametrize("told", [without_curves, flat])
def test_the_yardsticks_know_the_truth_whatever_the_policy_is_told(
    told: Callable[[tuple[Arrival, ...]], tuple[Arrival, ...]],
) -> None:
    plain = scenario()
    said = replace(plain, arrivals=told(plain.arrivals))
    assert static_outcome(said) == static_outcome(plain)
    assert no_cost_bound(said) == no_cost_bound(plain)


@pytest.mark.parametrize("by_model", [True, False])
def test_learning_comes_near_to_knowing(by_model: bool) -> None:
    plain = scenario()
    known = play(plain, POLICY).totals.samples
    arrivals = without_curves(plain.arrivals, by_model=by_model)
    learned = play(
        replace(plain, arrivals=arrivals, noise=0.1, noise_seed=1), POLICY
    ).totals.samples
    assert learned >= 0.93 * known


def test_learning_undoes_a_flat_curve() -> None:
    plain = scenario()
    known = play(plain, POLICY).totals.samples
    wrong = play(replace(plain, arrivals=flat(plain.arrivals)), POLICY).totals.samples
    learning = replace(plain, arrivals=flat(plain.arrivals, Learning(key="")), noise=0.1)
    learned = play(learning, POLICY).totals.samples
    assert wrong < 0.5 * known
    assert learned > 0.85 * known


def test_equal_seeds_give_equal_replays() -> None:
    plain = scenario()
    said = replace(plain, arrivals=without_curves(plain.arrivals), noise=0.1, noise_seed=5)
    first, second = play(said, POLICY), play(said, POLICY)
    assert [e.counts for e in first.entries] == [e.counts for e in second.entries]
    other = play(replace(said, noise_seed=6), POLICY)
    assert [e.counts for e in first.entries] != [e.counts for e in other.entries]


def test_without_noise_what_was_measured_is_believed_at_the_end() -> None:
    plain = scenario()
    said = replace(plain, arrivals=without_curves(plain.arrivals))
    world = ReplayWorld(said.window, said.arrivals, meter=Meter())
    timed = TimedPolicy(POLICY, time.perf_counter)
    state = run(world, State(6), timed, Ledger(world, timed))
    assert state.measurements
    for a in state.active:
        truth = world.runs[a.trainer.id].trainer.curve
        lesson = dict(state.measurements).get(a.trainer.model)
        for point in lesson.points if lesson else ():
            assert point.rate == truth.at(point.nodes)
            assert a.trainer.curve.at(point.nodes) == pytest.approx(point.rate, rel=0.0201)


# --- the meter


def test_windows_begin_when_the_stall_is_over_and_grow() -> None:
    run_ = ReplayedTrainer(Trainer("t", CURVE, 1, 8, 20.0, 10.0), CostModel.STALL, 0.0)
    meter = Meter()
    meter.add("t", 20.0)
    run_.rescale(first(4), 0.0)
    assert meter.read({"t": run_}, 39.0) == ()
    rate = CURVE.at(4)
    assert meter.read({"t": run_}, 40.0) == (
        StallSeen("t", True, 20.0),
        RateSeen("t", 4, rate, 20.0),
    )
    assert meter.read({"t": run_}, 59.0) == ()
    assert meter.read({"t": run_}, 1000.0) == (RateSeen("t", 4, rate, 960.0),)
    assert meter.read({"t": run_}, 1100.0) == (), (
        "after a quarter of an hour a window of 100 s says nothing new"
    )
    run_.lose_nodes(last(run_.node_names, 2), 1200.0)
    assert meter.read({"t": run_}, 1230.0) == (
        StallSeen("t", False, 10.0),
        RateSeen("t", 2, CURVE.at(2), 20.0),
    )


def test_noise_is_per_window_and_seeded() -> None:
    def rates(seed: int) -> list[float]:
        run_ = ReplayedTrainer(Trainer("t", CURVE, 1, 8, 0.0, 0.0), CostModel.STALL, 0.0)
        meter = Meter(noise=0.1, seed=seed)
        meter.add("t", 1.0)
        run_.rescale(first(8), 0.0)
        seen = [meter.read({"t": run_}, 1.3**i) for i in range(1, 60)]
        return [s.samples_per_s for batch in seen for s in batch if isinstance(s, RateSeen)]

    assert rates(1) == rates(1) != rates(2)
    off = [abs(rate / CURVE.at(8) - 1) for rate in rates(1)]
    assert 0.03 < sum(off) / len(off) < 0.2


# --- the command line


def test_curves_by_file_and_by_word(tmp_path: Path) -> None:
    log, table = tmp_path / "log.csv", tmp_path / "t.csv"
    bftrainer("replay", "generate", "--nodes", 48, "--days", 0.2, "--seed", 1, "--out", log)
    bftrainer("replay", "workload", "diverse", "--count", 20, "--out", table)
    common = ("replay", "run", log, "--trainers", table, "--out", tmp_path / "o")
    done = bftrainer(*common, "--curves", "learn", "--noise", 0.1, "--lessons", "trainer", "--json")
    assert done.status == 0
    assert '"efficiency"' in done.out
    assert "expected at most one FILE and one of" in complaint(
        bftrainer(*common, "--curves", "learn", "--curves", "known")
    )
    assert "wrong:ly" in complaint(bftrainer(*common, "--curves", "wrong:ly"))
    assert "--noise -1" in complaint(bftrainer(*common, "--curves", "learn", "--noise", -1))


# --- the Summit week: the issue's own figure


@pytest.mark.data
@pytest.mark.slow
def test_summit_week_learning_is_within_two_points_of_knowing() -> None:
    curves = read_curves(data_file("summit-trainers-table2/scaling-samples-per-second.csv"))
    table = read_workload(data_file("summit-trainers-table2/imagenet-1001-trainers.csv"), curves)
    known = Scenario(summit_window(168, nodes=summit_names()), table.arrivals)
    arrivals = without_curves(table.arrivals, by_model=False)
    learning = replace(known, arrivals=arrivals, noise=0.1, noise_seed=1)
    outcomes = [play(s, POLICY, keep_entries=False).totals.samples for s in (known, learning)]
    u_known = 0.847  # `replay run`: docs/learning.md; A_s is another two replays
    assert u_known * (1 - outcomes[1] / outcomes[0]) <= 0.02


# --- Every pool policy on the real Summit log: the loop's invariants at every decision


@lru_cache
def summit() -> Scenario:
    """The first day of the paper's week of 1,024 nodes, its trainers of seven models, ten at a
    time.
    """
    window = summit_window(24, nodes=summit_names(), machine_nodes=1024)
    table = data_file("summit-trainers-table2/imagenet-1001-trainers.csv")
    return Scenario(window, with_sizes_and_losses(read_workload(table, TABLE_2).arrivals, 8), 10)


@pytest.mark.data
@pytest.mark.slow
@pytest.mark.parametrize("policy", POOL_POLICIES)
def test_the_summit_log(policy: str) -> None:
    """:func:`plans` checks every decision."""
    scenario = summit()
    decided = plans(scenario, builder_of(policy)())
    assert len(decided) >= 1 + len(scenario.window.events)
    assert any(n for counts, _ in decided for n in counts), "it never gave out a node"
