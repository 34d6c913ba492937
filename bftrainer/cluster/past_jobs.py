"""An account of past jobs, as a scheduler keeps it. Frozen, no I/O."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class PastJob:
    """A job of the account. Times are seconds of the scheduler's epoch; ``start_s`` and ``end_s``
    are None while it waits or runs.

    ``partition``: several, joined by commas, where it has not started. ``limit_s`` is its time
    limit. ``priority``: larger ones first. ``other_reason``: why it waited, if for something else
    than nodes.
    """

    id: str
    partition: str
    size: int
    eligible_s: float
    start_s: float | None
    end_s: float | None
    nodes: frozenset[str] = frozenset()
    user: str = ""
    limit_s: float = math.inf
    priority: float = 0.0
    other_reason: str = ""
    is_holder: bool = False

    @property
    def rank(self) -> tuple[float, float, str]:
        """Its place in the queue; the smallest is the first."""
        return -self.priority, self.eligible_s, self.id


@dataclass(frozen=True, slots=True)
class Outage:
    """A node on which no job could start."""

    node: str
    start_s: float
    end_s: float | None


@dataclass(frozen=True, slots=True)
class JobLog:
    """An account of past jobs from ``begin_s`` to ``end_s``.

    ``partitions``: the nodes of each, as the scheduler shows them now; without them, those on which
    jobs ran count. ``skipped``: records that could not be read. ``remarks``: what else the reader
    of a result should know.
    """

    jobs: tuple[PastJob, ...]
    begin_s: float
    end_s: float
    partitions: Mapping[str, frozenset[str]] = field(default_factory=dict)
    outages: tuple[Outage, ...] = ()
    skipped: int = 0
    remarks: tuple[str, ...] = ()
