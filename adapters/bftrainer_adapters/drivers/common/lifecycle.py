"""What the elastic drivers do before and after their run: pid file, first and last event, SIGTERM, exit status."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn, Protocol

from bftrainer.errors import BFTrainerError
from bftrainer.protocol.driver_pid import write_own_pid
from bftrainer.protocol.events import Started
from bftrainer.protocol.paths import TrainerDirectory
from bftrainer.protocol.reports import Ending
from bftrainer_adapters.drivers.common.event_writer import EventWriter
from bftrainer_adapters.drivers.common.outcome import DriverOutcome


class Run(Protocol):
    """One incarnation of a trainer."""

    checkpointed: bool

    def run(self) -> DriverOutcome:
        """Run to the end; all workers have ended when this returns."""

    def end(self, reason: str) -> None:
        """Stop at once, without a checkpoint."""


def run_driver(
    name: str, folder: str, prepare: Callable[[TrainerDirectory, EventWriter], Run], missing: str
) -> NoReturn:
    """Run the driver to its end.

    ``missing`` says what to install if an import fails. Threads of Horovod may wait in a barrier forever, so the process ends
    by ``_exit``.
    """
    directory = TrainerDirectory(Path(folder).resolve())
    pid = write_own_pid(directory.driver_pid)
    events = EventWriter(directory.events, directory.new_incarnation())
    events.write(Started(name, pid))
    checkpointed = False
    try:
        run = prepare(directory, events)
        signal.signal(signal.SIGTERM, lambda *_: run.end("the driver received SIGTERM"))
        ended = run.run()
        checkpointed = run.checkpointed
    except ImportError as error:
        ended = DriverOutcome(Ending.FAILED, f"launcher {name}: {error}; {missing}", 1)
    except BFTrainerError as error:
        ended = DriverOutcome(Ending.FAILED, str(error), 1)
    events.write(ended.event(checkpointed))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(ended.exit_status)
