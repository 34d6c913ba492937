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
class Ended:
    """How a group has ended: its workers in the order in which their ends were noticed (``hung``:
    why they are killed). ``leave``: why the workers were asked to leave for good; ``left``: they
    were asked to leave, if only for another group. ``taken``: a node of a group that is not elastic
    was lost.
    """

    exits: tuple[Exit, ...]
    elastic: bool
    collective: bool = True
    leave: str | None = None
    left: bool = False
    says_done: bool = False
    taken: bool = False
    hung: str | None = None


def verdict(group: Ended) -> DriverOutcome | None:
    """Return how the driver ends; None if it goes on with another group.

    An error of the script outweighs the aborts that it causes on other nodes. Lost workers alone
    are no failure: the trainer resumes from its last checkpoint when there are nodes.
    """
    if group.leave is not None and not group.says_done:
        return DriverOutcome(Ending.STOPPED, group.leave)
    own = [end for end in group.exits if not end.planned and end.status != STOPPED_STATUS]
    if _has_failed(group, own):
        return cause([end for end in group.exits if not (group.elastic and end.lost)])
    if group.hung is not None:
        return DriverOutcome(Ending.FAILED, group.hung, 1)
    statuses = {end.status for end in group.exits}
    if group.elastic:
        return _elastic_verdict(statuses)
    if statuses == {0} and (group.says_done or not group.left):
        return DriverOutcome(Ending.DONE)
    return None


def _has_failed(group: Ended, own: Sequence[Exit]) -> bool:
    """Whether the script has failed. ``own`` are the ends of workers that were neither planned nor
    answers to a stop request.
    """
    if group.elastic:
        return any(end.failed for end in own)
    if group.taken:
        return False
    # A worker of a group that works together completed while the others were silent until they were
    # killed.
    is_early = group.hung is not None and group.collective and any(end.status == 0 for end in own)
    return is_early or any(end.status != 0 for end in own)


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
    own = [end for end in exits if not end.planned and end.status != STOPPED_STATUS]
    failed = [end for end in own if end.status != 0]
    for end in failed:
        if not _LOST_PEER.search(end.error):
            return _failure(end, f"status {end.status}{_where(end, exits)}")
    for end in own:
        if end.status == 0:
            then = next((f"; then {other.error}" for other in failed if other.error), "")
            return _failure(
                end, f"status 0 before the others had finished{_where(end, exits)}{then}"
            )
    return _failure(failed[0], f"status {failed[0].status}{_where(failed[0], exits)}")


def _failure(end: Exit, reason: str) -> DriverOutcome:
    return DriverOutcome(Ending.FAILED, reason, end.status or 1, end.log)


def _where(end: Exit, exits: Sequence[Exit]) -> str:
    return f", node {end.node}, slot {end.slot}" if len(exits) > 1 else ""
