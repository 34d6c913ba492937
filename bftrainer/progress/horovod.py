"""A training loop of Elastic Horovod: :class:`bftrainer.progress.torch.Training` around the elastic
state.

::

    state = hvd.elastic.TorchState(model, optimizer, epoch=0)
    training = ElasticTraining(hvd, state, loader, checkpoint="{name}.pt")

    @hvd.elastic.run
    def train(state):
        for state.epoch in training.epochs(20):
            for inputs, targets in training.loader:
                optimizer.zero_grad()
                loss = loss_of(model(inputs), targets)
                training.backward(loss)
                optimizer.step()
                training.step(loss)
                state.commit()
"""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any

from bftrainer.progress.elastic import CheckpointFile, Kept, track
from bftrainer.progress.reporter import Reporter
from bftrainer.progress.torch import Training
from bftrainer.wires.data_summary import DataSummary

if TYPE_CHECKING:
    import torch


class ElasticTraining(Training):
    """:class:`~bftrainer.progress.torch.Training` under Elastic Horovod, whose group changes within
    the process.

    Weights, order, rate, steps and ``keep`` are those of the last ``state.commit()`` after a
    rescale.

    Args:
        hvd: ``import horovod.torch as hvd``.
        state: The ``TorchState``; the learning rate of its optimizer is that of one worker, without
            a factor ``hvd.size()``.
        data: The data set, or the script's ``DataLoader``.
        options: The other arguments of ``Training``.
    """

    _ends_left_epochs = False
    """Horovod's scripts leave the loop when a resumed epoch has had its batches."""

    def __init__(
        self,
        hvd: ModuleType,
        state: Any,
        data: torch.utils.data.Dataset[Any] | torch.utils.data.DataLoader[Any],
        **options: Any,
    ) -> None:
        self._hvd, self._state = hvd, state
        super().__init__(state.model, state.optimizer, data, **options)

    def step(self, loss: torch.Tensor | float | None = None, **metrics: float) -> None:
        """Count a step, which ``state.commit()`` reports; call it after ``optimizer.step()``."""
        self._state.samples, self._state.step = self._advance(), self._state.step + 1
        self._state.loss = loss if loss is None or isinstance(loss, (int, float)) else loss.detach()
        if metrics:
            self.report.metrics(**metrics)

    def save(self) -> None:
        """Write a checkpoint on rank 0."""
        if self._hvd.rank() == 0:
            self._file()

    def end(self) -> None:
        """Commit, write the checkpoint, and report the end."""
        self._state.commit()
        super().end()

    def apply_rate(self) -> None:
        """Set the learning rate of the next step, for the present group."""
        (self.rank, self.size), self.step_number = self._place(), self._state.step
        super().apply_rate()

    def state_dict(self) -> dict[str, Any]:
        """Return the values that only this object keeps: the other parts of the elastic state have
        their own.
        """
        return {"step": self._state.step, "base": self.rate.base}

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Continue from there; the sampler is there already."""
        self._state.step, self._state.samples = saved["step"], self.sampler.samples
        self.rate.base = saved.get("base", self.rate.base)

    def _next_step(self) -> tuple[int, int]:
        return int(self._state.step), int(self._hvd.rank())

    def _check_ranks(self, summary: DataSummary) -> None:
        """Compare nothing: a worker that joins makes this object while the others train, and cannot
        exchange numbers with them. The state that it gets from rank 0 has the length.
        """

    def _place(self) -> tuple[int, int]:
        return self._hvd.rank(), self._hvd.size()

    def _load(self) -> None:
        self._state.step = self._state.samples = 0
        kept: tuple[Kept, ...] = (self.sampler, self.rate, self, *self._keep.values())
        self._file = CheckpointFile(self.checkpoint, self._state, kept)
        self._file.load()

    def _report(self, reporter: Reporter | None) -> None:
        """Let each ``commit()`` of the state report, obey stop requests and write checkpoints."""
        self.report = reporter or Reporter()
        file = self._file
        track(
            self._state,
            self._hvd,
            checkpoint=file,
            checkpoint_every_s=self._every_s,
            keep=file.kept,
            reporter=self.report,
        )
