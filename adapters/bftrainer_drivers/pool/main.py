"""Driver ``pool``: one worker per slot of any number of nodes. Nobody waits for another, and nobody
notices that one goes.

A node that joins starts its workers; a node that leaves loses only them. On a planned release its
workers are asked to stop, and are killed after ``stop_s``. Run as ``python -m
bftrainer_drivers.pool.main TRAINER_DIR``.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import replace

from bftrainer.wires.append import append_line
from bftrainer.wires.control import STOPPED_STATUS, ControlMessage, ControlRequest
from bftrainer.wires.driver_events import Warming
from bftrainer.wires.environment import SLOT, WORKER
from bftrainer.wires.log_tail import last_lines
from bftrainer.wires.paths import TrainerDirectory
from bftrainer.wires.progress_line import PROGRESS_BYTES, Phase, ProgressLine, format_progress
from bftrainer.wires.reports import Ending
from bftrainer.wires.task_board import PUT_ASIDE, TaskCounts
from bftrainer.wires.task_source import TaskId
from bftrainer.wires.typed_json import write_json
from bftrainer_drivers.common.core import (
    EndNow,
    GroupFormed,
    Heard,
    TaskFinished,
    Terms,
    Warmed,
    WorkerEnded,
)
from bftrainer_drivers.common.crew import Crew, end
from bftrainer_drivers.common.legal_sizes import LegalSizes
from bftrainer_drivers.common.membership import Member
from bftrainer_drivers.common.outcome import DriverOutcome, was_taken
from bftrainer_drivers.common.run_loop import Backend, Run, drive
from bftrainer_drivers.common.workers import WorkerProcess
from bftrainer_drivers.pool.task_server import TaskServer

# How far a pool is: lines of progress for the pilot, which learns the rate from them, and
# ``tasks.json`` for people.

EVERY_S = 1.0
_RATE_OVER_S = 600.0
WORKED_S = 60.0
"""A worker that has run for so long, in a pool without tasks, has worked: its end says nothing
about the program.
"""


class TaskReport:
    """Reports how far a pool is. Tasks that are settled, done or put aside, count as samples."""

    def __init__(self, directory: TrainerDirectory, incarnation: int) -> None:
        self._directory = directory
        self._incarnation = incarnation
        self._next_s = 0.0
        self._seen: deque[tuple[float, int]] = deque()
        self._written: TaskCounts | None = None
        self._phase = Phase.RUNNING

    def write(
        self, counts: TaskCounts | None, workers: int, now_s: float, *, leaving: bool
    ) -> None:
        """Write progress and counts if a second has passed, or if the pool is asked to leave or has
        ended; nothing before a worker has named the tasks (``counts`` is None).
        """
        if counts is None:
            return
        settled = counts.done + counts.failed
        phase = (
            Phase.DONE
            if settled == counts.tasks
            else Phase.CHECKPOINTED
            if leaving
            else Phase.RUNNING
        )
        if now_s < self._next_s and phase is self._phase:
            return
        self._next_s, self._phase = now_s + EVERY_S, phase
        at_s = time.time()
        self._seen.append((at_s, settled))
        while at_s - self._seen[0][0] > _RATE_OVER_S:
            self._seen.popleft()
        since_s, since = self._seen[0]
        rate = (settled - since) / max(at_s - since_s, EVERY_S)
        left_s = (counts.tasks - settled) / rate if rate > 0 else None
        line = ProgressLine(
            at_s,
            phase,
            self._incarnation,
            workers,
            settled,
            settled,
            metrics={PUT_ASIDE: counts.failed},
        )
        append_line(self._directory.progress, format_progress(line), PROGRESS_BYTES, "progress")
        if counts != self._written:
            self._written = counts
            write_json(self._directory.tasks, replace(counts, per_hour=3600 * rate, left_s=left_s))


class PoolBackend(Backend):
    """Starts a worker for each slot, without groups. ``hang_s`` does not apply: a task may take as
    long as it likes.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self.terms = Terms(
            True,
            LegalSizes(run.trainer.min_nodes),  # workers need no others: every count is right
            run.trainer.stop_s,
            math.inf,
            collective=False,
            stop_signal=run.stop_signal,
            independent=True,
        )
        self._workers: dict[tuple[Member, int], WorkerProcess] = {}
        self._names: dict[tuple[Member, int], tuple[str, float]] = {}
        """The name of each worker, and when it was started."""
        self._killed: dict[tuple[Member, int], TaskId] = {}
        """Tasks whose workers were killed: by them, if their node is still there when another
        worker is started.
        """
        run.crew = Crew(run.starter, self._tell)
        self._tasks = TaskServer(run.directory, self._bad_input, self._finished)
        self._report = TaskReport(run.directory, run.events.incarnation)
        self._asked_s: dict[Member, float] = {}
        self._started = 0

    def open(self) -> None:
        self._tasks.open(self.run.settings.interface, self.run.settings.allow_from)

    def start(self, member: Member) -> None:
        self.run.directory.leave_of(member.host.fragment).unlink(missing_ok=True)
        self.run.events.write(Warming(member.host.node, member.host.fragment))
        for slot in range(member.host.slots):
            self.retry(member, slot)
        self.run.tell(Warmed(member, is_cold=True))

    def retry(self, member: Member, slot: int) -> None:
        """Start a worker in this slot. If the one before was killed there, its task has failed
        once.
        """
        if (
            task := self._killed.pop((member, slot), None)
        ) is not None and self._tasks.board is not None:
            self._tasks.board.charge(task, f"its worker on {member.host.node} was killed")
        self._started += 1
        name = f"{self.run.events.incarnation}.{self._started}"
        self._names[member, slot] = name, time.monotonic()
        self._tasks.workers.add(name)
        variables = {WORKER: name, SLOT: str(slot), **self.run.visible_gpus(member.host)}
        self._workers[member, slot] = self.run.crew.join(member, slot, variables)

    def announce(self, members: Sequence[Member]) -> None:
        for member in {of for of, _ in self._workers} - {*members, *self._asked_s}:
            self._ask(member)
        self.run.tell(GroupFormed(tuple(member.label for member in members)))

    def _ask(self, member: Member) -> None:
        """Ask a member's workers to finish their tasks or hand them back, and to end."""
        self._asked_s[member] = time.monotonic()
        request = ControlMessage(ControlRequest.STOP, self.run.events.incarnation)
        write_json(self.run.directory.leave_of(member.host.fragment), request)
        for worker in self._of(member):
            worker.planned = True
            if self.terms.stop_signal:
                worker.process.send_signal(self.terms.stop_signal)

    def drop(self, member: Member) -> None:
        end(self._of(member))

    def note(self, heard: Heard) -> None:
        if isinstance(heard, WorkerEnded):
            self._workers.pop((heard.member, heard.exit.slot), None)

    def tick(self, now_s: float) -> None:
        """Kill workers that have not left within ``stop_s``, start members that are wanted again,
        and write the counts.
        """
        for member, asked_s in list(self._asked_s.items()):
            if not (left := self._of(member)):
                del self._asked_s[member]
                if self._is_wanted_again(member):
                    self.start(member)
            elif now_s - asked_s >= self.terms.stop_s:
                end(left)

        self._report.write(
            self._tasks.counts(),
            len(self._workers),
            now_s,
            leaving=self.run.state.leaving is not None,
        )

    def close(self) -> None:
        self._report.write(
            self._tasks.counts(), 0, math.inf, leaving=self.run.state.leaving is not None
        )
        self._tasks.close()

    def is_over(self) -> bool:
        again = any(map(self._is_wanted_again, self._asked_s))
        return self._started > 0 and not (self._workers or self.run.state.retries.waiting or again)

    def _is_wanted_again(self, member: Member) -> bool:
        """Whether a member whose workers were asked to leave is announced, in the same stay."""
        return self.run.state.leaving is None and member in self.run.state.membership.announced

    def _tell(self, heard: Heard) -> None:
        """Free the task of a worker that has ended, or charge the failure to it, then tell the
        core. Called in the thread that has waited for the worker.
        """
        if isinstance(heard, WorkerEnded):
            key, end = (heard.member, heard.exit.slot), heard.exit
            name, since_s = self._names[key]
            task = self._tasks.ended(name)
            if self._tasks.board is None and time.monotonic() - since_s >= WORKED_S:
                self._finished(name)
            if task is not None and not end.planned and self._tasks.board is not None:
                if was_taken(end.status):
                    self._killed[key] = task
                elif end.status not in (0, STOPPED_STATUS):
                    lines = "\n".join(last_lines(end.log))
                    if self._tasks.board.charge(
                        task, f"a worker {end} on {heard.member.host.node}\n{lines}"
                    ):
                        self._finished(name)  # put aside: the others go on
        self.run.tell(heard)

    def _finished(self, worker: str) -> None:
        """Tell the core that a worker has finished a task, if failures are being counted."""
        retries = self.run.state.retries
        if retries.failures or retries.in_succession:
            member = next(
                (member for (member, _), (name, _) in list(self._names.items()) if name == worker),
                None,
            )
            if member is not None:
                self.run.tell(TaskFinished(member))

    def _bad_input(self, problem: str) -> None:
        self.run.tell(EndNow(DriverOutcome(Ending.FAILED, problem, 2)))

    def _of(self, member: Member) -> list[WorkerProcess]:
        return [worker for (of, _), worker in self._workers.items() if of == member]


if __name__ == "__main__":
    drive("pool", PoolBackend)
