"""Batch per worker and learning rate at each number of workers (BFTrainer 4.2). No I/O."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

from bftrainer.errors import InvalidValueError


class Scaling(Enum):
    """How the global batch follows the number of workers."""

    WEAK = "weak"
    """Every worker keeps its batch: the global batch grows with the number of workers."""
    STRONG = "strong"
    """The global batch stays: the batch of each worker shrinks as the number of workers grows."""


@dataclass(frozen=True)
class Batches:
    """Batch sizes of the workers, which add up to the global batch at every world size.

    ``global_batch`` is in samples: with strong scaling of all workers together, with weak scaling
    of one worker.
    """

    scaling: Scaling
    global_batch: int

    def __post_init__(self) -> None:
        if self.global_batch < 1:
            raise InvalidValueError(f"global_batch must be at least 1, not {self.global_batch}")

    def total(self, world_size: int) -> int:
        """Samples per step over all workers."""
        if world_size < 1:
            raise InvalidValueError(f"world size must be at least 1, not {world_size}")
        return self.global_batch * world_size if self.scaling is Scaling.WEAK else self.global_batch

    def of(self, rank: int, world_size: int) -> int:
        """Samples per step of one worker. Workers differ by at most one sample; lower ranks have
        more.
        """
        begin, end = self.share(rank, world_size)
        return end - begin

    def share(self, rank: int, world_size: int) -> tuple[int, int]:
        """The part of the global batch that is one worker's: first sample, and the one after its
        last.
        """
        if not 0 <= rank < world_size:
            raise InvalidValueError(f"rank {rank} is outside a world of {world_size} workers")
        least, rest = divmod(self.total(world_size), world_size)
        if least == 0:
            raise InvalidValueError(
                f"a global batch of {self.global_batch} cannot be divided among {world_size} "
                "workers"
            )
        begin = least * rank + min(rank, rest)
        return begin, begin + least + (rank < rest)

    def weight(self, rank: int, world_size: int) -> float:
        """The factor by which to multiply the worker's mean loss before ``backward``; 1 where all
        batches are equal.

        Frameworks average gradients over workers as if their batches were equal. With this weight
        the result is the average over samples.
        """
        return self.of(rank, world_size) * world_size / self.total(world_size)


class LearningRateRule(Enum):
    """How the learning rate follows the global batch."""

    LINEAR = "linear"
    """lr ~ batch (Goyal et al., 2017)."""
    SQUARE_ROOT = "sqrt"
    """lr ~ sqrt(batch) (Krizhevsky, 2014; usual for Adam and LAMB)."""


class LearningRate:
    """A learning rate that follows the global batch; it rises to a new value in ``warmup_steps``
    equal steps.

    The rate depends on the global batch, the step, and the arguments of the latest call of
    :meth:`at` with another batch. This memory must be the same on every worker, and in the
    checkpoint: pass the object to ``progress.track(keep=...)``, or save its :meth:`state_dict`.

    Args:
        base: Rate for a global batch of ``base_batch``.
        base_batch: Samples per step of all workers.
        rule: How the rate follows the global batch.
        warmup_steps: Steps in which the rate rises to a new value.
    """

    def __init__(
        self,
        base: float,
        base_batch: int,
        rule: LearningRateRule = LearningRateRule.LINEAR,
        warmup_steps: int = 0,
    ) -> None:
        if not (base > 0 and base_batch >= 1 and warmup_steps >= 0):
            raise InvalidValueError(
                "base must be positive, base_batch at least 1, warmup_steps at least 0"
            )
        self.base = base
        self.base_batch = base_batch
        self.rule = rule
        self.warmup_steps = warmup_steps
        self._memory = RateMemory(None, base, 0)
        self.latest: float | None = None
        """The last rate that :meth:`at` returned."""

    def scaled(self, batch: int) -> float:
        """The rate for a global batch after the warm-up."""
        ratio = batch / self.base_batch
        return self.base * (ratio if self.rule is LearningRateRule.LINEAR else math.sqrt(ratio))

    def at(self, batch: int, step: int) -> float:
        """The rate of a step with this global batch. A new batch starts a warm-up from the rate of
        that step.

        A lower rate takes effect at once: too high a rate diverges, too low a rate only costs time.
        Training that starts with a batch above ``base_batch`` warms up from ``base``.
        """
        if batch < 1:
            raise InvalidValueError(f"the global batch must be at least 1, not {batch}")
        if batch != self._memory.batch:
            self._memory = RateMemory(batch, self._in_force(step), step)
        self.latest = self._in_force(step)
        return self.latest

    def apply(self, optimizer: Any, batch: int, step: int) -> float:
        """Set the rate of all parameter groups of a torch optimizer; call it before each
        ``optimizer.step()``.

        ``optimizer.load_state_dict`` restores the rate of another size; this call replaces it.
        """
        rate = self.at(batch, step)
        for group in optimizer.param_groups:
            group["lr"] = rate
        return rate

    def state_dict(self) -> dict[str, Any]:
        """The memory as plain values, for a checkpoint."""
        return {
            "batch": self._memory.batch,
            "start": self._memory.start,
            "since_step": self._memory.since_step,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the memory of a checkpoint."""
        try:
            batch = None if state["batch"] is None else int(state["batch"])
            self._memory = RateMemory(batch, float(state["start"]), int(state["since_step"]))
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidValueError(
                f"not the state of a LearningRate: {state!r} ({error!r})"
            ) from None

    def _in_force(self, step: int) -> float:
        """Return the learning rate at a step: that of the batch, or one on the way up to it."""
        batch, start, since_step = self._memory
        if batch is None:
            return start
        target, passed = self.scaled(batch), step - since_step
        if passed >= self.warmup_steps or target <= start:
            return target
        return start + (target - start) * max(0, passed) / self.warmup_steps


class RateMemory(NamedTuple):
    """The global batch that was last seen, and the rate and step at which it was new. No batch:
    nothing was seen.
    """

    batch: int | None
    start: float
    since_step: int
