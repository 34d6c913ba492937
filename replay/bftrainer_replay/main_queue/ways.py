"""The ways in which held nodes can be freed for main jobs: by the scheduler, by the pilot, or not
before they end.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass, replace

from bftrainer.errors import UserError

DAY_S = 86400.0


class FreeingWay(enum.Enum):
    """Who frees held nodes. SITE, YIELD and BLIND are values of ``nodes.give_way``; LIFE is the
    scheduler, after a guaranteed run time. KEEP and WINDOWS are pilots that never give way: WINDOWS
    holds nodes only for as long as the scheduler's plan leaves them idle.
    """

    SITE = "site"
    YIELD = "yield"
    BLIND = "blind"
    LIFE = "life"
    KEEP = "keep"
    WINDOWS = "windows"


_WORST_WAIT_S = {FreeingWay.YIELD: 1800.0, FreeingWay.BLIND: 1800.0, FreeingWay.WINDOWS: 7200.0}
_SETTLED_S = {FreeingWay.YIELD: 300.0, FreeingWay.BLIND: 3600.0}


@dataclass(frozen=True, slots=True)
class PilotRules:
    """How a pilot holds nodes, in seconds.

    - ``life_s``: with LIFE, how long a holder runs before the scheduler may preempt it.
    - ``worst_wait_s``: the time limit of a holder; ``busy_limit_s``: the same while main jobs wait.
    - ``settled_s``: no more nodes are held than were idle or held at all times in the last so many
      seconds.
    - ``look_s``: between two looks at the queue; ``release_s``: until a released node is idle.
    - ``notice_s``: how long trainers may take to leave (BLIND waits as long before a void offer).
    - ``cycle_s``: between two backfill cycles, after which an offer that was not taken is void.
    - ``least_s``: no node is held for less; ``start_s``: what each start of a holder costs.
    """

    way: FreeingWay
    life_s: float = 0.0
    worst_wait_s: float = 1800.0
    busy_limit_s: float = math.inf
    settled_s: float = 0.0
    look_s: float = 1.0
    release_s: float = 2.0
    notice_s: float = 5.0
    cycle_s: float = 30.0
    least_s: float = 60.0
    start_s: float = 10.0

    @property
    def name(self) -> str:
        """The way as it is written on the command line."""
        return f"life:{self.life_s:g}" if self.way is FreeingWay.LIFE else self.way.value

    @property
    def noise_s(self) -> float:
        """The random delay of each start that says how far a few seconds move a whole schedule."""
        return self.look_s + self.release_s


def rules_of(
    text: str,
    worst_wait_s: float | None = None,
    settled_s: float | None = None,
    look_s: float = 1.0,
    cycle_s: float = 30.0,
) -> PilotRules:
    """Return the rules of a way such as ``yield`` or ``life:600``; what is None has the pilot's own
    default for it.

    Raises :class:`UserError` for a way that does not exist, and for times that no pilot accepts.
    """
    word, _, seconds = text.partition(":")
    way = next((way for way in FreeingWay if way.value == word), None)
    if way is None or (way is FreeingWay.LIFE) is not bool(seconds):
        raise UserError(
            f"--give-way {text!r:.40}: expected site, yield, blind, keep, windows, or "
            "life:SECONDS such as life:600"
        )
    if worst_wait_s is None:
        worst_wait_s = _WORST_WAIT_S.get(way, DAY_S)
    if settled_s is None:
        settled_s = _SETTLED_S.get(way, 0.0)
    rules = PilotRules(
        way,
        _life_s(text, seconds) if way is FreeingWay.LIFE else 0.0,
        _in_range("--worst-wait", worst_wait_s, 120.0),
        settled_s=_in_range("--settled", settled_s, 0.0),
        look_s=_in_range("--look", look_s, 0.5),
        cycle_s=_in_range("--cycle", cycle_s, 0.0),
    )
    match way:
        case FreeingWay.YIELD | FreeingWay.BLIND:
            return replace(rules, busy_limit_s=600.0)
        case FreeingWay.WINDOWS:
            return replace(rules, least_s=600.0)
        case _:
            return rules


def _life_s(text: str, seconds: str) -> float:
    """Return the seconds of ``life:SECONDS``."""
    try:
        value = float(seconds)
    except ValueError:
        raise UserError(f"--give-way {text!r:.40}: expected seconds, such as life:600") from None
    return _in_range("--give-way life", value, 0.0)


def _in_range(option: str, seconds: float, least_s: float) -> float:
    """Return the value of an option, or refuse it."""
    if not least_s <= seconds <= 30 * DAY_S:
        raise UserError(f"{option} {seconds:g}: expected {least_s:g} to {30 * DAY_S:.0f} seconds")
    return seconds
