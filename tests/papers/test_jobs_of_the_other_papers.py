"""What the other papers' experiments need of the replay world, by hand: delay, kills, estimates,
stops, losses, fixed pools.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from replay.windows import window
from support.node_names import first

from bftrainer.decide.domain.events import Event
from bftrainer.decide.domain.model import Curve, Trainer
from bftrainer.decide.domain.state import Decision, State
from bftrainer.decide.policies.equal_share import EqualShare
from bftrainer_papers.fixed_pool import fixed_window, long_enough
from bftrainer_papers.policies.fcfs_rigid import FcfsRigid
from bftrainer_replay.simulation.completion import completion
from bftrainer_replay.simulation.losses import FAMILIES, LossCurve
from bftrainer_replay.simulation.play import Scenario, play
from bftrainer_replay.simulation.progress import CostModel, ReplayedTrainer
from bftrainer_replay.simulation.replay_world import Arrival

CURVE = Curve((1, 8), (10.0, 80.0))


def trainer(
    name: str = "t", total: float = 1e6, up_s: float = 20.0, requested: int | None = None
) -> Trainer:
    return Trainer(name, CURVE, 1, 8, up_s, 10.0, total, requested_nodes=requested)


def test_delay_one_that_starts_waits_and_one_that_grows_stays_on_its_old_nodes() -> None:
    run = ReplayedTrainer(trainer(), CostModel.DELAY, since_s=0.0)
    run.rescale(first(2), 0.0)
    assert run.samples_at(20.0) == 0
    assert run.samples_at(30.0) == 200
    run.rescale(first(6), 30.0)
    assert run.samples_at(40.0) == 200 + 10 * 20
    assert run.samples_at(60.0) == 200 + 20 * 20 + 10 * 60
    run.settle(60.0)
    assert run.lost_to_rescale == 20 * 20 + 20 * 40


def test_delay_shrinking_is_free_and_completion_is_predicted_inside_the_delay() -> None:
    run = ReplayedTrainer(trainer(total=1000.0), CostModel.DELAY, since_s=0.0)
    run.rescale(first(2), 0.0)
    run.rescale(first(8), 60.0)  # 800 done
    assert run.finishes_s == 70.0
    run.rescale(first(1), 65.0)
    assert run.finishes_s == 75.0


def test_rigid_jobs_are_killed_in_a_replay_and_elastic_ones_are_not() -> None:
    log = window(7200.0, "abcd", (3600.0 + 1000.0, "a"))
    job = (Arrival(0.0, trainer(requested=4)),)  # trains from 20 s on
    rigid = play(Scenario(log, job, 1, checkpoint_s=3600.0), FcfsRigid())
    assert rigid.totals.samples == 3600 * 40
    assert rigid.totals.lost_to_preemption == 980 * 40
    elastic = play(Scenario(log, job, 1, checkpoint_s=3600.0), EqualShare())
    assert elastic.totals.samples == 4580 * 40 + 2590 * 30


@dataclass
class Told:
    """A policy that notes what it is told."""

    name: str = "told"
    totals: list[float | None] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)

    def decide(self, state: State, event: Event) -> tuple[Decision, object]:
        self.totals.extend(a.trainer.samples_total for a in state.active)
        self.losses.extend(a.losses.latest for a in state.active if a.losses is not None)
        return Decision(
            tuple(1 for _ in state.active), wake_at_s=state.at_s + 25.0 if state.active else None
        ), None


def test_the_policy_hears_the_estimate_and_the_world_knows_better() -> None:
    policy = Told()
    arrivals = (
        Arrival(0.0, trainer(total=900.0, up_s=0.0), actual_samples=1000.0, losses=LossCurve(0.9)),
    )
    outcome = play(Scenario(fixed_window(1, 0.0, 500.0), arrivals, 1), policy)
    assert set(policy.totals) == {900.0}
    assert outcome.runs[0].finished_s == 100.0
    assert outcome.runs[0].samples == 1000.0
    assert policy.losses == sorted(policy.losses, reverse=True)
    assert policy.losses == pytest.approx([LossCurve(0.9).at(x) for x in (0.25, 0.5, 0.75)])


def test_a_job_that_ends_by_itself_frees_its_nodes_and_keeps_what_it_did() -> None:
    arrivals = (
        Arrival(0.0, trainer("bug", up_s=0.0), stops_after_s=50.0),
        Arrival(0.0, trainer("next", total=100.0, up_s=0.0)),
    )
    bug, after = play(Scenario(fixed_window(1, 0.0, 500.0), arrivals, 1), EqualShare()).runs
    assert (bug.finished_s, bug.samples, bug.stopped) == (50.0, 500.0, True)
    assert (after.started_s, after.finished_s, after.stopped) == (50.0, 60.0, False)


@pytest.mark.parametrize(("family", "early"), [("vae", 0.65), ("birnn", 0.98), ("gru", 0.90)])
def test_losses_fall_as_in_the_thesis_fig_3_1(family: str, early: float) -> None:
    curve = FAMILIES[family]
    assert curve.at(0.0) == 1.0
    assert 1 - curve.at(0.2) == pytest.approx(early)
    assert curve.at(1.0) == pytest.approx(0.0, abs=1e-12)


def test_completion_times_queueing_and_fairness() -> None:
    arrivals = (
        Arrival(0.0, trainer("a", 800.0, up_s=0.0)),
        Arrival(0.0, trainer("b", 800.0, up_s=0.0)),
    )
    outcome = play(Scenario(fixed_window(8, 0.0, 500.0), arrivals, 1), EqualShare())
    felt = completion(arrivals, outcome.runs)
    assert (felt.completed, felt.mean_s, felt.last_s, felt.queueing_s) == (2, 15.0, 20.0, 5.0)
    assert felt.worst_slowdown == 2.0
    assert felt.jain == pytest.approx(1.5**2 / (2 * 1.25))


def test_a_fixed_pool_is_long_enough_for_everybody_in_turn() -> None:
    arrivals = tuple(Arrival(10.0 * i, trainer(f"t{i}", 500.0)) for i in range(5))
    outcome = play(Scenario(long_enough(arrivals, 1), arrivals, 1), EqualShare())
    assert all(run.finished_s is not None for run in outcome.runs)
