"""Whether a data set is the same on all ranks and at every start: an unseeded split is another one
each time, and then the samples of the validation set are trained on.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import random
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any

from bftrainer.errors import InvalidValueError
from bftrainer.progress.randomness import seed_step
from bftrainer.wires.data_summary import DataSummary, parse_summary

_VALUES = 4096
"""Values of one part of a sample that are read, evenly spaced."""
_PARTS = 64
"""Parts of one sample that are read, such as an image and a label."""
_LONGEST_READ_S = 2.0
_LONGEST_START_S = 10
_REREADS = 16
"""Further reads of each sample before a data set is refused: samples may be random by a generator
of the data set's own, and equal twice by chance.
"""
_LONGEST_REREAD_S = 10.0
_REMEDY = (
    "split and shuffle with a fixed seed, such as "
    "random_split(data, sizes, torch.Generator().manual_seed(0)); "
    "compare_data=False accepts data that change on purpose"
)
_Summed = tuple[float, float]


def summary_of(data: Any, workers: int | None = None) -> DataSummary:
    """Return the summary of a data set, which costs six reads of samples.

    Args:
        data: The data set; it has a length.
        workers: Processes of the ``DataLoader`` that read it. A data set may open its files at the
            first read, which no process must have done before it forks workers: then a worker reads
            the samples. None: it is not known who reads, and only a list, a tuple, an array, a
            tensor or a ``TensorDataset`` is read.
    """
    return DataSummary(len(data), _subset_digest(data), _sample_sums(data, workers))


def check_ranks(
    summary: DataSummary,
    rank: int,
    broadcast: Callable[[Sequence[int]], Sequence[int]],
    are_fixed: Callable[[], bool] = lambda: True,
) -> None:
    """Compare the data set of this rank with rank 0's. All ranks call it.

    Args:
        summary: The summary of this rank's data set.
        rank: This rank.
        broadcast: Returns rank 0's integers on every rank.
        are_fixed: Returns whether the samples stay the same when they are read again; called only
            where samples differ.

    Raises:
        InvalidValueError: They differ.
    """
    of_rank_0 = DataSummary.of_numbers(broadcast(summary.numbers()))
    difference = _lasting_difference(of_rank_0, summary, are_fixed)
    if difference is not None:
        raise InvalidValueError(
            f"rank {rank} has another data set than rank 0 ({difference}): {_REMEDY}"
        )


def check_start(
    summary: DataSummary,
    saved: object,
    checkpoint: object,
    are_fixed: Callable[[], bool] = lambda: True,
) -> DataSummary:
    """Compare the data set with the one whose summary is in a checkpoint; returns the summary that
    later checkpoints have.

    That has no samples where they were random at this start or at an earlier one. A checkpoint
    without a summary is not compared. ``are_fixed`` as for :func:`check_ranks`.

    Raises:
        InvalidValueError: They differ.
    """
    earlier = parse_summary(saved)
    if earlier is None:
        return summary
    difference = _lasting_difference(earlier, summary, are_fixed)
    if difference is not None:
        raise InvalidValueError(
            f"the data set is not the one of the checkpoint {checkpoint} ({difference}): {_REMEDY}"
        )
    are_random = earlier.samples is None or earlier.difference(summary) is not None
    return summary._replace(samples=None) if are_random else summary


def samples_are_fixed(data: Any, summary: DataSummary, workers: int | None) -> bool:
    """Return whether the samples of a summary are the same when they are read many times more.

    Costs at most 48 reads, and stops after 10 s or at the first other value. ``data`` and
    ``workers`` are those of :func:`summary_of`.
    """
    began_s = time.monotonic()
    for _ in range(_REREADS):
        again = DataSummary(summary.length, summary.split, _sample_sums(data, workers))
        if again.samples is None or again.difference(summary) is not None:
            return False
        if time.monotonic() - began_s > _LONGEST_REREAD_S:
            break
    return True


def _lasting_difference(
    expected: DataSummary, summary: DataSummary, are_fixed: Callable[[], bool]
) -> str | None:
    """Return how a data set differs; None where only samples differ that are random."""
    difference = expected.difference(summary)
    if difference is None or expected._replace(samples=None).difference(summary) is not None:
        return difference
    return difference if are_fixed() else None


def _subset_digest(data: Any) -> int | None:
    """Return a digest of the indices of a ``torch.utils.data.Subset``; None for other data, whose
    ``indices`` may be anything.
    """
    indices = getattr(data, "indices", None)
    if indices is None or not hasattr(data, "dataset"):
        return None
    digest = hashlib.blake2b(digest_size=6)
    try:
        every = max(1, len(indices) // _VALUES)
        for place in range(0, len(indices), every):
            digest.update(f"{int(indices[place])} ".encode())
    except Exception:  # a class of the script: names, pairs or a dict, for example
        return None
    return int.from_bytes(digest.digest(), "big")


def _sample_sums(data: Any, workers: int | None) -> tuple[_Summed, ...] | None:
    """Return the sums of the first, the middle and the last sample; None where they cannot be read,
    take too long, or are not the same when they are read again.
    """
    is_plain = isinstance(data, (list, tuple)) or hasattr(data, "shape") or hasattr(data, "tensors")
    if workers is None and not is_plain:
        return None
    last = len(data) - 1
    places = [0, last // 2, last]
    try:
        with _kept_random_numbers():
            if workers:
                first, again = _read_by_worker(data, places)
            else:
                first, again = _read_twice(data, places)
    except Exception:  # reading is the script's business: the loop will say what is wrong
        return None
    same = DataSummary(last, None, first).difference(DataSummary(last, None, again)) is None
    return first if same else None


def _read_twice(data: Any, places: list[int]) -> tuple[tuple[_Summed, ...], tuple[_Summed, ...]]:
    """Read the samples twice. Raises ``TimeoutError`` if the first one takes too long."""
    began_s = time.monotonic()
    seeded = SeededSums(data)
    first = [seeded[places[0]]]
    if time.monotonic() - began_s > _LONGEST_READ_S:
        raise TimeoutError("a sample takes too long to be read")
    first += [seeded[place] for place in places[1:]]
    return tuple(first), tuple([seeded[place] for place in places])


def _read_by_worker(
    data: Any, places: list[int]
) -> tuple[tuple[_Summed, ...], tuple[_Summed, ...]]:
    """Read the samples twice in a worker of a ``DataLoader``, which is forked and ends."""
    import torch

    if multiprocessing.get_start_method(allow_none=True) not in (None, "fork"):
        raise RuntimeError("a worker that is not forked starts too slowly")
    loader = torch.utils.data.DataLoader(
        SeededSums(data),
        batch_size=None,
        sampler=places + places,
        num_workers=1,
        timeout=_LONGEST_START_S,
        collate_fn=tuple,
    )
    sums: list[_Summed] = []
    read_s = 0.0
    for absolute, signed in loader:
        if sums and time.monotonic() - read_s > _LONGEST_READ_S:
            raise TimeoutError("a sample takes too long to be read")
        sums.append((float(absolute), float(signed)))
        read_s = time.monotonic()
    return tuple(sums[: len(places)]), tuple(sums[len(places) :])


class SeededSums:
    """A data set of the sums of another one's samples, each read with the same random numbers."""

    def __init__(self, data: Any) -> None:
        self._data = data

    def __len__(self) -> int:
        return len(self._data)

    def __getitem__(self, place: int) -> _Summed:
        seed_step(0, place, 0, "data set")
        return _sum_of_sample(self._data[place])


def _sum_of_sample(sample: object) -> _Summed:
    """Return the sum of the absolute values of a sample, and the sum of its values with signs."""
    signs = random.Random(0)
    absolute = signed = 0.0
    for values in islice(_numbers_of_sample(sample), _PARTS):
        for value in values:
            absolute += abs(value)
            signed += value if signs.getrandbits(1) else -value
    return absolute, signed


def _numbers_of_sample(value: Any) -> Iterator[list[float]]:
    """Yield the values of the parts of a sample: of tensors, arrays, images, text and numbers."""
    if hasattr(value, "detach"):
        flat = value.detach().reshape(-1)
        yield flat[:: max(1, flat.numel() // _VALUES)][:_VALUES].double().tolist()
    elif isinstance(value, (str, bytes)):
        data = value.encode(errors="replace") if isinstance(value, str) else value
        yield [float(number) for number in data[:: max(1, len(data) // _VALUES)][:_VALUES]]
    elif isinstance(value, (bool, int, float)):
        yield [float(value)]
    elif isinstance(value, Mapping):
        for key in value:
            yield from _numbers_of_sample(value[key])
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from _numbers_of_sample(part)
    elif hasattr(value, "tobytes") and hasattr(value, "reshape"):
        flat = value.reshape(-1)
        yield [float(number) for number in flat[:: max(1, len(flat) // _VALUES)][:_VALUES]]
    elif hasattr(value, "tobytes"):
        yield from _numbers_of_sample(value.tobytes())
    elif isinstance(getattr(value, "__dict__", None), dict):
        yield from _numbers_of_sample(vars(value))


@contextmanager
def _kept_random_numbers() -> Iterator[None]:
    """Restore the states of the random number generators at the end."""
    python, numpy, torch = random.getstate(), sys.modules.get("numpy"), sys.modules.get("torch")
    numpy_state = None if numpy is None else numpy.random.get_state()
    torch_state = None if torch is None else torch.get_rng_state()
    cuda = (
        None if torch is None or not torch.cuda.is_initialized() else torch.cuda.get_rng_state_all()
    )
    try:
        yield
    finally:
        random.setstate(python)
        if numpy is not None:
            numpy.random.set_state(numpy_state)
        if torch is not None:
            torch.set_rng_state(torch_state)
        if torch is not None and cuda is not None:
            torch.cuda.set_rng_state_all(cuda)
