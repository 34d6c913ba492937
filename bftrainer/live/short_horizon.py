"""Tells of trainers whose learned start and switch are longer than T_fwd: they count as less (allocation/two_costs.py)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from bftrainer.allocation.two_costs import MOST, is_limited
from bftrainer.live.facts import DecisionMade, Fact


@dataclass(slots=True)
class ShortHorizon:
    """A listener. ``note(subject, text)`` is called once per trainer."""

    forward_s: Callable[[], float]
    note: Callable[[str, str], None]
    _told: set[str] = field(default_factory=set)

    def hear(self, fact: Fact) -> None:
        if not isinstance(fact, DecisionMade):
            return
        forward_s = self.forward_s()
        for active in fact.state.active:
            trainer = active.trainer
            if trainer.start_s is None or trainer.id in self._told or not is_limited(trainer, forward_s):
                continue
            self._told.add(trainer.id)
            self.note(
                trainer.id,
                f"a rescale takes {trainer.growth_s:.0f} s (start {trainer.start_s:.0f} s, switch {trainer.scale_up_s:.0f} s), "
                f"but decisions look {forward_s:g} s ahead: it counts as {MOST * forward_s:.0f} s; set decisions.forward_s "
                "higher",
            )
