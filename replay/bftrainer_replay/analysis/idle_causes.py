"""Causes of idle node-time: what the waiting jobs needed, and what of it the idle nodes had.

The paper calls its idle nodes "resources that cannot be backfilled" (Table 1). A log with a queue
allows a check. At any moment a waiting job fits if enough nodes are idle that are in one of its
partitions, have its devices and features, and stay idle, as it turned out, for its time limit; and
if nothing else keeps it from starting. The idle nodes that fitting jobs could take, but no more
than these jobs ask for, are fillable. For the others, conditions are dropped one after the other,
in the order of :class:`IdleCause`: the first one without which more nodes could be taken is their
cause.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bftrainer.counted import counted
from bftrainer_replay.analysis.fitting import LEVELS, Fitting
from bftrainer_replay.analysis.window_fragments import fragments_of, pool_sizes_of
from bftrainer_replay.logs.dialect import GENERIC, Dialect
from bftrainer_replay.logs.first_fit import PREFIX
from bftrainer_replay.logs.job_needs import JobFact
from bftrainer_replay.logs.model import LogWindow

MOST_WORK = 100_000_000
"""Idle nodes and waiting jobs looked at, over all moments, where a moment itself counts as
``_MOMENT`` of them: 1 to 5 s.

On Mira, Theta and wagap the shares are within 0.2 points of those of fifteen times as many moments.
"""
_MOMENT = 15_000
_LEAST_MOMENTS = 500


class IdleCause(enum.Enum):
    """Why idle nodes were idle; the value completes "idle while ...". The first is no cause: a job
    could have used them.
    """

    FITS = "a waiting job fits"
    TOO_LONG = "the jobs that would fit have time limits longer than the nodes stayed idle"
    DEVICES = "the jobs that wait need other devices, cores or features"
    PARTITION = "the jobs that wait are for other partitions"
    DEPENDENCY = "the jobs that wait depend on others"
    BEGIN_TIME = "the jobs that wait begin later, as asked for"
    HELD = "the jobs that wait are held"
    LIMIT = "the jobs that wait are over a limit of their association or QOS"
    OTHER = "the jobs that wait cannot start for other reasons (license, reservation, ...)"
    TOO_LARGE = "only larger jobs wait"
    BEYOND = "the jobs that wait need fewer nodes than are idle"
    NO_JOB = "no job waits"


_CAUSES = tuple(IdleCause)
assert len(_CAUSES) == LEVELS + 2, "a cause for each condition, and two for no demand"


@dataclass(frozen=True, slots=True)
class IdleCauses:
    """Idle node-hours by cause, in the order of :class:`IdleCause`; their sum is the window's
    resource integral.

    A job waits from the time it is eligible. Waits shorter than the log's debounce time do not
    count. ``not_judged`` names what the log does not record: every job fits by it. ``moments`` is
    the number of moments looked at if these are a sample, evenly spread; 0: every change of the
    pool and of the queue. ``unknown`` are the facts that were not judged.
    """

    node_h: tuple[float, ...]
    not_judged: tuple[str, ...] = ()
    moments: int = 0
    unknown: frozenset[JobFact] = frozenset()
    dialect: Dialect = GENERIC

    def text(self, cause: IdleCause) -> str:
        """The cause in the words of the log's format."""
        return self.dialect.translated(cause.value)

    def of(self, cause: IdleCause) -> float:
        """The idle node-hours with this cause."""
        return self.node_h[_CAUSES.index(cause)]

    @property
    def node_hours(self) -> float:
        """The idle node-hours with any cause."""
        return sum(self.node_h)

    @property
    def fillable_share(self) -> float:
        """The share of the idle node-time that waiting jobs could have used."""
        return self.shares()[IdleCause.FITS]

    def shares(self) -> dict[IdleCause, float]:
        """All causes as fractions of the idle node-time (zeros if no node is idle)."""
        whole = self.node_hours or 1.0
        return {cause: hours / whole for cause, hours in zip(_CAUSES, self.node_h, strict=True)}

    def rows(self) -> tuple[tuple[str, str, str], ...]:
        """Return cause, node-hours and share as text; causes without any are left out, except "a
        job fits" and "no job waits".
        """
        return tuple(
            (self.text(cause), f"{self.of(cause):,.0f}", f"{share:.1%}")
            for cause, share in self.shares().items()
            if share or cause in (IdleCause.FITS, IdleCause.NO_JOB)
        )


def explained(causes: IdleCauses, debounce_s: float) -> tuple[str, ...]:
    """Say how the causes were found, for the reader of a table of them."""
    judged = causes.dialect.translated(
        "A job fits if enough nodes are idle in one of its partitions that have its devices "
        "and features and, as it turned "
        "out, stay idle for its time limit. Every other row counts the nodes that waiting jobs "
        "could use but for that "
        "condition, the one that comes first."
    )
    sentences = [judged]
    if causes.not_judged:
        missing = "; ".join(causes.not_judged)
        sentences.append(f"Not known from the log, so that every job fits by it: {missing}.")
    if causes.moments:
        sentences.append(f"Looked at {counted(causes.moments, 'moment')}.")
    sentences.append(f"Waits under {debounce_s:g} s do not count.")
    return tuple(sentences)


def idle_causes(window: LogWindow, max_work: int = MOST_WORK) -> IdleCauses | None:
    """Split the window's idle node-time by why no waiting job used it; None if the log has no
    queue.

    All changes of the queue and the pool are looked at or, beyond ``max_work``, moments at equal
    distances.
    """
    queue = window.queue
    if queue is None:
        return None
    fragments, pool = fragments_of(window), pool_sizes_of(window)
    fitting = Fitting(window, fragments, queue)
    changes_s = np.empty(0) if fitting.changes_s is None else fitting.changes_s
    edges = np.unique(np.concatenate((pool.start_s, changes_s)))
    edges = edges[(edges >= window.start_s) & (edges < window.end_s)]
    begins: NDArray[Any] = edges
    length_s: NDArray[Any] = np.diff(edges, append=window.end_s)
    mean_work = (pool.node_hours() * 3600 + fitting.waiting_s) / max(window.span_s, 1.0) + _MOMENT
    max_moments = max(_LEAST_MOMENTS, int(max_work / mean_work))
    sampled = fitting.changes_s is None or len(edges) > max_moments
    if sampled:  # the middles of equal parts of the window
        step_s = window.span_s / max_moments
        begins = window.start_s + step_s * (np.arange(max_moments) + 0.5)
        length_s = np.full(max_moments, step_s)
    node_s = np.zeros(len(_CAUSES))
    for at_s, seconds in zip(begins.tolist(), length_s.tolist(), strict=True):
        idle, levels = fitting.at(at_s)
        if not idle:
            continue
        if levels is None:
            node_s[-1] += idle * seconds
            continue
        node_s[:LEVELS] += np.diff(levels, prepend=0) * seconds
        node_s[LEVELS] += (idle - levels[-1]) * seconds
    node_h = node_s / 3600
    if sampled and node_h.sum():  # the sum is known exactly
        node_h *= pool.node_hours() / node_h.sum()
    judged = _judged(window)
    unknown = [fact for fact in _REQUESTS if fact not in judged]
    not_judged = _not_judged(window, unknown)
    if fitting.left_out:
        not_judged.append(f"{fitting.left_out:,} rare combinations of partition and devices")
    return IdleCauses(
        tuple(node_h.tolist()),
        tuple(not_judged),
        len(begins) if sampled else 0,
        frozenset(unknown),
        queue.dialect,
    )


_REQUESTS = (
    JobFact.TIME_LIMIT,
    JobFact.PARTITION,
    JobFact.REASON,
    JobFact.RESOURCES,
    JobFact.CONSTRAINT,
)
_OF_NODES = frozenset({JobFact.PARTITION, JobFact.RESOURCES, JobFact.CONSTRAINT})
"""What a job asks for can be judged only where it is known which nodes have it."""


def _judged(window: LogWindow) -> frozenset[JobFact]:
    """Return the facts by which it is judged whether a job fits: those in the log, without those
    that need facts of nodes if these are unknown.
    """
    assert window.queue is not None
    return window.queue.facts - (_OF_NODES if window.site.nodes is None else frozenset())


def _not_judged(window: LogWindow, unknown: Sequence[JobFact]) -> list[str]:
    """Name the conditions that cannot be judged, in words of the log's format and with the place in
    which it would have them.
    """
    assert window.queue is not None
    dialect = window.queue.dialect
    nameless = _OF_NODES if window.site.nodes is None else frozenset()
    missing = [dialect.name(fact) for fact in unknown if fact not in nameless]
    if nameless:
        missing.append(
            f"{dialect.partition}s, devices and features of nodes (the log does not say which "
            "nodes have them)"
        )
    first_nodes = sorted(window.initial)[:1]
    is_simulated = any(name.startswith(PREFIX) for name in first_nodes)
    if is_simulated and JobFact.TIME_LIMIT not in unknown:
        missing.append("how long each node stays idle (nodes are simulated)")
    return missing
