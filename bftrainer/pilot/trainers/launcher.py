"""The port ``Launcher`` over trainer directories: all that a driver is told is in files
(docs/trainer-directory.md).
"""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from bftrainer.config.trainer_file import TrainerSpec
from bftrainer.counted import counted
from bftrainer.errors import InputFileError
from bftrainer.pilot.trainers.driver_process import DriverProcess
from bftrainer.pilot.trainers.trainer_message import trainer_message
from bftrainer.plugins import driver_module
from bftrainer.system.json_tail import PIECE_BYTES, BadLine, JsonTail
from bftrainer.system.regular import open_regular
from bftrainer.wires.append import append_line
from bftrainer.wires.bounds import text
from bftrainer.wires.control import ControlMessage, ControlRequest
from bftrainer.wires.hosts_file import HostSlots, write_hosts
from bftrainer.wires.messages import DriverSettings
from bftrainer.wires.paths import TrainerDirectory
from bftrainer.wires.reports import (
    DriverView,
    Ending,
    after_end,
    after_events,
    after_progress,
    after_refused,
    after_start,
)
from bftrainer.wires.typed_json import from_fields, read_json, write_json

TRAINERS_FAULT = frozenset(
    {
        errno.EINVAL,
        errno.EISDIR,
        errno.ENOTDIR,
        errno.ELOOP,
        errno.ENXIO,
        errno.EACCES,
        errno.EPERM,
        errno.ENOTEMPTY,
    }
)
"""Errors that come from what lies in a trainer directory. Others come from its file system, and
concern all trainers.
"""
_PROGRESS_TAIL_BYTES = 1 << 16
_MAX_BACKLOG_BYTES = 4 << 20
"""More lines of progress than a trainer can write from one round of the loop to the next; then the
last ones are enough.
"""
_MAX_EVENTS_BYTES = 64 << 20
"""Most that is read of the events of a driver that is adopted."""
_PROGRESS_EVERY = 5
_READ_AT_ONCE = 100
"""Trainers whose progress is read at every ``_PROGRESS_EVERY`` looks; with more of them it is read
less often.
"""
_MAX_INTERVAL_FACTOR = 5
_NOTICES_BYTES = 1 << 20
"""Most that ``preempted`` has."""
_NO_LINK = os.O_NOFOLLOW | os.O_NONBLOCK


@dataclass(slots=True)
class _Driver:
    """The driver of a trainer: its directory, its process, and what was read of its files so
    far.
    """

    directory: TrainerDirectory
    process: DriverProcess
    events: JsonTail
    progress: JsonTail
    requests: int
    """How many ``control`` counts."""
    view: DriverView = field(default_factory=DriverView)
    looks: int = 0
    unusable: str = ""
    """Why the trainer cannot go on with this driver: its files cannot be read."""

    def request(self, request: ControlRequest) -> None:
        """Write a request to the driver, with the next number."""
        self.requests += 1
        write_json(self.directory.control, ControlMessage(request, self.requests))


class Launcher(Protocol):
    """Starts, rescales and stops trainers, and reports what their drivers say."""

    def start(
        self, spec: TrainerSpec, hosts: Iterable[HostSlots], interface: str | None = None
    ) -> None:
        """Start a driver on these hosts. ``interface``: of their node class, where it has its
        own.
        """

    def order(self, name: str, hosts: Iterable[HostSlots], urgent: Iterable[str] = ()) -> None:
        """Tell a running driver its new hosts. ``urgent``: fragments that it loses within seconds,
        so that it has workers save at once.
        """

    def ask_to_stop(self, name: str) -> None:
        """Request a checkpoint and the end of the driver."""

    def kill(self, name: str) -> None:
        """Kill the driver."""

    def look(self, name: str) -> DriverView:
        """Return the driver's reports until now. A driver that runs already is adopted."""


class DirectoryLauncher:
    """Starts, rescales and stops trainers by the files of their directories below ``root``.

    ``settings`` are the keys of ``driver.json`` that the site sets, as they are when a driver
    starts.
    """

    def __init__(
        self, root: Path, settings: Mapping[str, object], now_s: Callable[[], float] = time.time
    ) -> None:
        """Launch in the trainer directories below ``root``, with the ``settings`` of drivers;
        ``now_s`` is the host's clock.
        """
        self._root = root
        self._settings = settings
        self._now_s = now_s
        self._drivers: dict[str, _Driver] = {}
        self._alive_count = 0

    def start(
        self, spec: TrainerSpec, hosts: Iterable[HostSlots], interface: str | None = None
    ) -> None:
        """Start a driver on these hosts, unless one runs. ``interface``: the network interface of
        their node class, where it has its own.

        Raises :class:`~bftrainer.errors.UnknownNameError` if the launcher that ``spec`` names is
        not installed.
        """
        module = driver_module(spec.launcher)
        directory = TrainerDirectory(self._root / spec.name)
        directory.logs.mkdir(mode=0o700, parents=True, exist_ok=True)
        settings = from_fields(
            DriverSettings, {**self._settings, "driver": spec.launcher}, "driver settings"
        )
        write_json(directory.trainer, trainer_message(spec))
        driver_settings = replace(
            settings,
            interface=interface or settings.interface,
            hang_s=spec.hang_s or settings.hang_s,
        )
        write_json(directory.driver, driver_settings)
        driver = self._driver_state(spec.name)
        lock = driver.process.lock()
        if lock is None:
            return  # a driver runs, and the next look adopts it
        try:
            driver.request(ControlRequest.RUN)
            write_hosts(directory.hosts, hosts)
            # It names an earlier driver.
            directory.driver_pid.unlink(missing_ok=True)
            for path in (directory.events, directory.progress):
                with suppress(FileNotFoundError):
                    # Raises for anything that is not a regular file, before the driver is started.
                    os.close(open_regular(path))
            driver.events.skip()  # events of an earlier driver
        except BaseException:
            os.close(lock)  # process.start closes it otherwise
            raise
        driver.process.start(module, lock)
        driver.unusable = ""
        if not driver.view.alive:
            self._alive_count += 1
        driver.view = after_start(driver.view)

    def order(self, name: str, hosts: Iterable[HostSlots], urgent: Iterable[str] = ()) -> None:
        """Replace the hosts file. The driver has notice of the fragments ``urgent`` before."""
        directory = self._driver_state(name).directory
        for fragment in sorted(urgent):
            line = json.dumps({"fragment": fragment})
            append_line(directory.preempted, line, _NOTICES_BYTES, "the notice of a node", _NO_LINK)
        write_hosts(directory.hosts, hosts)

    def ask_to_stop(self, name: str) -> None:
        """Checkpoint and leave; the driver ends with ``stopped``."""
        self._driver_state(name).request(ControlRequest.STOP)

    def kill(self, name: str) -> None:
        """End the driver and its workers at once."""
        self._driver_state(name).process.kill()

    def look(self, name: str) -> DriverView:
        """Return what the driver has reported until now. A driver that an earlier pilot started is
        found by its files: that is how it is adopted.

        A driver whose files cannot be read, or that speaks another version, is killed and counts as
        failed once it has ended. Raises ``OSError`` where the file system fails, which is no fault
        of the trainer.
        """
        driver = self._driver_state(name)
        is_alive = driver.process.is_alive()
        # Files are read after the check of the process, so that its last lines are not missed.
        if driver.process.foreign:
            driver.unusable = f"its driver cannot be adopted: {driver.process.foreign}"
        elif not driver.unusable:
            try:
                driver.view = self._updated_view(driver, is_alive)
            except OSError as error:
                if error.errno not in TRAINERS_FAULT:
                    raise
                driver.unusable = str(error)
            except Exception as error:
                # Whatever a line of this trainer brings about ends this trainer only.
                driver.unusable = f"its lines cannot be read: {type(error).__name__}: {error}"
        view = driver.view
        # Killed also if it has just ended: it may have ended for the same reason, without a report.
        if driver.unusable and (is_alive or view.alive):
            driver.process.kill()
            view = replace(view, ending=Ending.FAILED, reason=text(driver.unusable), tail=())
        # It has ended. Without a report of its end, the last exception in its log says why.
        if driver.process.is_known and not is_alive:
            view = after_end(view, driver.process.last_exception() if view.ending is None else "")
        if view.alive != is_alive:
            view = replace(view, alive=is_alive)
            self._alive_count += 1 if is_alive else -1
        driver.view = view
        return view

    def _updated_view(self, driver: _Driver, is_alive: bool) -> DriverView:
        """Return the view of a driver with what it and its rank 0 have written since the last look.

        Lines of progress are read less often while all goes well.
        """
        view = driver.view
        has_news = False
        driver.looks += 1
        # Lines of progress carry their own times: while all goes well they can wait for a second,
        # and among many for some.
        interval_factor = min(1 + self._alive_count // _READ_AT_ONCE, _MAX_INTERVAL_FACTOR)
        is_due = (
            not (is_alive and view.trains)
            or driver.looks % (_PROGRESS_EVERY * interval_factor) == 0
        )
        if not is_due and driver.events.is_read():  # its driver is a process of this host
            return view
        now_s = self._now_s()
        for lines in _unread_pieces(driver.events, _MAX_EVENTS_BYTES):
            has_news = True
            view = after_events(view, lines, now_s)
        if has_news or is_due or not view.trains:
            if (skipped := driver.progress.backlog_bytes()) > _MAX_BACKLOG_BYTES:
                driver.progress.skip(_PROGRESS_TAIL_BYTES)
                view = after_refused(
                    view,
                    "progress",
                    f"{counted(skipped, 'byte')} came at once; only the last are read",
                )
            for lines in _unread_pieces(driver.progress, _MAX_BACKLOG_BYTES):
                view = after_progress(view, lines, now_s)
        return view

    def _driver_state(self, name: str) -> _Driver:
        """Return what is known of a trainer's driver. The first call reads it from the files of the
        trainer directory, of which only the last part is read if they are long.
        """
        if name not in self._drivers:
            directory = TrainerDirectory(self._root / name)
            events, progress = JsonTail(directory.events), JsonTail(directory.progress)
            if events.backlog_bytes() > _MAX_EVENTS_BYTES:
                events.skip(_MAX_EVENTS_BYTES)
            progress.skip(_PROGRESS_TAIL_BYTES)
            requests = _request_number(directory.control)
            self._drivers[name] = _Driver(
                directory, DriverProcess(directory), events, progress, requests
            )
        return self._drivers[name]


def _unread_pieces(tail: JsonTail, max_bytes: int) -> Iterator[list[dict[str, Any] | BadLine]]:
    """Yield the unread lines of a file in lists, up to about ``max_bytes`` in all: a trainer may
    write faster than they are read.
    """
    for _ in range(max_bytes // PIECE_BYTES + 1):
        before = tail.offset
        if lines := tail.read_lines():
            yield lines
        # Nothing more is complete.
        if tail.offset == before:
            return


def _request_number(control: Path) -> int:
    """Return the number of the last request (to run or to stop) that the previous pilot has written
    to the file ``control``; 0 where the file is missing, damaged or of another version.

    Readers look at the request only: the next one replaces the file.
    """
    try:
        return read_json(ControlMessage, control).number
    except InputFileError:
        return 0
