"""The world of workers: shares, contention and moves by hand; what must hold for any jobs and
limits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bftrainer_papers import flowcon, specon
from bftrainer_papers.containers.container_world import ContainerJob, WorkerWorld, soft_shares
from bftrainer_papers.containers.hosts import ContainerHost, WorkerDecision, WorkerPolicy
from bftrainer_papers.containers.specon import SpeCon
from bftrainer_papers.flowcon import FlowConWorker
from bftrainer_papers.policies.flowcon import Rules
from bftrainer_papers.reproduction import ReproductionOptions, ResultVerdict
from bftrainer_replay.simulation.losses import FAMILIES, LossCurve

UNIT = st.floats(0.01, 1.0)


@pytest.mark.parametrize(
    ("demands", "limits", "shares"),
    [
        ((1.0, 1.0), (0.25, 1.0), (0.25, 0.75)),  # thesis 6.1.3
        ((1.0, 1.0), (0.25, 0.25), (0.5, 0.5)),  # soft: nobody else wants the rest
        ((0.2, 1.0, 1.0), (1.0, 1.0, 1.0), (0.2, 0.4, 0.4)),
        ((0.1, 0.2), (1.0, 1.0), (0.1, 0.2)),
        ((), (), ()),
    ],
)
def test_soft_shares(
    demands: Sequence[float], limits: Sequence[float], shares: Sequence[float]
) -> None:
    assert soft_shares(demands, limits) == pytest.approx(list(shares))


@settings(deadline=None)
@given(st.lists(st.tuples(UNIT, UNIT), max_size=8))
def test_shares_sum_to_1_or_to_all_demands(containers: list[tuple[float, float]]) -> None:
    demands, limits = [d for d, _ in containers], [limit for _, limit in containers]
    shares = soft_shares(demands, limits)
    assert sum(shares) == pytest.approx(min(1.0, sum(demands)))
    assert all(0 <= s <= d + 1e-12 for s, d in zip(shares, demands, strict=True))


def job(name: str, at_s: float, work_s: float) -> ContainerJob:
    return ContainerJob(name, at_s, work_s, LossCurve(0.9))


def ends(world: WorkerWorld) -> dict[str, float | None]:
    return {run.job.id: run.finished_s for run in world.play()}


def test_two_share_one_worker() -> None:
    assert ends(WorkerWorld(1, (job("a", 0, 100), job("b", 50, 100)))) == {"a": 150.0, "b": 200.0}


def test_contention_slows_both() -> None:
    # Two equal shares amount to 2: each at 0.5 / 1.25.
    assert ends(WorkerWorld(1, (job("a", 0, 100), job("b", 0, 100)), contention=0.25)) == {
        "a": 250.0,
        "b": 250.0,
    }


@dataclass(frozen=True)
class MoveOnce:
    """Moves the first container of worker 0 to worker 1 at 10 s."""

    name: str = "move-once"

    def decide(
        self, at_s: float, workers: Sequence[ContainerHost], memory: object
    ) -> tuple[WorkerDecision, object]:
        if at_s < 10:
            return WorkerDecision(wake_at_s=10.0), None
        if memory is None and workers[0].containers:
            return WorkerDecision(moves=((workers[0].containers[0].id, 1),)), True
        return WorkerDecision(), memory


def test_a_move_costs_its_time_and_keeps_what_was_done() -> None:
    world = WorkerWorld(
        2,
        (job("a", 0, 100), job("b", 0, 100)),
        MoveOnce(),
        placement=lambda j, w: 0,
        migration_s=5.0,
    )
    # Both at half speed until 10 s (5 done); a is away for 5 s; then each has a worker of its own.
    assert ends(world) == {"b": 105.0, "a": 110.0}


@st.composite
def clusters(draw: st.DrawFn) -> tuple[int, tuple[ContainerJob, ...], float]:
    jobs = tuple(
        ContainerJob(
            f"j{i}",
            draw(st.floats(0, 300)),
            draw(st.floats(1, 300)),
            FAMILIES[draw(st.sampled_from(sorted(FAMILIES)))],
            draw(st.sampled_from((1.0, 0.5))),
            draw(st.floats(0.01, 0.3)),
        )
        for i in range(draw(st.integers(1, 10)))
    )
    return draw(st.integers(1, 4)), jobs, draw(st.sampled_from((0.0, 0.1)))


@pytest.mark.parametrize("policy", [None, FlowConWorker(), SpeCon()])
@settings(max_examples=40, deadline=None)
@given(clusters())
def test_what_no_decision_may_break(
    policy: WorkerPolicy | None, cluster: tuple[int, tuple[ContainerJob, ...], float]
) -> None:
    workers, jobs, contention = cluster

    def check(world: WorkerWorld) -> None:
        for w in range(workers):
            here = [run for run in world.running if run.worker == w]
            assert sum(run.share for run in here) <= 1 + 1e-9
            awake = [run for run in here if run.paused_until_s <= world.now_s]
            full = min(1.0, sum(run.job.demand for run in awake))
            assert sum(run.share for run in here) == pytest.approx(full), "work-conserving"
        assert all(0 <= run.worker < workers for run in world.running), "one worker each"
        ids = [c.id for worker in world.observed() for c in worker.containers]
        assert len(ids) == len(set(ids)) == len(world.running)

    done = WorkerWorld(workers, jobs, policy, contention, on_decision=check).play()
    assert sorted(run.job.id for run in done) == sorted(j.id for j in jobs)
    for run in done:
        assert run.done_s == pytest.approx(run.job.work_s, rel=1e-6)
        assert run.moves <= 2, "SpeCon moves a container once and rebalances it once"
        assert run.finished_s is not None
        assert run.finished_s >= run.job.at_s + run.job.work_s / run.job.demand - 1e-6


def test_without_contention_flowcon_cannot_change_the_makespan() -> None:
    for number in (3, 5, 10, 15):
        for seed in range(5):
            jobs = flowcon.random_jobs(number, seed)
            free, ours = (
                flowcon.times(jobs, 0.0, None)[1],
                flowcon.times(jobs, 0.0, Rules(0.10, 20.0))[1],
            )
            assert ours == pytest.approx(free)


def test_flowcon_s_three_jobs_take_the_published_times_without_it() -> None:
    contention = flowcon.fitted_contention()
    assert 0.01 < contention < 0.3
    took, span = flowcon.times(flowcon.three_jobs(contention), contention, None)
    assert span == pytest.approx(394.0)
    assert took["mnist-t"] == pytest.approx(84.7)


def test_flowcon_s_directions_are_right_and_the_makespans_of_5_10_15_jobs_within_the_tolerance() -> (
    None
):
    rows = [
        row
        for row in flowcon.reproduce(ReproductionOptions(seeds=range(1, 6))).rows
        if row.paper is not None
    ]
    changes = [row for row in rows if row.signed]
    assert {row.verdict for row in changes} <= {ResultVerdict.WITHIN, ResultVerdict.DIRECTION}
    spans = [row for row in changes if row.what[0] != "3" and "makespan" in row.what]
    assert len(spans) == 4
    assert {row.verdict for row in spans} == {ResultVerdict.WITHIN}


def test_specon_s_directions_are_right_and_its_makespans_within_the_tolerance() -> None:
    """But for jobs of one model that hardly overlap (Fig. 6.16)."""
    rows = [
        row
        for row in specon.reproduce(ReproductionOptions(seeds=range(1, 6))).rows
        if row.paper is not None and row.paper < 0 and not row.what.startswith("Fig. 6.16")
    ]
    assert {row.verdict for row in rows} == {ResultVerdict.WITHIN, ResultVerdict.DIRECTION}
    spans = [row for row in rows if "makespan" in row.what]
    assert len(spans) == 3
    assert {row.verdict for row in spans} == {ResultVerdict.WITHIN}


def test_usage_is_the_processor_time_between_two_decisions() -> None:
    jobs = (job("a", 0, 100), job("b", 40, 100), job("c", 80, 20))
    used = flowcon.usage(jobs, 0.0, None)
    assert used.mean_share("a", 0.0, 40.0) == pytest.approx(100.0)
    assert used.mean_share("b", 40.0, 80.0) == pytest.approx(50.0)
    # At 40: a 1 -> 1/2. At 80: a and b 1/2 -> 1/3. At 140: c ends, a and b 1/3 -> 1/2. At 180: a
    # ends as well, b 1/2 -> 1.
    assert used.changes == pytest.approx(0.5 + 2 / 6 + 2 / 6 + 0.5)


def test_workers_usage_counts_what_runs_where() -> None:
    usage = specon.WorkerUsage()
    jobs = (job("a", 0, 100), job("b", 0, 100), job("c", 0, 50))
    specon.play(jobs, 2, 0.0, None, usage)
    # Worker 0 has two of three until c (100 s) and a (150 s) end; b is alone until 100 s.
    assert usage.at_s == pytest.approx(150.0)
    assert usage.spread_s == pytest.approx(100.0 * 1 + 50.0 * 1)
    assert usage.busy_s == pytest.approx(100.0 * 1 + 50.0 * 0.5)
