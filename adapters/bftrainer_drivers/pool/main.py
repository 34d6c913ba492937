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
    News,
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
        self._recent_settled: deque[tuple[float, int]] = deque()
        self._written_counts: TaskCounts | None = None
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
        phase = _reported_phase(is_complete=settled == counts.tasks, is_leaving=leaving)
        if now_s < self._next_s and phase is self._phase:
            return
        self._next_s, self._phase = now_s + EVERY_S, phase
        at_s = time.time()
        rate_per_s = self._rate_per_s(at_s, settled)
        line = ProgressLine(
            at_s=at_s,
            phase=phase,
            incarnation=self._incarnation,
            world_size=workers,
            step=settled,
            samples=settled,
            metrics={PUT_ASIDE: counts.failed},
        )
        append_line(self._directory.progress, format_progress(line), PROGRESS_BYTES, "progress")
        if counts != self._written_counts:
            self._written_counts = counts
            left_s = (counts.tasks - settled) / rate_per_s if rate_per_s > 0 else None
            per_hour = 3600 * rate_per_s
            write_json(self._directory.tasks, replace(counts, per_hour=per_hour, left_s=left_s))

    def _rate_per_s(self, at_s: float, settled: int) -> float:
        """Record the number of settled tasks, and return how many have been settled per second,
        over the last 10 minutes at most.
        """
        self._recent_settled.append((at_s, settled))
        while at_s - self._recent_settled[0][0] > _RATE_OVER_S:
            self._recent_settled.popleft()
        earliest_s, earliest_settled = self._recent_settled[0]
        return (settled - earliest_settled) / max(at_s - earliest_s, EVERY_S)


def _reported_phase(*, is_complete: bool, is_leaving: bool) -> Phase:
    """Return the phase to report: settled tasks are on disk, so a pool that leaves has saved."""
    if is_complete:
        return Phase.DONE
    return Phase.CHECKPOINTED if is_leaving else Phase.RUNNING


class PoolBackend(Backend):
    """Starts a worker for each slot, without groups. ``hang_s`` does not apply: a task may take as
    long as it likes.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self.terms = Terms(
            is_elastic=True,
            sizes=LegalSizes(run.trainer.min_nodes),  # workers need no others: every count is right
            stop_s=run.trainer.stop_s,
            hang_s=math.inf,
            is_collective=False,
            stop_signal=run.stop_signal,
            is_independent=True,
        )
        self._workers: dict[tuple[Member, int], WorkerProcess] = {}
        self._names: dict[tuple[Member, int], tuple[str, float]] = {}
        """The name of each worker, and when it was started."""
        self._killed: dict[tuple[Member, int], TaskId] = {}
        """Tasks whose workers were killed: by them, if their node is still there when another
        worker is started.
        """
        run.crew = Crew(run.starter, self._tell_core)
        self._tasks = TaskServer(run.directory, self._end_for_bad_input, self._tell_finished)
        self._report = TaskReport(run.directory, run.events.incarnation)
        self._stop_requested_s: dict[Member, float] = {}
        self._n_started = 0

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
        task = self._killed.pop((member, slot), None)
        if task is not None and self._tasks.board is not None:
            self._tasks.board.charge(task, f"its worker on {member.host.node} was killed")
        self._n_started += 1
        name = f"{self.run.events.incarnation}.{self._n_started}"
        self._names[member, slot] = name, time.monotonic()
        self._tasks.workers.add(name)
        variables = {WORKER: name, SLOT: str(slot), **self.run.visible_gpus(member.host)}
        self._workers[member, slot] = self.run.crew.join(member, slot, variables)

    def announce(self, members: Sequence[Member]) -> None:
        members_with_workers = {member for member, _ in self._workers}
        for member in members_with_workers - {*members, *self._stop_requested_s}:
            self._ask_to_stop(member)
        self.run.tell(GroupFormed(tuple(member.label for member in members)))

    def _ask_to_stop(self, member: Member) -> None:
        """Ask a member's workers to finish their tasks or hand them back, and to end."""
        self._stop_requested_s[member] = time.monotonic()
        request = ControlMessage(ControlRequest.STOP, self.run.events.incarnation)
        write_json(self.run.directory.leave_of(member.host.fragment), request)
        for worker in self._workers_of(member):
            worker.is_planned = True
            if self.terms.stop_signal:
                worker.process.send_signal(self.terms.stop_signal)

    def drop(self, member: Member) -> None:
        end(self._workers_of(member))

    def note(self, news: News) -> None:
        if isinstance(news, WorkerEnded):
            self._workers.pop((news.member, news.exit.slot), None)

    def tick(self, now_s: float) -> None:
        """Kill workers that have not left within ``stop_s``, start members that are wanted again,
        and write the counts.
        """
        for member, asked_s in list(self._stop_requested_s.items()):
            workers = self._workers_of(member)
            if not workers:
                del self._stop_requested_s[member]
                if self._is_wanted_again(member):
                    self.start(member)
            elif now_s - asked_s >= self.terms.stop_s:
                end(workers)

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
        """Whether no worker runs and none is to be started; never before the first worker."""
        has_returning_member = any(map(self._is_wanted_again, self._stop_requested_s))
        return self._n_started > 0 and not (
            self._workers or self.run.state.retries.restart_s or has_returning_member
        )

    def _is_wanted_again(self, member: Member) -> bool:
        """Whether a member whose workers were asked to leave is announced, in the same stay."""
        return self.run.state.leaving is None and member in self.run.state.membership.announced

    def _tell_core(self, news: News) -> None:
        """Tell the core news of a worker; one that has ended is taken from its task first. Called
        in the thread that has waited for the worker.
        """
        if isinstance(news, WorkerEnded):
            self._end_task_of(news)
        self.run.tell(news)

    def _end_task_of(self, news: WorkerEnded) -> None:
        """Free the task of a worker that has ended. The failure is charged to the task: at once
        after an error; after a kill, when another worker starts in this place (:meth:`retry`).
        """
        key, end = (news.member, news.exit.slot), news.exit
        name, started_s = self._names[key]
        task = self._tasks.ended(name)
        board = self._tasks.board
        if board is None and time.monotonic() - started_s >= WORKED_S:
            self._tell_finished(name)
        if task is None or end.is_planned or board is None:
            return
        if was_taken(end.status):
            self._killed[key] = task
        elif end.status not in (0, STOPPED_STATUS):
            lines = "\n".join(last_lines(end.log))
            if board.charge(task, f"a worker {end} on {news.member.host.node}\n{lines}"):
                self._tell_finished(name)  # put aside: the others go on

    def _tell_finished(self, worker: str) -> None:
        """Tell the core that a worker has finished a task, if failures are being counted."""
        retries = self.run.state.retries
        if retries.failures or retries.in_succession:
            member = next(
                (member for (member, _), (name, _) in list(self._names.items()) if name == worker),
                None,
            )
            if member is not None:
                self.run.tell(TaskFinished(member))

    def _end_for_bad_input(self, problem: str) -> None:
        self.run.tell(EndNow(DriverOutcome(Ending.FAILED, problem, 2)))

    def _workers_of(self, member: Member) -> list[WorkerProcess]:
        return [worker for (other, _), worker in self._workers.items() if other == member]


if __name__ == "__main__":
    drive("pool", PoolBackend)
