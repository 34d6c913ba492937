"""A training loop of plain PyTorch, on one worker or under torchrun, in a few changed lines.

::

    training = Training(model, optimizer, loader, checkpoint="{name}.pt")
    for epoch in training.epochs(20):
        for inputs, targets in training.loader:
            optimizer.zero_grad()
            loss = loss_of(parallel(inputs), targets)
            training.backward(loss)
            optimizer.step()
            training.step(loss)

It brings the order of the data, the learning rate at every size, the random numbers of each step,
checkpoints and the report, as ``docs/training.md`` describes them. Without bftrainer the same
script trains as well, and resumes from its checkpoint. A loop over steps wants :class:`StepLoop`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bftrainer.progress.agreement import numbers_from_rank_0
from bftrainer.progress.data_set import check_ranks, check_start, summary_of
from bftrainer.progress.elastic import Kept
from bftrainer.progress.loaders import parts
from bftrainer.progress.pairs import paired
from bftrainer.progress.reporter import Reporter, batches
from bftrainer.progress.sampler import Sampler
from bftrainer.progress.steps import StepLoop
from bftrainer.scaling import LearningRate, LearningRateRule, Scaling

if TYPE_CHECKING:
    import torch

__all__ = ["StepLoop", "Training"]


class Training(StepLoop):
    """Data order, learning rate, checkpoints and reports of a loop. Create it after the process
    group, before the loop.

    Args:
        model: The model, bare or wrapped by DistributedDataParallel, which is loaded from
            ``checkpoint`` if that exists.
        optimizer: Its optimizer, loaded as well. Its learning rate is the rate for ``batch``; where
            a scheduler of torch has changed it, its ``initial_lr``.
        data: The data set, or a ``DataLoader``, whose data set, batch size and options are used.
        batch: Samples per step of one worker, and of all workers with ``Scaling.STRONG``; the
            trainer file may override it.
        checkpoint: File of the checkpoint; ``{name}`` in it stands for the trainer's name, so that
            trials share none.
        scaling: How the global batch follows the number of workers; the trainer file may override
            it.
        rule: How the learning rate follows the global batch.
        warmup_steps: Steps in which the rate rises to a new value.
        checkpoint_every_s: Seconds between checkpoints. Default: by what a save costs and how often
            work was lost, between 1 s and 10 minutes.
        seed: Seed of the order of the data, the same on all workers.
        schedule: Maps the share of the training that is done (0 to 1) to a factor of the rate.
        keep: Further objects with ``state_dict`` and ``load_state_dict`` for the checkpoint, by
            name.
        loader_options: Arguments of ``DataLoader``.
        reporter: Default: a new ``Reporter``.

    Raises:
        InvalidValueError: The data have no length or no batch size, the weights are sharded, or the
            data set is another one than on rank 0 or at the start before.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        data: torch.utils.data.Dataset[Any] | torch.utils.data.DataLoader[Any],
        *,
        batch: int | None = None,
        checkpoint: str | Path,
        scaling: Scaling = Scaling.WEAK,
        rule: LearningRateRule = LearningRateRule.LINEAR,
        warmup_steps: int = 100,
        checkpoint_every_s: float | None = None,
        seed: int = 0,
        schedule: Callable[[float], float] = lambda done: 1.0,
        keep: Mapping[str, Kept] | None = None,
        loader_options: Mapping[str, object] | None = None,
        reporter: Reporter | None = None,
    ) -> None:
        import torch

        self._begin(model, optimizer, checkpoint, checkpoint_every_s, keep)
        source = parts(data, batch, loader_options)
        self.batches = batches(scaling, source.batch)
        rates = [group.get("initial_lr", group["lr"]) for group in optimizer.param_groups]
        self._shares = [rate / rates[0] for rate in rates]
        self.rate = LearningRate(float(rates[0]), source.batch, rule, warmup_steps)
        self.sampler = Sampler(
            source.data, self.batches, self.rank, self.size, seed=seed, shuffle=source.shuffle
        )
        self.loader = _Loader(
            torch.utils.data.DataLoader(source.data, batch_sampler=self.sampler, **source.options),
            self,
        )
        self.sampler.summary = summary_of(source.data, int(self.loader.num_workers))
        check_ranks(
            self.sampler.summary,
            self.rank,
            lambda numbers: numbers_from_rank_0(numbers, self.size),
        )
        self._schedule = schedule
        self._epochs: int | None = None
        self._load()
        self._report(reporter)

    def epochs(self, count: int) -> Iterator[int]:
        """Yield the numbers of the epochs that are left; after the last one, the checkpoint is
        written and the end reported.
        """
        self._epochs = count
        self.report.samples_total = count * self.sampler.size
        while self.sampler.epoch < count:
            yield self.sampler.epoch
        self.end()

    def backward(self, loss: torch.Tensor) -> None:
        """Call ``loss.backward()`` for a mean loss, weighted by this worker's share of the batch.

        With strong scaling, the batches of workers may differ by one sample.
        """
        self._weighted(loss).backward()

    def apply_rate(self) -> None:
        """Set the learning rate of the next step."""
        done = (
            0.0
            if not self._epochs
            else min(self.sampler.samples / (self._epochs * self.sampler.size), 1.0)
        )
        rate = self.rate.at(self.batches.total(self.size), self.step_number) * self._schedule(done)
        problem = "parameter groups were added after Training(...)"
        for group, share in paired(self.optimizer.param_groups, self._shares, problem):
            group["lr"] = rate * share
        self.rate.latest = rate

    def placed(self, batch: Any) -> Any:
        """Return the batch on the device of the model; with plain PyTorch, the loop does that
        itself.
        """
        return batch

    def _samples_after(self, steps: int) -> int:
        return self.sampler.samples + steps * self.batches.total(self.size)

    def _position(self) -> dict[str, Any]:
        position = {
            "sampler": self.sampler.state_dict(),
            "rate": self.rate.state_dict(),
            "base": self.rate.base,
        }
        if self.sampler.summary is not None:
            position["data"] = self.sampler.summary.as_dict()
        return position

    def _restore(self, content: Mapping[str, Any]) -> None:
        self.sampler.load_state_dict(content["sampler"])
        if self.sampler.summary is not None:
            check_start(self.sampler.summary, content.get("data"), self.checkpoint)
        self.rate.load_state_dict(content["rate"])
        # The script may have loaded a checkpoint of its own into the optimizer, with the rate of
        # another size.
        self.rate.base = content.get("base", self.rate.base)

    def _advance(self) -> int:
        self.sampler.advance()
        return self.sampler.samples

    def _watched(self) -> dict[str, Any]:
        return {"sampler": self.sampler, "rate": self.rate}

    def _weighted(self, loss: torch.Tensor) -> torch.Tensor:
        return loss * self.batches.weight(self.rank, self.size)


class _Loader:
    """A ``DataLoader`` that sets the learning rate before each batch."""

    def __init__(self, loader: Any, training: Training) -> None:
        self._loader = loader
        self._training = training
        self.dataset = loader.dataset
        self.num_workers = loader.num_workers

    def __len__(self) -> int:
        return len(self._training.sampler)

    def __iter__(self) -> Iterator[Any]:
        training = self._training
        batches = iter(self._loader)
        while True:
            training._seed("data")
            try:
                batch = next(batches)
            except StopIteration:
                return
            training.apply_rate()
            training._seed()
            yield training.placed(batch)
