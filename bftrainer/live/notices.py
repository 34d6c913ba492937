"""Notices: a configured command that runs when a trainer is done, has failed, or has had no nodes for long.

Delivery is at least once. A trainer's end is in the registry before the command starts, and the notice is recorded after the
command has ended; a pilot that dies in between sends the notice again. The pilot never waits for a command: it polls the
command, and kills it after ``timeout_s``.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from bftrainer.config.pilot import NoticesConfig
from bftrainer.live.facts import Fact, TrainerChanged
from bftrainer.persistence.registry import Registry, TrainerRecord, TrainerStatus

AT_ONCE = 4
NOTE = "notice"
_TOLD_OF = {TrainerStatus.DONE: "done", TrainerStatus.FAILED: "failed"}
_WITHOUT_NODES = (TrainerStatus.QUEUED, TrainerStatus.WAITING)


@dataclass(frozen=True, slots=True)
class Notice:
    """What the command reads from standard input: one JSON object."""

    event: str
    trainer: str
    at_s: float
    text: str
    facts: dict[str, object] = field(default_factory=dict)

    def as_json(self) -> str:
        """``{"event": "done", "trainer": "digits", "time": ..., "text": ...}`` and facts about the trainer."""
        head = {"event": self.event, "trainer": self.trainer, "time": self.at_s, "text": self.text}
        return json.dumps(head | self.facts) + "\n"


@dataclass(slots=True)
class _Running:
    notice: Notice
    process: subprocess.Popen[bytes]
    said: IO[bytes]
    until_s: float


class Notices:
    """Listens to facts (see :meth:`hear`) and runs the command. ``look`` is called in every tick of the pilot."""

    def __init__(
        self, config: NoticesConfig, registry: Registry, folder: Path, now_s: float, elapsed_s: Callable[[], float]
    ) -> None:
        self._config = config
        self._registry = registry
        self._folder = folder
        self._elapsed_s = elapsed_s
        self._due: deque[Notice] = deque()
        self._running: list[_Running] = []
        self._without_nodes_since: dict[str, float] = {}
        if config.on_event:
            self._catch_up(now_s)

    def hear(self, fact: Fact) -> None:
        """Take note of changes of status."""
        if not isinstance(fact, TrainerChanged) or (status := fact.change.status) is None:
            return
        if status in _WITHOUT_NODES:
            self._without_nodes_since.setdefault(fact.name, fact.at_s)
        else:
            self._without_nodes_since.pop(fact.name, None)
        if status in _TOLD_OF and self._config.on_event:
            self._queue(self._registry.trainer(fact.name), _TOLD_OF[status], fact.at_s)

    def reconfigure(self, config: NoticesConfig) -> None:
        self._config = config

    def look(self, now_s: float) -> None:
        """Start commands that are due, record those that have ended, kill those that take too long."""
        if not self._config.on_event:
            return
        if self._config.starved_after_s:
            for name, since_s in list(self._without_nodes_since.items()):
                if now_s - since_s >= self._config.starved_after_s:
                    self._without_nodes_since[name] = now_s  # again after as long
                    self._queue(self._registry.trainer(name), "starved", now_s, f"no nodes for {now_s - since_s:.0f} s")
        for one in [r for r in self._running if r.process.poll() is not None or self._elapsed_s() > r.until_s]:
            self._running.remove(one)
            self._end(one, now_s)
        while self._due and len(self._running) < AT_ONCE:
            self._start(self._due.popleft(), now_s)

    def close(self, now_s: float) -> None:
        """Wait for running commands within their time. The next pilot sends notices that were not started."""
        for one in self._running:
            with suppress(subprocess.TimeoutExpired):
                one.process.wait(max(one.until_s - self._elapsed_s(), 0.0))
            self._end(one, now_s)
        self._running = []

    def _catch_up(self, now_s: float) -> None:
        """Queue the trainers that ended while no pilot sent notices, since the first pilot that did."""
        told = [n for n in self._registry.notes(1_000_000) if n.kind == NOTE]
        if not told:
            self._registry.note(now_s, NOTE, "", "notices start with the trainers that end from now on")
            return
        known = {(n.subject, n.text.partition(":")[0]) for n in told}
        for record in self._registry.trainers():
            ended = record.finished_s is not None and record.finished_s >= told[0].at_s
            event = _TOLD_OF.get(record.status)
            if ended and event is not None and (record.name, event) not in known:
                self._queue(record, event, record.finished_s or now_s)
            if record.status in _WITHOUT_NODES:
                self._without_nodes_since[record.name] = now_s

    def _queue(self, record: TrainerRecord, event: str, at_s: float, text: str = "") -> None:
        facts: dict[str, object] = {
            "status": record.status.value, "reason": record.reason, "owner": record.owner, "samples_done": record.samples_done,
            "submitted": record.submitted_s, "held_node_h": record.held_node_s / 3600,
        }  # fmt: skip
        self._due.append(Notice(event, record.name, at_s, text or record.reason or f"{record.name} is {event}", facts))

    def _start(self, notice: Notice, now_s: float) -> None:
        environment = {**os.environ, "BFTRAINER_EVENT": notice.event, "BFTRAINER_TRAINER": notice.trainer}
        # Files, not pipes: a command that reads nothing or writes much does not block the pilot.
        said = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115  # closed when the command has ended
        with tempfile.TemporaryFile(dir=self._folder) as given:
            given.write(notice.as_json().encode())
            given.seek(0)
            try:
                process = subprocess.Popen(  # noqa: S603  # the command of the configuration
                    self._config.on_event, stdin=given, stdout=said, stderr=said, env=environment, cwd=self._folder,
                    start_new_session=True,
                )  # fmt: skip
            except OSError as error:
                said.close()
                self._note(notice, now_s, f"the command cannot be run: {error}")
                return
        self._running.append(_Running(notice, process, said, self._elapsed_s() + self._config.timeout_s))

    def _end(self, one: _Running, now_s: float) -> None:
        late = one.process.poll() is None
        if late:
            with suppress(ProcessLookupError):
                os.killpg(one.process.pid, signal.SIGKILL)
        status = one.process.wait()
        one.said.seek(0)
        words = " ".join(one.said.read(500).decode(errors="replace").split())
        one.said.close()
        if late:
            self._note(one.notice, now_s, f"the command was killed after {self._config.timeout_s:g} s: {words}")
        else:
            self._note(one.notice, now_s, "sent" if status == 0 else f"the command ended with status {status}: {words}")

    def _note(self, notice: Notice, now_s: float, text: str) -> None:
        self._registry.note(now_s, NOTE, notice.trainer, f"{notice.event}: {text}")
