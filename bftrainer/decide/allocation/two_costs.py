"""The costs of a rescale in the allocation problem, if old nodes train on while new ones start.
Pure.

A trainer stalls for s_j more seconds. A start takes S_j, a switch stalls all nodes for W_j^up,
shrinking stalls the remaining nodes for W_j^dw. With x^+ = max(0, x), growth adds the stall w_j and
delays what it gains by a_j; shrinking adds the stall d_j, at the size after it:

    a_j = (S_j + W_j^up - s_j)^+,  w_j = min(W_j^up, a_j),  d_j = (W_j^dw - s_j)^+

A start is pending: B_j nodes train, after a stall of r_j seconds, until the switch in p_j seconds;
s_j is then max(r_j, p_j + W_j^up). Growth joins that switch, in q_j = max(p_j, S_j) seconds then:
a_j = max(r_j, q_j + W_j^up) - s_j, and the B_j nodes train for g_j = (q_j - r_j)^+ - (p_j - r_j)^+
seconds longer; a_j O_j(C_j) - g_j O_j(B_j) replaces w_j O_j(C_j). Shrinking to more than B_j nodes
is free. B_j nodes or fewer cancel the switch: B_j nodes gain (s_j - max(p_j, r_j)) O_j(B_j). Fewer
make (T_fwd - r_j - d_j) O_j(N_j) - b_j O_j(B_j) with d_j = (W_j^dw - r_j)^+, and b_j = (p_j -
r_j)^+, the time that all other choices let the B_j nodes train.

These gains differ from the samples that a replay makes within T_fwd by a constant, whatever W_j^dw
and T_fwd (``tests/replay/simulation/test_two_costs.py``).
"""

from __future__ import annotations

from dataclasses import replace

from bftrainer.decide.domain.model import Trainer
from bftrainer.decide.domain.problem import PendingStart, TrainerDemand
from bftrainer.decide.domain.rescaling import Rescaling

MOST = 0.9
"""Start and switch count as this share of T_fwd at most: beyond T_fwd no start would ever pay off,
not even from 0 nodes.
"""


def with_two_costs(
    demand: TrainerDemand,
    start_s: float,
    rescaling: Rescaling | None,
    at_s: float,
    forward_s: float,
) -> TrainerDemand:
    """Return the ``demand`` with the costs at the time ``at_s`` of a trainer whose old nodes train
    on while new ones start: s_j, a_j, w_j, d_j and the pending start of the module's text.

    ``demand`` has its trainer's W_j^up and W_j^dw as costs, ``start_s`` is S_j, ``rescaling`` the
    rescale that was under way at the last event (None: none was), and ``forward_s`` T_fwd. If start
    and switch take longer than ``MOST`` of T_fwd, they are scaled down to it.
    """
    up_s, down_s = demand.scale_up_s, demand.scale_down_s  # W_j^up and W_j^dw, then w_j and d_j
    rescaling_left = None if rescaling is None else rescaling.at(at_s)
    pending: PendingStart | None = None
    # No switch is to come: the trainer trains on all nodes, or stalls for the rest of a rescale.
    if rescaling_left is None or rescaling_left.switch_s is None:
        stalled_s = 0.0 if rescaling_left is None else rescaling_left.ready_s - at_s
        ramp_s = max(start_s + up_s - stalled_s, 0.0)
        up_s = min(up_s, ramp_s)
        down_s = max(down_s - stalled_s, 0.0)
    else:
        first_stall_s = max(rescaling_left.stalled_until_s - at_s, 0.0)  # r_j
        due_s = rescaling_left.switch_s - at_s  # p_j
        joint_s = max(due_s, start_s)  # q_j
        stalled_s = rescaling_left.ready_s - at_s
        # Not below 0, if W^up has been learned to be less since the start began, or by rounding.
        ramp_s = max(max(first_stall_s, joint_s + up_s) - stalled_s, 0.0)
        down_s = max(down_s - first_stall_s, 0.0)
        # Fewer nodes than the minimum do not train on.
        training = (
            len(rescaling_left.training) if len(rescaling_left.training) >= demand.min_nodes else 0
        )
        pending = PendingStart(
            training,
            ahead_s=max(due_s - first_stall_s, 0.0),
            switch_s=stalled_s - max(due_s, first_stall_s),
            longer_s=max(joint_s, first_stall_s) - max(due_s, first_stall_s),
        )
    longest_s = stalled_s + ramp_s
    if longest_s > MOST * forward_s:
        factor = MOST * forward_s / longest_s
        stalled_s, ramp_s, up_s = factor * stalled_s, factor * ramp_s, factor * up_s
        pending = None if pending is None else _scaled_times(pending, factor)
    return replace(
        demand,
        scale_up_s=up_s,
        scale_down_s=down_s,
        stalled_s=stalled_s,
        ramp_s=ramp_s,
        pending=pending,
    )


def stretched(demand: TrainerDemand, factor: float) -> TrainerDemand:
    """Return the demand with all costs times ``factor``.

    Its gains are then ``factor`` times those that it would have if T_fwd were ``factor`` times
    shorter.
    """
    return replace(
        demand,
        scale_up_s=factor * demand.scale_up_s,
        scale_down_s=factor * demand.scale_down_s,
        stalled_s=factor * demand.stalled_s,
        ramp_s=factor * demand.ramp_s,
        pending=None if demand.pending is None else _scaled_times(demand.pending, factor),
    )


def _scaled_times(start: PendingStart, factor: float) -> PendingStart:
    """Return the pending start with all times multiplied by ``factor``."""
    return PendingStart(
        start.training,
        ahead_s=factor * start.ahead_s,
        switch_s=factor * start.switch_s,
        longer_s=factor * start.longer_s,
    )


def is_limited(trainer: Trainer, forward_s: float) -> bool:
    """Whether T_fwd is too short for the trainer's start and switch, so that they count as less."""
    return trainer.start_s is not None and max(trainer.growth_s, trainer.scale_down_s) >= forward_s
