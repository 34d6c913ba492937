"""The main queue does not wait for us: order and counts of a preemption, for every way that workers
take to die.

How long it takes is printed, and measured by ``make zero-impact``; here only what may never differ
is checked.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from conftest import started
from support.impact import WAYS, WORKERS, Impact
from support.promises import promise
from support.slurm_lab import DEFAULTS, Lab, Settings, wait_until
from support.slurm_versions import SlurmVersion

from bftrainer.cluster.model import FragmentPhase, NodeRequest
from bftrainer.cluster.windows import PilotJobs, free_nodes

RUNS = 3


@pytest.mark.slow
@pytest.mark.parametrize("worker", WORKERS)
def test_a_main_job_finds_nobody_on_its_nodes(lab: Lab, folder: Path, worker: str) -> None:
    impact = Impact(lab, folder)
    waits_s = []
    for run, size in enumerate((8, 1, 4)[:RUNS]):
        impact.by = WAYS[run % 2]
        start = impact.start_on_held(size, worker)
        told = f"{start.took_s:.2f} s, notice after {start.notice_s:.2f} s, killed {start.killed}"
        print(f"{size} nodes by {impact.by}, {worker}: {told}")
        assert len(start.nodes) == size
        promise(
            (start.left, start.late) == (0, ()),
            f"nobody of ours is left on the nodes of a main job: {start}",
        )
        assert start.notice_s is not None
        waits_s.append(start.took_s - start.notice_s)
    assert min(waits_s) < 4.5, (
        "nobody waits for grace (30 s) or KillWait (5 s) to be over; a slow machine may, once"
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings", [DEFAULTS, replace(Settings(), grace_s=0)], ids=["defaults", "no grace"]
)
def test_other_sites(settings: Settings, folder: Path, slurm_version: SlurmVersion) -> None:
    for lab in started(settings, slurm_version):
        start = Impact(lab, folder).start_on_held(8, "ignores SIGTERM")
        print(
            f"{settings.kill_wait_s} s KillWait: {start.took_s:.2f} s, notice after "
            f"{start.notice_s}"
        )
        assert len(start.nodes) == 8
        promise(
            (start.left, start.late) == (0, ()),
            f"nobody of ours is left on the nodes of a main job: {start}",
        )
        assert start.took_s < 25


def test_a_planned_job_starts_as_planned_though_its_nodes_are_held(lab: Lab, folder: Path) -> None:
    """A holder's limit lies within its window; and one that does not fit is not started, so it
    holds up nobody.
    """
    impact = Impact(lab, folder)
    holder, cluster = impact.holder, impact.slurm
    busy = cluster.main_job(2, minutes=3)
    wait_until(
        lambda: len(free_nodes(cluster.scheduler.observe(), PilotJobs())) == 6,
        "the small job to run",
    )
    big = cluster.main_job(8, minutes=2)
    wait_until(
        lambda: {f.end.id for f in free_nodes(cluster.scheduler.observe(), PilotJobs())} == {big},
        "a plan",
    )
    seen = cluster.scheduler.observe()
    free = free_nodes(seen, PilotJobs())
    planned_s = free[0].end.at_s
    acquired = holder.acquire(tuple(NodeRequest(f.node.name, f.window_s(seen.at_s)) for f in free))
    assert (len(acquired.fragments), acquired.refusals) == (6, ())
    wait_until(lambda: {f.phase for f in holder.poll()} == {FragmentPhase.READY}, "holders to run")
    wait_until(lambda: all(f.ends_s for f in holder.poll()), "their ends to be known")
    assert all(f.ends_s is not None and f.ends_s <= planned_s for f in holder.poll())
    # The plan has not moved for them, and nodes that are held still have their windows' ends.
    plan = next(job for job in cluster.scheduler.observe().pending if job.id == big)
    assert plan.starts_s == pytest.approx(planned_s, abs=2)
    # What stood in its way ends early: the big job starts then, not when holders end.
    lab.run("scancel", busy)
    wait_until(
        lambda: lab.run("squeue", "-h", "-j", big, "-o", "%T").strip() == "RUNNING", "the big job"
    )
    wait_until(lambda: not holder.poll(), "holders to be gone")
