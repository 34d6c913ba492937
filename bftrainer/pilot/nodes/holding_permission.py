"""Whether the site allows this pilot to hold nodes, and what the log of events says of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from bftrainer.cluster.model import GiveWay, HoldingPermit
from bftrainer.pilot.persistence.registry import Note
from bftrainer.times import ElapsedS

REFUSED, ALLOWED, ACCEPTED = "refused", "allowed", "accepted"
WAY, YIELD = "give way", "yield"
"""Kinds of notes: who frees nodes for main jobs, and a main job for which nodes were released."""
WAY_KINDS = (WAY, "pilot")
"""A pilot that starts finds out again."""
REPEAT_S = 86_400.0


def way_words(permit: HoldingPermit) -> str:
    """Say who frees nodes for main jobs, and why."""
    match permit.give_way:
        case GiveWay.SITE:
            return "site: the scheduler ends holders for main jobs"
        case GiveWay.YIELD:
            words = "yield: the pilot releases nodes when main jobs wait for them"
        case GiveWay.BLIND:
            words = "blind: the pilot releases nodes when the scheduler counts a waiting job"
    return f"{words} ({permit.why})" if permit.why else words


def way_of(note: Note | None) -> str:
    """Return who frees nodes for main jobs, by the latest note of :data:`WAY_KINDS`, if that is a
    pilot; empty where the scheduler does, and where no pilot has found out since it started.
    """
    if note is None or note.kind != WAY or note.text.startswith(GiveWay.SITE.value):
        return ""
    return note.text


@dataclass
class HoldingPermission:
    """The site's latest answer (``permit``), and when the notes of it are repeated. ``ask`` asks
    the site.
    """

    ask: Callable[[], HoldingPermit]
    permit: HoldingPermit = field(default_factory=HoldingPermit)
    _next_repeat_s: float = -math.inf

    def refresh(self, elapsed_s: ElapsedS) -> Iterator[tuple[str, str]]:
        """Take the site's latest answer, and yield (kind, text) of the notes that it is worth.

        A refusal, and what the user has accepted, are noted when they change, and every day.
        """
        previous, self.permit = self.permit, self.ask()
        is_repeat_due = elapsed_s >= self._next_repeat_s
        if is_repeat_due:
            self._next_repeat_s = elapsed_s + REPEAT_S
        if self.permit.refusal and (is_repeat_due or self.permit.refusal != previous.refusal):
            yield REFUSED, f"no node is held: {self.permit.refusal}"
        if previous.refusal and not self.permit.refusal:
            yield ALLOWED, "nodes may be held again"
        if self.permit.give_way is not previous.give_way:
            yield WAY, way_words(self.permit)
        if is_repeat_due or self.permit.remarks != previous.remarks:
            for remark in self.permit.remarks:
                yield ACCEPTED, remark
