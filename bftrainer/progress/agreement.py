"""Lets all workers of a group stop at the same step. Workers exchange numbers in tensors, never
objects.

``torch.distributed.broadcast_object_list`` and Horovod's ``broadcast_object`` unpickle what
arrives: a process that had taken a worker's place in the group would run code in all others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType

from bftrainer.progress.reporter import CONTROL_EVERY_S, Reporter

_SHORTEST_CALL_S = 1e-6
_MAX_CALLS = int(CONTROL_EVERY_S / _SHORTEST_CALL_S)
"""The largest number of calls from one broadcast to the next."""


def numbers_from_rank_0(numbers: Sequence[int], size: int) -> list[int]:
    """Return rank 0's integers on each of ``size`` workers, over ``torch.distributed``.

    All workers must pass equally many. A worker that is alone keeps its own.
    """
    if size == 1:
        return list(numbers)
    import torch
    import torch.distributed as dist

    tensor = torch.tensor(numbers, dtype=torch.int64, device=_device_of_group())
    dist.broadcast(tensor, src=0)
    return [int(number) for number in tensor.tolist()]


def _device_of_group() -> str:
    """Return a device whose tensors the default group can send: the CPU if the group can send its
    tensors, else this process's current GPU.
    """
    import torch
    import torch.distributed as dist

    group = dist.distributed_c10d._get_default_group()
    kinds = [device.type for device in getattr(group, "_device_types", ())]
    if not kinds:  # torch 2.0
        kinds = ["cuda"] if dist.get_backend() == "nccl" else ["cpu"]
    if "cpu" in kinds:
        return "cpu"
    return f"{kinds[0]}:{getattr(torch, kinds[0]).current_device()}"


class Agreement:
    """Lets all workers stop at the same step: all call :meth:`to_stop` after each step.

    A broadcast at each step would cost too much: rank 0 chooses how many steps later the next
    broadcast is, so that there is one about every 0.2 s.

    Args:
        reporter: Reads the stop requests.
        broadcast: Returns rank 0's integers on every worker.
    """

    def __init__(
        self, reporter: Reporter, broadcast: Callable[[Sequence[int]], Sequence[int]]
    ) -> None:
        self.reporter = reporter
        self.broadcast = broadcast
        self.begin()

    @classmethod
    def of_torch(cls, reporter: Reporter, distributed: ModuleType) -> Agreement:
        """Make an agreement over ``torch.distributed``, with its process group initialized."""
        return cls(
            reporter, lambda numbers: numbers_from_rank_0(numbers, distributed.get_world_size())
        )

    def begin(self) -> None:
        """Begin with a new group: the next call of :meth:`to_stop` broadcasts."""
        self._n_calls = 1  # from the latest broadcast to the next
        self._calls_left = 1  # until the next broadcast
        self._broadcast_at_s = self.reporter.clock()

    def to_stop(self) -> bool:
        """Whether all workers are to save a checkpoint and leave now; the same answer on all of
        them. Every worker must call this equally often: some calls broadcast.
        """
        return self.to_stop_or_save(False)[0]

    def to_stop_after_save(self) -> bool:
        """Whether all workers are to leave now, right after a checkpoint for which they waited. A
        stop that was requested meanwhile needs no second one, which may not fit into the time that
        a main job waits. Every worker must call this equally often: it broadcasts.
        """
        (stop,) = self.broadcast((int(self.reporter.stop_requested(at_once=True)),))
        return bool(stop)

    def to_stop_or_save(self, is_save_due: bool) -> tuple[bool, bool]:
        """As :meth:`to_stop`; and whether rank 0 is to save a checkpoint now and go on, because one
        is due by its clock.
        """
        self._calls_left -= 1
        if self._calls_left:
            return False, False
        now_s = self.reporter.clock()
        per_call_s = max(_SHORTEST_CALL_S, (now_s - self._broadcast_at_s) / self._n_calls)
        self._broadcast_at_s = now_s
        # Rank 0's values count: workers measure different times.
        n_calls = int(CONTROL_EVERY_S / per_call_s)
        is_requested = self.reporter.stop_requested()
        stop, n_calls, saves = self.broadcast((int(is_requested), n_calls, int(is_save_due)))
        self._n_calls = min(max(1, n_calls), _MAX_CALLS)
        self._calls_left = self._n_calls
        return bool(stop), bool(saves) and not stop
