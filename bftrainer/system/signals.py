"""Signals to the pilot's process, and to commands that start processes of their own."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType


@dataclass(slots=True)
class Signals:
    """Signals received so far. Each field is set by a handler, or by a program that runs the pilot
    in its own process.

    ``ends``: SIGTERM or SIGINT, which end the pilot.
    ``reloads``: SIGHUP, which reloads the configuration.
    ``job_ends_soon``: SIGUSR1, which announces the end of the pilot's job.
    """

    ends: bool = False
    reloads: bool = False
    job_ends_soon: bool = False

    @contextmanager
    def caught(self) -> Iterator[Signals]:
        """Handle the signals of the pilot within the block; the old handlers are back at its
        end.
        """

        def end(signum: int, frame: FrameType | None) -> None:
            self.ends = True

        def reload(signum: int, frame: FrameType | None) -> None:
            self.reloads = True

        def job_ends(signum: int, frame: FrameType | None) -> None:
            self.job_ends_soon = True

        handlers = {
            signal.SIGTERM: end,
            signal.SIGINT: end,
            signal.SIGHUP: reload,
            signal.SIGUSR1: job_ends,
        }
        previous_handlers = {
            signum: signal.signal(signum, handler) for signum, handler in handlers.items()
        }
        try:
            yield self
        finally:
            for signum, handler in previous_handlers.items():
                signal.signal(signum, handler)

    def take_reload(self) -> bool:
        """Return whether a reload was requested since the last call, and reset it."""
        is_requested, self.reloads = self.reloads, False
        return is_requested

    def take_job_ends_soon(self) -> bool:
        """Return whether the end of the job was announced since the last call, and reset it."""
        is_announced, self.job_ends_soon = self.job_ends_soon, False
        return is_announced


_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def ending_deferred() -> Iterator[None]:
    """Hold back SIGINT, SIGTERM and SIGHUP within the block; the first of them acts at its end.

    A handler that raises between the creation of a resource and the line that remembers it leaves
    the resource behind. A mask of signals would not do: another thread of the process takes the
    signal, and Python runs the handler in the main thread all the same. The block must be short.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[int] = []

    def remember(signum: int, frame: FrameType | None) -> None:
        received.append(signum)

    handlers = {signum: signal.getsignal(signum) for signum in _ENDING}
    for signum, handler in handlers.items():
        if handler not in (signal.SIG_IGN, None):
            signal.signal(signum, remember)
    try:
        yield
    finally:
        for signum, handler in handlers.items():
            if handler is not None:
                signal.signal(signum, handler)
        if received:
            signal.raise_signal(received[0])
