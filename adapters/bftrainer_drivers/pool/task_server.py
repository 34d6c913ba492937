"""Serves the tasks of a pool to its workers: ``POST /tasks``, JSON objects, and the token of
``meeting.json``.

A lease ends with the worker's process, of which the driver hears within a poll: locally, or by its
step on a node.
"""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from bftrainer.errors import InputFileError, UserError
from bftrainer.system.http_server import HttpAnswer, HttpRequest, http_port, is_same_token
from bftrainer.system.listening_ports import Limits, PortServer, hosts_in, raise_descriptor_limit
from bftrainer.system.network import interface_address, tcp_listener
from bftrainer.wires.paths import TrainerDirectory
from bftrainer.wires.replicas import Meeting
from bftrainer.wires.task_board import TaskBoard, TaskCounts
from bftrainer.wires.task_source import MOST_BYTES, TaskId, TaskSource
from bftrainer.wires.typed_json import read_json, write_json

LIMITS = Limits(strangers=2048, clients=8192, request_s=60.0, body_bytes=2 * MOST_BYTES)
_BACKLOG = 16_384
_ASK_AGAIN_S = 0.5
"""Time after which one of up to 100 workers asks for a task again; with more workers it
is longer.
"""


class TaskServer:
    """Answers the workers' requests for tasks. ``board`` is open once a worker has said what the
    tasks are. Workers are known by name, from their start to their end.

    ``on_bad_input`` and ``on_finished`` are called from threads of the server.
    """

    def __init__(
        self,
        directory: TrainerDirectory,
        on_bad_input: Callable[[str], None],
        on_finished: Callable[[str], None],
    ) -> None:
        self._directory = directory
        self._on_bad_input = on_bad_input
        self._on_finished = on_finished
        self._token = secrets.token_hex(32)
        self._lock = threading.Lock()
        """Held for moments: the driver's one loop waits for it."""
        self._opening = threading.Lock()
        """Held while the list and its results are read, which may take minutes."""
        self.workers: set[str] = set()
        self.board: TaskBoard | None = None

    def open(self, interface: str, networks: Sequence[str]) -> None:
        """Listen on a new port, and write it to ``meeting.json``. Raises ``OSError``."""
        address = interface_address(interface)
        raise_descriptor_limit()  # each worker keeps a connection
        listener = tcp_listener(address, 0, _BACKLOG)
        self._welcomes = hosts_in([*networks, address])
        self._server = PortServer("tasks", [http_port(listener, self, LIMITS, keeps_clients=True)])
        self._server.start()
        meeting = Meeting(address, int(listener.getsockname()[1]), self._token)
        write_json(self._directory.meeting, meeting, 0o600)

    def close(self) -> None:
        self._server.stop()

    def ended(self, worker: str) -> TaskId | None:
        """Record that a worker's process has ended; return the task that it had, which is free
        again, or None.
        """
        with self._lock:
            self.workers.discard(worker)
            return self.board.hand_back(worker) if self.board else None

    def counts(self) -> TaskCounts | None:
        return self.board.counts() if self.board else None

    def welcomes(self, host: str) -> bool:
        return self._welcomes(host)

    def refusal(self, head: HttpRequest) -> HttpAnswer | None:
        token = head.headers.get("authorization", "").removeprefix("Bearer ")
        return None if is_same_token(token, self._token) else HttpAnswer(401)

    def blocks(self, request: HttpRequest) -> bool:
        return True  # a result is on disk when it is answered

    def answer(self, request: HttpRequest) -> HttpAnswer:
        """Answer a worker's request: 409 for wrong input of the user, 507 if results cannot be
        written, 410 to a worker that has ended.
        """
        try:
            answer = self._answer_request(json.loads(request.body))
        except UserError as error:
            self._on_bad_input(str(error))
            return HttpAnswer(409, str(error).encode(errors="replace"))
        except OSError as error:  # the worker asks again for a minute
            where = self.board.results if self.board else self._directory.path
            return HttpAnswer(
                507, f"{where}: cannot be written: {error.strerror or error}".encode()
            )
        except (ValueError, KeyError, TypeError, AssertionError, RecursionError) as error:
            return HttpAnswer(400, f"not understood: {type(error).__name__}: {error}".encode())
        return HttpAnswer(410) if answer is None else HttpAnswer(200, json.dumps(answer).encode())

    def _answer_request(self, request: dict[str, Any]) -> dict[str, Any] | None:
        """Carry out a worker's request and return the answer; None if the worker has ended: an
        orphan of its own may still ask.
        """
        worker = request["worker"]
        if worker not in self.workers:
            return None
        board = self._board_for(Path(request["source"]), Path(request["results"]))
        match request["verb"]:
            case "done":
                board.done(worker, request["task"], request["result"])
                self._on_finished(worker)
                return {}
            case "back":
                board.hand_back(worker)
                return {}
            case "take":
                with self._lock:  # it may have ended while the list was read
                    if worker not in self.workers:
                        return None
                    task = board.take(worker)
                if task is not None:
                    return {"task": task[0], "value": task[1]}
                if board.is_over:
                    return {"wait_s": 0.0}
                return {"wait_s": max(_ASK_AGAIN_S, len(self.workers) / 200)}
        raise ValueError("expected the verb take, done or back")

    def _board_for(self, source: Path, results: Path) -> TaskBoard:
        """Return the board of tasks, which the first request opens. Raises :class:`InputFileError`
        if a worker names another list or another file of results.
        """
        with self._opening:
            if self.board is None:
                board = TaskBoard(TaskSource(source), results, self._directory.failures)
                self._write_counts(board.counts())
                self.board = board
            elif (source, results) != (self.board.source.path, self.board.results):
                problem = (
                    f"another list than {self.board.source.path}; a pool has one list of "
                    "tasks and one file of results"
                )
                raise InputFileError(str(source), problem)
        return self.board

    def _write_counts(self, counts: TaskCounts) -> None:
        """Write the first counts of this driver. Raises :class:`InputFileError` if the list differs
        from that of the pool's earlier drivers, to which the present results belong.
        """
        if self._directory.tasks.exists():
            earlier = read_json(TaskCounts, self._directory.tasks)
            identity = (counts.source, counts.digest, counts.results)
            if identity != (earlier.source, earlier.digest, earlier.results):
                raise InputFileError(
                    counts.source,
                    "has changed since this pool began; submit another one for other tasks",
                )
        write_json(self._directory.tasks, replace(counts, running=0))
