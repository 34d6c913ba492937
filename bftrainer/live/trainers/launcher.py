"""The Launcher over trainer directories (docs/trainer-directory.md): drivers are processes of their own, found again by pid.

A driver is started in its own session, so it survives the pilot; all it is told is in files.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bftrainer.config.trainer_file import TrainerSpec
from bftrainer.plugins import driver_module
from bftrainer.protocol.reports import DriverView, Ending, after_events, after_progress
from bftrainer.system.files import write_atomically
from bftrainer.system.json_tail import JsonTail
from bftrainer.system.processes import ProcessId, identify, is_alive
from bftrainer.system.processes import send as send_signal

_PROGRESS_TAIL_BYTES = 1 << 16
_PROGRESS_EVERY = 5
_DRIVER_LOG_BYTES = 1 << 20
_children: list[
    subprocess.Popen[bytes]
] = []  # drivers of this process; they may outlive the launcher that started them


@dataclass(frozen=True, slots=True)
class Place:
    """One node for a trainer: a line of ``hosts``. ``interface`` is its network interface, where its class has one."""

    node: str
    slots: int
    fragment_id: str
    interface: str | None = None


@dataclass(slots=True)
class _Driver:
    events: JsonTail
    progress: JsonTail
    view: DriverView = field(default_factory=DriverView)
    process: ProcessId | None = None
    child: subprocess.Popen[bytes] | None = None
    control_number: int = 0
    lock: Path = Path()
    looks: int = 0

    def is_locked(self) -> bool:
        """Whether a driver lives: it holds the lock from before its first instruction to its end, however that comes."""
        try:
            handle = os.open(self.lock, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(handle)
        return False


class DirectoryLauncher:
    """Starts, rescales and stops trainers by the files of their directories below ``root``."""

    def __init__(self, root: Path, driver_settings: Mapping[str, object]) -> None:
        self._root = root
        self._settings = dict(driver_settings)
        self._drivers: dict[str, _Driver] = {}

    def reconfigure(self, driver_settings: Mapping[str, object]) -> None:
        """Settings of drivers to come."""
        self._settings = dict(driver_settings)

    def start(self, spec: TrainerSpec, places: Iterable[Place]) -> None:
        """Start a driver on these places; what an earlier one said is over."""
        name, path = spec.name, self._root / spec.name
        (path / "logs").mkdir(mode=0o700, parents=True, exist_ok=True)
        places = tuple(places)
        own = {"interface": places[0].interface} if places and places[0].interface else {}
        settings = {"version": 1, "driver": spec.launcher, **self._settings, **own}
        write_atomically(path / "trainer.json", json.dumps(_trainer_json(spec)).encode())
        write_atomically(path / "driver.json", json.dumps(settings).encode())
        driver = self._driver(name)
        lock = os.open(driver.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:  # an earlier driver lives: it is adopted, not doubled
            os.close(lock)
            driver.process = None
            return
        self._control(name, "run")
        self.order(name, places)
        (path / "leave").unlink(missing_ok=True)
        (path / "driver.pid").unlink(missing_ok=True)
        driver.events.read()
        own_log = path / "logs" / "driver.log"
        if own_log.exists() and own_log.stat().st_size > _DRIVER_LOG_BYTES:
            own_log.replace(own_log.with_name("driver.log.1"))
        with own_log.open("ab") as log:
            child = subprocess.Popen(  # noqa: S603  # our own program
                [sys.executable, "-m", driver_module(spec.launcher), str(path)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=path, start_new_session=True,
                pass_fds=(lock,),
            )  # fmt: skip
        os.close(lock)
        _children.append(child)
        driver.child, driver.process = child, identify(child.pid)
        driver.view = DriverView(
            alive=True, incarnation=driver.view.incarnation, samples=driver.view.samples, loss=driver.view.loss
        )

    def order(self, name: str, places: Iterable[Place]) -> None:
        """Replace the hosts file."""
        text = "".join(f"{p.node}:{p.slots}:{p.fragment_id}\n" for p in places)
        write_atomically(self._root / name / "hosts", text.encode())

    def ask_to_stop(self, name: str) -> None:
        """Checkpoint and leave; the driver ends with ``stopped``."""
        self._control(name, "stop")

    def kill(self, name: str) -> None:
        """End the driver at once; its workers end with it (its reaper sees to that)."""
        driver = self._driver(name)
        if driver.process is not None:
            send_signal(driver.process, signal.SIGKILL)

    def look(self, name: str) -> DriverView:
        """The driver as of now. A name whose driver nobody here has started is looked for: that is how it is adopted."""
        driver = self._driver(name)
        if driver.child is not None and driver.child.poll() is not None:
            _children.remove(driver.child)
            driver.child = None
        if driver.process is None and driver.is_locked():
            driver.process = _recorded_process(self._root / name / "driver.pid")
            alive = True
        elif driver.child is not None and driver.process is not None and driver.child.pid == driver.process.pid:
            alive = True  # a child that had ended would have been waited for above
        else:
            alive = driver.process is not None and is_alive(driver.process)
        # Files are read after the process was looked at: what it wrote last is not missed.
        said = driver.events.read()
        view = after_events(driver.view, said) if said else driver.view
        driver.looks += 1
        # Lines of progress carry their own times: while all goes well they can wait for a second.
        is_due = said or not (alive and view.trains) or driver.looks % _PROGRESS_EVERY == 0
        if is_due and (lines := driver.progress.read()):
            view = after_progress(view, lines)
        if driver.process is not None and not alive:
            view = replace(
                view, ending=view.ending or Ending.KILLED, on=frozenset(), with_workers=frozenset(), trains=False
            )
        driver.view = view if view.alive == alive else replace(view, alive=alive)
        return driver.view

    def _driver(self, name: str) -> _Driver:
        if name not in self._drivers:
            path = self._root / name
            driver = _Driver(JsonTail(path / "events.jsonl"), JsonTail(path / "progress.jsonl"))
            driver.lock = path / "driver.lock"
            driver.progress.skip(_PROGRESS_TAIL_BYTES)
            driver.process = _recorded_process(path / "driver.pid")
            driver.control_number = int((_object_of(path / "control") or {}).get("number", 0))
            self._drivers[name] = driver
        return self._drivers[name]

    def _control(self, name: str, request: str) -> None:
        driver = self._driver(name)
        driver.control_number += 1
        order = {"version": 1, "request": request, "number": driver.control_number}
        write_atomically(self._root / name / "control", json.dumps(order).encode())


def read_logs(root: Path, name: str) -> list[Path]:
    """Log files of a trainer's latest incarnation; none where nothing was written yet."""
    folders = [p for p in (root / name / "logs").glob("*") if p.name.isdecimal()]
    return sorted(max(folders, key=lambda p: int(p.name)).glob("*.log")) if folders else []


def _trainer_json(spec: TrainerSpec) -> dict[str, object]:
    return {
        "version": 1,
        "id": spec.name,
        "command": list(spec.command),
        "cwd": str(spec.cwd),
        "environment": spec.env,
        "setup": [*_staging(spec.stage_in), *spec.setup],
        "started_per": spec.started_per.value,
        "min_nodes": spec.min_nodes,
        "max_nodes": spec.max_nodes,
        "scaling": spec.scaling.value,
        "global_batch": spec.global_batch,
        "samples_total": spec.samples_total,
        "stop_s": spec.stop_s,
        "stop_signal": spec.stop_signal,
    }


def _staging(lines: tuple[str, ...]) -> list[str]:
    """``stage_in`` as one line of ``setup`` that only the first worker of a fragment gets to run; the others wait for it."""
    if not lines:
        return []
    mark = '"$BFTRAINER_TRAINER_DIR/staged-$BFTRAINER_FRAGMENT"'
    work = " && ".join(f"{{ {line}; }}" for line in lines)
    return [f"( flock 9 && {{ [ -s {mark} ] || {{ {work} && echo done >&9; }}; }} ) 9>>{mark}"]


def _recorded_process(path: Path) -> ProcessId | None:
    """The process that ``driver.pid`` speaks of; one that has ended too."""
    found = _object_of(path)
    if found is None or found.get("host") != socket.gethostname():
        return None
    pid, ticks = int(found.get("pid", 0)), int(found.get("start_ticks", 0))
    now = identify(pid)
    if now is not None and now.started.partition("@")[0] == str(ticks):
        return now
    return ProcessId(pid, f"{ticks}@ended")


def _object_of(path: Path) -> dict[str, Any] | None:
    try:
        value = json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError):
        return None
    return value if isinstance(value, dict) else None
