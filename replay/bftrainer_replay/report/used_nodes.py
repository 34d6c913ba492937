"""The idle node-hours that training uses, and how far that may be off if pieces of the log were
replayed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from bftrainer.counted import counted
from bftrainer_replay.report.words import share_text
from bftrainer_replay.sweep.results import SweepRow


@dataclass(frozen=True, slots=True)
class UsedNodes:
    """Node-hours of one replay: idle, in training, and left over.

    Pieces of a log may have fewer idle nodes than the log, and a number of trainers can use only a
    number of nodes. The pieces therefore give the share that training uses of the usable nodes, and
    the whole log gives the usable share of its idle nodes. ``correction`` is the factor by which
    this changes the node-hours in training.
    """

    idle_node_h: float
    used_node_h: float
    correction: float = 1.0

    @classmethod
    def of(cls, row: SweepRow) -> UsedNodes:
        """Return the node-hours of a replay's results, corrected if it covers pieces of the log.

        The correction: what is used of the usable nodes in the pieces, times what is usable of the
        idle nodes in the whole log.
        """
        idle = float(row.result["resource_integral_node_h"])
        used = idle - float(row.result["unused_node_h"])
        if row.log_usable_share is None or not row.usable_node_h:
            return cls(idle, used)
        corrected = min(used / row.usable_node_h * row.log_usable_share, 1.0) * idle
        return cls(idle, corrected, corrected / used if used else 1.0)

    @property
    def share(self) -> float:
        """The share of the idle node-hours in training."""
        return self.used_node_h / self.idle_node_h if self.idle_node_h else 0.0

    @property
    def replayed_share(self) -> float:
        """The share in the pieces that were replayed, before the correction."""
        return self.share / self.correction


def one_node_hours(row: SweepRow) -> float:
    """Return the outcome in hours of a single dedicated node, a unit that favors no model;
    corrected as the node-hours in training are.
    """
    return float(row.result["outcome_one_node_h"]) * UsedNodes.of(row).correction


def work_share(row: SweepRow) -> float:
    """Return the share of the idle node-hours that becomes work."""
    return one_node_hours(row) / (UsedNodes.of(row).idle_node_h or 1.0)


def preemptions(row: SweepRow, idle_node_h: float) -> float:
    """Estimate how often a job takes a node from training over the whole log, which has
    ``idle_node_h`` idle node-hours.
    """
    used = UsedNodes.of(row)
    times_larger = idle_node_h / used.idle_node_h if row.parts and used.idle_node_h else 1.0
    return float(row.result["preemptions"]) * times_larger * used.correction


def used_spread(row: SweepRow) -> float:
    """Return by how much the share of used node-hours may be off because pieces stand for the log.

    This is twice the standard error of the ratio (the jackknife over the pieces: the ratio without
    each piece in turn); 0 if all of the log was replayed.
    """
    scale = 1.0 if row.log_usable_share is None else row.log_usable_share
    parts = [
        (part.usable_node_h or UsedNodes.of(part).idle_node_h, UsedNodes.of(part).used_node_h)
        for part in row.parts
    ]
    if len(parts) < 2:
        return 0.0
    total_usable_h = sum(usable_h for usable_h, _ in parts)
    total_used_h = sum(used_h for _, used_h in parts)
    shares_without_one = [
        (total_used_h - used_h) / (total_usable_h - usable_h)
        for usable_h, used_h in parts
        if total_usable_h > usable_h
    ]
    mean = sum(shares_without_one) / len(shares_without_one) if shares_without_one else 0.0
    squares = sum((share - mean) ** 2 for share in shares_without_one)
    return 2 * scale * math.sqrt((len(parts) - 1) / len(parts) * squares)


def usable_shares(row: SweepRow) -> tuple[float, ...]:
    """Return, for each piece of the log, the share of the usable node-hours that training uses.

    Usable are those that this number of trainers can use at most.
    """
    pieces = [(UsedNodes.of(part), part.usable_node_h) for part in row.parts]
    return tuple(
        nodes.used_node_h / (usable_h or nodes.idle_node_h or 1.0) for nodes, usable_h in pieces
    )


def spread_text(row: SweepRow) -> str:
    """Return a text on how far the share of used node-hours may be off, in percentage points.

    They are rounded up. With several pieces, it also has how much these differ.
    """
    points = max(math.ceil(100 * used_spread(row)), 1)
    shares = sorted(usable_shares(row))
    if len(shares) < 2:
        return f"±{counted(points, 'percentage point')}"
    between = " to ".join(dict.fromkeys((share_text(shares[0]), share_text(shares[-1]))))
    return (
        f"the choice of pieces makes this uncertain by ±{counted(points, 'percentage point')} "
        "(twice the standard "
        f"error): in each, training uses {between} of what so many trainings can use at most"
    )
