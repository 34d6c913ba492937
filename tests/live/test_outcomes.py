"""The status of a trainer as a fold over what its driver says: one table."""

from __future__ import annotations

from dataclasses import replace

import pytest
from live_house import spec

from bftrainer.domain.times import HostS
from bftrainer.live.trainers.outcomes import MAX_FAILURES, after_view
from bftrainer.live.trainers.steps import TargetState
from bftrainer.persistence.registry import TrainerRecord, TrainerStatus
from bftrainer.protocol.metrics import Metric
from bftrainer.protocol.reports import DriverView, Ending

QUEUED, WAITING, RUNNING = TrainerStatus.QUEUED, TrainerStatus.WAITING, TrainerStatus.RUNNING
CANCELLED, DONE, FAILED = TrainerStatus.CANCELLED, TrainerStatus.DONE, TrainerStatus.FAILED
RUN, STOP = TargetState.RUN, TargetState.STOP
ALIVE = DriverView(alive=True, incarnation=1, heard_s=9.0)
ON = replace(ALIVE, on=frozenset({"7"}))
NONE = DriverView()


def record(status: TrainerStatus, **keys: object) -> TrainerRecord:
    row = TrainerRecord(1, spec("a"), "me", status, "", 0.0, None, None, None, 5.0, 0, None, 0.0, 0, 0.0, 0.0, 0.0, 0.0)
    return replace(row, **keys)  # type: ignore[arg-type]


def ended(how: Ending) -> DriverView:
    return DriverView(incarnation=1, ending=how, samples=8.0)


@pytest.mark.parametrize(
    ("row", "was", "view", "target", "fault", "status", "is_over"),
    [
        (record(WAITING), ALIVE, ALIVE, RUN, "", None, False),
        (record(WAITING), ALIVE, ON, RUN, "", RUNNING, False),
        (record(RUNNING), ON, ON, RUN, "", None, False),
        (record(RUNNING), ON, ended(Ending.DONE), RUN, "", DONE, True),
        (record(CANCELLED), ON, ended(Ending.DONE), STOP, "", DONE, True),
        (record(CANCELLED), ON, ended(Ending.STOPPED), STOP, "", None, True),
        (record(CANCELLED), NONE, NONE, STOP, "", None, True),
        (record(RUNNING), ON, ended(Ending.FAILED), RUN, "", QUEUED, False),
        (record(RUNNING), ON, ended(Ending.KILLED), RUN, "", QUEUED, False),
        (record(RUNNING), NONE, ended(Ending.KILLED), RUN, "", WAITING, False),
        (record(RUNNING, ended_incarnation=1), NONE, ended(Ending.KILLED), RUN, "", WAITING, False),
        (record(RUNNING), ON, ended(Ending.KILLED), STOP, "", WAITING, False),
        (record(RUNNING), ON, ended(Ending.KILLED), STOP, "its files cannot be read", QUEUED, False),
        (record(RUNNING), ON, ended(Ending.STOPPED), RUN, "", WAITING, False),
        (record(RUNNING, failures=MAX_FAILURES - 1, samples_at_failure=8.0), ON, ended(Ending.FAILED), RUN, "", FAILED, True),
        (record(RUNNING, failures=MAX_FAILURES - 1, samples_at_failure=7.0), ON, ended(Ending.FAILED), RUN, "", QUEUED, False),
        (record(TrainerStatus.PAUSED), ON, ended(Ending.STOPPED), STOP, "", None, False),
    ],
)  # fmt: skip
def test_the_status_follows_from_what_the_driver_says(
    row: TrainerRecord, was: DriverView, view: DriverView, target: TargetState, fault: str, status: TrainerStatus | None,
    is_over: bool,
) -> None:  # fmt: skip
    outcome = after_view(row, was, view, target, fault, frozenset(), 10.0)
    assert (outcome.change.status if outcome.change else None, outcome.is_over) == (status, is_over)
    assert outcome.driver_ended == (view.ending is not None and row.ended_incarnation == 0)
    if outcome.change is not None and outcome.driver_ended:
        assert (outcome.change.ended_incarnation, outcome.change.samples_done) == (1, 8.0)
        assert outcome.change.finished == is_over
    if status is QUEUED:
        assert outcome.change is not None
        assert outcome.change.retry_s == (1.0 if view.ending is Ending.KILLED and not fault else 5.0)


@pytest.mark.parametrize(
    ("aside", "reason"), [(0.0, ""), (2.0, "2 of its tasks failed and were put aside (bftrainer show)")]
)
def test_a_pool_that_is_done_says_how_many_tasks_it_has_put_aside(aside: float, reason: str) -> None:
    pool = record(RUNNING, spec=spec("a", launcher="pool"))
    view = replace(ended(Ending.DONE), metrics=(Metric("failed", aside, aside, 8.0, aside, 8.0),))
    change = after_view(pool, ON, view, RUN, "", frozenset(), HostS(10.0)).change
    assert change is not None
    assert (change.status, change.reason) == (DONE, reason)
