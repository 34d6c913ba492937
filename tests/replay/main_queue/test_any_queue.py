"""What holds for every queue, scheduler and pilot."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bftrainer.decide.yielding.node_sets import NumberedNodes, union_of
from bftrainer_replay.main_queue.backfill import BACKFILLS
from bftrainer_replay.main_queue.cluster import Cluster, Schedule, simulate
from bftrainer_replay.main_queue.jobs import MainJobs
from bftrainer_replay.main_queue.ways import PilotRules, rules_of

WAYS = ("site", "yield", "blind", "life:300", "keep", "windows")


@st.composite
def queues(draw: st.DrawFn) -> MainJobs:
    """Up to 25 jobs on up to 8 nodes; times in whole and half seconds, so that many coincide."""
    nodes = draw(st.integers(1, 8))
    steps_s = st.integers(0, 400).map(lambda half: half / 2)
    jobs = draw(
        st.lists(
            st.tuples(steps_s, st.integers(1, 2000), st.integers(0, 3000), st.integers(1, nodes)),
            min_size=1,
            max_size=25,
        )
    )
    submit_s, at_s = [], 0.0
    for step_s, *_ in jobs:
        submit_s.append(at_s)
        at_s += step_s
    return MainJobs(
        tuple(submit_s),
        tuple(float(run) for _, run, _, _ in jobs),
        tuple(float(run + spare) for _, run, spare, _ in jobs),
        tuple(size for *_, size in jobs),
        nodes,
    )


rules = st.builds(
    rules_of, st.sampled_from(WAYS), st.sampled_from((None, 300.0)), st.sampled_from((0.0, 120.0))
)
backfills = st.sampled_from(sorted(BACKFILLS))


@dataclass(slots=True)
class CheckedCluster(Cluster):
    """A cluster that checks its nodes whenever time passes: each one is idle, leaving, held or a
    job's.
    """

    def _pass_time(self, at_s: float) -> None:
        assert at_s >= self.now_s
        running = {
            job
            for job, start_s in enumerate(self.start_s)
            if start_s <= self.now_s < start_s + self.jobs.run_s[job]
        }
        assert running == self.nodes_of.keys()
        assert all(len(nodes) == self.jobs.nodes[job] for job, nodes in self.nodes_of.items())
        held = [group.nodes for group in self.holders.groups]
        assert self.holders.nodes == union_of(held)
        parts = [self.idle, self.leaving, *held, *self.nodes_of.values()]
        assert union_of(parts) == NumberedNodes.first_of_all(self.jobs.machine_nodes)
        assert sum(map(len, parts)) == self.jobs.machine_nodes
        Cluster._pass_time(self, at_s)


def checked(jobs: MainJobs, backfill: str, pilot: PilotRules | None) -> Schedule:
    return CheckedCluster(jobs, BACKFILLS[backfill], pilot, 0.0, chance=None).run()  # type: ignore[arg-type]


@given(queues(), backfills, st.none() | rules)
def test_no_node_is_used_twice_and_every_job_runs(
    jobs: MainJobs, backfill: str, pilot: PilotRules | None
) -> None:
    schedule = checked(jobs, backfill, pilot)
    for submit_s, start_s, delay_s in zip(
        jobs.submit_s, schedule.start_s, schedule.delay_s, strict=True
    ):
        assert submit_s <= start_s < math.inf
        assert 0.0 <= delay_s <= start_s - submit_s
    assert 0.0 <= schedule.tally.held_node_s <= schedule.tally.available_node_s + 1e-6


@given(queues(), backfills)
def test_where_the_scheduler_preempts_at_once_the_schedule_is_that_without_a_pilot(
    jobs: MainJobs, backfill: str
) -> None:
    plain = simulate(jobs, BACKFILLS[backfill])
    site = simulate(jobs, BACKFILLS[backfill], rules_of("site"))
    assert site.start_s == plain.start_s
    assert set(site.delay_s) == {0.0}
    assert site.tally.available_node_s == pytest.approx(plain.tally.available_node_s)


@given(queues(), backfills)
def test_an_easy_schedule_never_leaves_the_first_job_waiting_beside_its_nodes(
    jobs: MainJobs, backfill: str
) -> None:
    """The first of the queue starts as soon as enough nodes are idle: the oracle counts them at
    each start and end.
    """
    starts = simulate(jobs, BACKFILLS[backfill]).start_s
    instants = sorted({*starts, *(s + r for s, r in zip(starts, jobs.run_s, strict=True))})
    for at_s, next_s in pairwise(instants):
        waiting = [
            job
            for job, (submit_s, start_s) in enumerate(zip(jobs.submit_s, starts, strict=True))
            if submit_s <= at_s and start_s >= next_s
        ]
        running = sum(
            size
            for size, start_s, run_s in zip(jobs.nodes, starts, jobs.run_s, strict=True)
            if start_s <= at_s < start_s + run_s
        )
        if waiting:
            assert jobs.nodes[waiting[0]] > jobs.machine_nodes - running


@given(
    st.integers(1, 8), st.integers(1, 8), st.integers(20, 5000), st.sampled_from((300.0, 1800.0))
)
def test_a_job_that_comes_to_a_held_cluster_waits_longest_if_nobody_gives_way(
    nodes: int, size: int, at_s: int, worst_wait_s: float
) -> None:
    """The first job ends at 1 s, and all nodes are held when the second comes."""
    jobs = MainJobs((0.0, float(at_s)), (1.0, 1.0), (1.0, 1.0), (nodes, min(size, nodes)), nodes)

    def delay_s(way: str) -> float:
        rules = rules_of(way, worst_wait_s, 0.0)
        return simulate(jobs, BACKFILLS["easy"], rules).delay_s[1]

    keep_s = delay_s("keep")
    assert delay_s("site") == 0.0
    assert delay_s("life:300") <= 300.0
    assert keep_s <= worst_wait_s
    is_at_the_end = keep_s <= 4.0
    if not is_at_the_end:
        assert delay_s("yield") <= 4.0 <= keep_s
        assert delay_s("blind") <= min(2.0 + math.ceil(math.log2(size + 1)) + 1.0, keep_s + 8.0)


@given(queues(), st.sampled_from(WAYS))
def test_the_same_queue_has_the_same_schedule(jobs: MainJobs, way: str) -> None:
    first, second = (simulate(jobs, BACKFILLS["easy"], rules_of(way)) for _ in range(2))
    assert first == second
