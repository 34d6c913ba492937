"""A scheduler of a few lines, and the common holder loop on it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bftrainer.cluster.model import Fragment, FragmentPhase, NodeRequest
from bftrainer.errors import CommandError
from bftrainer.fragment_names import fragment_name, id_in_job
from bftrainer_clusters.holding.holder_files import HolderFiles
from bftrainer_clusters.holding.holder_jobs import (
    HolderJobs,
    HolderSettings,
    JobPhase,
    SchedulerTraits,
)
from bftrainer_clusters.holding.job_holder import JobHolder
from bftrainer_clusters.slurm.config import SlurmSettings


@dataclass
class FakeClock:
    """Time goes by when somebody sleeps."""

    at_s: float = 1_000_000.0

    def now_s(self) -> float:
        return self.at_s

    def elapsed_s(self) -> float:
        return self.at_s

    def sleep(self, seconds: float) -> None:
        self.at_s += max(seconds, 0.0)


@dataclass
class Job:
    id: str
    node: str
    phase: JobPhase = JobPhase.WAITS
    ends_s: float | None = None
    reason: str = ""
    beside: tuple[str, ...] = ()
    is_for_several: bool = False
    gives_back: bool = False
    """Whether it can give back all of its nodes but the first."""

    @property
    def state(self) -> str:
        return self.phase.name

    @property
    def separable(self) -> frozenset[str]:
        can = self.gives_back and self.phase is JobPhase.RUNS
        return frozenset(self.fragments[1:]) if can else frozenset()

    @property
    def fragments(self) -> tuple[str, ...]:
        if not self.is_for_several:
            return (fragment_name(self.node, self.id),)
        return tuple(
            fragment_name(node, id_in_job(self.id, node)) for node in (self.node, *self.beside)
        )


class NoLimits(HolderJobs[Any]):
    """Nothing limits a pilot; four submissions at once."""

    submissions_at_once = 4

    def is_limit(self, reason: str) -> bool:
        return "limit" in reason

    def end_workers(self, names: list[str]) -> None: ...


TRAITS = SchedulerTraits("Fake", "fake", "fsub", min_interval_s=1.0, failures_in_a_row=2)
PATIENT = HolderSettings(
    start_within_s=60.0, ready_within_s=60.0, max_pending=10_000, back_off_s=60.0
)


@dataclass
class Jobs(NoLimits):
    """A scheduler. ``while_asked`` happens after it has made its answer and before that is read."""

    traits: SchedulerTraits = TRAITS
    jobs: dict[str, Job] = field(default_factory=dict)
    ended: list[str] = field(default_factory=list)
    taken: list[tuple[str, list[str]]] = field(default_factory=list)
    """Nodes that jobs were to give back, by job; they do so if ``takes_nodes``."""
    takes_nodes: bool = True
    gives_back: bool = False
    asked_for: list[list[str]] = field(default_factory=list)
    submitted: int = 0
    fails: bool = False
    against: str = ""
    while_asked: Callable[[], object] = lambda: None
    windows: list[float] = field(default_factory=list)
    while_submitting: Callable[[], object] = lambda: None
    nodes_per_job: int = 1
    lock: threading.Lock = field(default_factory=threading.Lock)

    def why_no_holder(self) -> str:
        if self.against == "?":
            raise CommandError(["fqueue"], "no answer")
        return self.against

    def turn_s(self, reason: str) -> float:
        return 60.0 if reason == "Priority" else 0.0

    def submit(self, claim: NodeRequest, beside: tuple[str, ...] = ()) -> str:
        with self.lock:
            self.submitted += 1
            job = Job(
                str(self.submitted),
                claim.node,
                beside=beside,
                is_for_several=bool(beside),
                gives_back=self.gives_back,
            )
        self.while_submitting()
        self.windows.append(claim.window_s)
        if self.fails:
            raise CommandError(["fsub"], "no")
        self.jobs[job.id] = job
        return job.id

    def listed(self) -> Mapping[str, Job]:
        answer = {job.id: replace(job) for job in self.jobs.values()}
        self.while_asked()
        return answer

    def unknown(self, ids: list[str]) -> frozenset[str]:
        self.asked_for.append(ids)
        return frozenset(ids) - self.jobs.keys()

    def end(self, ids: list[str]) -> None:
        self.ended += ids

    def release_nodes(self, job: str, nodes: list[str]) -> None:
        self.taken.append((job, nodes))
        if self.takes_nodes:
            others = tuple(node for node in self.jobs[job].beside if node not in nodes)
            self.jobs[job].beside = others


@dataclass
class House:
    jobs: Jobs
    clock: FakeClock
    holder: JobHolder

    def poll(self) -> list[Fragment]:
        self.clock.sleep(10.0)
        return list(self.holder.poll())

    def mark_ready(self, fragment: Fragment) -> None:
        (self.holder.holders / fragment.name / "ready").write_text("1.0\n")

    def ready(self, node: str = "n1") -> Fragment:
        (fragment,) = self.holder.acquire((NodeRequest(node),)).fragments
        self.jobs.jobs[fragment.id].phase = JobPhase.RUNS
        self.mark_ready(fragment)
        assert [f.phase for f in self.poll()] == [FragmentPhase.READY]
        return fragment


def house_in(folder: Path, traits: SchedulerTraits = TRAITS) -> House:
    """A holder whose first list is empty."""
    jobs, clock = Jobs(traits), FakeClock()
    settings = SlurmSettings(partition="p", start_within_s=30.0)
    holder = JobHolder(jobs, settings, HolderFiles(folder / "holders"), clock, poll_s=10.0)
    holder.poll()
    return House(jobs, clock, holder)
