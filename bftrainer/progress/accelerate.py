"""A training loop of Accelerate: :class:`bftrainer.progress.torch.Training` with the accelerator's processes and devices.

::

    model, optimizer = accelerator.prepare(model, optimizer)
    training = AcceleratedTraining(accelerator, model, optimizer, data, batch=32, checkpoint="digits.pt")

The loader of ``training`` replaces the one that was prepared: Accelerate's own would give other samples at another size.
"""

from __future__ import annotations

from typing import Any

from bftrainer.progress.torch import Training


class AcceleratedTraining(Training):
    """As its base, with the accelerator as the first argument. ``model`` and ``optimizer`` are the prepared ones."""

    def __init__(self, accelerator: Any, model: Any, optimizer: Any, data: Any, **options: Any) -> None:
        self.accelerator = accelerator
        super().__init__(model, optimizer, data, **options)

    def backward(self, loss: Any) -> None:
        """``accelerator.backward(loss)`` for a mean loss."""
        self.accelerator.backward(self._weighted(loss))

    def placed(self, batch: Any) -> Any:
        """The batch on the accelerator's device."""
        from accelerate.utils import send_to_device

        return send_to_device(batch, self.accelerator.device)

    def _place(self) -> tuple[int, int]:
        return self.accelerator.process_index, self.accelerator.num_processes

    def _bare(self) -> Any:
        return self.accelerator.unwrap_model(self.model)
