"""What a look at the queue shows: the jobs that wait, and who holds which nodes."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from bftrainer.decide.yielding.node_sets import NO_NODES, NodeSet
from bftrainer.times import PilotS

CLOCK_STEP_S = 1.0
"""Schedulers show whole seconds."""


@dataclass(frozen=True, slots=True)
class NodeWait:
    """A main job that waits for nodes: any job but pilots' holders.

    ``size`` nodes among ``nodes``, with all of ``required``. ``priority``: larger ones first.
    ``task_size``: the nodes of one task of a job array, which also starts on fewer nodes than
    ``size``; 0: no array. ``fewest``: a job that was submitted with a range of sizes may start on
    so few nodes, and takes up to ``size``; 0: it was not. ``submitted_s`` is None where the
    scheduler does not say. ``is_planned``: the scheduler's plan has a start for it, or the
    scheduler does not say. Nothing here is free text of its user.
    """

    job: str
    size: int
    priority: float
    nodes: NodeSet
    required: NodeSet = NO_NODES
    reason: str = ""
    submitted_s: float | None = None
    task_size: int = 0
    is_planned: bool = True
    fewest: int = 0


@dataclass(frozen=True, slots=True)
class ListedHolder:
    """A pilot's holder that runs on a node, in the scheduler's list.

    ``is_leaving``: it is ending, and its node will be idle. ``pilot``: whose it is.
    """

    job: str
    node: str
    is_leaving: bool = False
    pilot: str = ""


@dataclass(frozen=True, slots=True)
class JobCounters:
    """How many jobs of all users the scheduler has counted, since midnight or a reset.

    ``pending`` is the number that waited at ``pending_at_s``. ``at_s`` is the scheduler's time,
    ``planned_s`` that of its latest plans (None: unknown). ``state`` is any text that changes with
    the jobs, for a scheduler that shows how many jobs there are now and not how many there have
    been; its three counts are 0, and no pilot can be blind there. ``is_published``: another process
    asked, so that reading them again costs no call.
    """

    at_s: float
    submitted: int
    started: int
    ended: int
    pending: int = 0
    pending_at_s: float = 0.0
    planned_s: float | None = None
    state: str = ""
    is_published: bool = False


@dataclass(frozen=True, slots=True)
class WaitingQueue:
    """The queue at one look.

    ``at_s`` is the pilot's time of the look, ``server_s`` the scheduler's, ``before_s`` the pilot's
    time of the look before. ``planned_s`` is when the latest complete backfill cycle began (None:
    unknown), by the scheduler's clock. ``idle`` and ``busy`` are nodes, busy ones with main jobs.
    ``holders`` are those of all pilots. ``starts``: main jobs that have started lately, by the
    scheduler's clock. ``kinds``: sets of nodes that are alike for every job; a node that is in none
    of them is like no other.
    """

    at_s: PilotS
    server_s: float
    before_s: PilotS
    jobs: tuple[NodeWait, ...] = ()
    holders: tuple[ListedHolder, ...] = ()
    idle: NodeSet = NO_NODES
    busy: NodeSet = NO_NODES
    starts: tuple[tuple[str, float], ...] = ()
    planned_s: float | None = None
    kinds: tuple[NodeSet, ...] = ()


class HolderStage(enum.Enum):
    """PENDING: it has no node yet. READY: trainers may use its nodes. GIVEN_BACK: it ends as
    soon as its trainer has left. ENDING: it has been told to end.
    """

    PENDING = "pending"
    READY = "ready"
    GIVEN_BACK = "given back"
    ENDING = "ending"


@dataclass(frozen=True, slots=True)
class OwnHolder:
    """A holder of this pilot, or its part on one node; in a simulation, all that began together.

    ``name`` is the fragment's, ``job`` the holder's. ``is_one_of_several``: the job has other nodes
    as well, ``is_separable``: it gives this one back alone and goes on. ``cost``: what a trainer
    loses by leaving; None if there is none. ``is_renewal``: it was requested for a node that
    another holder of this pilot is leaving.
    """

    name: str
    job: str
    nodes: NodeSet
    stage: HolderStage
    asked_s: PilotS
    is_one_of_several: bool = False
    is_renewal: bool = False
    cost: float | None = None
    is_separable: bool = False


@dataclass(frozen=True, slots=True)
class YieldRules:
    """``notice_s``: how long trainers may take to leave. ``poll_s``: between two looks.
    ``worst_wait_s``: the longest time limit of a holder. ``own_pilot``: this pilot in the list of
    holders.
    """

    notice_s: float = 5.0
    poll_s: float = 1.0
    worst_wait_s: float = 1800.0
    own_pilot: str = ""


def number_of(job: str) -> int:
    """Return the number of a job's id, by which jobs are ordered; 0 where it has none."""
    return int(job) if job.isdecimal() else 0
