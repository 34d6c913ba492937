"""A training loop of plain PyTorch, on one worker or under torchrun, in a few changed lines.

::

    training = Training(model, optimizer, data, batch=32, checkpoint="digits.pt")
    for epoch in training.epochs(20):
        for inputs, targets in training.loader:
            optimizer.zero_grad()
            loss = loss_of(parallel(inputs), targets)
            training.backward(loss)
            optimizer.step()
            training.step(loss)

It brings the order of the data, the learning rate at every size, checkpoints and the report, as ``docs/training.md`` describes
them. Without bftrainer the same script trains as well, and resumes from its checkpoint.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bftrainer.progress.agreement import Agreement, from_rank_0
from bftrainer.progress.elastic import Kept
from bftrainer.progress.reporter import Reporter, batches
from bftrainer.progress.sampler import Sampler
from bftrainer.scaling import LearningRate, LearningRateRule, Scaling

if TYPE_CHECKING:
    import torch


class Training:
    """Data order, learning rate, checkpoints and reports of a loop. Create it after the process group, before the loop.

    Args:
        model: The bare model (not wrapped by DistributedDataParallel), which is loaded from ``checkpoint`` if that exists.
        optimizer: Its optimizer, loaded as well. Its learning rate is the rate for ``batch``.
        data: The data set.
        batch: Samples per step of one worker, and of all workers with ``Scaling.STRONG``; the trainer file may override it.
        checkpoint: File of the checkpoint.
        scaling: How the global batch follows the number of workers; the trainer file may override it.
        rule: How the learning rate follows the global batch.
        warmup_steps: Steps in which the rate rises to a new value.
        checkpoint_every_s: Seconds between checkpoints.
        seed: Seed of the order of the data, the same on all workers.
        schedule: Maps the share of the training that is done (0 to 1) to a factor of the rate.
        keep: Further objects with ``state_dict`` and ``load_state_dict`` for the checkpoint, by name.
        loader_options: Arguments of ``DataLoader``.
        reporter: Default: a new ``Reporter``.

    Raises:
        RuntimeError: There are several workers, but no process group.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        data: torch.utils.data.Dataset[Any],
        *,
        batch: int,
        checkpoint: str | Path,
        scaling: Scaling = Scaling.WEAK,
        rule: LearningRateRule = LearningRateRule.LINEAR,
        warmup_steps: int = 100,
        checkpoint_every_s: float = 60.0,
        seed: int = 0,
        schedule: Callable[[float], float] = lambda done: 1.0,
        keep: Mapping[str, Kept] | None = None,
        loader_options: Mapping[str, object] | None = None,
        reporter: Reporter | None = None,
    ) -> None:
        import torch

        self.rank, self.size = self._place()
        self.model, self.optimizer = model, optimizer
        self.checkpoint = Path(checkpoint)
        self.batches = batches(scaling, batch)
        rates = [group["lr"] for group in optimizer.param_groups]
        self._shares = [rate / rates[0] for rate in rates]
        self.rate = LearningRate(float(rates[0]), batch, rule, warmup_steps)
        self.sampler = Sampler(data, self.batches, self.rank, self.size, seed=seed)
        self.loader = _Loader(
            torch.utils.data.DataLoader(data, batch_sampler=self.sampler, **(loader_options or {})), self
        )
        self.step_number = 0
        self._schedule, self._keep = schedule, dict(keep or {})
        self._epochs: int | None = None
        self._every_s = checkpoint_every_s
        self._load()
        self.report = reporter or Reporter(rank=self.rank)
        self.report.watch(self._bare(), optimizer, sampler=self.sampler, rate=self.rate)
        self._agreement = Agreement(self.report, lambda value: from_rank_0(value, self.size))
        self._saved_at = time.monotonic()

    def epochs(self, count: int) -> Iterator[int]:
        """The numbers of the epochs that are left; after the last one, the checkpoint is written and the end reported."""
        self._epochs = count
        while self.sampler.epoch < count:
            yield self.sampler.epoch
        self.save()
        self.report.done()

    def backward(self, loss: torch.Tensor) -> None:
        """``loss.backward()`` for a mean loss: with strong scaling, the batches of workers may differ by one sample."""
        self._weighted(loss).backward()

    def step(self, loss: torch.Tensor | float | None = None, **metrics: float) -> None:
        """Count and report a step, save every ``checkpoint_every_s``, and leave at a stop request.

        Call it after ``optimizer.step()``.

        Args:
            loss: Training loss of this step.
            metrics: Values such as an accuracy, for ``bftrainer results``.
        """
        self.sampler.advance()
        self.step_number += 1
        shown = (
            loss if loss is None or isinstance(loss, (int, float)) else loss.detach()
        )  # becomes a number only in a line that is written
        self.report.step(
            step=self.step_number, samples=self.sampler.samples, loss=shown, world_size=self.size, metrics=metrics
        )
        if self._agreement.to_stop():
            self.save()
            self.report.leave()
        # Only rank 0's clock counts; the others wait for it at the end of a step anyway.
        if self.rank == 0 and time.monotonic() - self._saved_at >= self._every_s:
            self._write()

    def save(self) -> None:
        """Write a checkpoint on rank 0; all ranks wait for it."""
        if self.rank == 0:
            self._write()
        self._barrier()

    def apply_rate(self) -> None:
        """Set the learning rate of the next step."""
        done = 0.0 if not self._epochs else min(self.sampler.samples / (self._epochs * self.sampler.size), 1.0)
        rate = self.rate.at(self.batches.total(self.size), self.step_number) * self._schedule(done)
        for group, share in zip(self.optimizer.param_groups, self._shares, strict=True):
            group["lr"] = rate * share
        self.rate.latest = rate

    def placed(self, batch: Any) -> Any:
        """The batch on the device of the model; plain PyTorch leaves that to the loop."""
        return batch

    def _write(self) -> None:
        import torch

        content = {
            "model": self._bare().state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "step": self.step_number,
        }
        content |= {"sampler": self.sampler.state_dict(), "rate": self.rate.state_dict()}
        content["keep"] = {name: one.state_dict() for name, one in self._keep.items()}
        part = self.checkpoint.with_name(f"{self.checkpoint.name}.part")
        torch.save(content, part)
        part.replace(self.checkpoint)  # never half-written
        self.report.checkpointed(self.checkpoint)
        self._saved_at = time.monotonic()

    def _load(self) -> None:
        import torch

        if not self.checkpoint.exists():
            return
        content = torch.load(self.checkpoint, map_location="cpu")
        self._bare().load_state_dict(content["model"])
        self.optimizer.load_state_dict(content["optimizer"])
        self.sampler.load_state_dict(content["sampler"])
        self.rate.load_state_dict(content["rate"])
        self.step_number = int(content["step"])
        for name, one in self._keep.items():
            one.load_state_dict(content["keep"][name])

    def _place(self) -> tuple[int, int]:
        """This worker's rank, and the number of workers."""
        import torch.distributed as dist

        if dist.is_available() and dist.is_initialized():
            return dist.get_rank(), dist.get_world_size()
        if int(os.environ.get("WORLD_SIZE", "1")) > 1:
            raise RuntimeError("several workers, but no process group: call torch.distributed.init_process_group first")
        return 0, 1

    def _bare(self) -> torch.nn.Module:
        return self.model

    def _weighted(self, loss: torch.Tensor) -> torch.Tensor:
        return loss * self.batches.weight(self.rank, self.size)

    def _barrier(self) -> None:
        if self.size > 1:
            import torch.distributed as dist

            dist.barrier()


class _Loader:
    """A ``DataLoader`` that sets the learning rate before each batch."""

    def __init__(self, loader: Any, training: Training) -> None:
        self._loader = loader
        self._training = training

    def __len__(self) -> int:
        return len(self._training.sampler)

    def __iter__(self) -> Iterator[Any]:
        for batch in self._loader:
            self._training.apply_rate()
            yield self._training.placed(batch)
