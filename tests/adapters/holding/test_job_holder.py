"""The common holder loop with a scheduler of a few lines: what it makes of answers that come late,
odd or not at all.
"""

from __future__ import annotations

import threading
from itertools import pairwise
from pathlib import Path

import pytest
from support.fakes_jobs import House, Job, house_in

from bftrainer.cluster.model import FragmentPhase, NodeRequest
from bftrainer.errors import CommandError
from bftrainer_clusters.holding.holder_files import HolderFiles
from bftrainer_clusters.holding.holder_jobs import JobPhase
from bftrainer_clusters.holding.job_holder import JobHolder
from bftrainer_clusters.slurm.config import SlurmSettings


@pytest.fixture
def house(tmp_path: Path) -> House:
    return house_in(tmp_path)


def test_a_mark_that_is_younger_than_the_answer_is_no_second_queueing(house: House) -> None:
    (fragment,) = house.holder.acquire((NodeRequest("n1"),)).fragments
    house.jobs.while_asked = lambda: house.mark_ready(fragment)
    assert [f.phase for f in house.poll()] == [FragmentPhase.READY]
    assert house.jobs.ended == []


def test_a_job_of_ours_that_nobody_knows_is_ended_and_shown_to_nobody(house: House) -> None:
    house.ready()
    house.jobs.jobs["99"] = Job("99", "n2", JobPhase.RUNS)
    assert [f.node for f in house.poll()] == ["n1"]
    assert house.jobs.ended == ["99"]
    house.jobs.jobs["99"].phase = JobPhase.OVER
    house.poll()
    assert house.jobs.ended == ["99"]


def successor_in_an_outage(
    house: House, folder: Path, outage_s: float, timeout_s: float = 0.0
) -> tuple[JobHolder, list[float]]:
    """A holder of the same pilot, and when each of its lists failed."""
    end_s = house.clock.elapsed_s() + outage_s
    failed: list[float] = []

    def no_answer() -> None:
        if house.clock.elapsed_s() < end_s:
            failed.append(house.clock.elapsed_s())
            house.clock.sleep(timeout_s)
            raise CommandError(["fqueue"], "no answer")

    house.jobs.while_asked = no_answer
    return JobHolder(
        house.jobs, SlurmSettings(partition="p"), HolderFiles(folder / "holders"), house.clock, 10.0
    ), failed


@pytest.mark.parametrize("outage_s", [5, 36, 58, 200])
def test_a_successor_lists_the_holders_within_a_poll_of_the_end_of_an_outage(
    house: House, tmp_path: Path, outage_s: int
) -> None:
    """The pilot takes its predecessor's nodes for lost once other commands have been answered for
    two polls.
    """
    fragment, end_s = house.ready(), house.clock.elapsed_s() + outage_s
    successor, _ = successor_in_an_outage(house, tmp_path, outage_s)
    while not (shown := successor.poll()):
        house.clock.sleep(1.0)
    assert [f.name for f in shown] == [fragment.name]
    assert house.clock.elapsed_s() - end_s <= 10.0


def test_a_successor_is_not_always_waiting_for_a_scheduler_that_hangs(
    house: House, tmp_path: Path
) -> None:
    successor, failed = successor_in_an_outage(house, tmp_path, 200, timeout_s=10.0)
    for _ in range(100):
        successor.poll()
        house.clock.sleep(1.0)
    assert len(failed) >= 5
    assert min(after - before for before, after in pairwise(failed)) >= 20.0


def test_a_round_of_slow_submissions_ends_early_and_the_rest_follows_later(house: House) -> None:
    """16 sbatch of 5 s each in one tick were 80 s without a renewal, a release or a look at the
    drivers.
    """
    submit = house.jobs.submit

    def slow(claim: NodeRequest, beside: tuple[str, ...] = ()) -> str:
        house.clock.sleep(5.0)
        return submit(claim, beside)

    house.jobs.submit = slow  # type: ignore[method-assign]
    requests = tuple(NodeRequest(f"n{i:02d}") for i in range(16))
    held: list[str] = []
    for round_ in range(1, 9):
        acquired = house.holder.acquire(tuple(r for r in requests if r.node not in held))
        assert acquired.refusals == (), "what was not tried is no refusal: no back-off"
        held += [f.node for f in acquired.fragments]
        assert len(held) == 2 * round_, "the first two run at the same time"
    assert sorted(held) == [r.node for r in requests]


def test_all_that_are_not_listed_are_asked_for_in_one_command(house: House) -> None:
    """A command per holder would cost a slow scheduler its time-out as often as there are
    holders.
    """
    for node in ("n1", "n2", "n3"):
        (fragment,) = house.holder.acquire((NodeRequest(node),)).fragments
        house.jobs.jobs[fragment.id].phase = JobPhase.RUNS
        house.mark_ready(fragment)
    house.poll()
    house.jobs.listed = dict  # type: ignore[method-assign]
    del house.jobs.jobs["2"]
    house.poll()
    assert house.jobs.asked_for == [], "one list may be incomplete"
    phases = {fragment.node: fragment.phase for fragment in house.poll()}
    assert house.jobs.asked_for == [["1", "2", "3"]]
    assert phases == {
        "n1": FragmentPhase.READY,
        "n2": FragmentPhase.GONE,
        "n3": FragmentPhase.READY,
    }


def test_two_failures_in_a_row_end_a_round(house: House) -> None:
    house.jobs.fails = True
    acquired = house.holder.acquire(tuple(NodeRequest(f"n{i}") for i in range(4)))
    assert house.jobs.submitted == 2
    assert [r.reason for r in acquired.refusals[2:]] == ["not tried: fsub has just failed"] * 2
    assert all(r.retry_s > 0 for r in acquired.refusals)


def test_submissions_run_at_the_same_time_once_the_first_have_succeeded(house: House) -> None:
    """Each command waits until as many run as may: a round of one after the other would never
    end.
    """
    together = [threading.Barrier(2), threading.Barrier(4)]
    house.jobs.while_submitting = lambda: together[house.jobs.submitted > 2].wait(60)
    acquired = house.holder.acquire(tuple(NodeRequest(f"n{i}") for i in range(6)))
    assert [f.node for f in acquired.fragments] == [f"n{i}" for i in range(6)]
    assert len({f.id for f in acquired.fragments}) == 6


def test_submissions_at_the_same_time_respect_the_caps(house: House, tmp_path: Path) -> None:
    requests = tuple(NodeRequest(f"n{i}") for i in range(8))
    settings = SlurmSettings(partition="p", submissions_per_hour=3)
    capped = JobHolder(
        house.jobs, settings, HolderFiles(tmp_path / "capped"), house.clock, poll_s=10.0
    )
    capped.poll()
    assert len(capped.acquire(requests).fragments) == 3
    settings = SlurmSettings(partition="p", max_pending=5)
    pending = JobHolder(
        house.jobs, settings, HolderFiles(tmp_path / "pending"), house.clock, poll_s=10.0
    )
    pending.poll()
    house.jobs.submitted = 100
    there = len(pending.poll())
    assert len(pending.acquire(requests).fragments) == 5 - there
    house.jobs.fails = True
    assert pending.acquire((NodeRequest("n9"),)).fragments == ()


@pytest.mark.parametrize(
    ("against", "reason"),
    [("it suspends", "it suspends"), ("?", "would be preempted: fqueue: no answer")],
)
def test_nothing_is_submitted_where_nodes_would_not_be_given_back(
    house: House, against: str, reason: str
) -> None:
    house.jobs.against = against
    (refusal,) = house.holder.acquire((NodeRequest("n1"),)).refusals
    assert refusal.reason.endswith(reason)
    assert house.jobs.submitted == 0


def test_a_waiting_one_that_a_successor_finds_goes_on_waiting(house: House, tmp_path: Path) -> None:
    (fragment,) = house.holder.acquire((NodeRequest("n1"),)).fragments
    settings = SlurmSettings(partition="p", start_within_s=30.0)
    successor = JobHolder(
        house.jobs, settings, HolderFiles(tmp_path / "holders"), house.clock, poll_s=10.0
    )
    assert [(f.name, f.phase) for f in successor.poll()] == [(fragment.name, FragmentPhase.PENDING)]
    assert house.jobs.ended == []
    house.jobs.jobs[fragment.id].phase = JobPhase.RUNS
    house.mark_ready(fragment)
    house.clock.sleep(10.0)
    assert [f.phase for f in successor.poll()] == [FragmentPhase.READY]


def test_a_slow_prolog_and_epilog_are_measured_and_count_in_windows(house: House) -> None:
    (first,) = house.holder.acquire((NodeRequest("n1", node_class="a"),)).fragments
    for _ in range(4):
        house.poll()
        house.jobs.jobs[first.id].phase = JobPhase.RUNS
    house.mark_ready(first)
    house.poll()
    house.holder.release(frozenset({first.name}))
    house.jobs.jobs[first.id].phase = JobPhase.LEAVES
    for _ in range(3):
        house.poll()
    house.jobs.jobs[first.id].phase = JobPhase.OVER
    while [f.phase for f in house.poll()] != [FragmentPhase.GONE]:
        pass
    refused = house.holder.acquire((NodeRequest("n2", 140.0, node_class="a"),)).refusals
    assert (
        "50 s to start a holder, 0 s to rescale, 40 s until the node is idle" in refused[0].reason
    )
    (second,) = house.holder.acquire((NodeRequest("n2", 600.0, node_class="a"),)).fragments
    assert second.release_s == 40.0
    assert house.jobs.windows[-1] == 560.0
