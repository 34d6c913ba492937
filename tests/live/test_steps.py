"""What a driver is told next, and what is free: pure, one line a case. And the fold over what
drivers say.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.live_house import spec

from bftrainer.console.cli.trainers import status_text
from bftrainer.pilot.persistence.registry import TrainerRecord, TrainerStatus
from bftrainer.pilot.persistence.registry_writer import TrainerChange
from bftrainer.pilot.trainers.managed import ManagedTrainer
from bftrainer.pilot.trainers.outcomes import MAX_FAILURES, after_failure, after_view
from bftrainer.pilot.trainers.steps import (
    GATHER_S,
    KILL_AFTER_S,
    SETTLE_S,
    AskToStop,
    ChangeHosts,
    Kill,
    StartDriver,
    Step,
    TargetState,
    TrainerState,
    apply_step,
    next_step,
    occupied_nodes,
)
from bftrainer.times import HostS
from bftrainer.wires.metrics import Metric
from bftrainer.wires.reports import DriverView, Ending, after_events, after_progress

A, B, C = "n1#1", "n2#2", "n3#3"
NONE: frozenset[str] = frozenset()


def some(*names: str) -> frozenset[str]:
    return frozenset(names)


def standing(**changes: object) -> TrainerState:
    return TrainerState(**{"min_nodes": 1, "stop_s": 30.0, **changes})  # type: ignore[arg-type]


ALIVE = DriverView(alive=True)
CASES: dict[str, tuple[TrainerState, frozenset[str], float, Step | None]] = {
    "nothing to do without nodes": (standing(), NONE, 0, None),
    "start": (standing(desired=some(A, B)), NONE, 0, StartDriver(some(A, B))),
    "wait for a node that is not free": (standing(desired=some(A, B)), some(B), 1, None),
    "but not for ever": (standing(desired=some(A, B)), some(B), GATHER_S, StartDriver(some(A))),
    "not below the minimum": (standing(desired=some(A, B), min_nodes=2), some(B), 99, None),
    "not before its time": (standing(desired=some(A), not_before_s=5.0), NONE, 4, None),
    "not when it shall stop": (standing(desired=some(A), target=TargetState.STOP), NONE, 0, None),
    "nothing new": (standing(desired=some(A), ordered=some(A), view=ALIVE), NONE, 0, None),
    "shrink at once": (
        standing(desired=some(A), ordered=some(A, B), view=ALIVE),
        NONE,
        0,
        ChangeHosts(some(A)),
    ),
    "grow": (
        standing(desired=some(A, B), ordered=some(A), view=ALIVE),
        NONE,
        0,
        ChangeHosts(some(A, B)),
    ),
    "grow when it is free": (
        standing(desired=some(A, B), ordered=some(A), view=ALIVE),
        some(B),
        0,
        None,
    ),
    "leave all nodes": (
        standing(desired=NONE, ordered=some(A), view=ALIVE),
        NONE,
        0,
        ChangeHosts(NONE),
    ),
    "keep what it has below the minimum": (
        standing(desired=some(A, B, C), ordered=some(A, B), min_nodes=2, view=ALIVE),
        some(B, C),
        99,
        None,
    ),
    "ask to stop": (
        standing(desired=some(A), ordered=some(A), target=TargetState.STOP, view=ALIVE),
        NONE,
        0,
        AskToStop(),
    ),
    "ask once": (
        standing(target=TargetState.STOP, view=ALIVE, stop_requested_s=0.0),
        NONE,
        30,
        None,
    ),
    "then kill": (
        standing(target=TargetState.STOP, view=ALIVE, stop_requested_s=0.0),
        NONE,
        30 + KILL_AFTER_S + 1,
        Kill(),
    ),
    "kill who does not leave": (
        standing(view=ALIVE, ordered_s=0.0),
        NONE,
        30 + KILL_AFTER_S + 1,
        Kill(),
    ),
    "resumed while it stops": (
        standing(desired=some(A), view=ALIVE, stop_requested_s=0.0),
        NONE,
        1,
        None,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_next_step(case: str) -> None:
    it, taken, now_s, expected = CASES[case]
    assert next_step(it, taken, now_s) == expected


def test_a_node_is_free_only_when_its_driver_says_so() -> None:
    it = standing(desired=some(A, B), view=ALIVE)
    apply_step(it, ChangeHosts(some(A, B)), 0.0, 0.0)
    it.view = DriverView(
        alive=True,
        on=some("1", "2"),
        driver_reported_s=1.0,
        with_workers=frozenset({("1", 10), ("2", 20)}),
    )
    apply_step(it, ChangeHosts(some(A)), 10.0, 10.0)
    assert occupied_nodes(it, 10.0) == some(A, B), "told, not done"
    assert occupied_nodes(it, 10.0 + SETTLE_S + 1) == some(A, B), "it still says that it is there"
    it.view = replace(it.view, on=some("1"), driver_reported_s=11.0)
    assert occupied_nodes(it, 11.0) == some(A, B), "its worker has not ended"
    it.view = replace(it.view, with_workers=frozenset({("1", 10)}))
    assert occupied_nodes(it, 11.0) == some(A)
    it.view = replace(it.view, alive=False)
    assert occupied_nodes(it, 11.0) == NONE


def test_a_driver_that_just_read_its_order_may_still_start_a_worker_there() -> None:
    it = standing(view=ALIVE)
    apply_step(it, StartDriver(some(A, B)), 0.0, 0.0)
    apply_step(it, ChangeHosts(some(A)), 0.1, 0.1)
    assert occupied_nodes(it, 0.2) == some(A, B)
    assert occupied_nodes(it, 0.1 + SETTLE_S + 0.1) == some(A)


def worker(
    at_s: float, event: str, fragment: str, pid: int, **further: object
) -> dict[str, object]:
    head = {"time": at_s, "event": event, "incarnation": 1}
    return head | {"host": f"n{fragment}", "fragment": fragment, "slot": 0, "pid": pid, **further}


LINES = [
    {"time": 1.0, "event": "started", "incarnation": 1, "driver": "restart", "pid": 7},
    worker(1.1, "worker_started", "1", 10, log="logs/1/n1.1.0.log"),
    worker(1.2, "worker_started", "2", 20, log="logs/1/n2.2.0.log"),
    {"time": 1.3, "event": "running", "incarnation": 1, "fragments": ["1", "2"], "world_size": 2},
    worker(5.0, "worker_exited", "2", 20, status=-9, planned=False),
    {
        "time": 5.0,
        "event": "withheld",
        "incarnation": 1,
        "host": "n2",
        "fragment": "2",
        "reason": "x",
    },
    {"time": 5.1, "event": "something new", "incarnation": 1, "fragment": "7"},
    {"time": 5.2, "event": "running", "incarnation": 1, "fragments": ["1"], "world_size": 1},
    {
        "time": 9.0,
        "event": "failed",
        "incarnation": 1,
        "reason": "status 1",
        "status": 1,
        "tail": ["a", "b"],
    },
]


def test_what_drivers_say() -> None:
    view = after_events(DriverView(alive=True), LINES[:4])
    assert (view.on, view.world_size, view.incarnation) == (some("1", "2"), 2, 1)
    assert view.occupied == some("1", "2")
    view = after_events(view, LINES[4:8])
    assert (view.on, view.withheld, view.with_workers) == (
        some("1"),
        some("2"),
        frozenset({("1", 10)}),
    )
    view = after_events(view, LINES[8:])
    assert (view.ending, view.reason, view.tail, view.on) == (
        Ending.FAILED,
        "status 1",
        ("a", "b"),
        NONE,
    )
    again = after_events(view, [{"time": 10.0, "event": "started", "incarnation": 2}])
    assert (again.ending, again.tail, again.incarnation) == (None, (), 2)
    for i in range(len(LINES)):
        one_by_one = after_events(after_events(DriverView(), LINES[:i]), LINES[i:])
        assert one_by_one == after_events(DriverView(), LINES), "however the file is cut"


def test_it_trains_once_rank_0_has_reported_since_the_change() -> None:
    view = after_events(DriverView(alive=True), LINES[:4])
    assert not view.trains
    assert not after_progress(view, [{"time": 1.0, "samples": 5}]).trains, "that was before"
    after = after_progress(view, [{"time": 2.0, "samples": 7, "loss": None, "step": 3}])
    assert (after.trains, after.samples, after.loss, after.step) == (True, 7.0, None, 3)
    assert not after_events(after, LINES[7:8]).trains


# --- The status of a trainer as a fold over what its driver says: one table

QUEUED, WAITING, RUNNING = TrainerStatus.QUEUED, TrainerStatus.WAITING, TrainerStatus.RUNNING
CANCELED, DONE, FAILED = TrainerStatus.CANCELED, TrainerStatus.DONE, TrainerStatus.FAILED
RUN, STOP = TargetState.RUN, TargetState.STOP
STARTED = DriverView(alive=True, incarnation=1, rank_0_reported_s=9.0)
ON = replace(STARTED, on=frozenset({"7"}))
SILENT = DriverView()


def record(status: TrainerStatus, **keys: object) -> TrainerRecord:
    row = TrainerRecord(
        1,
        spec("a"),
        "me",
        status,
        "",
        0.0,
        None,
        None,
        None,
        5.0,
        0,
        None,
        0.0,
        0,
        0.0,
        0.0,
        0.0,
        0.0,
    )
    return replace(row, **keys)  # type: ignore[arg-type]


def ended(how: Ending) -> DriverView:
    return DriverView(incarnation=1, ending=how, samples=8.0)


@pytest.mark.parametrize(
    ("row", "was", "view", "target", "fault", "status", "is_over"),
    [
        (record(WAITING), STARTED, STARTED, RUN, "", None, False),
        (record(WAITING), STARTED, ON, RUN, "", RUNNING, False),
        (record(RUNNING), ON, ON, RUN, "", None, False),
        (record(RUNNING), ON, ended(Ending.DONE), RUN, "", DONE, True),
        (record(CANCELED), ON, ended(Ending.DONE), STOP, "", DONE, True),
        (record(CANCELED), ON, ended(Ending.STOPPED), STOP, "", None, True),
        (record(CANCELED), SILENT, SILENT, STOP, "", None, True),
        (record(RUNNING), ON, ended(Ending.FAILED), RUN, "", QUEUED, False),
        (record(RUNNING), ON, ended(Ending.KILLED), RUN, "", QUEUED, False),
        (record(RUNNING), SILENT, ended(Ending.KILLED), RUN, "", WAITING, False),
        (
            record(RUNNING, ended_incarnation=1),
            SILENT,
            ended(Ending.KILLED),
            RUN,
            "",
            WAITING,
            False,
        ),
        (record(RUNNING), ON, ended(Ending.KILLED), STOP, "", WAITING, False),
        (
            record(RUNNING),
            ON,
            ended(Ending.KILLED),
            STOP,
            "its files cannot be read",
            QUEUED,
            False,
        ),
        (record(RUNNING), ON, ended(Ending.STOPPED), RUN, "", WAITING, False),
        (
            record(RUNNING, failures=MAX_FAILURES - 1, samples_at_failure=8.0),
            ON,
            ended(Ending.FAILED),
            RUN,
            "",
            FAILED,
            True,
        ),
        (
            record(RUNNING, failures=MAX_FAILURES - 1, samples_at_failure=7.0),
            ON,
            ended(Ending.FAILED),
            RUN,
            "",
            QUEUED,
            False,
        ),
        (record(TrainerStatus.PAUSED), ON, ended(Ending.STOPPED), STOP, "", None, False),
    ],
)
def test_the_status_follows_from_what_the_driver_says(
    row: TrainerRecord,
    was: DriverView,
    view: DriverView,
    target: TargetState,
    fault: str,
    status: TrainerStatus | None,
    is_over: bool,
) -> None:
    outcome = after_view(row, was, view, target, fault, frozenset(), 10.0)
    assert (outcome.change.status if outcome.change else None, outcome.is_over) == (status, is_over)
    assert outcome.driver_ended == (view.ending is not None and row.ended_incarnation == 0)
    if outcome.change is not None and outcome.driver_ended:
        assert (outcome.change.ended_incarnation, outcome.change.samples_done) == (1, 8.0)
        assert outcome.change.finished == is_over
    if status is QUEUED:
        assert outcome.change is not None
        assert outcome.change.retry_s == (
            1.0 if view.ending is Ending.KILLED and not fault else 5.0
        )


@pytest.mark.parametrize(
    ("reason", "tail", "samples", "starts"),
    [
        ("the command cannot be started: a worker ended with status 127", (), 0.0, 2),
        ("status 2", ("python: can't open file '/x/train.py': [Errno 2] No such file",), 0.0, 2),
        ("status 1", ("Traceback", "ModuleNotFoundError: No module named 'torch'"), 0.0, 2),
        ("status 2", ("train.py: error: unrecognized arguments: --epoch 3",), 0.0, 2),
        ("status 1", ("Traceback", "NameError: name 'loss' is not defined"), 0.0, 2),
        ("status 1", ("[rank0]: bftrainer.errors.InvalidValueError: 9 workers",), 0.0, 2),
        ("no step within 900 s of its start (first_step_s); a worker waits at a.py:4", (), 0.0, 2),
        ("no step within 900 s of its start (first_step_s)", (), 9.0, 4),
        ("status 1", ("ModuleNotFoundError: No module named 'torch'",), 9.0, 4),
        ("status 1", ("ValueError: no data", "FileNotFoundError: 'data.npz'"), 0.0, 4),
    ],
)
def test_an_error_that_comes_at_every_start_is_tried_on_one_more_node(
    reason: str, tail: tuple[str, ...], samples: float, starts: int
) -> None:
    errors = [(reason, tail)] * MAX_FAILURES
    assert starts_of(errors, [some(A), some(B)] * 2, samples) == starts


def starts_of(
    errors: list[tuple[str, tuple[str, ...]]], nodes: list[frozenset[str]], samples: float = 0.0
) -> int:
    """Starts until a trainer fails for good, each with an error on nodes of its own."""
    row = record(RUNNING, samples_done=samples, samples_at_failure=samples)
    certain: tuple[frozenset[str], ...] = ()
    for count, ((reason, tail), on) in enumerate(zip(errors, nodes, strict=True), 1):
        outcome = after_failure(
            row, samples, reason, tail, TrainerChange(), nodes=on, certain=certain
        )
        assert outcome.change is not None
        if outcome.is_over:
            return count
        certain += (on,) if outcome.is_certain else ()
        row = replace(row, failures=outcome.change.failures or 0)
    raise AssertionError("it does not fail for good")


MISSING = ("status 1", ("Traceback", "ModuleNotFoundError: No module named 'torch'"))
WRONG = ("status 1", ("Traceback", "NameError: name 'loss' is not defined"))
OTHER = ("status 1", ("RuntimeError: NCCL error: unhandled system error",))


def test_one_node_without_the_files_ends_no_trainer_at_its_second_start() -> None:
    assert starts_of([MISSING] * 4, [some(A), some("n1#9"), some(A, B), some(A)]) == 4
    assert starts_of([MISSING] * 4, [some(A), some(A), some(B), some(A)]) == 3
    assert starts_of([WRONG] * 4, [some(A)] * 4) == 2


def test_an_error_that_comes_at_every_start_counts_from_its_own_first_one() -> None:
    assert starts_of([OTHER, MISSING, MISSING, OTHER], [some(A), some(B), some(C), some(A)]) == 3
    assert starts_of([OTHER, MISSING, OTHER, OTHER], [some(A), some(B), some(C), some(A)]) == 4


@pytest.mark.parametrize(
    ("error", "unfit", "is_over"),
    [
        ("9 workers, but virtual_ranks=8: limit the trainer", (3, 4), False),
        ("16 workers, but virtual_ranks=8: limit the trainer", (2, 4), False),
        ("32 workers, but virtual_ranks=8: limit the trainer", (1, 4), True),
        ("a global batch of 4 cannot be divided among 6 workers", (3, 4), False),
        ("a global batch of 4 cannot be divided among 8 virtual ranks", None, True),
    ],
)
def test_a_size_that_a_script_refuses_is_not_tried_again(
    error: str, unfit: tuple[int, int] | None, is_over: bool
) -> None:
    row = record(RUNNING, samples_done=0.0, samples_at_failure=0.0, failures=1)
    tail = ("Traceback", f"[rank0]: bftrainer.errors.InvalidValueError: {error}")
    outcome = after_failure(
        row, 0.0, "status 1", tail, TrainerChange(), nodes=some(A, B, C), certain=(some(A),)
    )
    assert outcome.change is not None
    assert (outcome.change.unfit, outcome.is_over) == (unfit, is_over)


def managed(view: DriverView) -> ManagedTrainer:
    state = standing(ordered=some(A, B), view=view)
    return ManagedTrainer(record(RUNNING), state)


@pytest.mark.parametrize(("has_trained", "trained_s"), [(True, 20.0), (False, 0.0)])
def test_a_program_that_never_reports_has_trained_unless_it_fails(
    has_trained: bool, trained_s: float
) -> None:
    trainer = managed(replace(ON, rank_0_reported_s=0.0))
    trainer.account(10.0)
    first = trainer.take_usage()
    assert first is not None
    assert (first.held_node_s, first.trained_node_s, first.stalled_node_s) == (20.0, 0.0, 0.0)
    trainer.classify_unreported(has_trained=has_trained)
    last = trainer.take_usage()
    assert last is not None
    assert (last.trained_node_s, last.stalled_node_s) == (trained_s, 20.0 - trained_s)


def test_the_start_of_a_program_that_reports_later_has_not_trained() -> None:
    trainer = managed(replace(ON, rank_0_reported_s=0.0))
    trainer.account(10.0)
    trainer.state.view = replace(ON, rank_0_reported_s=9.0, trains=True)
    trainer.account(5.0)
    usage = trainer.take_usage()
    assert usage is not None
    assert (usage.trained_node_s, usage.stalled_node_s) == (10.0, 20.0)


@pytest.mark.parametrize(
    ("status", "nodes", "text"),
    [(RUNNING, 2, "running"), (RUNNING, 0, "leaving"), (WAITING, 1, "starting")],
)
def test_no_trainer_runs_without_nodes(status: TrainerStatus, nodes: int, text: str) -> None:
    assert status_text(record(status), nodes) == text


@pytest.mark.parametrize(
    ("aside", "reason"),
    [(0.0, ""), (2.0, "2 of its tasks failed and were put aside (bftrainer show)")],
)
def test_a_pool_that_is_done_says_how_many_tasks_it_has_put_aside(
    aside: float, reason: str
) -> None:
    pool = record(RUNNING, spec=spec("a", launcher="pool"))
    view = replace(ended(Ending.DONE), metrics=(Metric("failed", aside, aside, 8.0, aside, 8.0),))
    change = after_view(pool, ON, view, RUN, "", frozenset(), HostS(10.0)).change
    assert change is not None
    assert (change.status, change.reason) == (DONE, reason)
