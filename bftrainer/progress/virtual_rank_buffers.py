"""The buffers and weights of a model, as they were before a step of virtual ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from bftrainer.errors import InvalidValueError
from bftrainer.progress.model_tensors import (
    batch_counters,
    copy_from_rank_0,
    copy_values,
    float_type,
    has_process_group,
    running_statistics,
)

if TYPE_CHECKING:
    import torch

    _Version = tuple[torch.Tensor, int]


class OtherBuffers:
    """The buffers of a model that are no running statistics of a norm. After a step, they are
    those of virtual rank 0, as DistributedDataParallel takes them from rank 0.

    Most of them never change, and a change shows in a counter of torch: only those that changed
    are copied and sent. Buffers that a model makes in a step, or makes longer, are caches of its
    own: they stay as each worker has them.
    """

    def __init__(self, model: torch.nn.Module) -> None:
        self._model = model
        self._copies: dict[str, torch.Tensor] = {}
        self._versions: dict[str, _Version] = {}
        self._of_virtual_rank_0: dict[str, torch.Tensor] = {}
        # At the start all workers have the same ones.
        self._shapes = {name: buffer.shape for name, buffer in self._tracked_buffers()}
        self.begin()

    def begin(self) -> None:
        """Copy the buffers that the script has changed since the last step."""
        for name, buffer in self._present():
            if self._is_changed(name, buffer):
                self._copies[name] = buffer.detach().clone()
                self._versions[name] = _version_of(buffer)

    def restore(self) -> None:
        """Restore the values that the buffers had before the step."""
        for name, buffer in self._present():
            if self._is_changed(name, buffer):
                copy_values([buffer], [self._copies[name]])
                self._versions[name] = _version_of(buffer)

    def changes(self, virtual_rank: int) -> list[torch.Tensor]:
        """Return whether a virtual rank changed each buffer, as tensors of one number.

        Raises InvalidValueError for a buffer of the checkpoint that has another shape now.
        """
        flags: list[torch.Tensor] = []
        present = dict(self._present())
        self._check_shapes(present)
        for name, copy in self._copies.items():
            buffer = present.get(name)
            is_changed = buffer is not None and self._is_changed(name, buffer)
            flags.append(copy.new_full((1,), float(is_changed), dtype=float_type()))
            if is_changed and virtual_rank == 0:
                self._of_virtual_rank_0[name] = present[name].detach().clone()
        return flags

    def end(self, changed: Sequence[float]) -> None:
        """Set the buffers that any virtual rank has changed to the values of virtual rank 0."""
        present = dict(self._present())
        for name, share in zip(self._copies, changed):
            if not share:
                continue
            value = self._of_virtual_rank_0.get(name, self._copies[name])
            if has_process_group():
                copy_from_rank_0([value])
            if name in present:
                copy_values([present[name]], [value])
        self._of_virtual_rank_0.clear()

    def _is_changed(self, name: str, buffer: torch.Tensor) -> bool:
        version = self._versions.get(name)
        return version is None or version[0] is not buffer or version[1] != buffer._version

    def _present(self) -> list[tuple[str, torch.Tensor]]:
        """Return the buffers that have the shape that they had at the start, with their names."""
        return [
            (name, buffer)
            for name, buffer in self._tracked_buffers()
            if self._has_shape(name, buffer)
        ]

    def _has_shape(self, name: str, buffer: torch.Tensor) -> bool:
        return bool(self._shapes.get(name) == buffer.shape)

    def _tracked_buffers(self) -> list[tuple[str, torch.Tensor]]:
        own = {id(tensor) for tensor in running_statistics(self._model)}
        own.update(id(tensor) for tensor in batch_counters(self._model))
        return [(n, buffer) for n, buffer in self._model.named_buffers() if id(buffer) not in own]

    def _check_shapes(self, present: Mapping[str, torch.Tensor]) -> None:
        """Raise InvalidValueError if a buffer that checkpoints contain is not among ``present``."""
        others = {name for name, _ in self._tracked_buffers() if name not in present}
        if not others:
            return
        for prefix, module in self._model.named_modules():
            for name in set(module._buffers) - module._non_persistent_buffers_set:
                full_name = f"{prefix}.{name}" if prefix else name
                if full_name in others:
                    raise InvalidValueError(
                        f"virtual_ranks: loss_of changes the shape of the buffer {full_name}, "
                        "which checkpoints have: make it before Training(...), or use "
                        "register_buffer(..., persistent=False)"
                    )


class WeightVersions:
    """Versions of the weights of a model, which stay the same in a step."""

    def __init__(self, model: torch.nn.Module) -> None:
        from torch.nn.modules.rnn import RNNBase

        # flatten_parameters() moves the weights of an RNN, and changes no value.
        moved = {
            id(weight)
            for module in model.modules()
            if isinstance(module, RNNBase)
            for weight in module.parameters()
        }
        self._weights = [
            (name, weight) for name, weight in model.named_parameters() if id(weight) not in moved
        ]
        self._versions = self._present()

    def compare(self) -> None:
        """Raise InvalidValueError if a weight has changed."""
        for (name, _), before, now in zip(self._weights, self._versions, self._present()):
            if before != now:
                raise InvalidValueError(
                    f"virtual_ranks: loss_of changes the weight {name}, and virtual ranks need "
                    "equal weights: change it after training.gradients(...)"
                )

    def _present(self) -> list[tuple[int, int]]:
        return [(weight._version, weight.data_ptr()) for _, weight in self._weights]


def _version_of(tensor: torch.Tensor) -> _Version:
    """Return a tensor, which then has its address for itself, and a number that changes with each
    change of its values.
    """
    return tensor, tensor._version
