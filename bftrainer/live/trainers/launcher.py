"""The port ``Launcher`` over trainer directories: all that a driver is told is in files (docs/trainer-directory.md)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from bftrainer.config.trainer_file import TrainerSpec
from bftrainer.errors import InputFileError
from bftrainer.live.trainers.driver_process import DriverProcess
from bftrainer.live.trainers.trainer_message import trainer_message
from bftrainer.plugins import driver_module
from bftrainer.protocol.control import ControlMessage, ControlRequest
from bftrainer.protocol.hosts import HostSlots, write_hosts
from bftrainer.protocol.messages import DriverSettings
from bftrainer.protocol.paths import TrainerDirectory
from bftrainer.protocol.reports import DriverView, after_end, after_events, after_progress, after_start
from bftrainer.protocol.typed_json import OtherVersionError, from_fields, read_json, write_json
from bftrainer.system.json_tail import JsonTail

_PROGRESS_TAIL_BYTES = 1 << 16
_PROGRESS_EVERY = 5


@dataclass(slots=True)
class _Driver:
    directory: TrainerDirectory
    process: DriverProcess
    events: JsonTail
    progress: JsonTail
    requests: int
    """How many ``control`` counts."""
    view: DriverView = field(default_factory=DriverView)
    looks: int = 0

    def request(self, request: ControlRequest) -> None:
        self.requests += 1
        write_json(self.directory.control, ControlMessage(request, self.requests))


class DirectoryLauncher:
    """Starts, rescales and stops trainers by the files of their directories below ``root``.

    ``settings`` are the keys of ``driver.json`` that the site sets.
    """

    def __init__(self, root: Path, settings: Mapping[str, object]) -> None:
        self._root = root
        self._settings = dict(settings)
        self._drivers: dict[str, _Driver] = {}

    def reconfigure(self, settings: Mapping[str, object]) -> None:
        """Replace the settings, for drivers that start from now on."""
        self._settings = dict(settings)

    def start(self, spec: TrainerSpec, hosts: Iterable[HostSlots], interface: str | None = None) -> None:
        """Start a driver on these hosts, unless one runs. ``interface``: of their node class, where it has its own.

        Raises :class:`~bftrainer.errors.UnknownNameError` if the launcher is not installed.
        """
        module = driver_module(spec.launcher)
        directory = TrainerDirectory(self._root / spec.name)
        directory.logs.mkdir(mode=0o700, parents=True, exist_ok=True)
        settings = from_fields(DriverSettings, {**self._settings, "driver": spec.launcher}, "driver settings")
        write_json(directory.trainer, trainer_message(spec))
        write_json(directory.driver, replace(settings, interface=interface or settings.interface))
        driver = self._driver(spec.name)
        lock = driver.process.lock()
        if lock is None:
            return
        driver.request(ControlRequest.RUN)
        write_hosts(directory.hosts, hosts)
        directory.leave.unlink(missing_ok=True)
        directory.driver_pid.unlink(missing_ok=True)
        driver.events.read()  # what an earlier driver reported is over
        driver.process.start(module, lock)
        driver.view = after_start(driver.view)

    def order(self, name: str, hosts: Iterable[HostSlots]) -> None:
        """Replace the hosts file."""
        write_hosts(self._driver(name).directory.hosts, hosts)

    def ask_to_stop(self, name: str) -> None:
        """Checkpoint and leave; the driver ends with ``stopped``."""
        self._driver(name).request(ControlRequest.STOP)

    def kill(self, name: str) -> None:
        """End the driver and its workers at once."""
        self._driver(name).process.kill()

    def look(self, name: str) -> DriverView:
        """The driver as of now. The driver of an earlier pilot is found by its files: that is how it is adopted."""
        driver = self._driver(name)
        is_alive = driver.process.is_alive()
        # Files are read after the process was looked at: what it wrote last is not missed.
        said = driver.events.read()
        view = after_events(driver.view, said) if said else driver.view
        driver.looks += 1
        # Lines of progress carry their own times: while all goes well they can wait for a second.
        is_due = said or not (is_alive and view.trains) or driver.looks % _PROGRESS_EVERY == 0
        if is_due and (lines := driver.progress.read()):
            view = after_progress(view, lines)
        if driver.process.is_known and not is_alive:
            view = after_end(view)
        driver.view = view if view.alive == is_alive else replace(view, alive=is_alive)
        return driver.view

    def _driver(self, name: str) -> _Driver:
        if name not in self._drivers:
            directory = TrainerDirectory(self._root / name)
            progress = JsonTail(directory.progress)
            progress.skip(_PROGRESS_TAIL_BYTES)
            self._drivers[name] = _Driver(
                directory, DriverProcess(directory), JsonTail(directory.events), progress, _requests(directory.control)
            )
        return self._drivers[name]


def _requests(control: Path) -> int:
    """How many requests the pilot before this one has made; 0 where its file is missing or damaged."""
    try:
        return read_json(ControlMessage, control).number
    except OtherVersionError:
        raise
    except InputFileError:
        return 0
