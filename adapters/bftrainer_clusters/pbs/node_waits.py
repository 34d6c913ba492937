"""The main jobs that wait for nodes, for a pilot that makes way for them itself. Pure.

PBS says how many chunks a job needs; each counts as a whole node. Which limit a job waits for is in
its comment, which PBS writes at its next cycle only, so every queued job counts as one that idle
nodes would let start, unless PBS says that it can never run.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from bftrainer.cluster.model import NodeWaits
from bftrainer.decide.yielding.facts import ListedHolder, NodeWait
from bftrainer_clusters.pbs import jobs
from bftrainer_clusters.pbs.queue import PbsQueue
from bftrainer_clusters.pbs.text import PbsNodes, PbsRecord, parse_time, short_id
from bftrainer_clusters.simple import JobPhase

_PILOT = re.compile(r"bftrainer:([\w.-]+):\S+", re.ASCII)
_RECENT_S = 300.0
"""How long a main job counts as one that has started lately."""


def node_waits(
    records: Iterable[PbsRecord],
    queues: Sequence[PbsQueue],
    nodes: PbsNodes,
    holder_queue: str,
    user: str,
) -> NodeWaits:
    """Return which main jobs wait for nodes, which holders run, and which main jobs have started
    lately. A job is a holder only in ``holder_queue``; of other users' holders, only the user is
    known, as PBS says it.
    """
    priorities = {queue.name: queue.priority for queue in queues}
    started = {queue.name for queue in queues if queue.started}
    names = frozenset(view.name for view in nodes.views)
    waiting: list[NodeWait] = []
    holders: list[ListedHolder] = []
    starts: list[tuple[str, float]] = []
    for job in records:
        if not job.is_whole:
            continue
        phase, id_ = jobs.phase_of(job), short_id(job.id)
        if job.get("queue") == holder_queue and job.get("Job_Name") == jobs.HOLDER_NAME:
            is_leaving = phase in (JobPhase.SUSPENDED, JobPhase.LEAVES)
            pilot = pilot_of(job, user)
            hosts = sorted(nodes.hosts(job.get("exec_vnode")) & names)
            holders += [ListedHolder(id_, host, is_leaving, pilot) for host in hosts]
        elif _waits_for_nodes(job) and job.get("queue") in started:
            waiting.append(_wait(job, priorities.get(job.get("queue"), 0), names))
        elif phase is JobPhase.RUNS and (begun := job.get("stime")):
            start_s = parse_time(begun)
            if nodes.at_s - start_s <= _RECENT_S and job.get("job_state") == "R":
                starts.append((id_, start_s))
    return NodeWaits(tuple(waiting), tuple(holders), tuple(starts))


def pilot_of(job: PbsRecord, user: str) -> str:
    """Return ``user/pilot`` of a holder; the pilots of other users have no names here."""
    owner = jobs.user_of(job)
    match = _PILOT.fullmatch(jobs.label_of(job))
    return f"{owner}/{match[1] if match is not None and owner == user else ''}"


def _waits_for_nodes(job: PbsRecord) -> bool:
    """Return whether a main job is queued, and PBS does not say that it can never run. The jobs of
    an array are counted with the array.
    """
    is_task = re.search(r"\[\d+\]", job.id) is not None
    is_never = job.get("comment").startswith("Can Never Run")
    return job.get("job_state") in ("Q", "B") and not is_task and not is_never


def _wait(job: PbsRecord, priority: int, names: frozenset[str]) -> NodeWait:
    size, tasks = jobs.node_count(job), 1
    is_array = job.get("array") == "True"
    counted = re.search(r"Queued:(\d{1,7})", job.get("array_state_count"), re.ASCII)
    if is_array and counted is not None:
        tasks = max(int(counted[1]), 1)
    queued = job.get("etime") or job.get("qtime")
    return NodeWait(
        short_id(job.id),
        size * tasks,
        float(priority),
        names,
        jobs.requested_hosts(job) & names,
        job.get("comment"),
        parse_time(queued) if queued else None,
        size if is_array else 0,
    )
