"""Averages the gradients of workers that train one model without DistributedDataParallel."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

_BUCKET_BYTES = 32 << 20
"""A copy of so many bytes of gradients is sent at once."""


class GradientAverage:
    """Averages the gradients at the end of each ``backward()``: all of them, in one fixed order.

    A reduction for each gradient as it arrives would add gradients of different layers where ranks
    take different branches of the model. Here every rank sends a gradient of every weight that
    requires one, zeros where it has none, as DistributedDataParallel does with
    ``find_unused_parameters``. A weight that no rank has used keeps no gradient.

    Args:
        model: Its weights are made equal to those of rank 0 now. Layers may be frozen and unfrozen
            later, on all ranks alike.
        size: The number of workers of the default process group.
    """

    def __init__(self, model: torch.nn.Module, size: int) -> None:
        import torch.distributed as dist

        self._weights = list(model.parameters())
        self._size = size
        self._is_queued = False  # whether torch will call _average at the end of this backward()
        for weight in self._weights:
            dist.broadcast(weight.data, 0)
            if not (weight.is_floating_point() or weight.is_complex()):
                continue  # it can have no gradient
            requires_grad = weight.requires_grad
            weight.requires_grad_(True)  # else torch refuses the hook of a frozen weight
            weight.register_post_accumulate_grad_hook(self._gradient_arrived)
            weight.requires_grad_(requires_grad)

    def _gradient_arrived(self, weight: Any) -> None:
        """Schedule :meth:`_average_gradients` for the end of this ``backward()``.

        Torch calls this hook for each gradient; only the first call has an effect.
        """
        if self._is_queued:
            return
        import torch

        self._is_queued = True
        engine: Any = torch.autograd.Variable._execution_engine
        engine.queue_callback(self._average_gradients)

    def _average_gradients(self) -> None:
        """Average all gradients. Torch calls it once those of this ``backward()`` are complete."""
        import torch

        self._is_queued = False
        with torch.no_grad():
            for bucket in self._gradient_buckets():
                self._average_bucket(bucket)

    def _gradient_buckets(self) -> Iterator[list[torch.nn.Parameter]]:
        """Group the weights that require a gradient into buckets, each for one reduction.

        A bucket has weights of one type and device, in their order in the model, up to about
        ``_BUCKET_BYTES``.
        """
        by_kind: dict[Any, list[torch.nn.Parameter]] = {}
        for weight in self._weights:
            if weight.requires_grad:
                by_kind.setdefault((weight.dtype, weight.device), []).append(weight)
        for weights in by_kind.values():
            bucket: list[torch.nn.Parameter] = []
            size_bytes = 0
            for weight in weights:
                bucket.append(weight)
                size_bytes += weight.numel() * weight.element_size()
                if size_bytes >= _BUCKET_BYTES:
                    yield bucket
                    bucket, size_bytes = [], 0
            if bucket:
                yield bucket

    def _average_bucket(self, weights: Sequence[torch.nn.Parameter]) -> None:
        """Average the gradients of these weights with one reduction.

        The tensor that is reduced has a further element for each weight, which counts the ranks
        that have a gradient of it.
        """
        import torch
        import torch.distributed as dist

        sizes = [weight.numel() for weight in weights]
        flat = weights[0].new_zeros(sum(sizes) + len(weights))
        *parts, rank_counts = flat.split([*sizes, len(weights)])
        # Views of ``flat``: first this rank's gradients, after the reduction the averages.
        averages = [part.view(weight.shape) for part, weight in zip(parts, weights)]
        indices = [index for index, weight in enumerate(weights) if weight.grad is not None]
        gradients = [_dense_gradient(weights[index].grad) for index in indices]
        torch._foreach_copy_([averages[index] for index in indices], gradients)
        rank_counts[indices] = self._size  # so that the division makes it a count
        dist.all_reduce(flat)
        flat.div_(self._size)
        dense_gradients: list[Any] = []
        dense_averages: list[Any] = []
        for weight, average, n_ranks in zip(weights, averages, rank_counts.tolist()):
            if not n_ranks:  # no rank has used the weight: it keeps no gradient
                continue
            if weight.grad is None:
                weight.grad = average.clone()
            elif weight.grad.is_sparse:
                weight.grad = average.to_sparse(weight.grad.sparse_dim())
            else:
                dense_gradients.append(weight.grad)
                dense_averages.append(average)
        if dense_gradients:
            torch._foreach_copy_(dense_gradients, dense_averages)


def _dense_gradient(gradient: Any) -> Any:
    """Return a gradient as a dense tensor: those of sparse embeddings have other rows on other
    ranks.
    """
    return gradient.to_dense() if gradient.is_sparse else gradient
