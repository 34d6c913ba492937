"""Rescales that are not over yet, as the trainer's costs predict. Pure.

A rescale has two costs if the old nodes train on while new ones start. A *start* takes
``Trainer.start_s`` (S): the new nodes do nothing yet, and the old ones train on. Then comes the
*switch*: all nodes stall for ``scale_up_s`` (W^up). Shrinking and losing nodes that train stall the
others for ``scale_down_s`` (W^dw). Stalls overlap, and growth during a start postpones its switch:
one switch serves both. A start from 0 nodes may take longer, since the trainer's driver starts as
well (``Trainer.from_zero_s``). Without a start, S = 0: all nodes stall for R^up or R^dw.
"""

from __future__ import annotations

from dataclasses import dataclass

from bftrainer.decide.domain.model import Trainer

Nodes = frozenset[str]


@dataclass(frozen=True, slots=True)
class Rescaling:
    """A rescale that is under way: all nodes stall until ``stalled_until_s``, and all train from
    ``ready_s``.

    With a pending start, the nodes in ``training`` train in between, until ``switch_s``. Without
    one ``switch_s`` is None, and ``ready_s`` is ``stalled_until_s``.
    """

    training: Nodes
    stalled_until_s: float
    ready_s: float
    switch_s: float | None = None

    def at(self, at_s: float) -> Rescaling | None:
        """Return the rest of the rescale at ``at_s``; None if it is over. A switch that has begun
        is a stall.
        """
        if at_s >= self.ready_s:
            return None
        if self.switch_s is not None and at_s >= self.switch_s:
            return Rescaling(frozenset(), self.ready_s, self.ready_s)
        return self


def rescaled(
    trainer: Trainer, now: Rescaling | None, before: Nodes, after: Nodes, at_s: float
) -> Rescaling:
    """Return the rescale that is under way after a change from ``before`` to ``after`` at ``at_s``,
    planned or forced.

    ``now`` is what was left of an earlier one.
    """
    now = None if now is None else now.at(at_s)
    pending_s = None if now is None else now.switch_s
    training = before if now is None or pending_s is None else now.training
    stalled_s = at_s if now is None else now.stalled_until_s
    staying = training & after
    if len(staying) < len(training):
        stalled_s = max(stalled_s, at_s + trainer.scale_down_s)
    if not after <= before:
        due_s = at_s + trainer.starts_s(len(before))
        pending_s = due_s if pending_s is None else max(pending_s, due_s)
    if pending_s is None or staying == after:  # nothing starts (any more)
        return Rescaling(frozenset(), stalled_s, stalled_s)
    ready_s = max(stalled_s, pending_s + trainer.scale_up_s)
    if pending_s <= at_s:
        return Rescaling(frozenset(), ready_s, ready_s)
    return Rescaling(staying, stalled_s, ready_s, pending_s)
