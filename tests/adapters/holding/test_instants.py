"""What a holder knows of a fragment's start: the payload's mark, and the scheduler's list."""

from __future__ import annotations

from dataclasses import dataclass

from bftrainer.domain.cluster import Fragment, FragmentPhase
from bftrainer.domain.node_stages import NodeStage
from bftrainer_adapters.holding.holder_fragment import HolderFragment, OwnSubmission, left_at, ready_since
from bftrainer_adapters.holding.holder_jobs import JobPhase


@dataclass(frozen=True)
class Listed:
    ends_s: float | None
    id: str = "7"
    fragments: tuple[str, ...] = ("n1#7",)
    phase: JobPhase = JobPhase.RUNS
    state: str = "RUNNING"
    reason: str = "None"


def test_a_job_began_its_limit_before_its_end() -> None:
    held = HolderFragment(Fragment("n1#7", FragmentPhase.PENDING), 0.0, OwnSubmission(0.0, 600.0, ""))
    held = held.listed_as(Listed(None), 1.0)
    assert held.fragment.reached == ()
    held = held.listed_as(Listed(1_700_000_600.0), 2.0)
    held = held.listed_as(Listed(1_700_000_900.0), 3.0)  # prolonged
    assert held.fragment.reached == ((NodeStage.JOB_STARTED, 1_700_000_000.0),)
    predecessors = HolderFragment.found("n1#7", 0.0)
    assert predecessors.listed_as(Listed(1_700_000_600.0), 2.0).fragment.reached == ()


def test_a_mark_that_is_no_time_is_no_instant() -> None:
    assert ready_since("1700000000.123456\n") == ((NodeStage.PAYLOAD_READY, 1_700_000_000.123456),)
    for mark in ("", "ready", "1e400", "nan", "17", "1700000000.1 x"):
        assert ready_since(mark) == ()


def test_a_payload_s_last_mark_is_the_instant_at_which_it_left_once() -> None:
    """The pilot hears of the end of a job only when it lists its jobs, seconds later."""
    left = (NodeStage.LEFT, 1_700_000_000.75)
    held = HolderFragment(Fragment("n1#7", FragmentPhase.READY), 0.0)
    for _ in range(2):  # it is read again until the job is over
        held = held.left("1700000000.500000 notice killed=3 took_s=0.250000", 5.0)
    assert held.fragment.reached == (left,)
    assert held.fragment.phase is FragmentPhase.LEAVING
    assert held.fragment.why == "preempted; 3 processes ended in 0.25 s"
    for mark in (
        "released",
        "1e400 notice killed=3 took_s=0.25",
        "1700000000.5 notice killed=3 took_s=1.2.3",
        "\u0661 x killed=1 took_s=1",
    ):
        assert left_at(mark) == ()
