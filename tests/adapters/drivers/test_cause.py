"""Which worker's end is named as the cause of a failure."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bftrainer_adapters.drivers.common.restarting.cause import Ended, cause, was_taken

RESET = "RuntimeError: [/pytorch/gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:19204"
NCCL = "torch.distributed.DistBackendError: NCCL error in: ..., remote process exited or there was a network error"


def end(status: int, error: str = "", node: str = "n1", *, planned: bool = False) -> Ended:
    return Ended(node, 0, status, planned, error)


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
def test_the_worker_with_an_error_of_its_own_then_the_one_that_left_early(ends: list[Ended], number: int) -> None:
    assert cause(ends).number == number


def test_the_reason_names_node_and_slot_and_what_followed() -> None:
    assert cause([end(3)]).reason == "status 3"
    assert cause([end(1, RESET), end(3, "OSError: x", "n2")]).reason == "status 3, node n2, slot 0"
    early = cause([end(1, RESET), end(0, "", "n2")]).reason
    assert early == f"status 0 before the others had finished, node n2, slot 0; then {RESET}"


ENDS = st.builds(
    Ended, st.just("n"), st.integers(0, 3), st.sampled_from([0, 1, 83]), st.booleans(), st.sampled_from(["", RESET])
)


@given(st.lists(ENDS))
def test_a_worker_that_the_driver_ended_or_that_was_asked_to_stop_is_never_the_cause(ends: list[Ended]) -> None:
    if any(one.status in (0, 1) and not one.planned for one in ends):
        found = ends[cause(ends).number]
        assert not found.planned
        assert found.status != 83


def test_a_node_is_lost_by_another_s_signal_and_not_by_the_worker_s_own_abort() -> None:
    assert [status for status in (0, 1, 83, 128, -9, 137, -15, 143, -6, 134, -11, 139) if was_taken(status)] == [
        -9,
        137,
        -15,
        143,
    ]
