"""Ctrl-C, SIGTERM and SIGHUP end a long command at once, with one line and the signal's exit
status.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class EndedBySignal(BaseException):
    """Ends the command after a signal other than Ctrl-C.

    It is no ``Exception``, so that no ``except Exception`` keeps the command running.
    """

    def __init__(self, number: int) -> None:
        super().__init__(f"ended by {signal.Signals(number).name}")
        self.exit_status = exit_status_of(number)


def exit_status_of(number: int) -> int:
    """The exit status that shells give a program that a signal has ended."""
    return 128 + number


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """End the block, or the decorated function, at the first signal; later signals do not disturb
    its cleanup.

    Raises ``KeyboardInterrupt`` in the block for Ctrl-C, :class:`EndedBySignal` for SIGTERM and
    SIGHUP. A signal that the process ignores, as under nohup, stays ignored. Outside the main
    thread, nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # Python sets handlers in the main thread only
        return
    handlers = {number: signal.getsignal(number) for number in _ENDING}
    numbers = [number for number, handler in handlers.items() if handler is not signal.SIG_IGN]
    has_ended = False

    def end(number: int, frame: object) -> None:
        nonlocal has_ended
        has_ended = True
        for signum in numbers:
            signal.signal(signum, signal.SIG_IGN)
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        raise EndedBySignal(number)

    for number in numbers:
        signal.signal(number, end)
    try:
        yield
    finally:
        # After a signal, later ones stay ignored: the process is about to exit.
        if not has_ended:
            for number in numbers:
                signal.signal(number, handlers[number])
