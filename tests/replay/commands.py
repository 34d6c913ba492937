"""A command that has to end with a known status."""

from __future__ import annotations

from support.command_line import Ended, bftrainer


def executed(*arguments: object, status: int = 0) -> Ended:
    ended = bftrainer(*arguments)
    assert ended.status == status, ended
    return ended
