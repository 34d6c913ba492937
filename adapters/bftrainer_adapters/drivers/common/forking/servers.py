"""The driver's side of fork servers: which commands they can start, and one server per fragment and kind of worker."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bftrainer.protocol.hosts import HostSlots
from bftrainer.protocol.messages import DriverSettings, TrainerMessage
from bftrainer.protocol.paths import TrainerDirectory
from bftrainer_adapters.drivers.common.command_line import filled_prefix, inside_step, worker_environment
from bftrainer_adapters.drivers.common.forking.fork_facts import REFUSES, early
from bftrainer_adapters.drivers.common.forking.script import beginning_of
from bftrainer_adapters.drivers.common.warm_command import option_count

SWITCH = "BFTRAINER_FORK_SERVER"
"""Set to ``0`` in a trainer's ``env``, its workers are started plainly; ``1``: forked even without a holder."""
APPEAR_S = 2.0
"""How long a worker waits for the socket of a server that was started at the same time."""
PATIENCE_S = 120.0
"""How long it waits for the server's imports."""
IDLE_S = 300.0
ENDS_S = 10.0
_MOST_FAILURES = 2
_PROGRAMS = Path(__file__).resolve().parent
_READ_ON_IMPORT = ("OMP_", "MKL_", "KMP_", "GOMP_", "OPENBLAS_", "NUMEXPR_", "LD_", "PYTHON", "CUDA_", "TORCH_")


@dataclass(slots=True)
class _Started:
    process: subprocess.Popen[bytes]
    at_s: float
    failures: int = 0


class ForkServers:
    """The servers that this driver has started. Safe to use from several threads.

    In a holder, a server outlives the driver: the next trainer on the node finds it by its socket. It ends when it is idle,
    or with the holder. Elsewhere it ends with the driver.
    """

    def __init__(self, directory: TrainerDirectory, trainer: TrainerMessage, settings: DriverSettings) -> None:
        self._directory = directory
        self._trainer = trainer
        self._settings = settings
        self._lock = threading.Lock()
        self._started: dict[tuple[str, str], _Started] = {}
        self._refused = False
        chosen = dict(trainer.environment).get(SWITCH)
        wanted = settings.fork_servers > 0 and (chosen == "1" or (chosen != "0" and bool(settings.prefix)))
        self._begins = beginning_of(trainer.command, trainer.cwd) if wanted else None
        self._tied = not any("{fragment_id}" in word or "{job_id}" in word for word in settings.prefix)
        """Whether servers end with the driver: without holders, nothing else would end them before they are idle."""

    def command(
        self, host: HostSlots, command: Sequence[str], inherited: Mapping[str, str], variables: Mapping[str, str]
    ) -> list[str] | None:
        """The command that has the node's server start ``command``; None if that has to be started plainly."""
        options = option_count(command)
        if self._begins is None or options is None:
            return None
        first = {name: value for name, value in variables.items() if name.startswith(_READ_ON_IMPORT)}
        first.pop("PYTHONUNBUFFERED", None)
        late = sorted(set(variables) - set(first))
        environment = worker_environment(inherited, self._settings, self._trainer, first)
        socket = self._socket(host, [*command[:options]], early(environment, late))
        if not self._ensure(host, command[:options], socket, environment, late):
            return None
        words = [socket, f"{APPEAR_S:g}", f"{PATIENCE_S:g}", ",".join(late), str(options), *command]
        return [command[0], "-S", "-s", str(_PROGRAMS / "fork_client.py"), *words]

    def close(self) -> None:
        """End the servers that end with the driver."""
        for started in self._started.values():
            if started.process.stdin is not None:
                started.process.stdin.close()
        for started in self._started.values():
            if started.process.stdin is not None:
                try:
                    started.process.wait(timeout=ENDS_S)
                except subprocess.TimeoutExpired:
                    started.process.kill()

    def _socket(self, host: HostSlots, python: Sequence[str], environment: Mapping[str, str]) -> str:
        """Below /tmp, which is the node's own: by fragment, and by all that the driver knows of the server."""
        state = str(self._directory.path.parent)
        own = str(os.getpid()) if self._tied else ""
        place = _digest([state, host.node, host.fragment, own])
        kind = _digest([python, self._trainer.setup, self._begins, sorted(environment.items())])
        return f"/tmp/bftrainer-{os.getuid()}/{place}/{kind}"  # noqa: S108 - both folders are 0700, and checked

    def _ensure(
        self, host: HostSlots, python: Sequence[str], socket: str, environment: Mapping[str, str], late: Sequence[str]
    ) -> bool:
        """Whether a worker may ask for a server there; starts one if none of this driver's runs."""
        with self._lock:
            started = self._started.get((host.fragment, socket))
            failures = 0
            if started is not None:
                status = started.process.poll()
                if status is None or (status == 0 and time.monotonic() - started.at_s < IDLE_S):
                    return not self._refused
                if started.process.stdin is not None:
                    started.process.stdin.close()
                self._refused = self._refused or status == REFUSES
                failures = started.failures + (status != 0)
            if self._refused or failures >= _MOST_FAILURES:
                return False
            process = self._start(host, python, socket, environment, late)
            if process is None:
                return False
            self._started[host.fragment, socket] = _Started(process, time.monotonic(), failures)
            return True

    def _start(
        self, host: HostSlots, python: Sequence[str], socket: str, environment: Mapping[str, str], late: Sequence[str]
    ) -> subprocess.Popen[bytes] | None:
        assert self._begins is not None, "looked at before"
        prefix = filled_prefix(self._settings.prefix, host)
        settings = {
            "variables": self._begins.variables,
            "socket": socket, "modules": self._begins.modules, "late": list(late), "most": self._settings.fork_servers,
            "memory_bytes": self._settings.fork_server_mb * 1_000_000, "idle_s": IDLE_S, "tied": self._tied,
        }  # fmt: skip
        program = [*python, str(_PROGRAMS / "fork_server.py"), json.dumps(settings)]
        try:
            log = self._directory.fork_server_log(host.node, host.fragment).open("ab")
            with log:
                return subprocess.Popen(  # noqa: S603 - the user's own interpreter
                    [*prefix, *inside_step(self._trainer.setup, program)],
                    cwd=self._trainer.cwd,
                    env=dict(environment),
                    stdin=subprocess.PIPE if self._tied else subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
        except OSError as error:
            print(f"bftrainer: fork server: {error}", file=sys.stderr)
            return None


def _digest(values: Sequence[object]) -> str:
    return hashlib.sha256(repr(values).encode()).hexdigest()[:16]
