"""What a holder knows of a fragment's start: the payload's mark, and the scheduler's list."""

from __future__ import annotations

from dataclasses import dataclass

from bftrainer.domain.cluster import FragmentPhase
from bftrainer.domain.node_stages import NodeStage
from bftrainer_adapters.holding.held import HolderJobState, JobPhase, ready_since


@dataclass(frozen=True)
class Listed:
    ends_s: float | None
    id: str = "7"
    fragments: tuple[str, ...] = ("n1#7",)
    phase: JobPhase = JobPhase.RUNS
    state: str = "RUNNING"
    reason: str = "None"


def test_a_job_began_its_limit_before_its_end() -> None:
    held = HolderJobState("n1#7", 0.0, limit_s=600.0)
    held.compare(Listed(None), 1.0)
    assert held.fragment.reached == ()
    held.compare(Listed(1_700_000_600.0), 2.0)
    held.compare(Listed(1_700_000_900.0), 3.0)  # prolonged
    assert held.fragment.reached == ((NodeStage.JOB_STARTED, 1_700_000_000.0),)
    predecessors = HolderJobState("n1#8", 0.0, FragmentPhase.READY)
    predecessors.compare(Listed(1_700_000_600.0), 2.0)
    assert predecessors.fragment.reached == ()


def test_a_mark_that_is_no_time_is_no_instant() -> None:
    assert ready_since("1700000000.123456\n") == ((NodeStage.PAYLOAD_READY, 1_700_000_000.123456),)
    for mark in ("", "ready", "1e400", "nan", "17", "1700000000.1 x"):
        assert ready_since(mark) == ()
