"""Work beside the loop. One function at a time runs in a thread that does not keep the process from
ending.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Protocol, TypeVar

T = TypeVar("T")


class Background(Protocol):
    """Runs a function; its result or exception is in the future."""

    def start(self, work: Callable[[], T]) -> Future[T]:
        """Begin the work."""


class AtOnce:
    """Runs each function before ``start`` returns: for sites that answer from memory, and for
    simulated time.
    """

    def start(self, work: Callable[[], T]) -> Future[T]:
        future: Future[T] = Future()
        _run_into_future(work, future)
        return future


class InThread:
    """Runs each function in a daemon thread. (ThreadPoolExecutor's threads are joined when the
    interpreter ends.)

    ``on_end`` is called after each function, in its thread.
    """

    def __init__(self, on_end: Callable[[], None] = lambda: None) -> None:
        self._on_end = on_end

    def start(self, work: Callable[[], T]) -> Future[T]:
        future: Future[T] = Future()
        future.add_done_callback(lambda _: self._on_end())
        threading.Thread(
            target=_run_into_future, args=(work, future), name="background", daemon=True
        ).start()
        return future


def _run_into_future(work: Callable[[], T], future: Future[T]) -> None:
    """Call a function, and put its result or exception into the future."""
    try:
        future.set_result(work())
    except BaseException as error:
        future.set_exception(error)
