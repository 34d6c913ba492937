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
"""Limit for the idle nodes and waiting jobs that are judged, summed over all moments; a moment
itself counts as ``_MOMENT_WORK`` of them. This much work takes 1 to 5 s.

On Mira, Theta and wagap, the shares are within 0.2 points of the shares from fifteen times as many
moments.
"""
_MOMENT_WORK = 15_000
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
    count. ``not_judged`` names, in words, the conditions on which the log has no facts: every job
    satisfies them. ``unknown`` are the facts that were not judged. ``moments`` is the number of
    moments judged if these are a sample, evenly spread; 0: every change of the pool and of the
    queue was judged. ``dialect`` has the words of the log's format.
    """

    node_h: tuple[float, ...]
    not_judged: tuple[str, ...] = ()
    moments: int = 0
    unknown: frozenset[JobFact] = frozenset()
    dialect: Dialect = GENERIC

    def text(self, cause: IdleCause) -> str:
        """Return the cause in the words of the log's format."""
        return self.dialect.translated(cause.value)

    def of(self, cause: IdleCause) -> float:
        """Return the idle node-hours with this cause."""
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
        """Return all causes as fractions of the idle node-time (zeros if no node is idle)."""
        total_h = self.node_hours or 1.0
        return {cause: hours / total_h for cause, hours in zip(_CAUSES, self.node_h, strict=True)}

    def rows(self) -> tuple[tuple[str, str, str], ...]:
        """Return cause, node-hours and share as text. Causes without node-hours are left out,
        except "a waiting job fits" and "no job waits".
        """
        return tuple(
            (self.text(cause), f"{self.of(cause):,.0f}", f"{share:.1%}")
            for cause, share in self.shares().items()
            if share or cause in (IdleCause.FITS, IdleCause.NO_JOB)
        )


def explained(causes: IdleCauses, debounce_s: float) -> tuple[str, ...]:
    """Return sentences on how the causes were determined, for the reader of a table of them.

    Waits under ``debounce_s`` do not count.
    """
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
    """Return the window's idle node-hours by why no waiting job used them; None without a queue.

    The state is judged after each change of the queue and the pool or, if that is more work than
    ``max_work``, at moments at equal distances. A sample is scaled so that its sum is the idle
    node-hours of the window, which are known exactly.
    """
    queue = window.queue
    if queue is None:
        return None
    fragments, pool = fragments_of(window), pool_sizes_of(window)
    fitting = Fitting(window, fragments, queue)
    # None: there are too many changes to list, and a sample of moments is judged.
    changes_s = np.empty(0) if fitting.changes_s is None else fitting.changes_s
    edges_s = np.unique(np.concatenate((pool.start_s, changes_s)))
    edges_s = edges_s[(edges_s >= window.start_s) & (edges_s < window.end_s)]
    span_s = max(window.span_s, 1.0)
    mean_idle_nodes = pool.node_hours() * 3600 / span_s
    mean_waiting_jobs = fitting.waiting_s / span_s
    moment_work = mean_idle_nodes + mean_waiting_jobs + _MOMENT_WORK
    max_moments = max(_LEAST_MOMENTS, int(max_work / moment_work))
    is_sample = fitting.changes_s is None or len(edges_s) > max_moments
    moments_s: NDArray[Any] = edges_s
    length_s: NDArray[Any] = np.diff(edges_s, append=window.end_s)
    if is_sample:  # the middles of equal parts of the window
        step_s = window.span_s / max_moments
        moments_s = window.start_s + step_s * (np.arange(max_moments) + 0.5)
        length_s = np.full(max_moments, step_s)
    node_h = _node_h_by_cause(fitting, moments_s, length_s)
    if is_sample and node_h.sum():
        # The sum over all causes is the resource integral, which is known without sampling.
        node_h *= pool.node_hours() / node_h.sum()
    judged = _facts_to_judge(window)
    unknown = [fact for fact in _REQUESTS if fact not in judged]
    not_judged = _not_judged(window, unknown)
    if fitting.left_out:
        not_judged.append(f"{fitting.left_out:,} rare combinations of partition and devices")
    return IdleCauses(
        node_h=tuple(node_h.tolist()),
        not_judged=tuple(not_judged),
        moments=len(moments_s) if is_sample else 0,
        unknown=frozenset(unknown),
        dialect=queue.dialect,
    )


def _node_h_by_cause(
    fitting: Fitting, moments_s: NDArray[np.float64], length_s: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the idle node-hours of each cause of idleness.

    The state at each moment is taken to last for the length at the same index.
    """
    node_s = np.zeros(len(_CAUSES))
    for at_s, seconds in zip(moments_s.tolist(), length_s.tolist(), strict=True):
        n_idle, levels = fitting.at(at_s)
        if not n_idle:
            continue
        if levels is None:
            node_s[_CAUSES.index(IdleCause.NO_JOB)] += n_idle * seconds
            continue
        # A condition is the cause of the nodes that waiting jobs could use once it is disregarded.
        node_s[:LEVELS] += np.diff(levels, prepend=0) * seconds
        node_s[_CAUSES.index(IdleCause.BEYOND)] += (n_idle - levels[-1]) * seconds
    return node_s / 3600


_REQUESTS = (
    JobFact.TIME_LIMIT,
    JobFact.PARTITION,
    JobFact.REASON,
    JobFact.RESOURCES,
    JobFact.CONSTRAINT,
)
_NEEDING_NODE_FACTS = frozenset({JobFact.PARTITION, JobFact.RESOURCES, JobFact.CONSTRAINT})
"""Requests that can be judged only in a log that tells which nodes satisfy them."""


def _facts_to_judge(window: LogWindow) -> frozenset[JobFact]:
    """Return the facts by which it is judged whether a job fits: all facts in the log, except those
    that need facts on nodes if the log has none.
    """
    assert window.queue is not None
    return window.queue.facts - (_NEEDING_NODE_FACTS if window.site.nodes is None else frozenset())


def _not_judged(window: LogWindow, unknown: Sequence[JobFact]) -> list[str]:
    """Return the conditions of jobs that cannot be judged, in words of the log's format.

    ``unknown`` are the facts that the log does not record.
    """
    assert window.queue is not None
    dialect = window.queue.dialect
    without_node_facts = _NEEDING_NODE_FACTS if window.site.nodes is None else frozenset()
    missing = [dialect.name(fact) for fact in unknown if fact not in without_node_facts]
    if without_node_facts:
        missing.append(
            f"{dialect.partition}s, devices and features of nodes (the log does not say which "
            "nodes have them)"
        )
    # Nodes of a log without node names are simulated; their names have a prefix.
    first_nodes = sorted(window.initial)[:1]
    is_simulated = any(name.startswith(PREFIX) for name in first_nodes)
    if is_simulated and JobFact.TIME_LIMIT not in unknown:
        missing.append("how long each node stays idle (nodes are simulated)")
    return missing
