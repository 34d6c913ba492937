"""Hung workers, and how a trainer ended."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bftrainer.wires.log_tail import last_exception
from bftrainer.wires.progress_line import ProgressLine
from bftrainer.wires.reports import Ending
from bftrainer_drivers.common.outcome import Exit, ScriptErrors, exit_of, was_taken
from bftrainer_drivers.common.silence import ReportSilence, longest_silence_s
from bftrainer_drivers.common.verdict import GroupEnd, cause, verdict
from bftrainer_drivers.common.warm_command import warm_command
from bftrainer_drivers.horovod.backend import HangWatch

TWO = {("a", 0), ("b", 0)}
LOG = Path("worker.log")


def test_a_script_that_reports_nothing_is_never_hung() -> None:
    assert not ReportSilence(60).is_hung(1e9)


def test_a_silence_of_hang_s_is_a_hang_and_a_new_group_begins_another() -> None:
    silence = ReportSilence(60)
    silence.note_report(100)
    assert (silence.is_hung(159.9), silence.is_hung(160)) == (False, True)
    assert silence.reason == "hung: no report for 60 s (hang_s)"
    silence.note_group(150)
    assert (silence.is_hung(209.9), silence.is_hung(210)) == (False, True)


def test_a_driver_learns_from_the_lines_that_the_one_before_it_saw() -> None:
    lines = [
        ProgressLine(at_s, incarnation=number)
        for at_s, number in ((0, 1), (40, 1), (900, 2), (903, 2))
    ]
    assert longest_silence_s(lines) == 40, (
        "the time between two incarnations is no silence of the script"
    )


def test_the_straggler_that_others_wait_for_gets_a_tenth_and_5_s_at_least() -> None:
    for hang_s, given_s in ((120, 12.0), (10, 5.0)):
        watch = HangWatch(hang_s)
        assert watch.hung_workers({("b", 0)}, True, 10) == set()
        assert watch.hung_workers({("b", 0)}, True, 10 + given_s - 0.1) == set()
        assert watch.hung_workers({("b", 0)}, True, 10 + given_s) == {("b", 0)}


def test_the_wait_begins_anew_when_nobody_waits() -> None:
    watch = HangWatch(10)
    watch.hung_workers({("b", 0)}, True, 0)
    watch.hung_workers(TWO, False, 3)
    assert watch.hung_workers({("b", 0)}, True, 5) == set()


def done(status: int, planned: bool = False) -> Exit:
    return Exit(status, planned, LOG)


@pytest.mark.parametrize(
    ("command", "kept"),
    [
        (["python", "train.py", "--lr", "1"], ["python", ..., "train.py", "--lr", "1"]),
        (["/opt/bin/python3.11", "-u", "train.py"], ["/opt/bin/python3.11", "-u", ..., "train.py"]),
        (["python3", "-m", "package.train"], ["python3", ..., "-m", "package.train"]),
    ],
)
def test_python_scripts_and_modules_can_start_warm(command: list[str], kept: list[object]) -> None:
    found = warm_command(command)
    place = kept.index(...)
    assert found[place].endswith("warm_start.py")
    assert found[:place] + found[place + 1 :] == kept[:place] + kept[place + 1 :]


@pytest.mark.parametrize(
    "command",
    [
        [],
        ["./train"],
        ["python"],
        ["python", "-c", "pass"],
        ["python", "-m"],
        ["pythonic", "x.py"],
        ["bash", "x.sh"],
    ],
)
def test_others_start_cold(command: list[str]) -> None:
    assert warm_command(command) is None


def test_survivors_of_a_loss_are_told_at_once_and_then_every_second() -> None:
    watch = HangWatch(60)
    assert not watch.needs_notice(TWO, False, 0.0)
    watch.member_lost = True
    assert [
        now_s for now_s in (1.0, 1.5, 2.0, 2.9, 3.0) if watch.needs_notice(TWO, True, now_s)
    ] == [
        1.0,
        2.0,
        3.0,
    ]
    assert not watch.needs_notice(set(), True, 5.0), "all have left"
    watch.note_group()
    assert not watch.needs_notice(TWO, False, 60.0), "the next group has lost nobody"


def test_workers_that_left_without_a_loss_free_the_others_after_a_second() -> None:
    watch = HangWatch(60)
    assert [
        now_s for now_s in (1.0, 1.9, 2.0, 2.5) if watch.needs_notice({("b", 0)}, True, now_s)
    ] == [2.0]


def test_a_survivor_that_answers_is_not_hung_and_one_that_does_not_is() -> None:
    watch = HangWatch(60)
    watch.member_lost = True
    assert watch.hung_workers(TWO, True, 0.0, {("a", 0)}) == set()
    assert watch.hung_workers(TWO, True, 6.0, {("a", 0)}) == {("b", 0)}
    assert watch.hung_workers({("a", 0)}, True, 59.9, {("a", 0)}) == set(), (
        "it may be in a long step"
    )
    assert watch.hung_workers({("a", 0)}, True, 60.0, {("a", 0)}) == {("a", 0)}


FAILED = Exit(1, is_planned=False, log=LOG)


def test_errors_that_are_told_after_the_next_group_count_for_theirs() -> None:
    """Horovod's driver forms a group in a thread of its own."""
    errors, answers = ScriptErrors(soon_s=60), []
    errors.note_group(0.0)
    for now_s in (10.0, 20.0, 30.0):
        errors.note_group(now_s)
        answers += [
            errors.note_exit(FAILED, now_s + 1, is_of_previous_group=True),
            errors.note_exit(FAILED, now_s + 1, is_of_previous_group=True),
        ]
    assert answers == [False, False, False, False, True, True]
    errors = ScriptErrors(soon_s=60)
    errors.note_group(0.0)
    errors.note_group(10.0)
    assert not errors.note_exit(FAILED, 11.0)
    assert not errors.note_exit(FAILED, 12.0, is_of_previous_group=True)
    errors.note_group(20.0)
    assert errors.note_exit(FAILED, 21.0), "in three groups"


@pytest.mark.parametrize(
    "between", ["a group that ends without an error", "a long time", "a lost node"]
)
def test_errors_that_come_now_and_then_do_not_count(between: str) -> None:
    errors = ScriptErrors(soon_s=60)
    for now_s in (0.0, 200.0, 400.0, 600.0):
        errors.note_group(now_s)
        assert not errors.note_exit(
            FAILED if between != "a lost node" else done(-9),
            now_s + (61 if "time" in between else 1),
        )
        if "without" in between:
            errors.note_group(now_s + 100)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            "Traceback (most recent call last):\n  File x\n    y\nValueError: boom\n",
            "ValueError: boom",
        ),
        (
            "Traceback (most recent call last):\n  File x\nKeyboardInterrupt\nbye\n",
            "KeyboardInterrupt",
        ),
        (
            "Traceback (most recent call last):\n  a\nKeyError: 1\n\nDuring handling of the "
            "above exception, another exception "
            "occurred:\n\nTraceback (most recent call last):\n  b\na.b.Error: \x1b[31mred\n",
            "a.b.Error: \\x1b[31mred",
        ),
        (
            "[rank2]: Traceback (most recent call last):\n[rank2]:   File x\n[rank2]: OSError: "
            "gone\n",
            "OSError: gone",
        ),
        ("note: no traceback\n", ""),
    ],
)
def test_the_last_exception_of_a_log(tmp_path: Path, text: str, found: str) -> None:
    log = tmp_path / "worker.log"
    log.write_text(text)
    assert last_exception(log) == found
    assert exit_of(1, False, log).description == (
        f"ended with status 1: {found}" if found else "ended with status 1"
    )
    assert (
        exit_of(-9, False, log).description
        == exit_of(137, False, log).description
        == "ended by SIGKILL"
    )


@pytest.mark.parametrize(
    ("last", "is_lost"),
    [
        ("srun: Check SLURM_JOB_ID environment variable. Expired or invalid job 17", True),
        (
            "srun: error: Unable to create step for job 17: Job/step already completing or "
            "completed",
            True,
        ),
        (
            "srun: error: Unable to create step for job 17: Invalid Trackable RESource (TRES) "
            "specification",
            False,
        ),
        ("ValueError: srun: Check SLURM_JOB_ID", False),
    ],
)
def test_a_worker_whose_holder_has_ended_says_nothing_of_the_program(
    tmp_path: Path, last: str, is_lost: bool
) -> None:
    """A worker that starts again on a node that is being preempted: srun ends with status 1, 100
    nodes at a time.
    """
    (tmp_path / "log").write_text(f"srun: error: Slurm job 17 has expired\n{last}\n")
    end = exit_of(1, False, tmp_path / "log")
    assert (end.is_lost, end.has_failed, was_taken(end.status)) == (is_lost, not is_lost, is_lost)


# --- How a driver ends, by one table for all launchers; and which worker's end is named as the
# cause of a failure

RESET = (
    "RuntimeError: [/pytorch/gloo/transport/tcp/pair.cc:553] Connection closed by peer "
    "[127.0.0.1]:19204"
)
NCCL = (
    "torch.distributed.DistBackendError: NCCL error in: ..., remote process exited or there "
    "was a network error"
)
HUNG = "hung: no report for 120 s (hang_s)"


def end(status: int, error: str = "", node: str = "n1", *, planned: bool = False) -> Exit:
    return Exit(status, planned, LOG, error, node)


OWN, PEER, ASKED, DONE, KILLED, ABORTED = (
    end(1, "ValueError: x"),
    end(1, RESET),
    end(83),
    end(0),
    end(-9),
    end(-6),
)
AFTER_REQUEST = end(0, planned=True)
NEXT = "another group"


@pytest.mark.parametrize(
    ("exits", "facts", "elastic", "restarts"),
    [
        ([DONE, DONE], {}, Ending.DONE, Ending.DONE),
        (
            [ASKED, ASKED],
            {"leave_reason": "stop requested", "was_asked_to_leave": True},
            Ending.STOPPED,
            Ending.STOPPED,
        ),
        (
            [ASKED, PEER],
            {"leave_reason": "stop requested", "was_asked_to_leave": True},
            Ending.STOPPED,
            Ending.STOPPED,
        ),
        (
            [AFTER_REQUEST] * 2,
            {"leave_reason": "x", "was_asked_to_leave": True, "says_done": True},
            Ending.DONE,
            Ending.DONE,
        ),
        ([AFTER_REQUEST] * 2, {"was_asked_to_leave": True}, Ending.DONE, NEXT),
        ([ASKED], {}, Ending.STOPPED, NEXT),
        ([KILLED, KILLED], {"has_lost_node": True}, Ending.STOPPED, NEXT),
        ([end(137), end(143)], {"has_lost_node": True}, Ending.STOPPED, NEXT),
        ([KILLED, PEER], {"has_lost_node": True}, Ending.FAILED, NEXT),
        ([ABORTED, OWN], {}, Ending.FAILED, Ending.FAILED),
        ([ABORTED], {}, Ending.STOPPED, Ending.FAILED),
        ([end(-9, planned=True), DONE], {}, Ending.DONE, NEXT),
        ([], {"hang_reason": HUNG}, Ending.FAILED, Ending.FAILED),
        ([KILLED], {"hang_reason": HUNG, "has_lost_node": True}, Ending.FAILED, Ending.FAILED),
        ([DONE], {"hang_reason": HUNG}, Ending.FAILED, Ending.FAILED),
    ],
)
def test_endings(
    exits: list[Exit], facts: dict[str, object], elastic: Ending, restarts: Ending | str
) -> None:
    found = [verdict(GroupEnd(tuple(exits), kind, **facts)) for kind in (True, False)]  # type: ignore[arg-type]
    assert [NEXT if it is None else it.ending for it in found] == [elastic, restarts]


def test_a_worker_that_completed_while_the_others_hung_is_the_cause() -> None:
    ended = verdict(GroupEnd((DONE,), is_elastic=False, hang_reason=HUNG))
    assert ended.reason == "status 0 before the others had finished"
    alone = verdict(GroupEnd((DONE,), is_elastic=False, is_collective=False, hang_reason=HUNG))
    assert alone.reason == HUNG, "workers that need no peers end when they like"


@pytest.mark.parametrize(
    ("ends", "number"),
    [
        ([end(1, "ValueError: boom")], 0),
        ([end(1, RESET), end(1, "ValueError: boom")], 1),
        ([end(1, NCCL), end(1, RESET), end(2)], 2),
        ([end(1, RESET), end(0)], 1),
        ([end(0), end(1, RESET)], 0),
        ([end(0), end(1, "ValueError: boom")], 1),
        ([end(1, RESET), end(1, RESET)], 0),
        ([end(-9, planned=True), end(83), end(1, RESET)], 2),
        ([end(-9, planned=True), end(0)], 1),
    ],
)
def test_the_worker_with_an_error_of_its_own_then_the_one_that_left_early(
    ends: list[Exit], number: int
) -> None:
    ranked_workers = [
        Exit(it.status, it.is_planned, Path(str(at)), it.error, it.node)
        for at, it in enumerate(ends)
    ]
    assert cause(ranked_workers).log == Path(str(number))


def test_the_reason_names_node_and_slot_and_what_followed() -> None:
    assert cause([end(3)]).reason == "status 3"
    assert cause([end(1, RESET), end(3, "OSError: x", "n2")]).reason == "status 3, node n2, slot 0"
    early = cause([end(1, RESET), end(0, "", "n2")]).reason
    assert early == f"status 0 before the others had finished, node n2, slot 0; then {RESET}"


ENDS = st.builds(
    Exit,
    st.sampled_from([0, 1, 83, -9]),
    st.booleans(),
    st.just(LOG),
    st.sampled_from(["", RESET]),
    st.just("n"),
)


@given(st.lists(ENDS), st.booleans(), st.booleans(), st.booleans())
def test_a_group_fails_only_by_a_worker_that_nobody_ended(
    ends: list[Exit], elastic: bool, taken: bool, left: bool
) -> None:
    found = verdict(GroupEnd(tuple(ends), elastic, was_asked_to_leave=left, has_lost_node=taken))
    if found is not None and found.ending is Ending.FAILED:
        assert any(not it.is_planned and it.status not in (0, 83) for it in ends)
        assert found.status not in (0, 83)


def test_a_node_is_lost_by_another_s_signal_and_not_by_the_worker_s_own_abort() -> None:
    assert [
        status
        for status in (0, 1, 83, 128, -9, 137, -15, 143, -6, 134, -11, 139)
        if was_taken(status)
    ] == [
        -9,
        137,
        -15,
        143,
    ]
