"""Notices: a configured command that runs when a trainer is done, has failed, or has had no nodes
for long.

Delivery is at least once. A trainer's end is in the registry before the command starts, and the
notice is recorded after the command has ended; a pilot that dies in between sends the notice again.
The pilot never waits for a command: it polls the command, and kills it after ``timeout_s``.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from bftrainer.config.in_effect import ConfigCell
from bftrainer.config.pilot import NoticesConfig
from bftrainer.pilot.facts import PilotFact, TrainerChanged
from bftrainer.pilot.persistence.registry import Registry, TrainerRecord, TrainerStatus
from bftrainer.system.clock import Clock
from bftrainer.system.umask import users_umask
from bftrainer.times import ElapsedS, HostS

_MAX_RUNNING = 4
NOTE = "notice"
_EVENT_OF = {TrainerStatus.DONE: "done", TrainerStatus.FAILED: "failed"}
_WITHOUT_NODES = (TrainerStatus.QUEUED, TrainerStatus.WAITING)


@dataclass(frozen=True, slots=True)
class Notice:
    """The standard input of the command: one JSON object."""

    event: str
    trainer: str
    at_s: HostS
    text: str
    facts: dict[str, object] = field(default_factory=dict)
    command: tuple[str, ...] = ()

    def as_json(self) -> str:
        """``{"event": "done", "trainer": "digits", "time": ..., "text": ...}`` and facts about the
        trainer.
        """
        head = {"event": self.event, "trainer": self.trainer, "time": self.at_s, "text": self.text}
        return json.dumps(head | self.facts) + "\n"


@dataclass(slots=True)
class _RunningCommand:
    """The command of a notice, with the file of its output. At ``deadline_s`` (elapsed seconds) it
    is killed.
    """

    notice: Notice
    process: subprocess.Popen[bytes]
    output: IO[bytes]
    deadline_s: float


class Notices:
    """A subscriber of the recorder (:meth:`hear`) that runs the command. ``look`` is called in
    every tick of the pilot.

    What is to be noted is returned as (trainer, text).
    """

    def __init__(self, config: ConfigCell, registry: Registry, folder: Path, clock: Clock) -> None:
        """Queue notices about trainers that ended while no pilot ran, if any command is configured.
        Output of commands is kept in ``folder`` while they run.
        """
        self._cell = config
        self._registry = registry
        self._folder = folder
        self._clock = clock
        self._pending: deque[Notice] = deque()
        self._running: list[_RunningCommand] = []
        self._notes: list[tuple[str, str]] = []
        self._without_nodes_since: dict[str, ElapsedS] = {}
        if self._notices_config.on_event or any(
            record.spec.notify for record in registry.trainers()
        ):
            self._catch_up(clock.now_s())

    @property
    def _notices_config(self) -> NoticesConfig:
        return self._cell.now.notices

    def hear(self, fact: PilotFact) -> None:
        """Queue a notice if a ``fact`` is a change of status that asks for one, and keep the times
        since when trainers have had no nodes.
        """
        if not isinstance(fact, TrainerChanged) or (status := fact.change.status) is None:
            return
        if status in _WITHOUT_NODES:
            self._without_nodes_since.setdefault(fact.name, self._clock.elapsed_s())
        else:
            self._without_nodes_since.pop(fact.name, None)
        if status in _EVENT_OF:
            self._queue_notice(self._registry.trainer(fact.name), _EVENT_OF[status], fact.at_s)

    def look(self) -> list[tuple[str, str]]:
        """Start commands that are due, note those that have ended, kill those that take too long.
        Returns what is to be noted.
        """
        self._queue_and_start(self._clock.elapsed_s())
        return self._take_notes()

    def _queue_and_start(self, elapsed_s: ElapsedS) -> None:
        """Queue notices about trainers without nodes, end commands that are over or take too long,
        and start commands that are due.
        """
        if self._notices_config.starved_after_s:
            for name, since_s in list(self._without_nodes_since.items()):
                # "starved" is the notice about a trainer that has had no nodes for long.
                if (without_s := elapsed_s - since_s) >= self._notices_config.starved_after_s:
                    self._without_nodes_since[name] = elapsed_s  # the next notice as long after
                    text = f"no nodes for {without_s:.0f} s"
                    self._queue_notice(
                        self._registry.trainer(name), "starved", self._clock.now_s(), text
                    )
        ended = [
            command
            for command in self._running
            if command.process.poll() is not None or elapsed_s > command.deadline_s
        ]
        for command in ended:
            self._running.remove(command)
            self._note_end(command)
        while self._pending and len(self._running) < _MAX_RUNNING:
            self._start_command(self._pending.popleft())

    def close(self) -> list[tuple[str, str]]:
        """Wait for running commands until their time is over, end them, and return what is to be
        noted. Notices whose command was not started are sent by the next pilot.
        """
        for command in self._running:
            with suppress(subprocess.TimeoutExpired):
                command.process.wait(max(command.deadline_s - self._clock.elapsed_s(), 0.0))
            self._note_end(command)
        self._running = []
        return self._take_notes()

    def _take_notes(self) -> list[tuple[str, str]]:
        notes, self._notes = self._notes, []
        return notes

    def _catch_up(self, now_s: HostS) -> None:
        """Queue notices about trainers that ended while no pilot sent any, and begin to count the
        time of trainers without nodes.

        Trainers that ended before the first notice in the event log are left out. Where there is
        none, the log is told that notices start now, and nothing is queued.
        """
        notes = [note for note in self._registry.notes(1_000_000) if note.kind == NOTE]
        if not notes and self._notices_config.on_event:
            self._notes.append(("", "notices start with the trainers that end from now on"))
        if not notes:
            return
        # A note of a notice reads "EVENT: how its command ended", about the trainer.
        sent = {(note.subject, note.text.partition(":")[0]) for note in notes}
        for record in self._registry.trainers():
            is_recent = record.finished_s is not None and record.finished_s >= notes[0].at_s
            event = _EVENT_OF.get(record.status)
            if is_recent and event is not None and (record.name, event) not in sent:
                self._queue_notice(record, event, record.finished_s or now_s)
            if record.status in _WITHOUT_NODES:
                self._without_nodes_since[record.name] = self._clock.elapsed_s()

    def _queue_notice(self, record: TrainerRecord, event: str, at_s: HostS, text: str = "") -> None:
        """Queue a notice of an ``event`` of a trainer, if the trainer's file or the configuration
        names a command; the trainer's command has priority.

        ``text`` is empty for the reason of the trainer's status.
        """
        if not (command := record.spec.notify or tuple(self._notices_config.on_event)):
            return
        facts: dict[str, object] = {
            "status": record.status.value,
            "reason": record.reason,
            "owner": record.owner,
            "samples_done": record.samples_done,
            "submitted": record.submitted_s,
            "held_node_h": record.held_node_s / 3600,
        }
        self._pending.append(
            Notice(
                event=event,
                trainer=record.name,
                at_s=at_s,
                text=text or record.reason or f"{record.name} is {event}",
                facts=facts,
                command=command,
            )
        )

    def _start_command(self, notice: Notice) -> None:
        """Start the command of a notice, with the notice on its standard input. A command that
        cannot be run is noted, and counts as sent.
        """
        # The command may read these instead of the JSON.
        environment = {
            **os.environ,
            "BFTRAINER_EVENT": notice.event,
            "BFTRAINER_TRAINER": notice.trainer,
        }
        # Files, not pipes: a command that reads nothing or writes much does not block the pilot.
        output = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115  # closed when the command has ended
        with tempfile.TemporaryFile(dir=self._folder) as stdin:
            stdin.write(notice.as_json().encode())
            stdin.seek(0)
            try:
                process = subprocess.Popen(  # noqa: S603  # the command of the configuration
                    notice.command,
                    stdin=stdin,
                    stdout=output,
                    stderr=output,
                    env=environment,
                    cwd=self._folder,
                    start_new_session=True,
                    umask=users_umask(),
                )
            except OSError as error:
                output.close()
                self._write_note(notice, f"the command cannot be run: {error}")
                return
        self._running.append(
            _RunningCommand(
                notice, process, output, self._clock.elapsed_s() + self._notices_config.timeout_s
            )
        )

    def _note_end(self, command: _RunningCommand) -> None:
        """Record how the command of a notice ended, with the first 500 bytes of its output. A
        command that still runs has run out of time, and is killed first.
        """
        is_late = command.process.poll() is None
        if is_late:
            with suppress(ProcessLookupError):
                # The command was started in a session of its own: what it has started ends with it.
                os.killpg(command.process.pid, signal.SIGKILL)
        status = command.process.wait()
        command.output.seek(0)
        words = " ".join(command.output.read(500).decode(errors="replace").split())
        command.output.close()
        if is_late:
            self._write_note(
                command.notice,
                f"the command was killed after {self._notices_config.timeout_s:g} s: {words}",
            )
        else:
            self._write_note(
                command.notice,
                "sent" if status == 0 else f"the command ended with status {status}: {words}",
            )

    def _write_note(self, notice: Notice, text: str) -> None:
        self._notes.append((notice.trainer, f"{notice.event}: {text}"))
