"""The tasks of a pool, one after the other, until none is left: ``for task in
tasks("prompts.jsonl"): ...`` (docs/pools.md).

Outside bftrainer the same script does all tasks by itself, and goes on where it was ended.
"""

from __future__ import annotations

import http.client
import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bftrainer.errors import BFTrainerError, InputFileError, UserError
from bftrainer.progress.reporter import Reporter
from bftrainer.system.files import remove_file
from bftrainer.wires.environment import TRAINER_DIR, WORKER
from bftrainer.wires.paths import TrainerDirectory
from bftrainer.wires.replicas import Meeting
from bftrainer.wires.task_board import TaskBoard
from bftrainer.wires.task_source import MOST_BYTES, MOST_LEVELS, TaskId, TaskSource, is_too_deep
from bftrainer.wires.typed_json import read_json

_TOO_DEEP = "[" * (MOST_LEVELS + 1)
PATIENCE_S = 60.0
"""How long a worker asks a driver that does not answer: it may be busy. A worker is ended with its
driver.
"""


@dataclass
class PoolTask:
    """One task of a pool.

    ``id`` is the number of its line, from 1, or its file's name; ``value`` is the line, or the
    file's path.
    """

    id: TaskId
    value: Any
    _tasks: _Alone | _OfDriver
    is_done: bool = field(default=False, init=False)

    def done(self, result: Any = None) -> None:
        """Commit the result, a JSON value; it is on disk when this returns.

        A task without a result counts as done as well. Raises :class:`~bftrainer.errors.UserError`
        for a result that is no JSON value, or longer than 1 MiB.
        """
        try:
            text = json.dumps(result)
        except (TypeError, ValueError) as error:
            raise UserError(f"the result of task {self.id} is no JSON value: {error}") from error
        except RecursionError:
            text = _TOO_DEEP
        if is_too_deep(text):
            raise UserError(
                f"the result of task {self.id} is nested in more than {MOST_LEVELS} levels"
            )
        if len(text) > MOST_BYTES:
            raise UserError(
                f"the result of task {self.id} is longer than {MOST_BYTES >> 20} MiB: write a "
                "file, and give its path"
            )
        if not self.is_done:
            self._tasks.done(self.id, result)
            self.is_done = True

    def stop_requested(self) -> bool:
        """Whether the node is to be released: a long task may call :meth:`hand_back` then, or
        finish within ``stop_s``.
        """
        return self._tasks.reporter.stop_requested()

    def hand_back(self) -> None:
        """Give the task to another worker, and end this process."""
        self._tasks.back(self.id)
        self._tasks.reporter.leave()


def tasks(
    source: str | Path | Iterable[Any],
    results: str | Path | None = None,
    environment: Mapping[str, str] = os.environ,
) -> Iterator[PoolTask]:
    """Yield the tasks that are left: lines of a file (of ``.jsonl``: objects), files of a folder,
    or items of an iterable, which is written to a file once. A task without a result counts as done
    when the next one is asked for.

    ``results``: a file of lines ``{"task": ID, "result": ...}``; default: ``SOURCE.results.jsonl``.
    Each task runs at least once, and has one result. One that ends its worker three times is put
    aside. Raises :class:`~bftrainer.errors.UserError` for a list that cannot be used.
    """
    if not isinstance(source, (str, Path)):
        path = Path(results or "tasks.results.jsonl").with_suffix(".tasks.jsonl").absolute()
        _write_once(source, path)
        results = results or "tasks.results.jsonl"
        source = path
    path = Path(source).absolute()
    results = (
        Path(results).absolute() if results is not None else path.with_suffix(".results.jsonl")
    )
    reporter = Reporter(environment)
    board = (
        _OfDriver(path, results, reporter, environment)
        if WORKER in environment
        else _Alone(path, results, reporter)
    )
    try:
        while True:
            if reporter.stop_requested():
                reporter.leave()
            task_or_wait_s = board.take()
            if isinstance(task_or_wait_s, PoolTask):
                yield task_or_wait_s
                task_or_wait_s.done()
            elif task_or_wait_s <= 0:
                return
            else:
                time.sleep(task_or_wait_s)
    finally:
        board.close()


def _write_once(items: Iterable[Any], path: Path) -> None:
    """Write the file of tasks, a line for each item, if there is none. Of several processes that
    write it at the same time, the first one's file counts.
    """
    if path.exists():
        return
    part = path.with_name(f".{path.name}.{os.uname().nodename}.{os.getpid()}")
    with part.open("w", encoding="utf-8") as file:
        for item in items:
            file.write(json.dumps(item) + "\n")
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(part, path)
    except FileExistsError:
        return
    finally:
        remove_file(part)


class _Alone:
    """Gives tasks to a script without a driver: there is one worker, which also keeps the log of
    results.
    """

    def __init__(self, source: Path, results: Path, reporter: Reporter) -> None:
        self.reporter = reporter
        failures = results.with_suffix(".failures.jsonl")
        self._board = TaskBoard(TaskSource(source), results, failures)

    def take(self) -> PoolTask | float:
        """Return a task; 0 if none is left."""
        answer = self._board.take("")
        if answer is None:
            return 0.0
        task_id, value = answer
        return PoolTask(task_id, value, self)

    def done(self, task: TaskId, result: Any) -> None:
        self._board.done("", task, result)

    def back(self, task: TaskId) -> None:
        self._board.hand_back("")

    def close(self) -> None:
        self._board.close()


class _OfDriver:
    """Gets tasks for a worker of a pool from its driver."""

    def __init__(
        self, source: Path, results: Path, reporter: Reporter, environment: Mapping[str, str]
    ) -> None:
        self.reporter = reporter
        self._meeting_path = TrainerDirectory(Path(environment[TRAINER_DIR])).meeting
        self._connection: http.client.HTTPConnection | None = None
        self._key = ""
        self._common_words = {  # of every request
            "worker": environment[WORKER],
            "source": str(source),
            "results": str(results),
        }

    def take(self) -> PoolTask | float:
        """Return a task, or the seconds until another may be free; 0 if none is left."""
        answer = self._ask_driver(verb="take")
        return (
            PoolTask(answer["task"], answer["value"], self)
            if "task" in answer
            else float(answer["wait_s"])
        )

    def done(self, task: TaskId, result: Any) -> None:
        self._ask_driver(verb="done", task=task, result=result)

    def back(self, task: TaskId) -> None:
        self._ask_driver(verb="back", task=task)

    def close(self) -> None:
        """Close the connection. The lease of a task ends with the process."""
        self._hang_up()

    def _ask_driver(self, **words: Any) -> dict[str, Any]:
        """Send a request to the driver and return its answer; repeat it if the answer is lost.

        That does no harm: who takes twice gets the same task, and of two results the first one is
        kept. Leaves, and does not return, if the driver sends the worker away. Raises ``UserError``
        if the driver refuses the request, and ``BFTrainerError`` without an answer for PATIENCE_S.
        """
        body = json.dumps({**self._common_words, **words}).encode()
        deadline_s = time.monotonic() + PATIENCE_S
        while True:
            try:
                status, answer = self._post_request(body)
            except (OSError, http.client.HTTPException, InputFileError) as error:
                status, answer = 0, str(error).encode()
            if status == http.client.OK:
                return dict(json.loads(answer))
            if status == http.client.GONE:
                self.reporter.leave()
            problem = answer.decode(errors="replace")
            if status == http.client.CONFLICT:
                raise UserError(problem)
            if time.monotonic() >= deadline_s:
                raise BFTrainerError(f"the driver does not give tasks: status {status}: {problem}")
            time.sleep(0.2)

    def _post_request(self, body: bytes) -> tuple[int, bytes]:
        """Send a request, and return status and body of the answer. Raises ``OSError``,
        ``HTTPException`` or ``InputFileError`` without one; the next request connects again.

        The worker keeps its connection, so that it never waits behind a crowd at the port.
        """
        if self._connection is None:
            meeting = read_json(Meeting, self._meeting_path)
            self._key = meeting.key
            self._connection = http.client.HTTPConnection(
                meeting.host, meeting.port, timeout=PATIENCE_S
            )
        try:
            self._connection.request(
                "POST", "/tasks", body, {"Authorization": f"Bearer {self._key}"}
            )
            answer = self._connection.getresponse()
            return answer.status, answer.read()
        except (OSError, http.client.HTTPException):
            self._hang_up()
            raise

    def _hang_up(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
