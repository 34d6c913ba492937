"""Plain preemptible jobs, what a loss of all nodes costs under every policy, and the times that compare with them."""

from __future__ import annotations

import pytest
from policy_states import active, decide, fresh

from bftrainer.domain.events import PoolChanged
from bftrainer.domain.model import Curve, Trainer
from bftrainer.domain.ports import Policy
from bftrainer.policies.equal_share import EqualShare
from bftrainer.policies.plain import Plain
from bftrainer_replay.comparison.compare import plain_jobs
from bftrainer_replay.logs.model import LogWindow, PoolEvent
from bftrainer_replay.simulation.play import Scenario, play
from bftrainer_replay.simulation.progress import CostModel, ReplayedTrainer
from bftrainer_replay.simulation.time_to_done import fluid_bound, time_to_done
from bftrainer_replay.simulation.world import Arrival


def trainer(name: str, total: float, *, min_nodes: int = 1, max_nodes: int = 8, up_s: float = 0.0) -> Trainer:
    """One sample per second and node."""
    return Trainer(name, Curve((1, 8), (1.0, 8.0)), min_nodes, max_nodes, up_s, 0.0, total)


def shrinking(*changes: tuple[float, str]) -> LogWindow:
    """Nodes a and b from 0 to 1,000 s, of which these leave and come back."""
    pool, events = set("ab"), []
    for at_s, node in changes:
        left = frozenset({node} & pool)
        events.append(PoolEvent(at_s, PoolChanged(joined=frozenset({node}) - left, left=left)))
        pool ^= {node}
    return LogWindow(0.0, 1000.0, frozenset("ab"), tuple(events), 2, "drawn")


def test_jobs_keep_their_nodes_and_the_oldest_waiting_one_that_fits_is_next() -> None:
    trainers = [
        active("hit", 1, min_nodes=2),
        active("young", 1),
        active("runs", 2, min_nodes=2),
        active("wide", min_nodes=3),
    ]
    assert decide(Plain(), fresh(trainers, 5)).counts == (2, 1, 2, 0), "a job that lost a node requeues with its age"
    assert decide(Plain(nodes=4), fresh([active("t"), active("u", 4)], 9)).counts == (4, 4)


def test_every_job_is_submitted_whatever_p_jmax() -> None:
    arrivals = tuple(Arrival(0.0, trainer(name, 100.0)) for name in "tu")
    outcome = play(Scenario(shrinking(), arrivals, 1), Plain())
    assert [run.finished_s for run in outcome.runs] == [100.0, 100.0]
    late = play(Scenario(shrinking(), arrivals, 1), Plain(start_s=60.0))
    assert [run.finished_s for run in late.runs] == [160.0, 160.0]


@pytest.mark.parametrize("policy", [Plain(), EqualShare()])
@pytest.mark.parametrize(("checkpoint_s", "repeated_s"), [(None, 0.0), (60.0, 30.0), (25.0, 15.0)])
def test_work_since_the_last_checkpoint_is_done_again_under_every_policy(
    policy: Policy, checkpoint_s: float | None, repeated_s: float
) -> None:
    """One node from 0 to 90 s, and another from 140 s on."""
    window = shrinking((0.0, "b"), (90.0, "a"), (140.0, "b"))
    outcome = play(Scenario(window, (Arrival(0.0, trainer("t", 100.0)),), 4, checkpoint_s=checkpoint_s), policy)
    assert [run.finished_s for run in outcome.runs] == [150.0 + repeated_s]


def test_checkpoints_go_on_through_rescales_and_a_loss_that_leaves_enough_nodes_repeats_nothing() -> None:
    run = ReplayedTrainer(trainer("t", 1e6, min_nodes=2), CostModel.STALL, 0.0, checkpoint_s=100.0)
    run.rescale(frozenset("abc"), 0.0)
    run.rescale(frozenset("abcd"), 130.0)
    run.lose_nodes(frozenset("d"), 170.0)
    assert (run.samples, run.lost_to_preemption) == (3 * 130.0 + 4 * 40.0, 0.0)
    run.lose_nodes(frozenset("bc"), 250.0)  # too few are left; the last checkpoint was at 200 s
    assert run.samples == 3 * 130.0 + 4 * 40.0 + 3 * 30.0
    assert run.lost_to_preemption == 3 * 50.0


def test_times_until_done_and_the_fluid_bound() -> None:
    """By hand: t and u share 2 nodes at one sample per second and node, the shorter first."""
    arrivals = (Arrival(0.0, trainer("t", 100.0)), Arrival(10.0, trainer("u", 20.0)))
    window = shrinking((30.0, "b"))
    bound = fluid_bound(window, arrivals)
    assert bound is not None
    assert bound.mean_h == pytest.approx((90.0 + 10.0) / 2 / 3600)
    assert bound.last_h == pytest.approx(90.0 / 3600)
    summary = plain_jobs(Scenario(window, arrivals, 1))
    assert (summary.done.mean_h, summary.done.last_h) == pytest.approx(((100.0 + 20.0) / 2 / 3600, 100.0 / 3600))
    assert summary.work_share == pytest.approx(120.0 / (60.0 + 970.0))


def test_a_trainer_that_is_not_done_counts_until_the_end_and_says_so() -> None:
    arrivals = (
        Arrival(-50.0, trainer("t", 1e6)),
        Arrival(100.0, trainer("u", 10.0)),
        Arrival(2000.0, trainer("v", 1.0)),
    )
    window = shrinking()
    done = time_to_done(window, arrivals, play(Scenario(window, arrivals, 4), Plain()).runs)
    assert (done.mean_h, done.last_h, done.unfinished) == (pytest.approx((1000.0 + 10.0) / 2 / 3600), 1000.0 / 3600, 1)
    assert done.text(done.last_h).startswith("≥ ")
    bound = fluid_bound(window, arrivals)
    assert bound is not None
    assert bound.unfinished == 1
    assert fluid_bound(window, (Arrival(0.0, Trainer("w", Curve((1,), (1.0,)), 1, 1, 0.0, 0.0)),)) is None
