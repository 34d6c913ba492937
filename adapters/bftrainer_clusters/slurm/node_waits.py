"""Main jobs that wait for nodes, for a pilot that makes way for them itself. Pure.

Read off the list of all jobs that is read anyway, with a few more columns (``job_list.WAITS``).
Seen with 22.05.8: a job of ``-N1-4`` shows 4 nodes, which are what it would get on an empty
cluster, and the cores of one; ``None`` is the reason of a job that has just been submitted; pending
tasks of an array are one record, ``1,3,5,7%2``.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable

from bftrainer.cluster.model import Availability, NodeView, NodeWaits, Reservation
from bftrainer.decide.yielding.facts import ListedHolder, NodeWait
from bftrainer.errors import SchedulerError
from bftrainer_clusters.slurm.hostlists import NOTHING, HostLists
from bftrainer_clusters.slurm.job_list import HOLDER_NAME, Job, JobList, waits
from bftrainer_clusters.slurm.node_needs import NodeNeeds, needs_of
from bftrainer_clusters.slurm.records import is_number

_FOR_NODES = re.compile(
    r"(None|Resources|Priority|Cleaning|Nodes.required.for.job.are|ReqNodeNotAvail)"
)
"""The reasons of jobs that idle nodes may let start. All others wait for something else: a limit, a
time, another job, a license, a user.
"""
_HOLDER_OF = re.compile(r"bftrainer: idle node held by pilot (\S+) of ([^;]*);")
MANY_TASKS = 1_000_000
"""Tasks of an array whose list Slurm has cut short (``...``)."""
RECENT_S = 300.0
STARTED = ("RUNNING", "COMPLETING", "COMPLETED")
"""States of jobs that have certainly started: a canceled one may have a start time as well."""
_MOST_TASKS = re.compile(r"(.*?)(?:%([0-9]{1,9}))?")


def node_waits(
    jobs: JobList, nodes: Iterable[NodeView], reservations: Iterable[Reservation] = ()
) -> NodeWaits:
    """Return the main jobs that wait for nodes, the running holders of all pilots, and recent
    starts of main jobs. Raises ``SchedulerError``.

    A job is a holder by its name, its comment and the user whom the comment names: main jobs that
    only look alike are their users' own loss.
    """
    usable = UsableNodes(nodes, reservations)
    lists = HostLists()
    waiting: list[NodeWait] = []
    holders: list[ListedHolder] = []
    starts: list[tuple[str, float]] = []
    for job in jobs.jobs:
        if (pilot := _pilot_of(job)) is not None:
            holders += _holder_nodes(job, pilot, lists)
        elif waits(job):
            if _FOR_NODES.match(job["%r"]):
                waiting.append(_job_needs(job, usable.of(job), lists))
        elif job["%T"] in STARTED and is_number(job["%S"]):
            starts.append((job["%A"], float(job["%S"])))
    latest_s = max((start_s for _, start_s in starts), default=0.0)
    recent = tuple(start for start in starts if start[1] >= latest_s - RECENT_S)
    return NodeWaits(tuple(waiting), tuple(holders), recent, usable.kinds)


class UsableNodes:
    """The nodes that jobs can use, by their partitions and what they ask of each node.

    Nodes are compared by kind, and each set is made once: a user may submit thousands of jobs.
    A job that would still run when a reservation or the plan of another job begins cannot use
    those nodes, which are a kind of their own.
    """

    def __init__(self, nodes: Iterable[NodeView], reservations: Iterable[Reservation] = ()) -> None:
        reserved_for: dict[str, tuple[str, ...]] = {}
        for reservation in sorted(reservations, key=lambda reservation: reservation.id):
            for name in reservation.nodes:
                reserved_for[name] = (*reserved_for.get(name, ()), reservation.id)
        samples: dict[Hashable, NodeView] = {}
        names: dict[Hashable, list[str]] = {}
        for node in nodes:
            has = node.devices, node.cpus, node.features, node.memory_mib, node.rest
            is_planned = node.is_planned or node.availability is Availability.PLANNED
            kind = node.partitions, has, reserved_for.get(node.name), is_planned
            samples.setdefault(kind, node)
            names.setdefault(kind, []).append(node.name)
        self._samples = list(samples.values())
        self.kinds = tuple(frozenset(names[kind]) for kind in samples)
        """Sets of nodes that are alike for every job."""
        self._unions: dict[tuple[int, ...], frozenset[str]] = {}
        self._chosen: dict[tuple[str, NodeNeeds], frozenset[str]] = {}

    def of(self, job: Job) -> frozenset[str]:
        """Return the nodes that a job can use once they are idle; all of its partitions if none
        seems to have what it asks for.
        """
        key = job["%P"], needs_of(job)
        if key not in self._chosen:
            self._chosen[key] = self._choose(*key)
        return self._chosen[key]

    def _choose(self, partitions: str, needs: NodeNeeds) -> frozenset[str]:
        wanted = set(partitions.split(","))
        open_to = [k for k, node in enumerate(self._samples) if wanted & set(node.partitions)]
        fitting = [k for k in open_to if needs.are_met_by(self._samples[k])]
        chosen = tuple(fitting or open_to)
        if chosen not in self._unions:
            self._unions[chosen] = frozenset().union(*(self.kinds[k] for k in chosen))
        return self._unions[chosen]


def _pilot_of(job: Job) -> str | None:
    """Return the pilot of a holder as ``user/pilot``; None for a main job."""
    words = _HOLDER_OF.match(job["%k"]) if job["%j"] == HOLDER_NAME else None
    if words is None or words[2] != job["%u"]:
        return None
    return f"{words[2]}/{words[1]}"


def _holder_nodes(job: Job, pilot: str, lists: HostLists) -> list[ListedHolder]:
    """Return the nodes of a holder, one by one, if it runs or is ending."""
    if job["%T"] not in ("RUNNING", "COMPLETING"):
        return []
    is_leaving = job["%T"] == "COMPLETING"
    nodes = sorted(lists.read(job["%N"]))
    return [ListedHolder(job["%A"], node, is_leaving, pilot) for node in nodes]


def _job_needs(job: Job, usable: frozenset[str], lists: HostLists) -> NodeWait:
    """Return what a waiting job needs. ``usable``: the nodes of its partitions."""
    size, priority, submitted = job["%D"], job["%Q"], job["%V"]
    if not is_number(size) or not is_number(priority):
        raise SchedulerError(f"squeue: job {job['%A']}: {size[:40]!r} nodes, {priority[:40]!r}")
    required = lists.read(job["%n"])
    tasks = parse_task_count(job["%K"])
    nodes = (usable | required) - lists.read(job["%x"])
    return NodeWait(
        job["%A"],
        max(int(size), 1) * tasks,
        float(priority),
        nodes,
        required,
        job["%r"],
        float(submitted) if is_number(submitted) else None,
        max(int(size), 1) if tasks > 1 else 0,
        is_number(job["%S"]),
        0 if tasks > 1 else _fewest_nodes(job, int(size)),
    )


def _fewest_nodes(job: Job, size: int) -> int:
    """Return on how few nodes a job may start if it seems to have a range of sizes (``-N2-4``): on
    as many as its cores are enough for, and 0 if these are enough for all nodes.

    That may be fewer than it takes: then nodes are offered in vain. ``-N2 --mincpus=2`` shows the
    cores of one node as well.
    """
    cpus, node_cpus = job["%C"], job["%c"]
    if not is_number(cpus) or not is_number(node_cpus):
        return 0
    fewest = max(int(cpus) // max(int(node_cpus), 1), 1)
    return fewest if fewest < size else 0


def parse_task_count(text: str) -> int:
    """Return how many pending tasks of an array may run at the same time: ``1,3,5-9:2%2`` -> 2,
    ``1,3`` -> 2; 1 for any other job. Raises ``SchedulerError``.
    """
    if text in NOTHING or is_number(text):
        return 1
    parts = _MOST_TASKS.fullmatch(text)
    tasks, limit = (parts[1], parts[2]) if parts else (text, None)
    at_once = int(limit) if limit else MANY_TASKS
    if tasks.endswith("..."):
        return max(min(MANY_TASKS, at_once), 1)
    count = sum(map(_range_length, tasks.split(",")))
    return max(min(count, at_once), 1)


def _range_length(text: str) -> int:
    numbers = re.fullmatch(r"([0-9]{1,9})(?:-([0-9]{1,9})(?::([0-9]{1,9}))?)?", text)
    if numbers is None:
        raise SchedulerError(f"squeue: not the tasks of an array: {text[:40]!r}")
    first, last, step = (int(number or "0") for number in numbers.groups())
    return (last - first) // max(step, 1) + 1 if numbers[2] else 1
