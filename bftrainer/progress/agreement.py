"""Lets all workers of a group stop at the same step."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from bftrainer.progress.reporter import CONTROL_EVERY_S, Reporter


def from_rank_0(value: object, size: int) -> Any:
    """Rank 0's value on each of ``size`` workers, over ``torch.distributed``; the value itself if there is one worker."""
    if size == 1:
        return value
    import torch.distributed as dist

    box = [value]
    dist.broadcast_object_list(box, src=0)
    return box[0]


class Agreement:
    """Lets all workers stop at the same step: all call :meth:`to_stop` after each step.

    A broadcast at each step would cost too much: rank 0 chooses the number of steps until the next one, about 0.2 s.

    Args:
        reporter: Reads the stop requests.
        broadcast: Returns rank 0's argument on every worker.
    """

    def __init__(self, reporter: Reporter, broadcast: Callable[[object], Any]) -> None:
        self.reporter = reporter
        self.broadcast = broadcast
        self.begin()

    @classmethod
    def of_torch(cls, reporter: Reporter, distributed: ModuleType) -> Agreement:
        """Over the module ``torch.distributed``, whose process group has been initialized."""
        return cls(reporter, lambda value: from_rank_0(value, distributed.get_world_size()))

    def begin(self) -> None:
        """Begin with a new group: the next call broadcasts."""
        self._calls_left = self._every = 1
        self._asked_at = self.reporter.clock()

    def to_stop(self) -> bool:
        """Whether all workers are to checkpoint and leave now."""
        self._calls_left -= 1
        if self._calls_left:
            return False
        now = self.reporter.clock()
        per_call_s = max(1e-6, (now - self._asked_at) / self._every)
        self._asked_at = now
        every = max(1, int(CONTROL_EVERY_S / per_call_s))
        stop, every = self.broadcast((self.reporter.stop_requested(), every))
        self._calls_left = self._every = every
        return bool(stop)
