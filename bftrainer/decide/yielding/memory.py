"""What a decision remembers for the next look at the queue."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from bftrainer.decide.yielding.node_sets import NO_NODES, NodeSet
from bftrainer.decide.yielding.node_times import NodeTimes
from bftrainer.decide.yielding.offers import Offer
from bftrainer.times import PilotS


@dataclass(frozen=True, slots=True)
class Renewals:
    """When nodes were last seen with their ``latest`` holder, and with the one ``before``, while an
    offer was void.
    """

    latest: NodeTimes = field(default_factory=NodeTimes)
    before: NodeTimes = field(default_factory=NodeTimes)

    def after_look(self, held: NodeSet, renewed: NodeSet, at_s: PilotS) -> Renewals:
        """Return the times after a look at which these nodes are ``held``, those that are
        ``renewed`` by other holders than at the look before.
        """
        changed = self.latest.only(renewed)
        before = self.before.without(changed.nodes) if changed.groups else self.before
        latest = self.latest.without(held)
        return Renewals(latest.also(held, at_s), before.joined(changed))


@dataclass(frozen=True, slots=True)
class YieldMemory:
    """What a decision remembers for the next look.

    ``awaited_since``: nodes that were to become idle for a job, and since when. ``canceled_s``:
    when jobs went away for which nodes had been released. ``rest_until_s``: until then nothing is
    requested. ``blocks``: whether nothing may be requested. ``reserved``: idle nodes that are not
    requested. ``renewals``: none while no offer is void. ``idle_since``: the scheduler's time of
    the first look of a row in which a node was idle. ``busy``: nodes of main jobs. ``server_s``:
    the scheduler's time of the look.
    """

    look_s: PilotS = PilotS(-math.inf)
    offers: tuple[Offer, ...] = ()
    awaited_since: NodeTimes = field(default_factory=NodeTimes)
    canceled_s: tuple[PilotS, ...] = ()
    rest_until_s: PilotS = PilotS(-math.inf)
    blocks: bool = False
    reserved: NodeSet = NO_NODES
    renewals: Renewals = field(default_factory=Renewals)
    idle_since: NodeTimes = field(default_factory=NodeTimes)
    busy: NodeSet = NO_NODES
    server_s: float | None = None
