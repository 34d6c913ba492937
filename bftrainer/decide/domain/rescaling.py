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
        """Return what is left of the rescale at ``at_s``; None if it is over.

        Once its switch has begun, that is a stall of all nodes.
        """
        if at_s >= self.ready_s:
            return None
        if self.switch_s is not None and at_s >= self.switch_s:
            return Rescaling(frozenset(), self.ready_s, self.ready_s)
        return self


def rescaled(
    trainer: Trainer,
    earlier: Rescaling | None,
    old_nodes: Nodes,
    new_nodes: Nodes,
    at_s: float,
) -> Rescaling:
    """Return the rescale that is under way after a trainer's nodes have changed at ``at_s``,
    planned or forced: when its stall ends, and when all nodes train.

    ``earlier`` is the rescale that was under way until then (None: none was). The new nodes start
    while the old ones train on, then a switch stalls all; see the module.
    """
    earlier_left = None if earlier is None else earlier.at(at_s)
    switch_s = None if earlier_left is None else earlier_left.switch_s
    # Only during a start do some of the nodes not train yet.
    training = old_nodes if earlier_left is None or switch_s is None else earlier_left.training
    stalled_until_s = at_s if earlier_left is None else earlier_left.stalled_until_s
    still_training = training & new_nodes
    if len(still_training) < len(training):  # the loss of a node that trains stalls the others
        stalled_until_s = max(stalled_until_s, at_s + trainer.scale_down_s)
    if not new_nodes <= old_nodes:  # growth, which postpones a pending switch
        due_s = at_s + trainer.starts_s(len(old_nodes))
        switch_s = due_s if switch_s is None else max(switch_s, due_s)
    if switch_s is None or still_training == new_nodes:  # no node starts (any more)
        return Rescaling(frozenset(), stalled_until_s, stalled_until_s)
    # All train once the switch is over, and the stall of a loss as well.
    ready_s = max(stalled_until_s, switch_s + trainer.scale_up_s)
    if switch_s <= at_s:  # the start takes no time: the switch is a stall from now on
        return Rescaling(frozenset(), ready_s, ready_s)
    return Rescaling(still_training, stalled_until_s, ready_s, switch_s)
