"""The order of the data: each sample of an epoch once, whatever sizes, restarts and losses an epoch
sees.

The samples form one endless sequence: epoch 0 in its order, then epoch 1 in its order, and so on. A
step takes the next global batch of that sequence, and each worker its share of it. So the position,
one number, says all: it is the number of samples that all workers have processed, and belongs in
the checkpoint beside the weights. ``DataLoader`` workers read ahead of the position without
changing it.
"""

from __future__ import annotations

import random
from array import array
from collections.abc import Iterator, Mapping, Sequence, Sized

from bftrainer.errors import InvalidValueError
from bftrainer.scaling import Batches
from bftrainer.wires.data_summary import DataSummary

_KEPT_ORDERS = 2
"""A batch may contain the last samples of one epoch and the first of the next."""


class Sampler:
    """A ``batch_sampler`` for ``torch.utils.data.DataLoader``: the indices of this worker's share
    of each global batch.

    Call :meth:`advance` after each step. The batch at the end of an epoch is filled with the first
    samples of the next epoch, so that no worker ever has an empty batch; the next epoch continues
    after them.

    ::

        sampler = progress.Sampler(data, batches, rank, world_size)
        loader = DataLoader(data, batch_sampler=sampler, num_workers=4)
        while sampler.epoch < epochs:
            for inputs, targets in loader:
                ...
                optimizer.step()
                sampler.advance()

    Args:
        data: The data set, or its length.
        batches: Batch sizes at every number of workers.
        rank: This worker's rank.
        world_size: Number of workers.
        seed: Seed of the order, the same on all workers.
        shuffle: Whether each epoch has an order of its own.
        compare_data: Whether a checkpoint of another number of samples is refused. If not, the
            present epoch continues at the same share of the samples.
    """

    def __init__(
        self,
        data: Sized | int,
        batches: Batches,
        rank: int = 0,
        world_size: int = 1,
        *,
        seed: int = 0,
        shuffle: bool = True,
        compare_data: bool = True,
    ) -> None:
        self.size = data if isinstance(data, int) else len(data)
        if self.size < 1:
            raise InvalidValueError("the data set is empty")
        self.batches = batches
        self.seed = seed
        self.shuffle = shuffle
        self._compares_data = compare_data
        self.samples = 0
        """Samples that all workers have processed since training began."""
        self._steps = 0  # steps of this epoch
        self._ended_from: int | None = None
        self._orders: dict[int, Sequence[int]] = {}
        self.latest: tuple[int, tuple[int, int], int] | None = None
        self.data = None if isinstance(data, int) else data
        self.summary: DataSummary | None = None
        """What identifies the data set, where a framework class has read it."""
        self.shard(rank, world_size)

    @property
    def epoch(self) -> int:
        """The epoch of the next sample."""
        return self.samples // self.size

    def shard(self, rank: int, world_size: int) -> None:
        """Take this rank's share from the next iteration on. ``progress.track`` calls it at each
        change of the group.
        """
        self._share = self.batches.share(rank, world_size)
        self._total = self.batches.total(world_size)

    def advance(self) -> None:
        """Count one step of all workers. The samples of a step that was not counted come again."""
        before = self.epoch
        self.latest = (self.samples, self._share, self._total)
        self.samples += self._total
        self._steps = self._steps + 1 if self.epoch == before else 0

    @property
    def steps_in_epoch(self) -> int:
        """The counted steps of the present epoch."""
        return self._steps

    def end_epoch(self) -> None:
        """Continue with the first sample of the next epoch; those that are left are not used."""
        self.samples = (self.epoch + 1) * self.size
        self._steps = 0

    def set_epoch(self, epoch: int) -> None:
        """Do nothing: the position says the epoch. Scripts call it on samplers of torch."""

    def __iter__(self) -> Iterator[list[int]]:
        """Yield this worker's batches from the present position to the end of the epoch."""
        if self._ended_from == self.samples:
            raise InvalidValueError(
                "the last pass over the data was not counted: call sampler.advance() after "
                "each step"
            )
        return self._batches(self.samples, self._share, self._total)

    def __len__(self) -> int:
        """The steps of the present epoch: those made, and those that are left at the present
        size.
        """
        left = (self.epoch + 1) * self.size - self.samples
        return self._steps + -(-left // self._total)

    def latest_indices(self) -> list[tuple[int, int]]:
        """Return (epoch, index) of each sample of this worker in the last counted step; empty
        before the first.
        """
        if self.latest is None:
            return []
        at, (begin, end), _ = self.latest
        return [(place // self.size, self._index(place)) for place in range(at + begin, at + end)]

    def state_dict(self) -> dict[str, int]:
        """The position as plain values, for a checkpoint."""
        return {"samples": self.samples, "steps": self._steps, "size": self.size, "seed": self.seed}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """Continue at the position of a checkpoint, at any number of workers.

        Raises:
            InvalidValueError: The state is that of another seed, or of another number of samples
                and ``compare_data`` is true.
        """
        try:
            samples, steps, size, seed = (
                int(state[key]) for key in ("samples", "steps", "size", "seed")
            )
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidValueError(
                f"not the state of a progress.Sampler: {state!r} ({error!r})"
            ) from None
        if size != self.size and seed == self.seed and size > 0 and not self._compares_data:
            epoch, place = divmod(samples, size)
            samples, size = epoch * self.size + place * self.size // size, self.size
        if (size, seed) != (self.size, self.seed):
            raise InvalidValueError(
                f"the checkpoint is of {size} samples in the order of seed {seed}; here are "
                f"{self.size} samples and seed "
                f"{self.seed}: continue with the same data and seed, start without this sampler's "
                "state, or pass compare_data=False to accept another number of samples"
            )
        self.samples, self._steps, self._ended_from, self.latest = samples, steps, None, None

    def _batches(self, at: int, share: tuple[int, int], total: int) -> Iterator[list[int]]:
        began, end = at, (at // self.size + 1) * self.size
        while at < end:
            yield [self._index(place) for place in range(at + share[0], at + share[1])]
            at += total
        self._ended_from = began

    def _index(self, place: int) -> int:
        epoch, number = divmod(place, self.size)
        return self._order(epoch)[number]

    def _order(self, epoch: int) -> Sequence[int]:
        """Return the order of an epoch, which is a function of seed and epoch alone."""
        if not self.shuffle:
            return range(self.size)
        if epoch not in self._orders:
            order = array("q", range(self.size))  # a list would take five times the memory
            random.Random(f"{self.seed} {epoch}").shuffle(order)
            self._orders = {key: kept for key, kept in self._orders.items() if key >= epoch - 1}
            while len(self._orders) >= _KEPT_ORDERS:
                self._orders.pop(max(self._orders))
            self._orders[epoch] = order
        return self._orders[epoch]
