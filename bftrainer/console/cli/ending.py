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

    No ``except Exception`` on the way may keep it from doing so.
    """

    def __init__(self, number: int) -> None:
        super().__init__(f"ended by {signal.Signals(number).name}")
        self.exit_status = exit_status_of(number)


def exit_status_of(number: int) -> int:
    """The exit status that shells give a program that a signal has ended."""
    return 128 + number


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """End the block, or the decorated function, at the first signal; its cleanup is not disturbed
    by further ones.

    Ctrl-C is a KeyboardInterrupt as ever. A signal that the caller ignores, as nohup does, stays
    ignored.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handlers = {number: signal.getsignal(number) for number in _ENDING}
    caught = [number for number, handler in handlers.items() if handler is not signal.SIG_IGN]
    is_ended = False

    def end(number: int, frame: object) -> None:
        nonlocal is_ended
        is_ended = True
        for signum in caught:
            signal.signal(signum, signal.SIG_IGN)
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        raise EndedBySignal(number)

    for number in caught:
        signal.signal(number, end)
    try:
        yield
    finally:
        if not is_ended:  # else the process is about to exit
            for number in caught:
                signal.signal(number, handlers[number])
