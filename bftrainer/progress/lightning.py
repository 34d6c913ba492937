"""A callback for Lightning.

::

    idle = OnIdleNodes(data, batch=32, epochs=20, checkpoint="{name}.ckpt")
    trainer = lightning.Trainer(**idle.arguments)
    trainer.fit(module, idle.loader, ckpt_path=idle.ckpt_path)
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lightning

from bftrainer.progress.agreement import Agreement, numbers_from_rank_0
from bftrainer.progress.data_set import check_ranks, check_start, samples_are_fixed, summary_of
from bftrainer.progress.loaders import parts
from bftrainer.progress.randomness import seed_step
from bftrainer.progress.reporter import Reporter, batches, named
from bftrainer.progress.sampler import Sampler
from bftrainer.scaling import LearningRate, LearningRateRule, Scaling
from bftrainer.wires.data_summary import DataSummary

if TYPE_CHECKING:
    import torch


class OnIdleNodes(lightning.Callback):  # type: ignore[misc]  # its types are not read: it may be missing
    """Makes a training with Lightning run on any number of workers: a callback for the order of the
    data, the learning rate, checkpoints and reports.

    Lightning saves the callback's state with the weights. The module has one optimizer, whose
    learning rate is the rate for ``batch``.

    Args:
        data: The data set, or a ``DataLoader``, whose data set, batch size and options are used.
        batch: Samples per step of one worker; all workers have equal batches.
        epochs: Passes over the data.
        checkpoint: File of the checkpoint, written at a stop request and at the end as well.
        rule: How the learning rate follows the global batch.
        warmup_steps: Steps in which the rate rises to a new value.
        checkpoint_every: Steps between checkpoints.
        seed: Seed of the order of the data, the same on all workers.
        loader_options: Arguments of ``DataLoader``.
        compare_data: Whether the data set must be the one of the start before, as for
            :class:`bftrainer.progress.torch.Training`.
    """

    def __init__(
        self,
        data: torch.utils.data.Dataset[Any] | torch.utils.data.DataLoader[Any],
        *,
        batch: int | None = None,
        epochs: int,
        checkpoint: str | Path,
        rule: LearningRateRule = LearningRateRule.LINEAR,
        warmup_steps: int = 100,
        checkpoint_every: int = 200,
        seed: int = 0,
        loader_options: Mapping[str, object] | None = None,
        compare_data: bool = True,
    ) -> None:
        from torch.utils.data import DataLoader

        source = parts(data, batch, loader_options)
        self.batches = batches(Scaling.WEAK, source.batch)
        self.sampler = Sampler(
            source.data,
            self.batches,
            seed=seed,
            shuffle=source.shuffle,
            compare_data=compare_data,
        )
        self._compares_data = compare_data
        self._workers = int(source.options.get("num_workers") or 0)
        self._summary = (
            summary_of(source.data, self._workers)
            if compare_data
            else DataSummary(self.sampler.size)
        )
        self.sampler.summary = self._summary
        self.loader = DataLoader(source.data, batch_sampler=self.sampler, **source.options)
        self.rate: LearningRate | None = None
        self._rule = (source.batch, rule, warmup_steps)
        self._restored: dict[str, Any] | None = None
        self._epochs, self._checkpoint, self._every = epochs, named(checkpoint), checkpoint_every

    @property
    def arguments(self) -> dict[str, Any]:
        """Arguments for ``lightning.Trainer``: it uses torchrun's processes, and leaves data and
        checkpoints to this callback.

        The sampler counts the epochs: Lightning's own count is of no use where the size changes
        within an epoch.
        """
        return {
            "max_epochs": -1,
            "use_distributed_sampler": False,
            "enable_checkpointing": False,
            "callbacks": [self],
            "num_nodes": int(os.environ.get("GROUP_WORLD_SIZE", "1")),
            "devices": int(os.environ.get("LOCAL_WORLD_SIZE", "1")),
        }

    @property
    def ckpt_path(self) -> Path | None:
        """The checkpoint to continue from, for ``trainer.fit``."""
        return self._checkpoint if self._checkpoint.exists() else None

    def setup(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, stage: str
    ) -> None:
        """Take this rank's share of the data."""
        self.report = Reporter(rank=trainer.global_rank)
        self._agreement = Agreement(
            self.report, lambda numbers: numbers_from_rank_0(numbers, trainer.world_size)
        )
        check_ranks(
            self._summary,
            trainer.global_rank,
            lambda numbers: numbers_from_rank_0(numbers, trainer.world_size),
            self._samples_are_fixed,
        )
        self.sampler.shard(trainer.global_rank, trainer.world_size)

    def on_train_start(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule
    ) -> None:
        """Begin to watch the ranks."""
        import torch

        restored = self._restored or {}
        # The rate of a restored optimizer is that of another size.
        base = float(restored.get("base", trainer.optimizers[0].param_groups[0]["lr"]))
        self.rate = LearningRate(base, *self._rule)
        if restored:
            self.rate.load_state_dict(restored["rate"])
        self.report.watch(pl_module, trainer.optimizers[0], sampler=self.sampler, rate=self.rate)
        self.report.samples_total = self._epochs * self.sampler.size
        self._script_seed = torch.initial_seed()
        trainer.should_stop, self._step = self.sampler.epoch >= self._epochs, trainer.global_step

    def on_train_batch_start(
        self,
        trainer: lightning.Trainer,
        pl_module: lightning.LightningModule,
        batch: object,
        batch_idx: int,
    ) -> None:
        """Set the learning rate and the random numbers."""
        assert self.rate is not None
        seed_step(self._script_seed, self.sampler.samples, trainer.global_rank)
        self.rate.apply(
            trainer.optimizers[0], self.batches.total(trainer.world_size), trainer.global_step
        )

    def on_train_batch_end(
        self,
        trainer: lightning.Trainer,
        pl_module: lightning.LightningModule,
        outputs: Mapping[str, torch.Tensor] | torch.Tensor | None,
        batch: object,
        batch_idx: int,
    ) -> None:
        """Count and report the step; save when it is due; leave at a stop request, all ranks at the
        same step.
        """
        self.sampler.advance()
        trainer.should_stop = self.sampler.epoch >= self._epochs
        if trainer.global_step == self._step:
            return  # gradients are accumulated: no checkpoint has them
        self._step = trainer.global_step
        loss = outputs.get("loss") if isinstance(outputs, Mapping) else outputs
        metrics = {
            name: value
            for name, value in trainer.logged_metrics.items()
            if name not in ("loss", "step", "epoch")
        }
        self.report.step(
            step=trainer.global_step,
            samples=self.sampler.samples,
            world_size=trainer.world_size,
            metrics=metrics,
            loss=None if loss is None else loss.detach(),
        )
        if self._agreement.to_stop():
            self.save(trainer)
            self.report.leave()
        if trainer.global_step % self._every == 0:
            self.save(trainer)
            if self._agreement.to_stop_after_save():
                self.report.leave()

    def on_validation_batch_end(self, *_: object, **__: object) -> None:
        """Report a sign of life."""
        self.report.busy()

    def on_train_end(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule
    ) -> None:
        """Write the last checkpoint and report the end."""
        self.save(trainer)
        self.report.done()

    def save(self, trainer: lightning.Trainer) -> None:
        """Write a checkpoint under another name, then rename it."""
        part = self._checkpoint.with_name(f"{self._checkpoint.name}.part")
        is_file = part.is_symlink() or part.is_file()  # by the strategy, it may be a folder
        if trainer.is_global_zero and is_file:
            part.unlink()
        trainer.save_checkpoint(part)  # all ranks; rank 0 writes
        if trainer.is_global_zero:
            part.replace(self._checkpoint)
            self.report.checkpointed(self._checkpoint)
        trainer.strategy.barrier()

    def state_dict(self) -> dict[str, Any]:
        """Return the position and the learning rate, which Lightning puts into its checkpoint."""
        assert self.rate is not None
        return {
            "sampler": self.sampler.state_dict(),
            "rate": self.rate.state_dict(),
            "base": self.rate.base,
            "data": self._summary.as_dict(),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue at the position of a checkpoint."""
        self.sampler.load_state_dict(state_dict["sampler"])
        if self._compares_data:
            self._summary = check_start(
                self._summary, state_dict.get("data"), self._checkpoint, self._samples_are_fixed
            )
            self.sampler.summary = self._summary
        self._restored = state_dict

    def _samples_are_fixed(self) -> bool:
        """Return whether the samples of the summary are no random ones."""
        return samples_are_fixed(self.loader.dataset, self._summary, self._workers)
