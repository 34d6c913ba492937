"""The common holder loop on a :class:`~bftrainer_clusters.simple.cluster.SimpleCluster`."""

from __future__ import annotations

import math
import re
import signal
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic

from bftrainer.cluster.model import GiveWay, HoldingPermit, NodeRequest
from bftrainer.errors import CommandError, SchedulerError, UnknownStateError
from bftrainer.fragment_names import fragment_name, id_in_job, node_of
from bftrainer.system.clock import Clock
from bftrainer_clusters.holding.holder_files import HolderFiles
from bftrainer_clusters.holding.holder_jobs import (
    HolderJobs,
    JobPhase,
    SchedulerTraits,
    SettingsT,
    holder_script,
    limit_minutes,
    payload_lease_s,
)
from bftrainer_clusters.holding.job_holder import JobHolder
from bftrainer_clusters.on_node import job_payload, starter
from bftrainer_clusters.simple.cluster import JobRecord, JobRequest, SimpleCluster

SCRIPT = "holder.sh"
_CHECK_SITE_S = 600.0
_FIXED_LIMIT_S = 600.0
"""The longest time limit of holders whose limits cannot be lowered while main jobs wait."""
_NEW_MODE_S = 60.0
"""How long no node is held after the pilot has stopped to free nodes itself."""
_LABEL = re.compile(r"[\w.:-]+", re.ASCII)
_BETWEEN = ":"
"""Between the nodes of a job of several, in its label and in the arguments of its script."""
_ID = re.compile(r"[\w-]+", re.ASCII)


class SimpleHolder(JobHolder[SettingsT]):
    """Holds nodes for one pilot. ``table`` is the scheduler's table in the configuration, ``pilot``
    marks the pilot's jobs.
    """

    def __init__(
        self,
        cluster: SimpleCluster[SettingsT],
        table: str,
        holders: Path,
        pilot: str,
        clock: Clock,
        lease_s: float = 60.0,
        poll_s: float = 10.0,
    ) -> None:
        files = HolderFiles(holders.absolute())
        jobs = SimpleJobs(cluster, table, files, pilot, clock, lease_s)
        super().__init__(jobs, cluster.settings, files, clock, poll_s)


@dataclass(frozen=True, slots=True)
class SimpleJob:
    """A holder of this pilot as its scheduler lists it."""

    record: JobRecord
    submitted_for: tuple[str, ...]
    phase: JobPhase

    @property
    def id(self) -> str:
        return self.record.id

    @property
    def fragments(self) -> tuple[str, ...]:
        if len(self.submitted_for) == 1:
            return (fragment_name(self.submitted_for[0], self.id),)
        return tuple(fragment_name(node, id_in_job(self.id, node)) for node in self._nodes)

    @property
    def separable(self) -> frozenset[str]:
        """All but the one with the job's first process, where the scheduler has named that."""
        first = self.record.nodes[:1]
        is_named = bool(first) and first[0] in self.submitted_for
        if len(self.submitted_for) == 1 or self.phase is not JobPhase.RUNS or not is_named:
            return frozenset()
        return frozenset(name for name in self.fragments if node_of(name) != first[0])

    @property
    def _nodes(self) -> tuple[str, ...]:
        """The nodes that a job of several has, or waits for."""
        has = frozenset(self.record.nodes)
        present = tuple(node for node in self.submitted_for if node in has)
        return present if self.phase is JobPhase.RUNS and present else self.submitted_for

    @property
    def state(self) -> str:
        return self.record.blocks if self.phase is JobPhase.BLOCKS else self.record.state

    @property
    def ends_s(self) -> float | None:
        return self.record.ends_s if self.phase is JobPhase.RUNS else None

    @property
    def reason(self) -> str:
        return self.record.reason


@dataclass
class SimpleJobs(HolderJobs[SettingsT], Generic[SettingsT]):
    """Holder jobs by five verbs, with the shared job script."""

    cluster: SimpleCluster[SettingsT]
    table: str
    files: HolderFiles
    pilot: str
    clock: Clock
    lease_s: float
    problem: str = ""
    has_fixed_limits: bool = False
    next_check_s: float = field(init=False)
    _way: GiveWay = field(init=False)
    _refused_until_s: float = -math.inf

    def __post_init__(self) -> None:
        self.next_check_s = self.clock.elapsed_s()
        self._way = self.cluster.way
        self.script = holder_script(self.cluster.settings.holder_script, SCRIPT)
        self.label = f"bftrainer:{self.pilot}:"

    @property
    def traits(self) -> SchedulerTraits:
        cluster = self.cluster
        return SchedulerTraits(
            cluster.name,
            self.table,
            "the submission",
            cluster.min_interval_s,
            failures_in_a_row=1,
            cancels_ended=cluster.cancels_ended,
        )

    def reconfigure(self, settings: SettingsT) -> None:
        """Use these settings, and check the site again: the mode may be another one. Holders that
        the pilot would have ended for main jobs may be in a queue that nothing preempts.
        """
        self.cluster.settings = settings
        now_s = self.clock.elapsed_s()
        self.next_check_s, before, self._way = now_s, self._way, self.cluster.way
        if self._way is not GiveWay.SITE:
            self._refused_until_s = -math.inf
        elif before is not GiveWay.SITE:
            self._refused_until_s = now_s + _NEW_MODE_S

    def begin(self) -> None:
        """Nothing: the site is checked with the first holder."""

    def why_no_holder(self) -> str:
        """Return the cluster's latest answer; it is asked again after ten minutes."""
        now_s = self.clock.elapsed_s()
        if now_s >= self.next_check_s:
            self.problem = self.cluster.why_no_holder()
            self.next_check_s = now_s + _CHECK_SITE_S
        return self.problem

    def permit(self) -> HoldingPermit:
        """Return who frees nodes for main jobs. A site that allows no holders says so when one is
        requested (:meth:`why_no_holder`).
        """
        if self.clock.elapsed_s() < self._refused_until_s:
            why = (
                f'nodes.give_way was changed to "{self._way.value}": earlier holders are ended, '
                f"because {self.cluster.name} may not preempt them"
            )
            return HoldingPermit(why, releases=True, give_way=self._way)
        remarks = (*self._notice_remarks(), *self.cluster.remarks)
        return HoldingPermit(remarks=remarks, give_way=self.cluster.way)

    def _notice_remarks(self) -> tuple[str, ...]:
        """Say that workers get less time to save than the configuration asks for, if so."""
        asked_s, most_s = self.cluster.asked_notice_s, self.cluster.most_notice_s
        if asked_s <= most_s:
            return ()
        return (
            f"workers.notice_s (BFTRAINER_NOTICE_S) is {asked_s:g} s, and a preempted holder on "
            f"{self.cluster.name} has {most_s:g} s: its workers are killed then",
        )

    @property
    def longest_s(self) -> float:
        """Ten minutes where holders cannot be shortened while main jobs wait."""
        is_short = self.has_fixed_limits and self.cluster.way is not GiveWay.SITE
        return _FIXED_LIMIT_S if is_short else math.inf

    def shorten(self, ids: list[str], seconds: float) -> None:
        """Shorten jobs, and note whether the scheduler does that at all."""
        try:
            self.cluster.shorten(ids, seconds)
        except (CommandError, SchedulerError):
            self.has_fixed_limits = True
            raise
        self.has_fixed_limits = False

    @property
    def nodes_per_job(self) -> int:
        return self.cluster.nodes_per_job

    def is_limit(self, reason: str) -> bool:
        return self.cluster.is_limit(reason)

    def submit(self, request: NodeRequest, beside: tuple[str, ...] = ()) -> str:
        """Submit one holder. Raises ``SchedulerError`` for a node whose name is no plain word."""
        for node in (request.node, *beside):
            if not _LABEL.fullmatch(label := self.label + node) or _BETWEEN in node:
                raise SchedulerError(
                    f"node {node!r} cannot be held: {label!r} is no word of letters, digits "
                    "and _.:-; exclude the node (nodes.exclude)"
                )
        nodes = _BETWEEN.join((request.node, *beside))
        settings = self.cluster.settings
        minutes = limit_minutes(request.window_s, min(settings.longest_s, self.longest_s))
        argv, folder = self.argv(nodes), str(self.files.root)
        label = self.label + nodes
        job = JobRequest(request.node, minutes, label, argv, request.gpus, folder, beside)
        id_ = self.cluster.submit(job)
        if not _ID.fullmatch(id_):
            raise SchedulerError(
                f"{self.cluster.name} named a job {id_[:80]!r}, expected letters, digits, _ and -"
            )
        return id_

    def argv(self, nodes: str) -> tuple[str, ...]:
        """Return the command of a holder of one node, or of several with a colon between them: the
        job script with its arguments.
        """
        cluster = self.cluster
        kept = ",".join((cluster.job_variable, *cluster.kept_variables))
        return (
            "/bin/bash",
            str(self.script),
            cluster.settings.python,
            job_payload.__file__,
            starter.__file__,
            str(self.files.root),
            f"{payload_lease_s(self.lease_s, cluster.way):g}",
            f"{cluster.most_notice_s:g}",
            nodes,
            cluster.job_variable,
            kept,
            *cluster.worker_prefix,
        )

    def listed(self) -> Mapping[str, SimpleJob]:
        """Return the jobs with this pilot's label, by id. Raises ``UnknownStateError`` for a state
        that the cluster's table lacks.

        Where the site has changed one so that main jobs would wait for it, no other is submitted
        until the site is checked again.
        """
        own = (self._simple_job(record) for record in self.cluster.list() if self._is_own(record))
        jobs = {job.id: job for job in own}
        blocking = [job for job in jobs.values() if job.phase is JobPhase.BLOCKS]
        if blocking:
            self.problem = (
                f"{self.cluster.name} does not keep holders as they are submitted: job "
                f"{blocking[0].id} is {blocking[0].state}, and main jobs would wait for it; see "
                "the hooks or admission rules of the site"
            )
            self.next_check_s = self.clock.elapsed_s() + _CHECK_SITE_S
        return jobs

    def _is_own(self, record: JobRecord) -> bool:
        return record.label.startswith(self.label)

    def _simple_job(self, record: JobRecord) -> SimpleJob:
        """Return a job of the list with its phase. Raises ``UnknownStateError``."""
        phase = self.cluster.states.get(record.state)
        if phase is None:
            raise UnknownStateError("job", record.state)
        if record.blocks and phase in (JobPhase.WAITS, JobPhase.RUNS):
            phase = JobPhase.BLOCKS
        nodes = record.label.removeprefix(self.label).split(_BETWEEN)
        return SimpleJob(record, tuple(nodes), phase)

    def unknown(self, ids: list[str]) -> frozenset[str]:
        return self.cluster.unknown(ids)

    def leave(self, ids: list[str]) -> None:
        with suppress(CommandError, SchedulerError):
            self.cluster.leave(ids)

    def release_nodes(self, job: str, nodes: list[str]) -> None:
        with suppress(CommandError, SchedulerError):
            self.cluster.release_nodes(job, nodes)

    def end(self, ids: list[str]) -> None:
        with suppress(CommandError, SchedulerError):
            self.cluster.cancel(ids)

    def end_workers(self, names: list[str]) -> None:
        kill_workers(self.files.root, names)


def kill_workers(holders: Path, names: Iterable[str]) -> None:
    """Leave a SIGKILL in the folder of each order of these fragments, for the starter to send."""
    orders = [order for name in names for order in (holders / name / "work").glob("*")]
    for order in orders:
        with suppress(OSError):
            starter.write(str(order / "signal"), str(int(signal.SIGKILL)))
