"""Holder jobs of several nodes. Slurm preempts them as a whole; of their nodes, some may be given back.

A node is given back in two steps, both of which a successor can do after a crash: its payload ends, as its lease says; then
the job is shrunk to the other nodes. Whatever fails, no node is kept that was released: the whole job ends.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bftrainer.domain.cluster import FragmentPhase
from bftrainer.domain.fragments import is_one_of_several
from bftrainer.errors import CommandError, SchedulerError
from bftrainer_adapters.holding.held import RELEASED, HolderJobState
from bftrainer_adapters.holding.held_jobs import HeldJobs
from bftrainer_adapters.holding.holder_jobs import HolderJobs

PAYLOAD_ENDS_S = 5.0
"""A payload reads its lease once a second."""


@dataclass
class SharedJobs:
    """``release`` marks a fragment as released, for its payload and in ``held``."""

    jobs: HolderJobs
    held: HeldJobs
    release: Callable[[HolderJobState, float], None]

    def payload_left(self, left: HolderJobState, now_s: float) -> None:
        """A payload has ended: unless its fragment was released, the whole job is preempted, or it will end."""
        if not is_one_of_several(left.name):
            return
        if left.why.startswith(RELEASED):
            left.has_left = True
            return
        for other in self.held.beside(left):
            other.leave_with(left, now_s)
            self.held.move(other)

    def settle(self, now_s: float) -> None:
        """Give back the nodes that were released, or the whole job."""
        for job in sorted({held.job for held in self.held.moving.values() if is_one_of_several(held.name)}):
            members = [held for held in self.held.by_job[job] if held.phase is not FragmentPhase.GONE]
            released = [held for held in members if held.released or held.has_left]
            if any(_is_stuck(held, now_s) for held in members):
                self._end(members, "its payload has ended", now_s)
            elif released and len(released) < len(members):
                self._give_back(job, members, released, now_s)

    def _give_back(self, job: str, members: list[HolderJobState], released: list[HolderJobState], now_s: float) -> None:
        kept = [held for held in members if held not in released]
        waiting = [held for held in released if not held.has_left]
        if not all(held.has_run for held in released):
            self._end(members, "the job has not started", now_s, released[0])
        elif any(now_s - held.since_s > PAYLOAD_ENDS_S for held in waiting):
            self._end(members, f"its payload has not ended within {PAYLOAD_ENDS_S:g} s", now_s, released[0])
        elif not waiting:
            try:
                self.jobs.shrink(job, [held.node for held in kept])
            except (CommandError, SchedulerError) as error:
                self._end(members, str(error), now_s, released[0])
                return
            for held in released:
                held.become(FragmentPhase.GONE, now_s, RELEASED)
                self.held.move(held)

    def _end(self, members: list[HolderJobState], why: str, now_s: float, cause: HolderJobState | None = None) -> None:
        for held in members:
            if not held.released:
                with_whom = f" with {cause.node} of the same job" if cause else ""
                held.why = held.why or f"{RELEASED}{with_whom}: {why}"
                self.release(held, now_s)
        self.jobs.end([members[0].job])


def _is_stuck(held: HolderJobState, now_s: float) -> bool:
    """Its payload has ended, and the job goes on: Slurm would end a preempted one sooner."""
    is_left = held.phase is FragmentPhase.LEAVING and not held.released and not held.has_left
    return is_left and now_s - held.since_s > PAYLOAD_ENDS_S
