"""A poll of the scheduler on its way, what it showed, and how polls went."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass

from bftrainer.domain.cluster import Observation, PeerPilot
from bftrainer.domain.times import ElapsedS, PilotS


@dataclass(frozen=True, slots=True)
class PollRecord:
    """How polls went. ``first_s`` is by the clock that never goes back; None before the first success.

    ``error`` is the last failure's text (empty: none since a success), ``complaint`` what was last said of peer pilots.
    """

    first_s: ElapsedS | None = None
    failures: int = 0
    error: str = ""
    complaint: str = ""


@dataclass(frozen=True, slots=True)
class Seen:
    """An observation, when it was complete, and the peer pilots if they matter."""

    observation: Observation
    at_s: PilotS
    peers: tuple[PeerPilot, ...] | None


@dataclass(slots=True)
class Poll:
    """A poll on its way since ``begun_s``."""

    begun_s: ElapsedS
    answer: Future[Seen]
    took_s: float = 0.0
