"""Driver ``pool``: one worker per slot of any number of nodes. Nobody waits for another, and nobody notices that one goes.

A node that joins starts its workers; a node that leaves loses only them. On a planned release its workers are asked to stop,
and are killed after ``stop_s``. Run as ``python -m bftrainer_adapters.drivers.pool.main TRAINER_DIR``.
"""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Sequence

from bftrainer.protocol.control import ControlMessage, ControlRequest
from bftrainer.protocol.environment import SLOT, WORKER
from bftrainer.protocol.events import Warming
from bftrainer.protocol.typed_json import write_json
from bftrainer_adapters.drivers.common.core import GroupFormed, Heard, Terms, Warmed, WorkerEnded
from bftrainer_adapters.drivers.common.crew import end
from bftrainer_adapters.drivers.common.membership import Member
from bftrainer_adapters.drivers.common.run import Backend, Run, drive
from bftrainer_adapters.drivers.common.workers import WorkerProcess


class PoolBackend(Backend):
    """``hang_s`` does not apply: a task may take as long as it likes."""

    def __init__(self, run: Run) -> None:
        self.run = run
        trainer, name = run.trainer, run.trainer.stop_signal
        self._signal = signal.Signals[f"SIG{name.removeprefix('SIG')}"] if name else 0
        self.terms = Terms(
            True, trainer.min_nodes, trainer.stop_s, math.inf, collective=False, stop_signal=self._signal, independent=True
        )
        self._workers: dict[tuple[Member, int], WorkerProcess] = {}
        self._asked_s: dict[Member, float] = {}
        self._started = 0

    def start(self, member: Member) -> None:
        self.run.directory.leave_of(member.host.fragment).unlink(missing_ok=True)
        self.run.events.write(Warming(member.host.node, member.host.fragment))
        for slot in range(member.host.slots):
            self.retry(member, slot)
        self.run.tell(Warmed(member, is_cold=True))

    def retry(self, member: Member, slot: int) -> None:
        self._started += 1
        variables = {WORKER: f"{self.run.events.incarnation}.{self._started}", SLOT: str(slot)}
        self._workers[member, slot] = self.run.crew.join(member, slot, self.run.trainer.command, variables)

    def announce(self, members: Sequence[Member]) -> None:
        for member in {of for of, _ in self._workers} - {*members, *self._asked_s}:
            self._ask(member)
        self.run.tell(GroupFormed(tuple(member.label for member in members)))

    def _ask(self, member: Member) -> None:
        """To hand the task back, or to finish it, and to end."""
        self._asked_s[member] = time.monotonic()
        request = ControlMessage(ControlRequest.STOP, self.run.events.incarnation)
        write_json(self.run.directory.leave_of(member.host.fragment), request)
        for worker in self._of(member):
            worker.planned = True
            if self._signal:
                worker.process.send_signal(self._signal)

    def drop(self, member: Member) -> None:
        end(self._of(member))

    def note(self, heard: Heard) -> None:
        if isinstance(heard, WorkerEnded):
            self._workers.pop((heard.member, heard.exit.slot), None)

    def tick(self, now_s: float) -> None:
        for member, asked_s in list(self._asked_s.items()):
            if not (left := self._of(member)):
                del self._asked_s[member]
            elif now_s - asked_s >= self.terms.stop_s:
                end(left)

    def is_over(self) -> bool:
        return self._started > 0 and not self._workers and not self.run.state.retries.waiting

    def _of(self, member: Member) -> list[WorkerProcess]:
        return [worker for (of, _), worker in self._workers.items() if of == member]


if __name__ == "__main__":
    drive("pool", PoolBackend)
