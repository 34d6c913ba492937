"""The tensors of a model that a step changes: gradients, running statistics, batch counters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from bftrainer.errors import InvalidValueError

if TYPE_CHECKING:
    import torch


def running_statistics(model: torch.nn.Module) -> list[torch.Tensor]:
    """Return the running means and variances of BatchNorm and InstanceNorm."""
    tensors: list[torch.Tensor] = []
    for norm in _norm_modules(model):
        if norm.running_mean is not None:
            tensors += [norm.running_mean, norm.running_var]
    return tensors


def batch_counters(model: torch.nn.Module) -> list[torch.Tensor]:
    """Return the numbers of batches that BatchNorm and InstanceNorm have counted, which are the
    same after each virtual rank.
    """
    counters = [norm.num_batches_tracked for norm in _norm_modules(model)]
    return [counter for counter in counters if counter is not None]


def counter_values(counters: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return the values of counters as one vector."""
    import torch

    if not counters:
        return torch.zeros(0, dtype=torch.int64)
    device = counters[0].device
    return torch.stack([counter.reshape(()).to(device) for counter in counters])


def _norm_modules(model: torch.nn.Module) -> list[Any]:
    """Return the layers of a model that are BatchNorm or InstanceNorm."""
    from torch.nn.modules.batchnorm import _NormBase

    return [module for module in model.modules() if isinstance(module, _NormBase)]


def clear_gradients(weights: Sequence[torch.Tensor]) -> None:
    """Set the gradients of all weights to None."""
    for weight in weights:
        weight.grad = None


def dense_gradients(weights: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Return the gradients of the weights, zeros where there is none. Raises InvalidValueError for
    sparse ones.
    """
    gradients: list[torch.Tensor] = []
    for weight in weights:
        if weight.grad is not None and weight.grad.is_sparse:
            raise InvalidValueError(
                "virtual_ranks: expected dense gradients, got sparse ones: Embedding(sparse=False)"
            )
        gradients.append(weight.new_zeros(weight.shape) if weight.grad is None else weight.grad)
    return gradients


def used_flags(weights: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return 1 for each weight that has a gradient, else 0."""
    flags = [float(weight.grad is not None) for weight in weights]
    return weights[0].new_tensor(flags, dtype=float_type())


def set_gradients(
    weights: Sequence[torch.Tensor],
    accumulated: Sequence[Any],
    means: Sequence[torch.Tensor],
    used: Sequence[float],
) -> None:
    """Set the gradients of the weights that a virtual rank has used, and add those of the batches
    before, which the script accumulates.
    """
    for weight, earlier, mean, share in zip(weights, accumulated, means, used):
        weight.grad = earlier
        if not share:
            continue
        gradient = mean.view(weight.shape).to(weight.device, weight.dtype)
        weight.grad = gradient if earlier is None else earlier.add_(gradient)


def copy_values(tensors: Sequence[torch.Tensor], values: Sequence[torch.Tensor]) -> None:
    """Copy values into tensors, whatever their shape and type."""
    import torch

    with torch.no_grad():
        for tensor, value in zip(tensors, values):
            tensor.copy_(value.view(tensor.shape))


def copy_from_rank_0(tensors: Sequence[torch.Tensor]) -> None:
    """Overwrite tensors with those of rank 0. All workers call it."""
    import torch.distributed as dist

    for tensor in tensors:
        dist.broadcast(tensor.data, 0)


def has_process_group() -> bool:
    """Whether torch.distributed connects this worker to others."""
    import torch.distributed as dist

    return bool(dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1)


def float_type() -> Any:
    """Return the type of flags, which workers add up: torch.float32."""
    import torch

    return torch.float32
