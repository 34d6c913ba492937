"""What a decision remembers for the next look at the queue."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from bftrainer.decide.yielding.node_sets import NO_NODES, NodeSet
from bftrainer.decide.yielding.offers import Offer
from bftrainer.decide.yielding.times_by_node import TimesByNode
from bftrainer.times import PilotS


@dataclass(frozen=True, slots=True)
class YieldMemory:
    """What a decision remembers for the next look.

    ``awaited_since``: nodes that were to become idle for a job, and since when. ``canceled_s``:
    when jobs went away for which nodes had been released. ``rest_until_s``: until then nothing is
    requested. ``blocks``: whether nothing may be requested. ``reserved``: idle nodes that are not
    requested. ``idle_since``: the scheduler's time of the first look of a row in which a node was
    idle. ``busy``: nodes of main jobs. ``server_s``: the scheduler's time of the look.
    """

    look_s: PilotS = PilotS(-math.inf)
    offers: tuple[Offer, ...] = ()
    awaited_since: TimesByNode = field(default_factory=TimesByNode)
    canceled_s: tuple[PilotS, ...] = ()
    rest_until_s: PilotS = PilotS(-math.inf)
    blocks: bool = False
    reserved: NodeSet = NO_NODES
    idle_since: TimesByNode = field(default_factory=TimesByNode)
    busy: NodeSet = NO_NODES
    server_s: float | None = None
