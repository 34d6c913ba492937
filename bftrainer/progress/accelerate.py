"""A training loop of Accelerate: :class:`bftrainer.progress.torch.Training` with the accelerator's
processes and devices.

::

    model, optimizer = accelerator.prepare(model, optimizer) training =
    AcceleratedTraining(accelerator, model, optimizer, data, batch=32, checkpoint="{name}.pt")

Use ``training.loader``: Accelerate's own loader would give other samples at another size.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bftrainer.errors import InvalidValueError
from bftrainer.progress.torch import Scaling, Training, current_training

__all__ = ["AcceleratedTraining", "Scaling", "current_training"]

if TYPE_CHECKING:
    import accelerate
    import torch


class AcceleratedTraining(Training):
    """:class:`~bftrainer.progress.torch.Training` under Accelerate.

    Args:
        accelerator: The accelerator.
        model: The prepared model.
        optimizer: The prepared optimizer.
        data: The data set, or the script's ``DataLoader``, prepared or not.
        options: The other arguments of ``Training``, but ``virtual_ranks``.
    """

    def __init__(
        self,
        accelerator: accelerate.Accelerator,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        data: torch.utils.data.Dataset[Any] | torch.utils.data.DataLoader[Any],
        **options: Any,
    ) -> None:
        self.accelerator = accelerator
        if options.get("virtual_ranks") is not None:
            raise InvalidValueError(
                "virtual_ranks: Accelerate reduces the gradients itself: expected "
                "bftrainer.progress.torch.Training"
            )
        super().__init__(model, optimizer, data, **options)
        if self.batches.scaling is Scaling.STRONG:
            # A prepared scheduler would step once for each worker; here a step has as many samples
            # at every size.
            for scheduler in accelerator._schedulers:
                scheduler.split_batches = True

    def backward(
        self, loss: torch.Tensor, *, unscaled: torch.Tensor | None = None, **options: Any
    ) -> None:
        """``accelerator.backward(loss)`` for a mean loss."""
        self._note_loss(loss if unscaled is None else unscaled)
        self.accelerator.backward(self._weighted(loss), **options)

    def placed(self, batch: Any) -> Any:
        """Return the batch on the accelerator's device."""
        from accelerate.utils import send_to_device

        return send_to_device(batch, self.accelerator.device)

    def _place(self) -> tuple[int, int]:
        return self.accelerator.process_index, self.accelerator.num_processes

    def _bare(self) -> torch.nn.Module:
        return self.accelerator.unwrap_model(self.model)
