"""How a driver ends, by one table for all launchers; and which worker's end is named as the cause of a failure."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bftrainer.protocol.reports import Ending
from bftrainer_adapters.drivers.common.outcome import Exit, was_taken
from bftrainer_adapters.drivers.common.verdict import Ended, cause, verdict

RESET = "RuntimeError: [/pytorch/gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:19204"
NCCL = "torch.distributed.DistBackendError: NCCL error in: ..., remote process exited or there was a network error"
LOG = Path("worker.log")
HUNG = "hung: no report for 120 s (hang_s)"


def end(status: int, error: str = "", node: str = "n1", *, planned: bool = False) -> Exit:
    return Exit(status, planned, LOG, error, node)


OWN, PEER, ASKED, DONE, KILLED, ABORTED = end(1, "ValueError: x"), end(1, RESET), end(83), end(0), end(-9), end(-6)
AFTER_REQUEST = end(0, planned=True)
NEXT = "another group"


@pytest.mark.parametrize(
    ("exits", "facts", "elastic", "restarts"),
    [
        ([DONE, DONE], {}, Ending.DONE, Ending.DONE),
        ([ASKED, ASKED], {"leave": "stop requested", "left": True}, Ending.STOPPED, Ending.STOPPED),
        ([ASKED, PEER], {"leave": "stop requested", "left": True}, Ending.STOPPED, Ending.STOPPED),
        ([AFTER_REQUEST] * 2, {"leave": "x", "left": True, "says_done": True}, Ending.DONE, Ending.DONE),
        ([AFTER_REQUEST] * 2, {"left": True}, Ending.DONE, NEXT),
        ([ASKED], {}, Ending.STOPPED, NEXT),
        ([KILLED, KILLED], {"taken": True}, Ending.STOPPED, NEXT),
        ([end(137), end(143)], {"taken": True}, Ending.STOPPED, NEXT),
        ([KILLED, PEER], {"taken": True}, Ending.FAILED, NEXT),
        ([ABORTED, OWN], {}, Ending.FAILED, Ending.FAILED),
        ([ABORTED], {}, Ending.STOPPED, Ending.FAILED),
        ([end(-9, planned=True), DONE], {}, Ending.DONE, NEXT),
        ([], {"hung": HUNG}, Ending.FAILED, Ending.FAILED),
        ([KILLED], {"hung": HUNG, "taken": True}, Ending.FAILED, Ending.FAILED),
        ([DONE], {"hung": HUNG}, Ending.FAILED, Ending.FAILED),
    ],
)  # fmt: skip
def test_endings(exits: list[Exit], facts: dict[str, object], elastic: Ending, restarts: Ending | str) -> None:
    found = [verdict(Ended(tuple(exits), kind, **facts)) for kind in (True, False)]  # type: ignore[arg-type]
    assert [NEXT if it is None else it.ending for it in found] == [elastic, restarts]


def test_a_worker_that_completed_while_the_others_hung_is_the_cause() -> None:
    ended = verdict(Ended((DONE,), elastic=False, hung=HUNG))
    assert ended is not None
    assert ended.reason == "status 0 before the others had finished"
    alone = verdict(Ended((DONE,), elastic=False, collective=False, hung=HUNG))
    assert alone is not None
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
def test_the_worker_with_an_error_of_its_own_then_the_one_that_left_early(ends: list[Exit], number: int) -> None:
    numbered = [Exit(it.status, it.planned, Path(str(at)), it.error, it.node) for at, it in enumerate(ends)]
    assert cause(numbered).log == Path(str(number))


def test_the_reason_names_node_and_slot_and_what_followed() -> None:
    assert cause([end(3)]).reason == "status 3"
    assert cause([end(1, RESET), end(3, "OSError: x", "n2")]).reason == "status 3, node n2, slot 0"
    early = cause([end(1, RESET), end(0, "", "n2")]).reason
    assert early == f"status 0 before the others had finished, node n2, slot 0; then {RESET}"


ENDS = st.builds(
    Exit, st.sampled_from([0, 1, 83, -9]), st.booleans(), st.just(LOG), st.sampled_from(["", RESET]), st.just("n")
)


@given(st.lists(ENDS), st.booleans(), st.booleans(), st.booleans())
def test_a_group_fails_only_by_a_worker_that_nobody_ended(
    ends: list[Exit], elastic: bool, taken: bool, left: bool
) -> None:
    found = verdict(Ended(tuple(ends), elastic, left=left, taken=taken))
    if found is not None and found.ending is Ending.FAILED:
        assert any(not it.planned and it.status not in (0, 83) for it in ends)
        assert found.status not in (0, 83)


def test_a_node_is_lost_by_another_s_signal_and_not_by_the_worker_s_own_abort() -> None:
    assert [status for status in (0, 1, 83, 128, -9, 137, -15, 143, -6, 134, -11, 139) if was_taken(status)] == [
        -9,
        137,
        -15,
        143,
    ]
