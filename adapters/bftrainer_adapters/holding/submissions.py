"""Submissions that run at the same time. Each is a command that waits for the scheduler, and releases wait for all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from bftrainer.errors import CommandError, SchedulerError

_Asked = TypeVar("_Asked")
FIRST = 2
"""The first ones of a round tell whether the scheduler takes any: the next batch is twice as large, up to the trait."""


def submit_all(submit: Callable[[_Asked], str], requests: Sequence[_Asked]) -> list[str | Exception]:
    """The job ids, or why there is none, in the order of the requests."""

    def one(request: _Asked) -> str | Exception:
        try:
            return submit(request)
        except (CommandError, SchedulerError) as error:  # PostponedError is one of them
            return error

    if len(requests) < 2:
        return [one(request) for request in requests]
    with ThreadPoolExecutor(len(requests), "submit") as pool:
        return list(pool.map(one, requests))
