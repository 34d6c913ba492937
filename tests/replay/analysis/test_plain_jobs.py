"""Plain one-node jobs on idle nodes: by hand, and as the policy ``plain`` does it in a replay."""

from __future__ import annotations

import pytest

from bftrainer.domain.events import PoolChanged
from bftrainer.domain.model import Curve, Trainer
from bftrainer_replay.analysis.plain_jobs import plain_curve, plain_jobs
from bftrainer_replay.comparison.compare import plain_jobs as replayed
from bftrainer_replay.generation.generate import generate
from bftrainer_replay.logs.model import LogWindow, PoolEvent, cut
from bftrainer_replay.simulation.play import Scenario
from bftrainer_replay.simulation.world import Arrival

TWO = LogWindow(
    0.0,
    1000.0,
    frozenset("a"),
    (
        PoolEvent(100.0, PoolChanged(joined=frozenset("b"))),
        PoolEvent(500.0, PoolChanged(left=frozenset("a"))),
        PoolEvent(995.0, PoolChanged(joined=frozenset("c"))),
    ),
    4,
    "by hand",
)


def test_each_start_costs_its_time_and_no_job_waits_for_more_nodes_than_there_are() -> None:
    one, two = plain_jobs(TWO, (1, 2), 10.0)
    idle = 500.0 + 900.0 + 5.0
    # The mean cost of a start is (10 + 10 + 5) / 3 s. With one job, it starts on a, and again when a leaves with even chances.
    cost = 25 / 3
    assert one.share * idle == pytest.approx(1000 - 1.5 * cost)
    assert two.share * idle == pytest.approx(idle - 3 * cost)
    assert plain_jobs(LogWindow(0.0, 10.0, frozenset(), (), 4, "never idle"), (5,), 1.0)[0].share == 0.0


def test_the_curve_ends_where_more_jobs_do_nearly_nothing_more() -> None:
    curve = plain_curve(cut(generate(64, 2, 1), machine_nodes=64), 10, 18.0)
    shares = [each.share for each in curve]
    assert shares == sorted(shares)
    assert 10 in [each.jobs for each in curve]
    assert curve[-1].jobs < 64


def test_as_many_jobs_as_nodes_do_what_the_replay_of_the_policy_does() -> None:
    window = cut(generate(32, 1, 3), machine_nodes=32)
    job = Trainer("job", Curve((1,), (1.0,)), 1, 1, 18.0, 0.0, samples_total=1e12)
    arrivals = tuple(
        Arrival(window.start_s, Trainer(f"job-{k}", job.curve, 1, 1, 18.0, 0.0, samples_total=1e12)) for k in range(32)
    )
    told = replayed(Scenario(window, arrivals))
    (ours,) = plain_jobs(window, (32,), 18.0)
    assert ours.share == pytest.approx(told.outcome_one_node_h / told.resource_integral_node_h, abs=1e-6)
