"""What a change of size means for the training itself: batches per worker and the learning rate (paper 4.2). Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

from bftrainer.errors import InvalidValueError


class Scaling(Enum):
    """How the global batch follows the number of workers."""

    WEAK = "weak"
    """Every worker keeps its batch: the global batch grows with the size."""
    STRONG = "strong"
    """The global batch stays: every worker's share shrinks as the size grows."""


@dataclass(frozen=True, slots=True)
class Batches:
    """Batch sizes per worker whose sum is the global batch at every size.

    ``global_batch`` is in samples: strong, of all workers together; weak, of one worker.
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
        """Samples per step of one worker; two workers differ by at most one, the lower ranks have more."""
        if not 0 <= rank < world_size:
            raise InvalidValueError(f"rank {rank} is not in a world of {world_size}")
        share, rest = divmod(self.total(world_size), world_size)
        if share == 0:
            raise InvalidValueError(f"a global batch of {self.global_batch} cannot be shared by {world_size} workers")
        return share + (rank < rest)

    def weight(self, rank: int, world_size: int) -> float:
        """Multiply the worker's mean loss by this before ``backward``.

        Frameworks average gradients over workers as if all batches were equal; so weighted, the average is that over
        samples. 1 where the batches are equal.
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
    """A learning rate that follows the batch, reaching its new value in ``warmup_steps`` equal strides.

    ``base`` is right for a global batch of ``base_batch``. Immutable: :meth:`rescaled` returns the next one.
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
        """The rate for a global batch, warm-up over."""
        ratio = batch / self.base_batch
        return self.base * (ratio if self.rule is LearningRateRule.LINEAR else math.sqrt(ratio))

    def rescaled(self, batch: int, step: int) -> LearningRate:
        """From ``step`` on the global batch is ``batch``. The warm-up begins at the rate of that moment."""
        start = self.base if math.isnan(self.target) else self.at(step)
        return LearningRate(
            self.base, self.base_batch, self.rule, self.warmup_steps, self.scaled(batch), start, since_step=step
        )

    def at(self, step: int) -> float:
        """The rate of one step. Falling rates take effect at once: too high a rate diverges, too low one only waits."""
        if math.isnan(self.target):
            return self.base
        passed = step - self.since_step
        if passed >= self.warmup_steps or self.target <= self.start:
            return self.target
        return self.start + (self.target - self.start) * max(0, passed) / self.warmup_steps
