"""The batches of a worker's virtual ranks, and samples whose random numbers follow the sample."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bftrainer.errors import InvalidValueError
from bftrainer.progress.randomness import seed_step
from bftrainer.progress.sampler import Sampler
from bftrainer.progress.virtual_rank_tree import virtual_ranks_of
from bftrainer.scaling import Batches


class StepBatches(tuple):  # type: ignore[type-arg]  # of batches of any type
    """The batches of a worker's virtual ranks in one step."""

    __slots__ = ()


class VirtualSampler(Sampler):
    """A :class:`Sampler` whose batches are those of this worker's virtual ranks, in turn.

    It yields (epoch, index) for each sample, for :class:`SeededSamples`.

    Args:
        data: The data set.
        batches: The global batch, the same at every number of workers.
        rank: This worker's rank.
        world_size: Number of workers.
        virtual_ranks: Number of virtual ranks.
        options: The options of ``Sampler``.
    """

    def __init__(
        self,
        data: Any,
        batches: Batches,
        rank: int,
        world_size: int,
        virtual_ranks: int,
        **options: Any,
    ) -> None:
        if batches.global_batch < virtual_ranks:
            raise InvalidValueError(
                f"a global batch of {batches.global_batch} cannot be divided among {virtual_ranks} "
                "virtual ranks"
            )
        self._count = virtual_ranks
        super().__init__(data, batches, rank, world_size, **options)

    def shard(self, rank: int, world_size: int) -> None:
        """Take the shares of this worker's virtual ranks from the next iteration on."""
        own = virtual_ranks_of(self._count, rank, world_size)
        self._shares = [self.batches.share(virtual_rank, self._count) for virtual_rank in own]
        self._share = self._shares[0][0], self._shares[-1][1]
        self._total = self.batches.total(world_size)

    def _batches(self, at: int, share: tuple[int, int], total: int) -> Iterator[Any]:
        """Yield the batches of the virtual ranks here, from sample ``at`` to the epoch's end."""
        began, end = at, (at // self.size + 1) * self.size
        while at < end:
            for first, stop in self._shares:
                places = range(at + first, at + stop)
                yield [(place // self.size, self._index(place)) for place in places]
            at += total
        self._ended_from = began


class SeededSamples:
    """A data set whose samples are augmented by random numbers of (seed, epoch, index), whichever
    process reads them.

    Args:
        data: The data set.
        seed: The training's seed.
    """

    def __init__(self, data: Any, seed: int) -> None:
        self._data, self._seed = data, seed

    def __len__(self) -> int:
        return len(self._data)

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the data set, for a ``worker_init_fn``."""
        if name.startswith("_"):
            raise AttributeError(name)  # also of an object that is being unpickled
        return getattr(self._data, name)

    def __getitem__(self, place: tuple[int, int]) -> Any:
        epoch, index = place
        seed_step(self._seed, epoch, index, "sample")
        return self._data[index]
