"""Batch per worker and learning rate at each number of workers (BFTrainer 4.2). Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

from bftrainer.errors import InvalidValueError


class Scaling(Enum):
    """How the global batch follows the number of workers."""

    WEAK = "weak"
    """Every worker keeps its batch: the global batch grows with the number of workers."""
    STRONG = "strong"
    """The global batch stays: the batch of each worker shrinks as the number of workers grows."""


@dataclass(frozen=True, slots=True)
class Batches:
    """Batch sizes of the workers, which add up to the global batch at every world size.

    ``global_batch`` is in samples: with strong scaling of all workers together, with weak scaling of one worker.
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
        """Samples per step of one worker. Workers differ by at most one sample; lower ranks have more."""
        if not 0 <= rank < world_size:
            raise InvalidValueError(f"rank {rank} is outside a world of {world_size} workers")
        share, rest = divmod(self.total(world_size), world_size)
        if share == 0:
            raise InvalidValueError(
                f"a global batch of {self.global_batch} cannot be divided among {world_size} workers"
            )
        return share + (rank < rest)

    def weight(self, rank: int, world_size: int) -> float:
        """The factor by which to multiply the worker's mean loss before ``backward``; 1 where all batches are equal.

        Frameworks average gradients over workers as if their batches were equal. With this weight the result is the average
        over samples.
        """
        return self.of(rank, world_size) * world_size / self.total(world_size)


class LearningRateRule(Enum):
    """How the learning rate follows the global batch."""

    LINEAR = "linear"
    """lr ~ batch (Goyal et al., 2017)."""
    SQUARE_ROOT = "sqrt"
    """lr ~ sqrt(batch) (Krizhevsky, 2014; usual for Adam and LAMB)."""


@dataclass(frozen=True, slots=True)
class LearningRate:
    """A learning rate that follows the global batch; it rises to a new value in ``warmup_steps`` equal steps.

    ``base`` is the rate for a global batch of ``base_batch``. Immutable: :meth:`rescaled` returns the next one.
    """

    base: float
    base_batch: int
    rule: LearningRateRule = LearningRateRule.LINEAR
    warmup_steps: int = 0
    target: float = math.nan
    start: float = math.nan
    since_step: int = 0

    def __post_init__(self) -> None:
        if not (self.base > 0 and self.base_batch >= 1 and self.warmup_steps >= 0):
            raise InvalidValueError("base must be positive, base_batch at least 1, warmup_steps at least 0")

    def scaled(self, batch: int) -> float:
        """The rate for a global batch after the warm-up."""
        ratio = batch / self.base_batch
        return self.base * (ratio if self.rule is LearningRateRule.LINEAR else math.sqrt(ratio))

    def rescaled(self, batch: int, step: int) -> LearningRate:
        """The learning rate if the global batch is ``batch`` from ``step`` on. The warm-up starts at the rate of that step."""
        start = self.base if math.isnan(self.target) else self.at(step)
        return LearningRate(
            self.base, self.base_batch, self.rule, self.warmup_steps, self.scaled(batch), start, since_step=step
        )

    def at(self, step: int) -> float:
        """The rate at a step. A lower rate takes effect at once: too high a rate diverges, too low a rate only costs time."""
        if math.isnan(self.target):
            return self.base
        passed = step - self.since_step
        if passed >= self.warmup_steps or self.target <= self.start:
            return self.target
        return self.start + (self.target - self.start) * max(0, passed) / self.warmup_steps
