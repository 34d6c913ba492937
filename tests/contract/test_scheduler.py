"""The contract of the Scheduler port: the same for Slurm on a real cluster, the stand-in LSF
and the scheduler in memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from support.clusters_under_test import ClusterUnderTest

from bftrainer.cluster.model import Observation
from bftrainer.cluster.windows import EndKind, FreeNode, PilotJobs, free_nodes, window_ends
from bftrainer.errors import BFTrainerError

OURS = PilotJobs(partitions=frozenset({"scavenge"}))


def free(cluster: ClusterUnderTest) -> dict[str, FreeNode]:
    return free_in(cluster.scheduler.observe())


def free_in(seen: Observation) -> dict[str, FreeNode]:
    return {found.node.name: found for found in free_nodes(seen, OURS)}


def observed(
    cluster: ClusterUnderTest, holds: Callable[[list[FreeNode]], bool], what: str
) -> Observation:
    """The first look at which that holds of the free nodes: at the next one a scheduler may be
    planning again.
    """
    looks: list[Observation] = []

    def is_there() -> bool:
        looks.append(cluster.scheduler.observe())
        return holds(list(free_in(looks[-1]).values()))

    cluster.until(is_there, what)
    return looks[-1]


def test_an_empty_cluster_is_free_without_an_end(cluster: ClusterUnderTest) -> None:
    found = free(cluster)
    assert list(found) == cluster.nodes
    assert {f.end.kind for f in found.values()} == {EndKind.NEVER}
    assert {f.end.at_s for f in found.values()} == {math.inf}
    assert {f.node.node_class for f in found.values()} == {"2 cpus"}


def test_a_running_job_has_its_nodes(cluster: ClusterUnderTest) -> None:
    cluster.main_job(3, minutes=5)
    cluster.until(lambda: len(free(cluster)) == 5, "the job to take three nodes")


def test_a_planned_job_ends_the_windows_of_its_nodes(cluster: ClusterUnderTest) -> None:
    cluster.main_job(2, minutes=60)
    cluster.until(lambda: len(free(cluster)) == 6, "the first job to start")
    big = cluster.main_job(8, minutes=5)

    def planned(found: list[FreeNode]) -> bool:
        if not cluster.tells_for_whom:
            return {each.end.kind for each in found} == {EndKind.BACKFILL_WINDOW}
        return {each.end.id for each in found} == {big}

    seen = observed(cluster, planned, "a plan for the big job")
    found = free_in(seen).values()
    assert len(found) == 6
    for each in found:
        assert each.end.kind is (
            EndKind.PENDING_JOB if cluster.tells_for_whom else EndKind.BACKFILL_WINDOW
        )
        # As long as the job in its way may run, by the scheduler's own clock.
        assert 3000 < each.window_s(seen.at_s) <= 3601


def test_the_same_plan_is_no_end_if_the_job_is_ours(cluster: ClusterUnderTest) -> None:
    if not cluster.tells_for_whom:
        pytest.skip("its windows do not say which job ends them")
    cluster.main_job(2, minutes=10)
    cluster.until(lambda: len(free(cluster)) == 6, "the first job to start")
    big = cluster.main_job(8, minutes=5)
    seen = observed(
        cluster, lambda found: {each.end.id for each in found} == {big}, "a plan for the big job"
    )
    # PLANNED, but for nobody else's job: not known for whom, so not free.
    assert free_nodes(seen, PilotJobs(frozenset({big}))) == ()


def test_a_reservation_ends_windows(cluster: ClusterUnderTest) -> None:
    name = cluster.reserve(cluster.nodes[1], in_minutes=10)
    seen = cluster.scheduler.observe()
    ends = {found.node.name: found for found in free_nodes(seen, OURS)}
    assert {f.end.kind for n, f in ends.items() if n != cluster.nodes[1]} == {EndKind.NEVER}
    end = ends[cluster.nodes[1]]
    assert (end.end.kind, end.end.id) == (EndKind.RESERVATION, name)
    assert 500 < end.window_s(seen.at_s) <= 601


def test_a_drained_node_is_idle_but_not_free(cluster: ClusterUnderTest) -> None:
    cluster.drain(cluster.nodes[0])
    cluster.until(lambda: cluster.nodes[0] not in free(cluster), "the drain to show")
    assert len(free(cluster)) == 7


def test_a_node_that_is_drained_while_a_job_is_there_has_no_window_left(
    cluster: ClusterUnderTest,
) -> None:
    cluster.main_job(8, minutes=10)
    cluster.until(lambda: not free(cluster), "the job to start")
    cluster.drain(cluster.nodes[0])

    def withdrawn() -> set[str]:
        seen = cluster.scheduler.observe()
        return {
            node for node, end in window_ends(seen, OURS).items() if end.kind is EndKind.WITHDRAWN
        }

    cluster.until(lambda: withdrawn() == {cluster.nodes[0]}, "the drain to show")


def test_silence_is_an_error_not_an_empty_cluster(cluster: ClusterUnderTest) -> None:
    cluster.go_silent()
    with pytest.raises(BFTrainerError):
        cluster.scheduler.observe()
    cluster.answer_again()
    cluster.until(lambda: _answers(cluster), "an answer")
    assert len(cluster.scheduler.observe().nodes) == 8


def _answers(cluster: ClusterUnderTest) -> bool:
    try:
        cluster.scheduler.observe()
    except BFTrainerError:
        return False
    return True
