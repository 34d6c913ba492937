"""Many nodes at once are requested in batches; events say how far that has come. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

MANY = 32
"""More nodes than this, and more than could be requested at once, are worth a word."""
TELL_EVERY_S = 10.0


@dataclass(frozen=True, slots=True)
class Burst:
    """Nodes that were requested since ``began_s``; none while ``began_s`` is None."""

    began_s: float | None = None
    requested: int = 0
    told_s: float = 0.0

    def after(self, wanted: int, requested: int, ready: int, now_s: float) -> tuple[Burst, str]:
        """After a round in which ``wanted`` nodes could have been requested and ``requested`` were; and what to tell."""
        rest = max(wanted - requested, 0)
        if self.began_s is None:
            if rest == 0 or wanted <= MANY:
                return self, ""
            begun = Burst(now_s, requested, now_s)
            return begun, begun._words(rest, ready)
        total = replace(self, requested=self.requested + requested)
        if rest == 0:
            return Burst(), f"{total._words(0, ready)}; it took {now_s - self.began_s:.0f} s"
        if now_s - self.told_s < TELL_EVERY_S:
            return total, ""
        return replace(total, told_s=now_s), total._words(rest, ready)

    def _words(self, rest: int, ready: int) -> str:
        return f"holding {self.requested + rest} nodes: {self.requested} requested, {ready} held"
