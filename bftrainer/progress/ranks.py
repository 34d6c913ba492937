"""Reports of every rank: a digest of its weights, its learning rate, and in a rehearsal its samples
and the states of its random number generators.

Cheap: a digest reads at most 4,096 values of each tensor, at the first step of a group of workers
and then after 2, 4, 8, ... steps. In a rehearsal, which reports every step, every step is checked.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable, Iterable
from typing import Any

from bftrainer.progress.data_set import summary_of
from bftrainer.progress.randomness import random_states
from bftrainer.progress.sampler import Sampler
from bftrainer.scaling import LearningRate
from bftrainer.system.json_tail import JsonTail
from bftrainer.wires.append import append_line
from bftrainer.wires.data_summary import DataSummary
from bftrainer.wires.paths import TrainerDirectory
from bftrainer.wires.rank_line import Indices, RankLine, disagreement, format_rank, parse_rank

VALUES = 4096
"""Values of one tensor that a digest reads, evenly spaced."""
FILE_BYTES = 1_000_000
REHEARSED_BYTES = 20_000_000
COMPARED = 64
"""Most ranks that rank 0 compares with itself, evenly spaced."""
_TAIL_BYTES = 1 << 13


class Watch:
    """Writes the reports of one process, and on rank 0 compares them with those of other ranks.

    ``every_step``: report every step, with the samples, as in a rehearsal.
    """

    def __init__(
        self,
        directory: TrainerDirectory,
        incarnation: int,
        clock: Callable[[], float],
        every_step: bool,
    ) -> None:
        self._directory = directory
        self._incarnation = incarnation
        self._clock = clock
        self._every_step = every_step
        self._on = False
        self._weights: Any = None
        self._optimizer: Any = None
        self._rate: LearningRate | None = None
        self._order: _Order | _ElasticOrder | None = None
        self._begun: str | None = None
        self._last: RankLine | None = None
        self.disagreement: str | None = None
        """Set on rank 0: what it saw last; empty where all ranks agreed, None where nothing was
        compared.
        """
        self.formed()

    def begin(self, model: Any, optimizer: Any, sampler: Any, rate: LearningRate | None) -> None:
        """Watch these objects from now on. To be called after the checkpoint has been loaded,
        before the first step.
        """
        self._weights, self._optimizer, self._rate, self._on = model, optimizer, rate, True
        self._begun = self._weights_digest()[0]
        if isinstance(sampler, Sampler):
            self._order = _Order(sampler)
        elif hasattr(sampler, "processed_num") and hasattr(sampler, "record_batch"):
            self._order = _ElasticOrder(sampler)

    def formed(self) -> None:
        """Begin a new group of workers: its steps are counted from 1."""
        self._steps = 0
        self._since: int | None = None
        if self._order is not None:
            self._order.formed()

    def step(self, rank: int, world_size: int, step: int | None) -> None:
        """Report a step, if it is due: in a rehearsal each, else the 1st, 2nd, 4th, 8th, ... of a
        group.

        All ranks report the same steps, so that they can be compared. In a rehearsal, also those
        report that watch nothing.
        """
        if step is None or not (self._on or self._every_step):
            return
        self._steps += 1
        self._since = step if self._since is None else self._since
        if not self._every_step and self._steps & (self._steps - 1):
            return
        weights, level = self._weights_digest()
        wanted = None if self._rate is None else self._rate.latest
        line = RankLine(
            self._clock(),
            self._incarnation,
            rank,
            world_size,
            self._since,
            step,
            weights,
            level,
            self._begun,
            wanted if self._optimizer is None else _learning_rate(self._optimizer),
            _made_with(self._optimizer),
            wanted,
        )
        if self._every_step:
            line = line._replace(random=random_states())
        if self._order is not None and self._every_step:
            line = self._order.added(line)
        if rank == 0 and self._last is not None and self._last.group == line.group:
            self._compare_ranks(self._last)  # all ranks have had the time to report the step before
        self._last = line
        self._write_line(line)

    def _weights_digest(self) -> tuple[str | None, float | None]:
        """Return a digest of the weights and the sum of their absolute values; None for both
        without weights.

        Both are of the values that :func:`_sampled_bytes` takes.
        """
        digest, level, some = hashlib.blake2b(digest_size=8), 0.0, False
        for tensor in _replicated_tensors(self._weights, gather=self._every_step):
            data, amount = _sampled_bytes(tensor)
            digest.update(data)
            level, some = level + amount, True
        return (digest.hexdigest(), level) if some else (None, None)

    def _compare_ranks(self, own: RankLine) -> None:
        """Compare rank 0's own line with the other ranks' lines of the same step, and set
        :attr:`disagreement`.

        Of more than ``COMPARED`` other ranks, evenly spaced ones are read.
        """
        others = range(1, own.world_size)
        chosen = (
            others
            if len(others) <= COMPARED
            else {1 + n * (len(others) - 1) // (COMPARED - 1) for n in range(COMPARED)}
        )
        lines = [own]
        for rank in sorted(chosen):
            tail = JsonTail(self._directory.rank(rank))
            tail.skip(_TAIL_BYTES)
            parsed = [line for line in map(parse_rank, tail.read()) if line is not None]
            lines += [line for line in parsed if (line.group, line.step) == (own.group, own.step)][
                -1:
            ]
        if len(lines) > 1:
            found_one = disagreement(lines)
            self.disagreement = "" if found_one is None else str(found_one)

    def _write_line(self, line: RankLine) -> None:
        """Append the line to this rank's file. A full disk must not end the training."""
        path = self._directory.rank(line.rank)
        try:
            path.parent.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:  # a full disk must not end the training
            print(f"bftrainer: the rank's report is not written: {error}", file=sys.stderr)
            return
        max_bytes = REHEARSED_BYTES if self._every_step else FILE_BYTES
        append_line(path, format_rank(line), max_bytes, "the rank's report", os.O_NOFOLLOW)


class _Order:
    """Adds the samples of a ``progress.Sampler`` to the line of a step."""

    def __init__(self, sampler: Sampler) -> None:
        self._sampler = sampler
        self._summary: DataSummary | None = None

    def formed(self) -> None:
        return

    def added(self, line: RankLine) -> RankLine:
        return line._replace(
            indices=_by_epoch(self._sampler.latest_indices()),
            data_size=self._sampler.size,
            sampler="progress.Sampler",
            data=self._data_summary(),
        )

    def _data_summary(self) -> DataSummary | None:
        """Return what identifies the data set; None if the sampler knows only its length."""
        if self._summary is None:
            self._summary = self._sampler.summary
        if self._summary is None and self._sampler.data is not None:
            self._summary = summary_of(self._sampler.data)
        return self._summary


class _ElasticOrder:
    """Adds the samples of Horovod's ``ElasticSampler`` to the line of a step.

    That sampler records only how many samples of its present pass were processed, so the samples
    are counted off its order.
    """

    def __init__(self, sampler: Any) -> None:
        self._sampler = sampler
        self._pass: object = None
        self._taken = 0
        self.formed()

    def formed(self) -> None:
        self._restored = int(self._sampler.epoch), int(self._sampler.processed_num)

    def added(self, line: RankLine) -> RankLine:
        """Add the samples that this worker has used since the last call, and the sampler's
        position.
        """
        sampler, size = self._sampler, len(self._sampler.dataset)
        order = getattr(sampler, "indices", [])
        if order is not self._pass:
            self._pass, self._taken = order, 0
        begun_at = size - len(sampler.remaining_indices)
        taken = max(0, int(sampler.processed_num) - begun_at) // max(1, int(sampler.num_replicas))
        new, self._taken = order[self._taken : taken], taken
        epoch, position = self._restored
        return line._replace(
            indices=_by_epoch([(int(sampler.epoch), int(number)) for number in new]),
            data_size=size,
            sampler="ElasticSampler",
            restored_at=position if epoch == int(sampler.epoch) else None,
            pass_at=begun_at,
        )


def _by_epoch(pairs: Iterable[tuple[int, int]]) -> Indices:
    """Group pairs (epoch, index) by epoch."""
    by_epoch: dict[int, list[int]] = {}
    for epoch, number in pairs:
        by_epoch.setdefault(epoch, []).append(number)
    return tuple((epoch, tuple(numbers)) for epoch, numbers in by_epoch.items())


def _replicated_tensors(weights: Any, gather: bool) -> Iterable[Any]:
    """Return the weights that are the same on all ranks, which a sharded tensor's values are not.

    ``gather``: those of FSDP2 are gathered from all ranks, one at a time, which takes time; else
    they are left out.
    """
    if weights is None:
        return []
    if callable(getattr(weights, "modules", None)) and any(
        type(module).__name__ == "FullyShardedDataParallel" for module in weights.modules()
    ):
        return []
    if callable(getattr(weights, "parameters", None)):
        # The buffers are left out: batch statistics are each rank's own.
        tensors = list(weights.parameters())
    else:
        tensors = list(weights()) if callable(weights) else list(weights)
    whole = (
        tensor.full_tensor() if gather and hasattr(tensor, "full_tensor") else tensor
        for tensor in tensors
    )
    return (
        tensor
        for tensor in whole
        if not hasattr(tensor, "placements") and not hasattr(tensor, "ds_id")
    )


def _sampled_bytes(tensor: Any) -> tuple[bytes, float]:
    """Return up to ``VALUES`` values of a tensor as bytes, and the sum of their absolute values.

    It is a tensor of torch or an array of NumPy.
    """
    if hasattr(tensor, "detach"):
        flat = tensor.detach().reshape(-1)
        some = flat[:: max(1, flat.numel() // VALUES)][:VALUES].contiguous().cpu()
        torch = sys.modules["torch"]
        return some.view(torch.uint8).numpy().tobytes(), float(some.abs().double().sum())
    flat = tensor.reshape(-1)
    some = flat[:: max(1, flat.size // VALUES)][:VALUES]
    return some.tobytes(), float(abs(some).sum())


def _learning_rate(optimizer: Any) -> float | None:
    """Return the optimizer's present learning rate; None if it does not show one as torch's do."""
    groups = getattr(optimizer, "param_groups", None)
    return float(groups[0]["lr"]) if groups and "lr" in groups[0] else None


def _made_with(optimizer: Any) -> float | None:
    """Return the learning rate with which the optimizer was constructed; None if unknown."""
    defaults = getattr(optimizer, "defaults", None)
    return (
        float(defaults["lr"])
        if isinstance(defaults, dict) and defaults.get("lr") is not None
        else None
    )
