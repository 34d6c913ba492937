"""Steps with the same result, bit by bit, at every number of workers.

A *virtual rank* is a share of the global batch with random numbers of its own. Their number is
fixed; a worker computes its virtual ranks one after another. What leaves a virtual rank is one
vector: gradients, running statistics, which weights it used, and its loss. The vectors are added
along one binary tree over the virtual ranks (:mod:`.virtual_rank_tree`), whichever workers hold
them: floating-point sums depend on their order, and this order never changes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bftrainer.errors import InvalidValueError
from bftrainer.progress.agreement import numbers_from_rank_0
from bftrainer.progress.model_tensors import (
    batch_counters,
    clear_gradients,
    copy_from_rank_0,
    copy_values,
    counter_values,
    dense_gradients,
    running_statistics,
    set_gradients,
    used_flags,
)
from bftrainer.progress.randomness import seed_step, step_seed
from bftrainer.progress.virtual_rank_buffers import OtherBuffers, WeightVersions
from bftrainer.progress.virtual_rank_checks import (
    check_callers,
    check_count,
    check_model,
    collective_calls,
)
from bftrainer.progress.virtual_rank_data import StepBatches
from bftrainer.progress.virtual_rank_tree import TreeSum, subtrees, virtual_ranks_of

if TYPE_CHECKING:
    import torch


_VIRTUAL_RANK = "virtual rank"
_WHOLE_STEP = "whole step"
_EPOCH = "epoch"
"""Purposes of random numbers: of one virtual rank, and of what a script draws beside them."""


class VirtualRanks:
    """The gradients of a step, summed over virtual ranks in a fixed order.

    Args:
        model: The model, bare or wrapped by DistributedDataParallel, which no longer reduces
            anything. Its weights and buffers are made equal to those of rank 0 now.
        optimizer: Its optimizer.
        count: The number of virtual ranks, a power of two.
        seed: Seed of the random numbers, the same on all workers and at every start.
        rank: This worker's rank in the default process group.
        size: The number of workers.

    Raises:
        InvalidValueError: The model or the optimizer cannot be trained so, or there are more
            workers than virtual ranks.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        optimizer: Any,
        count: int,
        seed: int,
        rank: int,
        size: int,
    ) -> None:
        check_count(count, size)
        check_model(model, optimizer)
        self.count = count
        self.own = virtual_ranks_of(count, rank, size)
        """The virtual ranks of this worker."""
        self._seed, self._rank, self._size = seed, rank, size
        self._model = _without_reduction(model)
        if size > 1:
            copy_from_rank_0([*self._model.parameters(), *self._model.buffers()])
        self._buffers = OtherBuffers(self._model)
        self._has_gradients = self._is_scaler_checked = False
        self._calls = 0  # of gradients() in this step
        stepped = getattr(optimizer, "optimizer", optimizer)
        stepped.register_step_pre_hook(self._check_step)

    def gradients(
        self,
        loss_of: Callable[[Any], torch.Tensor],
        batches: object,
        step: int,
        weight_of: Callable[[int], float],
    ) -> torch.Tensor:
        """Add the gradients of a global batch to those of the weights.

        Args:
            loss_of: Returns the mean loss of the batch of a virtual rank.
            batches: The batches of this worker's virtual ranks.
            step: Steps since training began.
            weight_of: Returns the factor of the mean loss of a virtual rank, by its share of the
                batch.

        Returns:
            The mean loss of the global batch, without a graph.

        Raises:
            InvalidValueError: The batches are not those of a step, or the step has collective
                calls, sparse gradients, or changes of weights.
        """
        if not isinstance(batches, StepBatches):
            raise InvalidValueError(
                "expected the batches of the virtual ranks: call training.gradients(loss_of, "
                f"batches) with what training.loader yields, not {type(batches).__name__}"
            )
        weights = [weight for weight in self._model.parameters() if weight.requires_grad]
        accumulated = [weight.grad for weight in weights]
        clear_gradients(weights)
        statistics = running_statistics(self._model)
        before = [tensor.clone() for tensor in statistics]
        counters = batch_counters(self._model)
        counts_before = counter_values(counters)
        fixed_weights = WeightVersions(self._model)
        self._buffers.begin()
        total = TreeSum()
        for virtual_rank, batch in zip(self.own, batches):
            if virtual_rank != self.own.start:
                copy_values([*statistics, *counters], [*before, *counts_before])
                self._buffers.restore()
            seed_step(self._seed, step, virtual_rank, self._numbered_purpose(_VIRTUAL_RANK))
            loss = self._backward_loss(loss_of, batch, weight_of(virtual_rank))
            parts = [*dense_gradients(weights), *statistics, *self._buffers.changes(virtual_rank)]
            increments = counter_values(counters) - counts_before
            parts += [used_flags(weights), increments.float(), loss.reshape(1).float()]
            lengths = [part.numel() for part in parts]
            vector = self._padded_vector(parts)
            # Memory: the gradients are in the vector now, and the sum owns that.
            parts.clear()
            clear_gradients(weights)
            total.add(range(virtual_rank, virtual_rank + 1), vector)
            del vector
        fixed_weights.compare()
        mean = self._sum_over_ranks(total.sums(), sum(lengths)).div_(self.count)
        *means, used, counted, loss = mean.split(lengths)
        set_gradients(weights, accumulated, means, used.tolist())
        copy_values(statistics, means[len(weights) :])
        # A norm may be one of a branch that only some virtual ranks take.
        copy_values(counters, list(counts_before + counted.ceil().to(counts_before)))
        self._buffers.end([float(part) for part in means[len(weights) + len(statistics) :]])
        self._has_gradients = True
        self._calls += 1
        self.seed_whole_step(step)
        # A copy: scripts keep losses, and a part would keep all gradients of its step.
        return loss[0].clone()

    def seed_whole_step(self, step: int) -> None:
        """Seed the numbers that a script draws beside :meth:`gradients`, alike on all workers."""
        seed_step(self._seed, step, 0, self._numbered_purpose(_WHOLE_STEP))

    def seed_epoch(self, epoch: int) -> None:
        """Seed the numbers that a script draws at the begin of an epoch, also after a resume."""
        seed_step(self._seed, epoch, 0, _EPOCH)

    def end_step(self) -> None:
        """Begin the next step, which needs gradients of its own."""
        self._has_gradients, self._calls = False, 0

    def _numbered_purpose(self, purpose: str) -> str:
        """Return the purpose of random numbers after the present number of calls in this step."""
        return f"{purpose} {self._calls}" if self._calls else purpose

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint keeps: the number of virtual ranks, and what makes the bits."""
        return {"count": self.count, "arithmetic": self._arithmetic_text()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Compare this start with the one that wrote the checkpoint.

        Raises:
            InvalidValueError: That had another number of virtual ranks.
        """
        if state["count"] != self.count:
            raise InvalidValueError(
                f"the checkpoint is of virtual_ranks={state['count']}, here are {self.count}: "
                "continue with the same number, or start without the checkpoint"
            )
        own = self._arithmetic_text()
        if self._rank == 0 and state["arithmetic"] != own:
            _warn_of_difference(
                f"the checkpoint was written with {state['arithmetic']}, this start has {own}"
            )

    def compare_workers(self) -> None:
        """Warn where this worker computes otherwise than rank 0. All workers call it."""
        own = self._arithmetic_text()
        digest = step_seed(0, 0, 0, own) >> 1
        if numbers_from_rank_0([digest], self._size) != [digest]:
            _warn_of_difference(f"rank {self._rank} has {own}, rank 0 has something else")

    def _backward_loss(
        self, loss_of: Callable[[Any], torch.Tensor], batch: Any, weight: float
    ) -> torch.Tensor:
        """Compute the gradients of one virtual rank; returns its weighted loss.

        Raises:
            InvalidValueError: The loss is none, or the process groups were used.
        """
        calls_before = collective_calls()
        loss = loss_of(batch)
        if not hasattr(loss, "backward") or loss.numel() != 1:
            raise InvalidValueError(
                f"loss_of must return a mean loss, a tensor of one value, not {loss!r:.60}"
            )
        weighted = loss * weight
        weighted.backward()
        if collective_calls() != calls_before:
            raise InvalidValueError(
                "loss_of calls torch.distributed: virtual ranks run at different times and cannot "
                "exchange values within a step (use virtual_ranks=None)"
            )
        return weighted.detach()

    def _padded_vector(self, parts: Sequence[torch.Tensor]) -> torch.Tensor:
        """Return a vector of the parts, with zeros at its end so that it is a multiple of the
        number of workers.
        """
        import torch

        device = parts[0].device
        flat_parts = [part.detach().reshape(-1).to(device) for part in parts]
        length = sum(part.numel() for part in flat_parts)
        if rest := -length % self._size:
            flat_parts.append(flat_parts[-1].new_zeros(rest))
        return torch.cat(flat_parts)

    def _sum_over_ranks(self, sums: Sequence[torch.Tensor], length: int) -> torch.Tensor:
        """Return the sum over all virtual ranks, ``length`` elements, on every worker.

        Each worker completes one piece of the vector: it gets this piece of the sums of all
        subtrees that workers hold, adds them along the tree, and passes the result to all.
        """
        import torch
        import torch.distributed as dist

        if self._size == 1:
            return sums[0]
        piece = sums[0].numel() // self._size
        sent = torch.stack([vector.view(self._size, piece) for vector in sums], 1)
        workers = [
            subtrees(virtual_ranks_of(self.count, rank, self._size)) for rank in range(self._size)
        ]
        all_trees = [tree for trees in workers for tree in trees]
        received = sent.new_empty(len(all_trees), piece)
        dist.all_to_all_single(
            received.view(-1),
            sent.view(-1),
            [len(trees) * piece for trees in workers],
            [len(sums) * piece] * self._size,
        )
        total = TreeSum()
        for tree, vector in zip(all_trees, received):
            total.add(tree, vector)
        (own_piece,) = total.sums()
        result = sent.new_empty(self._size * piece)
        gather = getattr(dist, "all_gather_single", None)  # its name since torch 2.13
        (gather or dist.all_gather_into_tensor)(result, own_piece.contiguous())
        return result[:length]

    def _arithmetic_text(self) -> str:
        """Describe the versions and the hardware on which the bits of a result depend, beside the
        order of sums.
        """
        import torch

        device = next(self._model.parameters()).device
        name = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
        capability = torch.backends.cpu.get_cpu_capability()
        return f"torch {torch.__version__}, {torch.get_num_threads()} threads, {capability}, {name}"

    def _check_step(self, *_: object) -> None:
        """Raise InvalidValueError for a step of the optimizer with gradients of another origin."""
        if not self._has_gradients:
            raise InvalidValueError(
                "virtual_ranks: optimizer.step() without gradients of this batch: call "
                "training.gradients(loss_of, batches) in place of backward()"
            )
        if not self._is_scaler_checked:
            self._is_scaler_checked = True
            check_callers()


def _without_reduction(model: Any) -> Any:
    """Return the model without DistributedDataParallel, which reduces nothing from now on."""
    from torch.nn.parallel import DistributedDataParallel

    for module in list(model.modules()):
        if isinstance(module, DistributedDataParallel):
            module.require_backward_grad_sync = False
            module.require_forward_param_sync = False
            module.broadcast_buffers = False
    return model.module if isinstance(model, DistributedDataParallel) else model


def _warn_of_difference(difference: str) -> None:
    """Print a warning that the result may differ from that of an uninterrupted run."""
    print(
        f"bftrainer: virtual ranks: {difference}: the bits may be others than those of an "
        "uninterrupted run",
        file=sys.stderr,
        flush=True,
    )
