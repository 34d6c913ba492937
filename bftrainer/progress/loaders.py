"""A script's own ``DataLoader`` in parts, for one that reads the same data in the order of
``progress.Sampler``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from bftrainer.errors import InvalidValueError

_LOADER_OPTIONS = (
    "num_workers",
    "collate_fn",
    "pin_memory",
    "timeout",
    "worker_init_fn",
    "prefetch_factor",
    "persistent_workers",
)


class LoaderParts(NamedTuple):
    """What is needed to make a ``DataLoader`` with another sampler.

    ``batch`` is the number of samples per batch, ``options`` are the arguments of ``DataLoader``
    but for sampler and batch, and ``shuffle`` is whether epochs are shuffled.
    """

    data: Any
    batch: int
    options: dict[str, Any]
    shuffle: bool


def parts(data: Any, batch: int | None, options: Mapping[str, object] | None) -> LoaderParts:
    """Return the parts of a ``DataLoader``, or of a data set whose ``batch`` is given.

    ``batch`` is the number of samples per batch, ``options`` are arguments of ``DataLoader``; both
    override those of the loader. A data set is shuffled. Raises
    :class:`~bftrainer.errors.InvalidValueError` for data without a length, and if no batch size is
    known.
    """
    loader_options = dict(options or {})
    shuffle = True
    if hasattr(data, "batch_sampler") and hasattr(data, "dataset"):
        batch = batch or data.batch_size or getattr(data.batch_sampler, "batch_size", None)
        of_loader = {name: getattr(data, name) for name in _LOADER_OPTIONS if hasattr(data, name)}
        loader_options = of_loader | loader_options
        sampler = getattr(data, "sampler", None)
        is_sequential = type(sampler).__name__ == "SequentialSampler"
        # DistributedSampler has an attribute ``shuffle``.
        shuffle = not is_sequential and getattr(sampler, "shuffle", True)
        data = data.dataset
    if not hasattr(data, "__len__"):
        raise InvalidValueError(
            f"{type(data).__name__} has no length: expected a data set whose samples have an index"
        )
    if batch is None:
        raise InvalidValueError(
            "the batch size is missing: expected batch=N, or a DataLoader that has one"
        )
    return LoaderParts(data, batch, loader_options, shuffle)
