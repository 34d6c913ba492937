"""Requests for nodes: back-off from nodes that were preempted early or refused, and the progress of
many requests.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, replace

from bftrainer.counted import counted
from bftrainer.pilot.memo import Table
from bftrainer.times import PilotS

MAX_BACK_OFF_S = 3600.0


@dataclass(frozen=True, slots=True)
class BackOff:
    """The back-off from one node: no request before ``until_s``; it was preempted early ``times``
    times in a row. ``is_missed``: the last holder never ran there.
    """

    node: str
    until_s: PilotS
    times: int
    is_missed: bool = False


class NodeBackoff:
    """Keeps the back-off from each node that was preempted early or refused."""

    def __init__(self) -> None:
        self._nodes: Table[BackOff] = Table()

    def add_preemption(
        self, node: str, held_s: float, base_s: float, now_s: PilotS, is_missed: bool = False
    ) -> None:
        """Back off from a node that the scheduler took back after ``held_s``: each early preemption
        in a row doubles the back-off.

        ``base_s`` is the length of the first back-off. A node that was held for ``base_s`` or
        longer was not preempted early, and is not backed off any more. ``is_missed``: its holder
        never ran.
        """
        if held_s >= base_s:
            if node in self._nodes:
                del self._nodes[node]
            return
        times = self._preemption_count(node)
        self._nodes[node] = BackOff(
            node, PilotS(now_s + min(base_s * 2**times, MAX_BACK_OFF_S)), times + 1, is_missed
        )

    def end_missed(self, idle: Collection[str]) -> None:
        """End the back-off from nodes that were missed and are not among the ``idle`` ones. Such a
        node went to a faster job: that is no reason to be late the next time.
        """
        for back_off in self._nodes.snapshot():
            if back_off.is_missed and back_off.node not in idle:
                self._nodes[back_off.node] = replace(
                    back_off, until_s=PilotS(-math.inf), times=back_off.times - 1, is_missed=False
                )

    def postpone(self, node: str, until_s: PilotS) -> None:
        """Request the node no earlier than ``until_s``."""
        self._nodes[node] = BackOff(node, until_s, self._preemption_count(node))

    def nodes(self) -> tuple[BackOff, ...]:
        return self._nodes.snapshot()

    def _preemption_count(self, node: str) -> int:
        back_off = self._nodes.get(node)
        return 0 if back_off is None else back_off.times


MANY = 32
"""More nodes than this, and more than could be requested at once, are worth a word."""
TELL_EVERY_S = 10.0


@dataclass(frozen=True, slots=True)
class RequestProgress:
    """How many nodes were requested in a burst since ``start_s`` (None: there is no burst), and
    when the event log had its last line about them.
    """

    start_s: float | None = None
    requested: int = 0
    last_line_s: float = 0.0

    def after(
        self, wanted: int, requested: int, ready: int, now_s: float
    ) -> tuple[RequestProgress, str]:
        """Return the progress after a round in which ``wanted`` nodes could have been requested and
        ``requested`` were, and a line for the event log; empty if no line is due.

        ``ready``: nodes that are held now. A burst begins with a round of more than :data:`MANY`
        nodes that could not all be requested, and ends with one in which none is left.
        """
        rest = max(wanted - requested, 0)
        if self.start_s is None:
            if rest == 0 or wanted <= MANY:
                return self, ""
            started = RequestProgress(now_s, requested, now_s)
            return started, started._progress_line(rest, ready)
        total = replace(self, requested=self.requested + requested)
        if rest == 0:
            return (
                RequestProgress(),
                f"{total._progress_line(0, ready)}; it took {now_s - self.start_s:.0f} s",
            )
        if now_s - self.last_line_s < TELL_EVERY_S:
            return total, ""
        return replace(total, last_line_s=now_s), total._progress_line(rest, ready)

    def _progress_line(self, rest: int, ready: int) -> str:
        return (
            f"holding {counted(self.requested + rest, 'node')}: {self.requested} requested, "
            f"{ready} held"
        )
