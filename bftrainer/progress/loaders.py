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

_CHOOSING = ("WeightedRandomSampler", "SubsetRandomSampler")
_PACKAGES = ("torch", "accelerate", "bftrainer", "builtins")
"""Packages whose other samplers take each sample once an epoch; a loader without a sampler has
None.
"""


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
    :class:`~bftrainer.errors.InvalidValueError` for data without a length, for a loader whose
    sampler chooses samples, and if no batch size is known.
    """
    loader_options = dict(options or {})
    shuffle = True
    if hasattr(data, "batch_sampler") and hasattr(data, "dataset"):
        batch = batch or data.batch_size or getattr(data.batch_sampler, "batch_size", None)
        of_loader = {name: getattr(data, name) for name in _LOADER_OPTIONS if hasattr(data, name)}
        loader_options = of_loader | loader_options
        sampler = _sampler_of(data)
        _check_order(sampler, getattr(data, "batch_sampler", None))
        is_sequential = type(sampler).__name__ == "SequentialSampler"
        # DistributedSampler has an attribute ``shuffle``.
        shuffle = not is_sequential and getattr(sampler, "shuffle", True)
        data = data.dataset
    if not hasattr(data, "__len__") or _is_iterable_only(data):
        raise InvalidValueError(
            f"{type(data).__name__} has no length, or is an IterableDataset: expected a data set "
            "whose samples have an index"
        )
    if batch is None:
        raise InvalidValueError(
            "the batch size is missing: expected batch=N, or a DataLoader that has one"
        )
    return LoaderParts(data, batch, loader_options, shuffle)


def _is_iterable_only(data: Any) -> bool:
    """Return whether the samples have no index, even if there is a length."""
    from torch.utils.data import IterableDataset

    return isinstance(data, IterableDataset)


def _sampler_of(loader: Any) -> Any:
    """Return the sampler that gives the order: of a loader with a ``batch_sampler``, such as one
    that Accelerate has prepared, that one's, because the loader's own is a SequentialSampler.
    """
    batch_sampler = getattr(loader, "batch_sampler", None)
    batch_sampler = getattr(batch_sampler, "batch_sampler", batch_sampler)  # Accelerate's shard
    sampler = getattr(batch_sampler, "sampler", None)
    return getattr(loader, "sampler", None) if sampler is None else sampler


def _check_order(*samplers: Any) -> None:
    """Raise InvalidValueError if one of a loader's samplers does not take each sample once an
    epoch: it would be replaced without a word.
    """
    for sampler in samplers:
        kind = type(sampler)
        package = kind.__module__.partition(".")[0]
        chooses = kind.__name__ in _CHOOSING or package not in _PACKAGES
        is_random = kind.__name__ == "RandomSampler" and package == "torch"
        if is_random and (sampler.replacement or sampler.num_samples < len(sampler.data_source)):
            chooses = True
        if chooses:
            raise InvalidValueError(
                f"the loader's {kind.__name__} chooses samples, but here each sample of the data "
                "set is used once an epoch: pass the data set with batch=N in place of the loader, "
                "with torch.utils.data.Subset(data, indices) for a part of it"
            )
