"""The stages of a held node: from idle to the first training step on it, and from the notice that
it is to be given up to its release.

Instants come from several clocks: the scheduler's, the node's, this host's. They are converted to
this host's time, and an instant that seems to be earlier than the one before it counts as that one
(:func:`stage_seconds`).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from itertools import pairwise


class NodeStage(Enum):
    """An instant in the life of a held node, which ends the stage of the same name.

    The seconds of a stage are those since the instant before it that is known.
    """

    IDLE = "idle"
    """The scheduler's word for when the node became idle, in whole seconds. Not every scheduler
    says it.
    """
    SEEN = "seen"
    """The pilot has read from the scheduler that the node is idle."""
    DECIDED = "decided"
    """The pilot decides to hold it."""
    SUBMITTED = "submitted"
    """The command that submits the holder job begins."""
    JOB_STARTED = "job_started"
    """The scheduler's word for the start of the job, in whole seconds."""
    PAYLOAD_READY = "payload_ready"
    """The payload of the holder runs, by the node's clock."""
    OFFERED = "offered"
    """The fragment is in the pool."""
    GIVEN = "given"
    """The first decision that gives it to a trainer."""
    WORKER_STARTED = "worker_start"
    """The driver starts the first worker."""
    IMPORTS_DONE = "imports_done"
    """Only where the driver prepares workers ahead; else imports are a part of the next stage."""
    GROUP_SWITCHED = "group_switched"
    """The trainer's group of workers includes this node."""
    FIRST_STEP = "first_step"
    """Rank 0 reports a step of that group."""
    NOTICE = "notice"
    """Preempted, or the pilot has decided to release it."""
    WORKERS_GONE = "workers_gone"
    """The last worker process has ended."""
    LEFT = "left"
    """No process of the fragment runs on the node, and the payload ends. By the node's clock."""
    RELEASED = "released"
    """The pilot sees that the holder job is over: by a list of its jobs, so up to some seconds
    after the scheduler.
    """


TO_TRAINING = tuple(NodeStage)[: tuple(NodeStage).index(NodeStage.NOTICE)]
TO_RELEASE = (NodeStage.NOTICE, NodeStage.WORKERS_GONE, NodeStage.LEFT, NodeStage.RELEASED)
Instants = Mapping[NodeStage, float]
"""Seconds since 1970."""


def stage_seconds(instants: Instants, chain: tuple[NodeStage, ...]) -> dict[NodeStage, float]:
    """Return how many seconds each stage of a ``chain`` took, by the instant that ends the stage;
    empty before the last instant of the chain is known.

    A chain is the instants of a node's life in order, such as from idle to the first training step,
    and a stage is the time from one known instant to the next. Instants that are unknown are
    skipped. One that seems to be earlier than the one before it, as the clocks differ, counts as
    that one: its stage takes 0 s.
    """
    if chain[-1] not in instants:
        return {}
    dated = [stage for stage in chain if stage in instants]
    latest_s = -math.inf
    rising_s = []
    for stage in dated:
        latest_s = max(latest_s, instants[stage])
        rising_s.append(latest_s)
    return {
        # The first known instant has none before it, so it ends no stage.
        stage: end_s - start_s
        for stage, (start_s, end_s) in zip(dated[1:], pairwise(rising_s), strict=True)
    }


def whole_seconds(instants: Instants, chain: tuple[NodeStage, ...]) -> float | None:
    """Return the seconds from the first instant of the ``chain`` to the last; None if either is not
    known (yet).
    """
    if chain[0] not in instants or chain[-1] not in instants:
        return None
    return sum(stage_seconds(instants, chain).values())


def p95(values: Sequence[float]) -> float:
    """Return the 95th percentile: the smallest value that 95 % of the values do not exceed (nearest
    rank). There must be a value.
    """
    ordered = sorted(values)
    return ordered[max(math.ceil(0.95 * len(ordered)) - 1, 0)]


SUMMARIES: tuple[tuple[str, Callable[[Sequence[float]], float]], ...] = (
    ("median", statistics.median),
    ("95 %", p95),
)
