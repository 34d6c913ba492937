"""Holder jobs of several nodes: which nodes share one, and what happens to the others when one
leaves.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from support.fakes_jobs import TRAITS, House, house_in

from bftrainer.cluster.model import Fragment, FragmentPhase, NodeRequest
from bftrainer.fragment_names import job_of
from bftrainer_clusters.holding.holder_files import HolderFiles
from bftrainer_clusters.holding.holder_jobs import JobPhase
from bftrainer_clusters.holding.job_holder import JobHolder
from bftrainer_clusters.slurm.config import SlurmSettings

READY, LEAVING, GONE = FragmentPhase.READY, FragmentPhase.LEAVING, FragmentPhase.GONE


@pytest.fixture
def house(tmp_path: Path) -> House:
    house = house_in(tmp_path)
    house.jobs.nodes_per_job = 3
    return house


def hold(house: House, *nodes: str) -> list[Fragment]:
    fragments = list(house.holder.acquire(tuple(NodeRequest(node) for node in nodes)).fragments)
    for fragment in fragments:
        house.jobs.jobs[job_of(fragment.name)].phase = JobPhase.RUNS
        house.mark_ready(fragment)
    assert [f.phase for f in house.poll()] == [READY] * len(nodes)
    return fragments


def leave(house: House, fragment: Fragment, why: str) -> None:
    """Its payload ends."""
    mark = house.holder.holders / fragment.name / "leaving"
    mark.write_text(f"1700000000.0 {why} killed=0 took_s=0.01\n")


def phases(house: House) -> dict[str, FragmentPhase]:
    return {fragment.node: fragment.phase for fragment in house.poll()}


def jobs_of(house: House, *requests: NodeRequest) -> list[list[str]]:
    """The nodes of each job that was submitted."""
    house.holder.acquire(requests)
    return [[job.node, *job.beside] for job in house.jobs.jobs.values()]


def test_nodes_share_a_job_if_they_are_alike(house: House) -> None:
    found = jobs_of(
        house,
        NodeRequest("a1", node_class="a"),
        NodeRequest("b1", node_class="b"),
        NodeRequest("a2", node_class="a"),
        NodeRequest("a3", 3600.0, node_class="a"),
        NodeRequest("a4", node_class="a", gpus=4),
        NodeRequest("a5", node_class="a"),
        NodeRequest("a6", node_class="a"),
    )
    assert found == [["a1", "a2", "a5"], ["a6"], ["b1"], ["a3"], ["a4"]]


def test_nodes_of_a_job_that_was_refused_are_held_one_by_one(house: House) -> None:
    """One node that Slurm does not give delays a job for all: the next try finds out which it
    is.
    """
    house.jobs.fails = True
    requests = (NodeRequest("n1"), NodeRequest("n2"))
    assert {r.node for r in house.holder.acquire(requests).refusals} == {"n1", "n2"}
    house.jobs.fails = False
    house.clock.sleep(20.0)
    assert jobs_of(house, *requests) == [["n1"], ["n2"]]


def test_the_nodes_of_a_job_are_released_together(house: House) -> None:
    """A job that gave back one of its nodes would make main jobs wait there."""
    fragments = hold(house, "n1", "n2", "n3", "n4")
    house.holder.release(frozenset({fragments[2].name}))
    found = {f.node: f for f in house.poll()}
    assert [found[node].phase for node in ("n1", "n2", "n3", "n4")] == [LEAVING] * 3 + [READY]
    assert found["n1"].why == "released with n3 of the same job"
    assert house.jobs.ended[:1] == [job_of(fragments[0].name)]
    leases = [(house.holder.holders / f.name / "lease").read_text().strip() for f in fragments]
    assert leases[:3] == ["released"] * 3, "in case the scheduler does not answer"
    assert leases[3] != "released"


def test_the_node_of_a_released_holder_may_be_requested_before_that_one_has_ended(
    house: House,
) -> None:
    fragments = hold(house, "n1", "n2", "n3")
    again = (NodeRequest("n1"), NodeRequest("n2"))
    assert {r.reason for r in house.holder.acquire(again).refusals} == {"already held"}
    house.holder.release(frozenset(f.name for f in fragments))
    renewed = house.holder.acquire(again).fragments
    assert {f.node for f in renewed} == {"n1", "n2"}
    assert len({job_of(f.name) for f in renewed}) == 1
    assert {r.reason for r in house.holder.acquire(again).refusals} == {"already held"}


def test_a_job_that_has_not_started_ends_whole(house: House) -> None:
    one, *_ = house.holder.acquire(tuple(NodeRequest(f"n{i}") for i in range(3))).fragments
    house.holder.release(frozenset({one.name}))
    assert house.jobs.ended == [job_of(one.name)]


def test_all_nodes_released_is_one_cancellation(house: House) -> None:
    fragments = hold(house, "n1", "n2", "n3")
    house.holder.release(frozenset(f.name for f in fragments))
    assert house.jobs.ended == [job_of(fragments[0].name)]


def test_a_successor_ends_a_job_of_which_a_node_was_released(house: House, tmp_path: Path) -> None:
    """The predecessor was killed before it could end the job."""
    fragments = hold(house, "n1", "n2", "n3")
    leave(house, fragments[2], "released")
    settings = SlurmSettings(partition="p")
    holder = JobHolder(
        house.jobs, settings, HolderFiles(tmp_path / "holders"), house.clock, poll_s=10.0
    )
    successor = House(house.jobs, house.clock, holder)
    successor.poll()
    assert set(phases(successor).values()) == {LEAVING}
    assert house.jobs.ended[:1] == [job_of(fragments[0].name)]


@pytest.fixture
def giving(house: House) -> House:
    """A scheduler that can take any node but the first from a running job."""
    house.jobs.gives_back = True
    return house


def test_a_node_that_a_job_gives_back_leaves_the_others(giving: House) -> None:
    """Its payload leaves by the lease; only then its node is given back."""
    n1, _, n3 = hold(giving, "n1", "n2", "n3")
    giving.holder.release(frozenset({n3.name}))
    assert (giving.jobs.ended, giving.jobs.taken) == ([], [])
    assert (giving.holder.holders / n3.name / "lease").read_text().strip() == "released"
    leave(giving, n3, "released")
    giving.holder.poll()
    assert giving.jobs.taken == [(job_of(n1.name), ["n3"])]
    assert phases(giving) == {"n1": READY, "n2": READY, "n3": GONE}
    assert phases(giving) == {"n1": READY, "n2": READY}
    assert giving.jobs.ended == []


def test_the_node_of_the_first_process_cannot_be_given_back(giving: House) -> None:
    fragments = hold(giving, "n1", "n2", "n3")
    giving.holder.release(frozenset({fragments[0].name}))
    assert giving.jobs.ended == [job_of(fragments[0].name)]
    assert phases(giving) == dict.fromkeys(("n1", "n2", "n3"), LEAVING)
    assert giving.jobs.taken == []


def test_all_nodes_of_a_job_that_could_give_them_back_are_one_cancellation(giving: House) -> None:
    fragments = hold(giving, "n1", "n2", "n3")
    giving.holder.release(frozenset(f.name for f in fragments))
    assert (giving.jobs.ended, giving.jobs.taken) == ([job_of(fragments[0].name)], [])


def test_a_node_that_cannot_be_given_back_ends_its_job_in_the_end(giving: House) -> None:
    """A payload that hangs is no reason to wait; a scheduler that refuses is asked again."""
    giving.jobs.takes_nodes = False
    fragments = hold(giving, "n1", "n2", "n3")
    job = job_of(fragments[0].name)
    giving.holder.release(frozenset({fragments[2].name}))
    assert phases(giving) == {"n1": READY, "n2": READY, "n3": LEAVING}
    assert giving.jobs.taken == [(job, ["n3"])]
    for _ in range(3):
        giving.poll()
    assert len(giving.jobs.taken) <= 3
    assert giving.jobs.ended[:1] == [job]
    found = {f.node: f for f in giving.poll()}
    assert "n3 could not be given back alone" in found["n1"].why


def test_a_job_that_is_preempted_while_it_gives_back_a_node(giving: House) -> None:
    giving.jobs.takes_nodes = False  # not from a job that ends
    fragments = hold(giving, "n1", "n2", "n3")
    giving.holder.release(frozenset({fragments[2].name}))
    for fragment in fragments:
        leave(giving, fragment, "SIGTERM")
    assert phases(giving) == dict.fromkeys(("n1", "n2", "n3"), LEAVING)
    giving.jobs.jobs.clear()
    giving.poll()
    assert set(phases(giving).values()) <= {LEAVING, GONE}


def test_a_node_that_its_job_no_longer_has_is_gone(house: House) -> None:
    """An administrator has shrunk the job."""
    hold(house, "n1", "n2", "n3")
    (job,) = house.jobs.jobs.values()
    job.beside = ("n2",)
    assert phases(house) == {"n1": READY, "n2": READY, "n3": GONE}


def test_a_job_whose_payload_was_ended_by_hand_ends_whole(house: House) -> None:
    """A node without a payload would make a main job wait for the grace time."""
    fragments = hold(house, "n1", "n2", "n3")
    leave(house, fragments[1], "SIGTERM")
    house.poll()
    house.poll()
    assert house.jobs.ended[:1] == [job_of(fragments[0].name)]


@pytest.mark.parametrize("late", ["n1", "n3"])
@pytest.mark.parametrize("gives_back", [False, True])
def test_a_job_of_which_a_payload_never_starts_ends_whole(
    house: House, gives_back: bool, late: str
) -> None:
    """A node without a payload would be held for nothing, and for as long as the others."""
    house.jobs.gives_back = gives_back
    requests = tuple(NodeRequest(node) for node in ("n1", "n2", "n3"))
    fragments = house.holder.acquire(requests).fragments
    (job,) = house.jobs.jobs.values()
    job.phase = JobPhase.RUNS
    for fragment in fragments:
        if fragment.node != late:
            house.mark_ready(fragment)
    for _ in range(60):
        house.poll()
    assert house.jobs.ended[:1] == [job.id]


def test_a_preempted_job_ends_again_when_a_node_that_it_was_to_give_back_leaves_last(
    tmp_path: Path,
) -> None:
    """PBS notices a second late that a job has ended unless it is asked about it then."""
    house = house_in(tmp_path, replace(TRAITS, cancels_ended=True))
    house.jobs.nodes_per_job, house.jobs.gives_back = 3, True
    house.jobs.takes_nodes = False  # not from a job that ends
    fragments = hold(house, "n1", "n2", "n3")
    house.holder.release(frozenset({fragments[2].name}))
    for fragment in fragments[:2]:
        leave(house, fragment, "SIGTERM")
    house.holder.poll()
    assert house.jobs.ended == []
    leave(house, fragments[2], "SIGTERM")
    house.holder.poll()
    assert house.jobs.taken == []
    assert house.jobs.ended == [job_of(fragments[0].name)]
