"""Whether a complete backfill cycle has seen idle nodes. A cycle tries every waiting job on all
idle nodes, no matter for whom they were released: so one cycle judges a whole queue.
"""

from __future__ import annotations

from bftrainer.decide.yielding.facts import CLOCK_STEP_S, WaitingQueue
from bftrainer.times import PilotS

CYCLE_S = 120.0
"""Where the scheduler does not show its backfill cycles, one is over after this time."""


def has_cycle(queue: WaitingQueue, since_s: float) -> bool:
    """Whether a complete backfill cycle has begun after a time of the scheduler's."""
    return _has_shown_cycle(queue, since_s) or queue.server_s - since_s > CYCLE_S


def _has_shown_cycle(queue: WaitingQueue, since_s: float) -> bool:
    """Whether the scheduler shows such a cycle. One that begins after the look is from before the
    scheduler's clock was set back.
    """
    planned_s = queue.planned_s
    if planned_s is None or planned_s > queue.server_s + CLOCK_STEP_S:
        return False
    return planned_s > since_s + CLOCK_STEP_S


def cycle_start_s(queue: WaitingQueue, enough_s: float) -> PilotS:
    """Return the pilot's time since which changes may not have been in the plan of the cycle that
    did not take an offer: its beginning, or where no cycle is shown, when enough nodes were idle.
    """
    planned_s = queue.planned_s
    is_shown = planned_s is not None and _has_shown_cycle(queue, enough_s)
    begun_s = planned_s if planned_s is not None and is_shown else enough_s
    return PilotS(queue.at_s - max(queue.server_s - begun_s, 0.0))
