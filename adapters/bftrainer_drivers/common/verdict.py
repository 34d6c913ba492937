"""How a driver ends, from how the workers of its last group ended: one model for all launchers.
Pure.

When a worker ends, its peers lose their connections and fail as well, some milliseconds later or,
on a busy node, at what looks like the same moment. Their messages name a peer's address, and hide
the worker whose own error it was.
"""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from dataclasses import dataclass

from bftrainer.wires.control import STOPPED_STATUS
from bftrainer.wires.reports import Ending
from bftrainer_drivers.common.outcome import DriverOutcome, Exit

_LOST_PEER = re.compile(
    r"connection (was |is )?(closed|reset|refused|aborted)|broken pipe|closed by peer|socket "
    r"closed|remote process exited"
    r"|remote "
    r"peer|DistNetworkError|HorovodInternalError|ncclRemoteError|ncclSystemError|unhandled "
    r"system error"
    r"|recv(Value|Bytes)? (failed|timeout)|timed out",
    re.IGNORECASE,
)
"""Errors of gloo, NCCL, torch's store and Horovod in workers whose peer has gone."""


@dataclass(frozen=True, slots=True)
class GroupEnd:
    """How a group has ended."""

    exits: tuple[Exit, ...]
    """Its workers' ends, in the order in which they were noticed."""
    is_elastic: bool
    is_collective: bool = True
    leave_reason: str | None = None
    """Why the workers were asked to leave for good; None if they were not."""
    was_asked_to_leave: bool = False
    """The workers were asked to leave, if only for another group."""
    says_done: bool = False
    """The script has reported that it is done, or has reported all samples and exited with 0."""
    has_lost_node: bool = False
    """A node of a group that is not elastic was lost."""
    hang_reason: str | None = None
    """Why the workers count as hung and are killed; None if they do not."""


def verdict(group: GroupEnd) -> DriverOutcome | None:
    """Return how the driver ends; None if it goes on with another group.

    An error of the script outweighs the aborts that it causes on other nodes. Lost workers alone
    are no failure: the trainer resumes from its last checkpoint when there are nodes.
    """
    if group.leave_reason is not None and not group.says_done:
        return DriverOutcome(Ending.STOPPED, group.leave_reason)
    if _has_failed(group, _unrequested_exits(group.exits)):
        return cause([end for end in group.exits if not (group.is_elastic and end.is_lost)])
    if group.hang_reason is not None:
        return DriverOutcome(Ending.FAILED, group.hang_reason, 1)
    statuses = {end.status for end in group.exits}
    if group.is_elastic:
        return _elastic_verdict(statuses)
    if statuses == {0} and (group.says_done or not group.was_asked_to_leave):
        return DriverOutcome(Ending.DONE)
    return None


def _unrequested_exits(exits: Sequence[Exit]) -> list[Exit]:
    """Return the ends that were neither planned nor answers to a stop request."""
    return [end for end in exits if not end.is_planned and end.status != STOPPED_STATUS]


def _has_failed(group: GroupEnd, unrequested: Sequence[Exit]) -> bool:
    """Whether the script has failed, by the ends that nobody had requested."""
    if group.is_elastic:
        return any(end.has_failed for end in unrequested)
    if group.has_lost_node:
        return False
    # A worker of a group that works together completed while the others were silent until they were
    # killed.
    is_early = (
        group.hang_reason is not None
        and group.is_collective
        and any(end.status == 0 for end in unrequested)
    )
    return is_early or any(end.status != 0 for end in unrequested)


def _elastic_verdict(statuses: Set[int]) -> DriverOutcome:
    """Return how the driver of an elastic group ends that had no failure."""
    if STOPPED_STATUS in statuses:
        return DriverOutcome(
            Ending.STOPPED, "the script exited on its own, as after a stop request"
        )
    if 0 in statuses:
        return DriverOutcome(Ending.DONE)
    return DriverOutcome(Ending.STOPPED, "every worker was lost")


def cause(exits: Sequence[Exit]) -> DriverOutcome:
    """Return the failure and the worker to blame: the first with an error of its own (not that of a
    lost peer); else the first that completed while others still trained; else the first that
    failed. At least one exit is neither planned nor a stop.
    """
    unrequested = _unrequested_exits(exits)
    failures = [end for end in unrequested if end.status != 0]
    for end in failures:
        if not _LOST_PEER.search(end.error):
            return _failure_outcome(end, f"status {end.status}{_worker_place(end, exits)}")
    for end in unrequested:
        if end.status == 0:
            errors = [failure.error for failure in failures if failure.error]
            consequence = f"; then {errors[0]}" if errors else ""
            return _failure_outcome(
                end,
                f"status 0 before the others had finished{_worker_place(end, exits)}{consequence}",
            )
    return _failure_outcome(
        failures[0], f"status {failures[0].status}{_worker_place(failures[0], exits)}"
    )


def _failure_outcome(end: Exit, reason: str) -> DriverOutcome:
    """Return the outcome of a failure for which this worker is to blame; its status is never 0."""
    return DriverOutcome(Ending.FAILED, reason, end.status or 1, end.log)


def _worker_place(end: Exit, exits: Sequence[Exit]) -> str:
    """Name the worker's node and slot for a reason; empty if the group had one worker only."""
    return f", node {end.node}, slot {end.slot}" if len(exits) > 1 else ""
