"""Facts that a policy needs of a trainer. Checked at submission, where a trainer can still be
rejected with a reason, and for all trainers before a pilot starts or applies a new configuration.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from bftrainer.counted import counted
from bftrainer.decide.allocation.two_costs import is_limited
from bftrainer.decide.domain.model import Trainer
from bftrainer.decide.domain.needs import Need
from bftrainer.decide.domain.ports import Policy
from bftrainer.errors import InvalidValueError


def _is_lacking(trainer: Trainer, need: Need) -> bool:
    """Whether a trainer lacks a fact, such as its length, that a policy or an objective needs."""
    match need:
        case Need.LENGTH:
            return trainer.samples_total is None
        case Need.LOSSES:
            return not trainer.reports_loss
        case Need.PRIORITY:
            return trainer.priority == 0


def refusal(policy: Policy, trainer: Trainer) -> str | None:
    """Say why this policy cannot serve this trainer: it lacks a fact that the policy needs, or
    T_fwd is too short for its rescales. None if it can.

    A pilot asks at submission, a replay before the start.
    """
    if trainer.fill:  # no policy decides on it
        return None
    for need in sorted(needs_of(policy), key=lambda need: need.name):
        if _is_lacking(trainer, need):
            return f"trainer {trainer.id}: {_name_of_owner(policy, need)} requires {need.value}"
    if (forward_s := forward_of(policy)) is not None and is_limited(trainer, forward_s):
        longest_s = max(trainer.growth_s, trainer.scale_down_s)
        return (
            f"trainer {trainer.id}: a rescale takes {longest_s:g} s (start_s + scale_up_s, or "
            "scale_down_s), but decisions "
            f"look {forward_s:g} s ahead (T_fwd), so that growing would never pay off; set "
            f"forward_s above {longest_s:g}"
        )
    return None


def _name_of_owner(policy: Policy, need: Need) -> str:
    """Return the name of the policy, or of its objective if the need comes from that."""
    objective = _attribute_of(policy, "objective")
    if objective is not None and need in objective.needs:
        return f"objective {objective.name}"
    return f"policy {policy.name}"


def check_needs_of_all(policy: Policy, trainers: Iterable[Trainer]) -> None:
    """Raise :class:`InvalidValueError` if the policy cannot serve all trainers.

    The error names the first that it cannot serve, and how many more there are.
    """
    reasons = [reason for trainer in trainers if (reason := refusal(policy, trainer)) is not None]
    if reasons:
        more = f" (and {counted(len(reasons) - 1, 'more trainer')})" if len(reasons) > 1 else ""
        raise InvalidValueError(
            f"decisions: {reasons[0]}{more}; choose another decisions.policy or "
            "decisions.objective, or cancel the trainer"
        )


def check_needs(policy: Policy, trainer: Trainer) -> None:
    """Raise :class:`InvalidValueError` if the policy cannot serve the trainer."""
    if (reason := refusal(policy, trainer)) is not None:
        raise InvalidValueError(reason)


def needs_of(policy: Policy) -> frozenset[Need]:
    """Return the facts that a policy needs of every trainer, also inside other policies."""
    return _attribute_of(policy, "needs") or frozenset()


def forward_of(policy: Policy) -> float | None:
    """Return T_fwd in seconds of a policy that solves Eqn 16, also within other policies; None for
    others.
    """
    forward_s = _attribute_of(policy, "forward_s")
    return None if forward_s is None else float(forward_s)


def is_rigid(policy: Policy) -> bool:
    """Whether the policy treats trainers as ordinary jobs of fixed size: the loss of a node kills
    them, and they resume from their last checkpoint.
    """
    return bool(_attribute_of(policy, "rigid"))


def is_unlimited(policy: Policy) -> bool:
    """Whether every trainer is admitted, whatever P_jmax: its trainers are jobs in the queue of the
    scheduler.
    """
    return bool(_attribute_of(policy, "unlimited"))


def has_priority_order(policy: Policy) -> bool:
    """Whether the policy decides how many trainers train: then P_jmax may be None.

    That is so for objectives with a priority order (``kappa``), also of a policy within other
    policies.
    """
    return getattr(_attribute_of(policy, "objective"), "kappa", None) is not None


def _attribute_of(policy: Policy, name: str) -> Any:
    """Return the attribute ``name`` of the outermost policy that has it: of this one, or of one
    inside it (``policy``), as a wrapper has. None if none has it.
    """
    layer: object = policy
    while layer is not None:
        value = getattr(layer, name, None)
        if value is not None:
            return value
        layer = getattr(layer, "policy", None)
    return None
