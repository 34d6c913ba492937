"""Steps with the same result, bit by bit, at every number of workers.

A *virtual rank* is a share of the global batch with random numbers of its own. Their number is
fixed; a worker computes its virtual ranks one after another. What leaves a virtual rank is one
vector: gradients, running statistics, which weights it used, and its loss. The vectors are added
along one binary tree over the virtual ranks, whichever workers hold them: floating-point sums
depend on their order, and this order never changes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bftrainer.errors import InvalidValueError
from bftrainer.progress.agreement import numbers_from_rank_0
from bftrainer.progress.randomness import seed_step, step_seed
from bftrainer.progress.sampler import Sampler
from bftrainer.scaling import Batches

if TYPE_CHECKING:
    import torch

    _Version = tuple[torch.Tensor, int]

_VIRTUAL_RANK = "virtual rank"
_WHOLE_STEP = "whole step"
_EPOCH = "epoch"
"""Purposes of random numbers: of one virtual rank, and of what a script draws beside them."""
_CALLERS = 8
"""Calls from ``GradScaler.step`` to a hook of the optimizer, at most."""


def virtual_ranks_of(count: int, rank: int, size: int) -> range:
    """Return the virtual ranks of a worker, of ``count`` in all: contiguous ones, at most one more
    than any other worker has.
    """
    least, rest = divmod(count, size)
    begin = least * rank + min(rank, rest)
    return range(begin, begin + least + (rank < rest))


def subtrees(ranks: range) -> list[range]:
    """Return the largest subtrees of the binary tree that cover contiguous virtual ranks, from left
    to right: range(3, 8) has the subtrees 3, and 4 to 7.
    """
    trees: list[range] = []
    begin = ranks.start
    while begin < ranks.stop:
        length = 1
        while begin % (2 * length) == 0 and begin + 2 * length <= ranks.stop:
            length *= 2
        trees.append(range(begin, begin + length))
        begin += length
    return trees


class TreeSum:
    """Sums of vectors along the binary tree; only the largest subtrees so far are held.

    Vectors come from left to right. Each is owned by this object: sums are made in place.
    """

    def __init__(self) -> None:
        self._trees: list[tuple[range, torch.Tensor]] = []

    def add(self, ranks: range, vector: torch.Tensor) -> None:
        """Add the sum of the vectors of a subtree."""
        while self._trees:
            left_ranks, left_sum = self._trees[-1]
            both = range(left_ranks.start, ranks.stop)
            if len(left_ranks) != len(ranks) or both.start % len(both):
                break
            self._trees.pop()
            ranks, vector = both, left_sum.add_(vector)
        self._trees.append((ranks, vector))

    def sums(self) -> list[torch.Tensor]:
        """Return the sums of the subtrees, from left to right."""
        return [vector for _, vector in self._trees]


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
        _check_model(model, optimizer)
        self.count = count
        self.own = virtual_ranks_of(count, rank, size)
        """The virtual ranks of this worker."""
        self._seed, self._rank, self._size = seed, rank, size
        self._model = _not_reducing(model)
        if size > 1:
            _copy_from_rank_0([*self._model.parameters(), *self._model.buffers()])
        self._buffers = _OtherBuffers(self._model)
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
        _clear_gradients(weights)
        statistics = _running_statistics(self._model)
        before = [tensor.clone() for tensor in statistics]
        counters = _batch_counters(self._model)
        counts_before = _counts(counters)
        fixed_weights = _WeightVersions(self._model)
        self._buffers.begin()
        total = TreeSum()
        for virtual_rank, batch in zip(self.own, batches):
            if virtual_rank != self.own.start:
                _copy([*statistics, *counters], [*before, *counts_before])
                self._buffers.restore()
            seed_step(self._seed, step, virtual_rank, self._purpose(_VIRTUAL_RANK))
            loss = self._backward(loss_of, batch, weight_of(virtual_rank))
            parts = [*_gradients_of(weights), *statistics, *self._buffers.changes(virtual_rank)]
            increments = _counts(counters) - counts_before
            parts += [_used(weights), increments.float(), loss.reshape(1).float()]
            lengths = [part.numel() for part in parts]
            vector = self._flat(parts)
            # Memory: the gradients are in the vector now, and the sum owns that.
            parts.clear()
            _clear_gradients(weights)
            total.add(range(virtual_rank, virtual_rank + 1), vector)
            del vector
        fixed_weights.compare()
        mean = self._reduced(total.sums(), sum(lengths)).div_(self.count)
        *means, used, counted, loss = mean.split(lengths)
        _set_gradients(weights, accumulated, means, used.tolist())
        _copy(statistics, means[len(weights) :])
        # A norm may be one of a branch that only some virtual ranks take.
        _copy(counters, list(counts_before + counted.ceil().to(counts_before)))
        self._buffers.end([float(part) for part in means[len(weights) + len(statistics) :]])
        self._has_gradients = True
        self._calls += 1
        self.seed_whole_step(step)
        # A copy: scripts keep losses, and a part would keep all gradients of its step.
        return loss[0].clone()

    def seed_whole_step(self, step: int) -> None:
        """Seed the numbers that a script draws beside :meth:`gradients`, alike on all workers."""
        seed_step(self._seed, step, 0, self._purpose(_WHOLE_STEP))

    def seed_epoch(self, epoch: int) -> None:
        """Seed the numbers that a script draws at the begin of an epoch, also after a resume."""
        seed_step(self._seed, epoch, 0, _EPOCH)

    def end_step(self) -> None:
        """Begin the next step, which needs gradients of its own."""
        self._has_gradients, self._calls = False, 0

    def _purpose(self, purpose: str) -> str:
        """Return the purpose of random numbers after the present number of calls in this step."""
        return f"{purpose} {self._calls}" if self._calls else purpose

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint keeps: the number of virtual ranks, and what makes the bits."""
        return {"count": self.count, "arithmetic": self._arithmetic()}

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
        own = self._arithmetic()
        if self._rank == 0 and state["arithmetic"] != own:
            _warn(f"the checkpoint was written with {state['arithmetic']}, this start has {own}")

    def compare_workers(self) -> None:
        """Warn where this worker computes otherwise than rank 0. All workers call it."""
        own = self._arithmetic()
        digest = step_seed(0, 0, 0, own) >> 1
        if numbers_from_rank_0([digest], self._size) != [digest]:
            _warn(f"rank {self._rank} has {own}, rank 0 has something else")

    def _backward(
        self, loss_of: Callable[[Any], torch.Tensor], batch: Any, weight: float
    ) -> torch.Tensor:
        """Compute the gradients of one virtual rank; returns its weighted loss.

        Raises:
            InvalidValueError: The loss is none, or the process groups were used.
        """
        calls_before = _collective_calls()
        loss = loss_of(batch)
        if not hasattr(loss, "backward") or loss.numel() != 1:
            raise InvalidValueError(
                f"loss_of must return a mean loss, a tensor of one value, not {loss!r:.60}"
            )
        weighted = loss * weight
        weighted.backward()
        if _collective_calls() != calls_before:
            raise InvalidValueError(
                "loss_of calls torch.distributed: virtual ranks run at different times and cannot "
                "exchange values within a step (use virtual_ranks=None)"
            )
        return weighted.detach()

    def _flat(self, parts: Sequence[torch.Tensor]) -> torch.Tensor:
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

    def _reduced(self, sums: Sequence[torch.Tensor], length: int) -> torch.Tensor:
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

    def _arithmetic(self) -> str:
        """Return what the bits depend on beside the order of sums."""
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
            _check_callers()


class StepBatches(tuple):  # type: ignore[type-arg]  # of batches of any type
    """The batches of a worker's virtual ranks in one step."""

    __slots__ = ()


class VirtualSampler(Sampler):
    """A :class:`Sampler` whose batches are those of this worker's virtual ranks, in turn.

    It yields (epoch, index) for each sample, for :class:`SeededSamples`.

    Args:
        data: The data set.
        batches: The global batch, the same at every number of workers.
        rank: This worker's rank.
        world_size: Number of workers.
        virtual_ranks: Number of virtual ranks.
        options: The options of ``Sampler``.
    """

    def __init__(
        self,
        data: Any,
        batches: Batches,
        rank: int,
        world_size: int,
        virtual_ranks: int,
        **options: Any,
    ) -> None:
        if batches.global_batch < virtual_ranks:
            raise InvalidValueError(
                f"a global batch of {batches.global_batch} cannot be divided among {virtual_ranks} "
                "virtual ranks"
            )
        self._count = virtual_ranks
        super().__init__(data, batches, rank, world_size, **options)

    def shard(self, rank: int, world_size: int) -> None:
        """Take the shares of this worker's virtual ranks from the next iteration on."""
        own = virtual_ranks_of(self._count, rank, world_size)
        self._shares = [self.batches.share(virtual_rank, self._count) for virtual_rank in own]
        self._share = self._shares[0][0], self._shares[-1][1]
        self._total = self.batches.total(world_size)

    def _batches(self, at: int, share: tuple[int, int], total: int) -> Iterator[Any]:
        began, end = at, (at // self.size + 1) * self.size
        while at < end:
            for first, stop in self._shares:
                places = range(at + first, at + stop)
                yield [(place // self.size, self._index(place)) for place in places]
            at += total
        self._ended_from = began


class SeededSamples:
    """A data set whose samples are augmented by random numbers of (seed, epoch, index), whichever
    process reads them.

    Args:
        data: The data set.
        seed: The training's seed.
    """

    def __init__(self, data: Any, seed: int) -> None:
        self._data, self._seed = data, seed

    def __len__(self) -> int:
        return len(self._data)

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the data set, for a ``worker_init_fn``."""
        if name.startswith("_"):
            raise AttributeError(name)  # also of an object that is being unpickled
        return getattr(self._data, name)

    def __getitem__(self, place: tuple[int, int]) -> Any:
        epoch, index = place
        seed_step(self._seed, epoch, index, "sample")
        return self._data[index]


class _OtherBuffers:
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
        self._shapes = {name: buffer.shape for name, buffer in self._all()}
        self.begin()

    def begin(self) -> None:
        """Copy those that the script has changed since the last step."""
        for name, buffer in self._present():
            if self._is_changed(name, buffer):
                self._copies[name] = buffer.detach().clone()
                self._versions[name] = _version(buffer)

    def restore(self) -> None:
        """Restore the values that they had before the step."""
        for name, buffer in self._present():
            if self._is_changed(name, buffer):
                _copy([buffer], [self._copies[name]])
                self._versions[name] = _version(buffer)

    def changes(self, virtual_rank: int) -> list[torch.Tensor]:
        """Return whether each was changed by a virtual rank, as tensors of one number.

        Raises InvalidValueError for a buffer of the checkpoint that has another shape now.
        """
        flags: list[torch.Tensor] = []
        present = dict(self._present())
        self._check_shapes(present)
        for name, copy in self._copies.items():
            buffer = present.get(name)
            is_changed = buffer is not None and self._is_changed(name, buffer)
            flags.append(copy.new_full((1,), float(is_changed), dtype=_float_type()))
            if is_changed and virtual_rank == 0:
                self._of_virtual_rank_0[name] = present[name].detach().clone()
        return flags

    def end(self, changed: Sequence[float]) -> None:
        """Set those that any virtual rank has changed to the values of virtual rank 0."""
        present = dict(self._present())
        for name, share in zip(self._copies, changed):
            if not share:
                continue
            value = self._of_virtual_rank_0.get(name, self._copies[name])
            if _has_group():
                _copy_from_rank_0([value])
            if name in present:
                _copy([present[name]], [value])
        self._of_virtual_rank_0.clear()

    def _is_changed(self, name: str, buffer: torch.Tensor) -> bool:
        version = self._versions.get(name)
        return version is None or version[0] is not buffer or version[1] != buffer._version

    def _present(self) -> list[tuple[str, torch.Tensor]]:
        """Return those that have the shape that they had at the start."""
        return [(name, buffer) for name, buffer in self._all() if self._has_shape(name, buffer)]

    def _has_shape(self, name: str, buffer: torch.Tensor) -> bool:
        return bool(self._shapes.get(name) == buffer.shape)

    def _all(self) -> list[tuple[str, torch.Tensor]]:
        own = {id(tensor) for tensor in _running_statistics(self._model)}
        own.update(id(tensor) for tensor in _batch_counters(self._model))
        return [(n, buffer) for n, buffer in self._model.named_buffers() if id(buffer) not in own]

    def _check_shapes(self, present: Mapping[str, torch.Tensor]) -> None:
        others = {name for name, _ in self._all() if name not in present}
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


class _WeightVersions:
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


def check_count(count: int, size: int) -> None:
    """Raise InvalidValueError for a number of virtual ranks that is no power of two, or is less
    than the number of workers.
    """
    if not isinstance(count, int) or count < 2 or count & (count - 1):
        raise InvalidValueError(f"virtual_ranks must be a power of two such as 8, not {count!r}")
    if size > count:
        raise InvalidValueError(
            f"{size} workers, but virtual_ranks={count}: limit the trainer to {count} workers "
            "(max_nodes), or start a training with more virtual ranks"
        )


def check_kept(keep: Mapping[str, Any]) -> None:
    """Raise InvalidValueError if a ``GradScaler`` is among the objects of the checkpoint."""
    for name, kept in keep.items():
        if _is_scaler(kept):
            raise InvalidValueError(f"keep[{name!r}]: {_NO_SCALER}")


_NO_SCALER = (
    "virtual ranks have no GradScaler, whose factor follows the gradients: train in bfloat16, or "
    "use virtual_ranks=None"
)


def _is_scaler(value: object) -> bool:
    """Return whether a value is a ``GradScaler`` that is enabled."""
    names = {kind.__name__ for kind in type(value).__mro__}
    is_enabled = getattr(value, "is_enabled", None)
    return "GradScaler" in names and is_enabled is not None and bool(is_enabled())


def _check_callers() -> None:
    """Raise InvalidValueError if a ``GradScaler`` makes the step of the optimizer."""
    frame = sys._getframe(1)
    for _ in range(_CALLERS):
        if frame.f_back is None:
            return
        frame = frame.f_back
        if _is_scaler(frame.f_locals.get("self")):
            raise InvalidValueError(_NO_SCALER)


def _check_model(model: Any, optimizer: Any) -> None:
    """Raise InvalidValueError for a model or an optimizer that virtual ranks cannot train."""
    for module in model.modules():
        kind = type(module).__name__
        if kind == "SyncBatchNorm":
            raise InvalidValueError(
                "virtual_ranks: SyncBatchNorm mixes the samples of virtual ranks, which run at "
                "different times: use BatchNorm, whose statistics are averaged"
            )
        if kind == "FullyShardedDataParallel":
            raise InvalidValueError(
                "virtual_ranks: the weights are sharded (FullyShardedDataParallel): expected all "
                "of them on every worker"
            )
        if getattr(module, "max_norm", None) is not None and kind.startswith("Embedding"):
            raise InvalidValueError(
                f"virtual_ranks: {kind}(max_norm=...) changes the weights of the samples that it "
                "sees, so workers would have others: expected none"
            )
    weights = {id(weight) for weight in model.parameters()}
    steps_on = [weight for group in optimizer.param_groups for weight in group["params"]]
    if any(id(weight) not in weights for weight in steps_on):
        raise InvalidValueError(
            "virtual_ranks: the optimizer has weights that are not the model's: pass "
            "torch.nn.ModuleList([model, other]) as the model"
        )
    if any(weight.is_complex() for weight in steps_on):
        raise InvalidValueError("virtual_ranks: expected real weights, the model has complex ones")


def _not_reducing(model: Any) -> Any:
    """Return the model without DistributedDataParallel, which reduces nothing from now on."""
    from torch.nn.parallel import DistributedDataParallel

    for module in list(model.modules()):
        if isinstance(module, DistributedDataParallel):
            module.require_backward_grad_sync = False
            module.require_forward_param_sync = False
            module.broadcast_buffers = False
    return model.module if isinstance(model, DistributedDataParallel) else model


def _running_statistics(model: torch.nn.Module) -> list[torch.Tensor]:
    """Return the running means and variances of BatchNorm and InstanceNorm."""
    tensors: list[torch.Tensor] = []
    for norm in _norms(model):
        if norm.running_mean is not None:
            tensors += [norm.running_mean, norm.running_var]
    return tensors


def _batch_counters(model: torch.nn.Module) -> list[torch.Tensor]:
    """Return the numbers of batches that BatchNorm and InstanceNorm have counted, which are the
    same after each virtual rank.
    """
    counters = [norm.num_batches_tracked for norm in _norms(model)]
    return [counter for counter in counters if counter is not None]


def _counts(counters: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return the values of counters as one vector."""
    import torch

    if not counters:
        return torch.zeros(0, dtype=torch.int64)
    device = counters[0].device
    return torch.stack([counter.reshape(()).to(device) for counter in counters])


def _norms(model: torch.nn.Module) -> list[Any]:
    from torch.nn.modules.batchnorm import _NormBase

    return [module for module in model.modules() if isinstance(module, _NormBase)]


def _clear_gradients(weights: Sequence[torch.Tensor]) -> None:
    for weight in weights:
        weight.grad = None


def _gradients_of(weights: Sequence[torch.Tensor]) -> list[torch.Tensor]:
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


def _used(weights: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return 1 for each weight that has a gradient, else 0."""
    flags = [float(weight.grad is not None) for weight in weights]
    return weights[0].new_tensor(flags, dtype=_float_type())


def _set_gradients(
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


def _copy(tensors: Sequence[torch.Tensor], values: Sequence[torch.Tensor]) -> None:
    """Copy values into tensors, whatever their shape and type."""
    import torch

    with torch.no_grad():
        for tensor, value in zip(tensors, values):
            tensor.copy_(value.view(tensor.shape))


def _copy_from_rank_0(tensors: Sequence[torch.Tensor]) -> None:
    import torch.distributed as dist

    for tensor in tensors:
        dist.broadcast(tensor.data, 0)


def _has_group() -> bool:
    import torch.distributed as dist

    return bool(dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1)


def _collective_calls() -> int:
    """Return the number of calls of torch.distributed so far, in all groups of this process; 0
    where torch does not count them.
    """
    import torch.distributed as dist

    if not (dist.is_available() and dist.is_initialized()):
        return 0  # a worker that is alone may have a group, and others later
    try:
        groups = list(dist.distributed_c10d._world.pg_map)
        return sum(group._get_sequence_number_for_group() for group in groups)
    except (AttributeError, RuntimeError):
        return 0


def _version(tensor: torch.Tensor) -> _Version:
    """Return a tensor, which then has its address for itself, and a number that changes with each
    change of its values.
    """
    return tensor, tensor._version


def _float_type() -> Any:
    import torch

    return torch.float32


def _warn(difference: str) -> None:
    print(
        f"bftrainer: virtual ranks: {difference}: the bits may be others than those of an "
        "uninterrupted run",
        file=sys.stderr,
        flush=True,
    )
