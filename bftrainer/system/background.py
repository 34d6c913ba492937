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
    """The work is done before ``start`` returns: for sites that answer from memory, and wherever
    time is made up.
    """

    def start(self, work: Callable[[], T]) -> Future[T]:
        future: Future[T] = Future()
        _do(work, future)
        return future


class InThread:
    """Each piece of work in a daemon thread. (ThreadPoolExecutor's threads are joined when the
    interpreter ends.)

    ``done`` is called after each, in its thread.
    """

    def __init__(self, done: Callable[[], None] = lambda: None) -> None:
        self._done = done

    def start(self, work: Callable[[], T]) -> Future[T]:
        future: Future[T] = Future()
        future.add_done_callback(lambda _: self._done())
        threading.Thread(target=_do, args=(work, future), name="background", daemon=True).start()
        return future


def _do(work: Callable[[], T], future: Future[T]) -> None:
    try:
        future.set_result(work())
    except BaseException as error:
        future.set_exception(error)
