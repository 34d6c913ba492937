"""Which worker's end made a group of workers fail, and whose node is lost. Pure.

When a worker ends, its peers lose their connections and fail as well, some milliseconds later or, on a busy node, at what
looks like the same moment. Their messages name a peer's address, and hide the worker whose own error it was.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence
from dataclasses import dataclass

from bftrainer.protocol.control import STOPPED_STATUS

_LOST_PEER = re.compile(
    r"connection (was |is )?(closed|reset|refused|aborted)|broken pipe|closed by peer|socket closed|remote process exited"
    r"|remote peer|DistNetworkError|HorovodInternalError|ncclRemoteError|ncclSystemError|unhandled system error"
    r"|recv(Value|Bytes)? (failed|timeout)|timed out",
    re.IGNORECASE,
)
"""Errors of gloo, NCCL, torch's store and Horovod in workers whose peer has gone."""

_OWN = (signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL)
"""The signals that a process gets for what it does itself."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of one worker. ``error``: the last exception in its log. ``planned``: the driver ended it."""

    node: str
    slot: int
    status: int
    planned: bool
    error: str


@dataclass(frozen=True, slots=True)
class Cause:
    """The worker to name: its number in the list, and what to say."""

    number: int
    reason: str


def was_taken(status: int) -> bool:
    """Whether another process's signal ended it, here or in the step (as srun and shells report it): preempted, or no memory.

    Not its own abort or crash: torch aborts workers whose peers have gone (NCCL's watchdog; with gloo, one of several hundred
    requested exits: SIGABRT, torch 2.13). Their nodes are not to blame.
    """
    number = -status if status < 0 else status - 128
    return number > 0 and number not in _OWN


def cause(ends: Sequence[Ended]) -> Cause:
    """The first cause among the workers' ends, which are in the order in which they were noticed; not all were planned.

    The first worker that failed with an error of its own; else the first that completed while others still trained; else the
    first that failed.
    """
    own = [(number, end) for number, end in enumerate(ends) if not end.planned and end.status != STOPPED_STATUS]
    failed = [(number, end) for number, end in own if end.status != 0]
    for number, end in failed:
        if not _LOST_PEER.search(end.error):
            return Cause(number, _said(end, len(ends)))
    for number, end in own:
        if end.status == 0:
            then = next((f"; then {other.error}" for _, other in failed if other.error), "")
            return Cause(number, f"status 0 before the others had finished{_where(end, len(ends))}{then}")
    return Cause(failed[0][0], _said(failed[0][1], len(ends)))


def _said(end: Ended, workers: int) -> str:
    return f"status {end.status}{_where(end, workers)}"


def _where(end: Ended, workers: int) -> str:
    return f", node {end.node}, slot {end.slot}" if workers > 1 else ""
