"""Parsers of what OAR's oarnodes, oarstat, oarsub and oardel print; pure.

Tried with OAR 2.5.9. Every function raises an error for a text that it does not understand, but
for one: ``oarnodes -J`` and ``oarstat -J`` print nothing at all where there is nothing to list.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from bftrainer.cluster.model import Availability, NodeView, PendingJob, Reservation
from bftrainer.errors import SchedulerError, UnknownStateError
from bftrainer_clusters.simple import JobPhase, JobRecord

BESTEFFORT = "besteffort"
"""The type of jobs that OAR ends for others, and their queue."""

JOB_STATES = {
    **dict.fromkeys(("Waiting", "Hold", "toAckReservation"), JobPhase.WAITS),
    **dict.fromkeys(("toLaunch", "Launching", "Running"), JobPhase.RUNS),
    **dict.fromkeys(("Suspended", "Resuming"), JobPhase.SUSPENDED),
    **dict.fromkeys(("Finishing", "toError"), JobPhase.LEAVES),
    **dict.fromkeys(("Terminated", "Error"), JobPhase.OVER),
}
"""All states of the table ``jobs`` (pg_structure.sql of 2.5.9)."""
NODE_STATES = {
    "Alive": Availability.FREE,
    # Absent nodes may be in standby: OAR would power one up for a holder.
    **dict.fromkeys(("Absent", "Suspected", "Dead"), Availability.UNUSABLE),
}
_FOREVER_S = 2_147_483_646
"""OAR's own largest time; ``available_upto`` beyond it has no end."""
_HOUSEKEEPING = ("SCHEDULER_PRIORITY_UPDATED", "SWITCH_INTO_")
_NO_ERROR = re.compile(r"\s*|Cannot (?:frag|signal) \d+ ; .*")
"""A job that is over is no error of oardel; OAR says "not the right user" of an unknown one."""

Fields = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class OarJob:
    """A job of ``oarstat -J``."""

    owner: str
    queue: str
    state: str
    is_reservation: bool
    is_eligible: bool


@dataclass(frozen=True, slots=True)
class OarPlan:
    """A job of ``oarstat --gantt``: its nodes and times, also those that it is planned for."""

    state: str
    nodes: frozenset[str]
    starts_s: float
    ends_s: float


_WAIT = frozenset(state for state, phase in JOB_STATES.items() if phase is JobPhase.WAITS)
_OVER = frozenset(state for state, phase in JOB_STATES.items() if phase is JobPhase.OVER)


def objects(text: str) -> dict[str, Fields]:
    """Return the objects of an answer in JSON by their ids."""
    if not text.strip():
        return {}
    answer = json.loads(text)
    if not isinstance(answer, dict) or not all(
        isinstance(value, dict) for value in answer.values()
    ):
        raise SchedulerError("OAR's answer is no JSON object of objects")
    return answer


def parse_jobs(text: str) -> dict[str, OarJob]:
    """Read ``oarstat -J``: the jobs of all users that are not over, by id."""
    return {id_: _job(fields) for id_, fields in objects(text).items()}


def _job(fields: Fields) -> OarJob:
    is_besteffort = BESTEFFORT in fields["types"]
    return OarJob(
        fields["owner"],
        BESTEFFORT if is_besteffort else fields["queue"],
        _job_state(fields["state"]),
        fields["reservation"] != "None",
        fields["state"] != "Hold" and not fields["dependencies"],
    )


def _job_state(state: str) -> str:
    if state not in JOB_STATES:
        raise UnknownStateError("job", state)
    return state


def parse_plan(text: str) -> dict[str, OarPlan]:
    """Read ``oarstat --gantt``, which prints an object also where no job is."""
    return {str(id_): _planned(job) for id_, job in json.loads(text)["jobs"].items()}


def _planned(job: Fields) -> OarPlan:
    nodes = job["network_address"]
    if not isinstance(nodes, list):
        raise SchedulerError(f"oarstat shows the nodes {nodes!r} of a job, expected a list")
    return OarPlan(
        _job_state(job["state"]),
        frozenset(nodes),
        float(job["start_time"]),
        float(job["stop_time"]),
    )


def parse_nodes(text: str, plan: Mapping[str, OarPlan]) -> tuple[NodeView, ...]:
    """Read ``oarnodes -J``: one object per resource, usually a core. Resources without a network
    address are no nodes (licenses).
    """
    by_node: dict[str, list[Fields]] = defaultdict(list)
    for resource in sorted(
        objects(text).values(), key=lambda resource: int(resource["resource_id"])
    ):
        if resource["network_address"] and resource["type"] == "default":
            by_node[resource["network_address"]].append(resource)
    if not by_node:
        raise SchedulerError("oarnodes shows no node")
    waiting = [job for job in plan.values() if job.state in _WAIT]
    active = [job for job in plan.values() if job.state not in _WAIT | _OVER]
    planned = frozenset[str]().union(*(job.nodes for job in waiting))
    occupied = frozenset[str]().union(*(job.nodes for job in active))
    return tuple(
        _node(name, resources, name in occupied, name in planned)
        for name, resources in by_node.items()
    )


def _node(name: str, resources: list[Fields], is_occupied: bool, is_planned: bool) -> NodeView:
    states = {resource["state"] for resource in resources}
    for state in sorted(states - NODE_STATES.keys()):
        raise UnknownStateError("node", state)
    is_withdrawn = any(resource["drain"] == "YES" for resource in resources)
    takes_none = any(
        resource[BESTEFFORT] == "NO" or resource["desktop_computing"] == "YES"
        for resource in resources
    )
    has_jobs = is_occupied or any(
        resource.get("jobs") or resource["suspended_jobs"] == "YES" for resource in resources
    )
    times = [int(resource["available_upto"]) for resource in resources]
    ends = [time_s for time_s in times if 0 < time_s < _FOREVER_S]
    if states != {"Alive"}:
        availability = Availability.UNUSABLE
    elif has_jobs:
        availability = Availability.BUSY
    elif is_withdrawn or takes_none:
        availability = Availability.UNUSABLE
    else:
        availability = Availability.PLANNED if is_planned else Availability.FREE
    words = [*sorted(states), *["drain"] * is_withdrawn, *["no besteffort"] * takes_none]
    return NodeView(
        name,
        availability,
        cpus=len(resources),
        window_end_s=min(ends, default=None),
        state=", ".join(words),
        is_withdrawn=is_withdrawn,
    )


def pending_jobs(jobs: Mapping[str, OarJob], plan: Mapping[str, OarPlan]) -> tuple[PendingJob, ...]:
    """Return the jobs that wait, with OAR's plan for them. Reservations are none of them."""
    return tuple(
        _pending(id_, job, plan.get(id_))
        for id_, job in jobs.items()
        if job.state in _WAIT and not job.is_reservation
    )


def _pending(id_: str, job: OarJob, planned: OarPlan | None) -> PendingJob:
    if planned is None:  # OAR shows the size of a job only in its plan
        return PendingJob(id_, job.owner, (job.queue,), 1, is_eligible=job.is_eligible)
    size = len(planned.nodes)
    starts_s, nodes = planned.starts_s, planned.nodes
    return PendingJob(id_, job.owner, (job.queue,), size, starts_s, nodes, job.is_eligible)


def reservations(
    jobs: Mapping[str, OarJob], plan: Mapping[str, OarPlan]
) -> tuple[Reservation, ...]:
    """Return the reservations that OAR has accepted and that have not begun."""
    return tuple(
        Reservation(id_, planned.starts_s, planned.ends_s, planned.nodes)
        for id_, job in jobs.items()
        if job.state in _WAIT and job.is_reservation
        if (planned := plan.get(id_)) is not None
    )


def parse_own(text: str, owner: str) -> tuple[JobRecord, ...]:
    """Read ``oarstat -J -f``: the jobs of this owner."""
    return tuple(_own(id_, job) for id_, job in objects(text).items() if job["owner"] == owner)


def _own(id_: str, job: Fields) -> JobRecord:
    starts_s, walltime_s = job["startTime"], job["walltime"]
    ends_s = float(starts_s) + float(walltime_s) if starts_s and walltime_s else None
    if BESTEFFORT not in job["types"]:
        blocks = "no besteffort job"
    else:
        blocks = "of the type idempotent" if "idempotent" in job["types"] else ""
    reason = _reason(job["events"])
    return JobRecord(id_, str(job["name"] or ""), job["state"], ends_s, reason, blocks)


def _reason(events: Iterable[Fields]) -> str:
    """Return the words of OAR for what happened to a job, such as CHECKPOINT or
    FRAG_JOB_REQUEST.
    """
    kinds = dict.fromkeys(str(event["type"]) for event in events)
    return ", ".join(kind for kind in kinds if not kind.startswith(_HOUSEKEEPING))


def parse_id(text: str) -> str:
    """Read the id that oarsub prints among the remarks of admission rules."""
    ids = re.findall(r"^OAR_JOB_ID=([0-9]+)\s*$", text, re.MULTILINE)
    if len(ids) != 1:
        raise SchedulerError(f"oarsub printed no job id, but {text.strip()[-200:]!r}")
    return str(ids[0])


def is_only_over(errors: str) -> bool:
    """Return whether oardel failed only for jobs that are over or unknown."""
    return bool(errors.strip()) and all(map(_NO_ERROR.fullmatch, errors.splitlines()))
