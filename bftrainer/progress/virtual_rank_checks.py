"""Refusals of models, optimizers and numbers of workers that virtual ranks cannot train."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from bftrainer.errors import InvalidValueError

_CALLERS = 8
"""Calls from ``GradScaler.step`` to a hook of the optimizer, at most."""


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


def check_callers() -> None:
    """Raise InvalidValueError if a ``GradScaler`` makes the step of the optimizer."""
    frame = sys._getframe(1)
    for _ in range(_CALLERS):
        if frame.f_back is None:
            return
        frame = frame.f_back
        if _is_scaler(frame.f_locals.get("self")):
            raise InvalidValueError(_NO_SCALER)


def check_model(model: Any, optimizer: Any) -> None:
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


def collective_calls() -> int:
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
