"""The contract of the NodeHolder port: the same for Slurm on a real cluster, the stand-in LSF
and the scheduler in memory.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from support.clusters_under_test import HOLDERS, ClusterUnderTest

from bftrainer.cluster.model import Fragment, FragmentPhase, NodeRequest
from bftrainer.cluster.ports import NodeHolder
from bftrainer.cluster.windows import PilotJobs, free_nodes
from bftrainer.errors import BFTrainerError
from bftrainer.fragment_names import job_of

pytestmark = pytest.mark.parametrize("cluster", HOLDERS, indirect=True)


class Watched:
    """A holder with everything that it has said so far."""

    def __init__(self, holder: NodeHolder) -> None:
        self.holder = holder
        self.latest: dict[str, Fragment] = {}
        self.said: list[tuple[str, FragmentPhase]] = []

    def poll(self) -> dict[str, FragmentPhase]:
        self.holder.renew()
        for fragment in self.holder.poll():
            if self.latest.get(fragment.name) != fragment:
                self.said.append((fragment.name, fragment.phase))
            self.latest[fragment.name] = fragment
        return {name: fragment.phase for name, fragment in self.latest.items()}

    def all_are(self, phase: FragmentPhase) -> bool:
        return set(self.poll().values()) == {phase}


def hold(
    cluster: ClusterUnderTest, count: int, pilot: str = "test", lease_s: float = 60.0
) -> Watched:
    watched = Watched(cluster.holder(pilot, lease_s))
    watched.poll()
    fragments: list[Fragment] = []
    calls = 0
    while len(fragments) < count:  # a slow scheduler leaves the last ones for the next call, or all
        calls += 1
        acquired = watched.holder.acquire(
            tuple(NodeRequest(node) for node in cluster.nodes[len(fragments) : count])
        )
        assert not acquired.refusals
        assert acquired.fragments or calls < 20
        fragments += acquired.fragments
    assert [f.phase for f in fragments] == [FragmentPhase.PENDING] * count
    assert [f.node for f in fragments] == cluster.nodes[:count]
    try:
        cluster.until(lambda: watched.all_are(FragmentPhase.READY), "holders to be ready")
    except AssertionError as error:
        raise AssertionError("\n".join((str(error), *map(str, watched.latest.values())))) from error
    return watched


@contextmanager
def renewed(holder: NodeHolder) -> Iterator[None]:
    """As a pilot that lives does it, whatever takes its time meanwhile."""
    over = threading.Event()

    def renew() -> None:
        while not over.wait(0.5):
            holder.renew()

    thread = threading.Thread(target=renew)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def idle(cluster: ClusterUnderTest) -> list[str]:
    try:
        seen = cluster.scheduler.observe()
    except BFTrainerError:
        return []
    return [
        found.node.name for found in free_nodes(seen, PilotJobs(partitions=frozenset({"scavenge"})))
    ]


def test_held_nodes_are_not_idle_and_a_main_job_gets_them_at_once(
    cluster: ClusterUnderTest,
) -> None:
    watched = hold(cluster, 8)
    assert idle(cluster) == []
    for fragment in watched.latest.values():
        cluster.start_worker(fragment)
    cluster.main_job(8, minutes=2)
    cluster.until(lambda: watched.all_are(FragmentPhase.GONE), "all to be given back")
    assert cluster.workers() == 0
    assert all(fragment.why for fragment in watched.latest.values())


def test_gone_is_said_once(cluster: ClusterUnderTest) -> None:
    watched = hold(cluster, 2)
    watched.holder.release(frozenset(watched.latest))
    cluster.until(lambda: watched.all_are(FragmentPhase.GONE), "the end")
    assert sorted(name for name, phase in watched.said if phase is FragmentPhase.GONE) == sorted(
        watched.latest
    )
    assert watched.holder.poll() == ()


def test_release_gives_back_some_and_keeps_the_others(cluster: ClusterUnderTest) -> None:
    watched = hold(cluster, 4)
    for fragment in watched.latest.values():
        cluster.start_worker(fragment)
    *others, last = sorted(watched.latest)
    watched.holder.release(frozenset({last, "node99#4711"}))
    cluster.until(lambda: watched.poll()[last] is FragmentPhase.GONE, "the last to go")
    assert {watched.poll()[name] for name in others} == {FragmentPhase.READY}
    assert cluster.workers() == 3
    cluster.until(lambda: len(idle(cluster)) == 5, "its node to be idle")


def test_the_nodes_of_a_job_are_released_together(
    cluster: ClusterUnderTest,
) -> None:
    watched = hold(cluster, 4)
    for fragment in watched.latest.values():
        cluster.start_worker(fragment)
    first, *others = sorted(watched.latest)
    shared = others[: cluster.nodes_per_holder - 1]
    watched.holder.release(frozenset({first}))
    gone = [first, *shared]
    cluster.until(
        lambda: {watched.poll()[name] for name in gone} == {FragmentPhase.GONE}, "the job to go"
    )
    assert {watched.poll()[name] for name in others if name not in shared} == {FragmentPhase.READY}
    assert all(
        f"released with {cluster.nodes[0]} of the same job" in watched.latest[name].why
        for name in shared
    )
    cluster.until(lambda: len(idle(cluster)) == 4 + len(gone), "its nodes to be idle")
    assert cluster.workers() == 4 - len(gone)


def test_all_nodes_of_a_job_are_preempted_at_the_same_moment(cluster: ClusterUnderTest) -> None:
    watched = hold(cluster, 8)
    cluster.main_job(1, minutes=2)
    leaving: set[str] = set()

    def left() -> bool:
        leaving.update(
            n
            for n, phase in watched.poll().items()
            if phase in (FragmentPhase.LEAVING, FragmentPhase.GONE)
        )
        return bool(leaving)

    cluster.until(left, "a node to be preempted")
    jobs = {job_of(name) for name in leaving}
    assert leaving == {name for name in watched.latest if job_of(name) in jobs}
    cluster.until(lambda: all(watched.poll()[n] is FragmentPhase.GONE for n in leaving), "the end")
    assert set(watched.poll().values()) == {FragmentPhase.READY, FragmentPhase.GONE}


def test_a_payload_that_dies_ends_its_whole_job(cluster: ClusterUnderTest) -> None:
    if cluster.nodes_per_holder == 1:
        pytest.skip("the job ends with its only payload")
    watched = hold(cluster, 4)
    for fragment in watched.latest.values():
        cluster.start_worker(fragment)
    first, second, third, other = sorted(watched.latest)
    cluster.kill_payload(watched.latest[second])
    cluster.until(
        lambda: {watched.poll()[name] for name in (first, second, third)} == {FragmentPhase.GONE},
        "the end",
    )
    assert watched.poll()[other] is FragmentPhase.READY
    cluster.until(lambda: cluster.workers() == 1, "the workers on its nodes to end")


def test_clear_ends_workers_and_keeps_the_node(cluster: ClusterUnderTest) -> None:
    watched = hold(cluster, 2)
    orphaned, used = sorted(watched.latest)
    for name in (orphaned, used):
        cluster.start_worker(watched.latest[name])
    watched.holder.clear(frozenset({orphaned}))
    cluster.until(lambda: cluster.workers() == 1, "the worker to end")
    assert watched.all_are(FragmentPhase.READY)


def test_refused_are_a_node_that_is_held_and_a_window_that_is_too_short(
    cluster: ClusterUnderTest,
) -> None:
    watched = hold(cluster, 1)
    claims = (NodeRequest(cluster.nodes[0]), NodeRequest(cluster.nodes[1], window_s=20))
    acquired = watched.holder.acquire(claims)
    assert acquired.fragments == ()
    assert [refusal.node for refusal in acquired.refusals] == cluster.nodes[:2]
    assert all(refusal.reason for refusal in acquired.refusals)


def test_a_successor_finds_the_holders_and_another_pilot_does_not(
    cluster: ClusterUnderTest,
) -> None:
    before = hold(cluster, 2)
    successor, stranger = Watched(cluster.holder()), Watched(cluster.holder("another"))
    assert sorted(successor.poll()) == sorted(before.latest)
    cluster.until(lambda: successor.all_are(FragmentPhase.READY), "both to be known as ready")
    assert stranger.poll() == {}
    kept, last = sorted(before.latest)
    successor.holder.release(frozenset({last}))
    cluster.until(lambda: successor.poll()[last] is FragmentPhase.GONE, "one to be given back")
    remaining = [kept] if cluster.nodes_per_holder == 1 or cluster.releases_alone else []
    successor = Watched(cluster.holder())
    cluster.until(
        lambda: sorted(successor.poll()) == remaining, "a job of several nodes to end as a whole"
    )
    successor.holder.release(frozenset(remaining))
    cluster.until(
        lambda: set(successor.poll().values()) <= {FragmentPhase.GONE}, "the rest to be released"
    )


def test_while_the_scheduler_is_silent_nothing_is_gone(cluster: ClusterUnderTest) -> None:
    watched = hold(cluster, 2)
    cluster.go_silent()
    assert [watched.all_are(FragmentPhase.READY) for _ in range(3)] == [True] * 3
    cluster.answer_again()
    cluster.until(lambda: idle(cluster), "an answer")
    assert watched.all_are(FragmentPhase.READY)


def test_without_a_pilot_the_lease_lapses(cluster: ClusterUnderTest) -> None:
    watched = hold(cluster, 1, lease_s=2.0)
    with renewed(watched.holder):
        cluster.start_worker(watched.latest[next(iter(watched.latest))])

    def lapsed() -> bool:
        return any(
            fragment.phase is FragmentPhase.GONE and "lapsed" in fragment.why
            for fragment in watched.holder.poll()
        )

    cluster.until(lapsed, "the lease to lapse")
    cluster.until(lambda: len(idle(cluster)) == 8, "the node to be idle")
    assert cluster.workers() == 0
