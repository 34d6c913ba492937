"""Holding, giving back and handing over, on each version of Slurm and each way that sites track
processes and end jobs.

``make test`` runs the stories with the mark ``every_slurm`` on the oldest and
the newest version, ``make nightly`` on those between them; ``make slurm-versions`` runs all on all.
"""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from conftest import need_accounting, started
from support.clusters_under_test import RealSlurm
from support.impact import Impact, steps_with_remains
from support.promises import promise
from support.slurm_accounting import limit, preemptible_qos
from support.slurm_lab import Lab, Settings, missing_cgroups, wait_until
from support.slurm_versions import SlurmVersion

from bftrainer.cluster.model import FragmentPhase, NodeRequest
from bftrainer.system.installed import Installed, installed_file
from bftrainer_clusters.on_node import payload

SITES = {
    "no Epilog": Settings(nodes=2, epilog=""),
    "Epilog": Settings(nodes=2),
    "cgroup v1": Settings(nodes=2, proctrack="cgroup", slurmd_debug="debug2"),
    "cgroup v2": Settings(nodes=2, proctrack="cgroup", cgroups="v2", slurmd_debug="debug2"),
    "QOS": Settings(nodes=2, preempt="preempt/qos", accounting="associations,limits,qos"),
    "cgroup v2, no Epilog": Settings(
        nodes=2, proctrack="cgroup", cgroups="v2", epilog="", slurmd_debug="debug2"
    ),
    "stepmgr": Settings(
        nodes=2, controller="preempt_send_user_signal,enable_stepmgr", more="PrologFlags=contain"
    ),
}
WORKER_OF = {"cgroup v1": "leaves orphans", "cgroup v2": "ignores SIGTERM"}
STEPMGR_SINCE, EXPEDITING_SINCE = (24, 5), (25, 11)


@pytest.mark.slow
@pytest.mark.every_slurm
@pytest.mark.parametrize(
    "site",
    [
        pytest.param(name, marks=[pytest.mark.root] * (it.proctrack == "cgroup"))
        for name, it in SITES.items()
    ],
)
def test_a_main_job_takes_held_nodes_and_the_holders_end_in_order(
    site: str, folder: Path, slurm_version: SlurmVersion
) -> None:
    """Held, trained on, taken by a main job, held again and released: nothing is left, and nobody
    had to be killed by Slurm.
    """
    settings = SITES[site]
    if site == "stepmgr" and slurm_version.release < STEPMGR_SINCE:
        pytest.skip("stepmgr came with 24.05")
    if settings.proctrack == "cgroup" and (reason := missing_cgroups(settings.cgroups)):
        pytest.skip(f"no cgroups for slurmd: {reason}")
    if settings.accounting:
        need_accounting(slurm_version)
    for lab in started(settings, slurm_version):
        if settings.proctrack == "cgroup":
            assert_a_step_finds_its_jobs_cgroup(lab, folder)
        script, ended = noting_its_end(folder)
        impact = Impact(lab, folder, settings={"holder_script": script, **site_settings(lab)})
        start = impact.start_on_held(2, WORKER_OF.get(site, "has setsid children"))
        print(f"{site}: {start.took_s:.2f} s, notice after {start.notice_s}, killed {start.killed}")
        assert len(start.nodes) == 2
        promise(
            (start.left, start.late) == (0, ()),
            f"nobody of ours is left on the nodes of a main job: {start}",
        )
        assert start.killed >= (2 if site == "cgroup v2" else 4), (
            "on each node, mostly a shell and its child"
        )
        assert len(list(ended.iterdir())) == 2, (
            "the holders' scripts ended by themselves, not by the payload's hand"
        )
        if settings.proctrack == "cgroup":
            late = steps_with_remains(lab)
            assert len(late) <= 1, (
                "on a busy machine Slurm's SIGCONT may come too late, now and then"
            )


def site_settings(lab: Lab) -> dict[str, object]:
    """The table [slurm], once the site's accounting is set up as docs/site-setup.md says."""
    if not lab.settings.accounting:
        return {}
    preemptible_qos(lab)
    limit(lab, "GraceTime=30")  # with 0, Slurm signals the scripts, too
    return {"partition": "", "qos": "scavenger", "account": "pilots"}


def noting_its_end(folder: Path) -> tuple[Path, Path]:
    """The holder script that is installed, which notes at its end that nobody has killed it; and
    the folder of the notes.
    """
    ended = folder / "ended"
    ended.mkdir()
    script = folder / "holder.slurm"
    text = installed_file(Installed.JOBSCRIPT, "holder.slurm").read_text()
    script.write_text(
        text.replace("trap 'exit 0' USR1", f"trap ': >{ended}/$$; exit 0' USR1")
        + f": >{ended}/$$\n"
    )
    return script, ended


def assert_a_step_finds_its_jobs_cgroup(lab: Lab, folder: Path) -> None:
    """By job ID, or by SLUID as 26.05 names it; without it, the order of dying is lost."""
    code = (
        "import os, payload; print(payload.Sweep(os.environ['SLURM_JOB_ID'], "
        "os.getpid()).has_usable_steps)"
    )
    found = folder / "by_cgroup"
    where = Path(payload.__file__).parent
    lab.submit(
        f"cd {where}; srun -n1 python3 -c {shlex.quote(code)} >{found}.new; mv {found}.new {found}"
    )
    wait_until(found.exists, "the step's answer")
    assert found.read_text() == "True\n"
    lab.wait_idle()


@pytest.mark.slow
@pytest.mark.every_slurm
def test_with_stepmgr_workers_end_though_squeue_does_not_list_them(
    folder: Path, slurm_version: SlurmVersion
) -> None:
    """Steps are known to their job's first node only; a pilot that finds a dead one's workers must
    end them.
    """
    if slurm_version.release < STEPMGR_SINCE:
        pytest.skip("stepmgr came with 24.05")
    for lab in started(SITES["stepmgr"], slurm_version):
        cluster = RealSlurm(lab, folder)
        holder = cluster.holder()
        holder.poll()
        holder.acquire(tuple(NodeRequest(node) for node in cluster.nodes))
        wait_until(
            lambda holder=holder: [f.phase for f in holder.poll()] == [FragmentPhase.READY] * 2,
            "the holders",
        )
        for fragment in holder.poll():
            cluster.start_worker(fragment)
        names = frozenset(fragment.name for fragment in holder.poll())
        holder.clear(names)
        assert cluster.workers() == 0
        assert [f.phase for f in holder.poll()] == [FragmentPhase.READY] * 2
        holder.release(names)
        wait_until(lambda holder=holder: not holder.poll(), "the holders to end")
        cluster.close()


@pytest.mark.slow
@pytest.mark.every_slurm("sid")
def test_an_expedited_job_takes_the_idle_nodes_that_it_waits_with(
    folder: Path, slurm_version: SlurmVersion
) -> None:
    """It waits for one node after a failed Epilog; meanwhile holders have its other node, which
    Slurm shows as idle.
    """
    if slurm_version.release < EXPEDITING_SINCE:
        pytest.skip("--requeue=expedite came with 25.11")
    mended, began = folder / "mended", folder / "began"
    controller = f"{Settings().controller},enable_expedited_requeue"
    epilog = folder / "epilog"
    epilog.write_text(f"#!/bin/sh\n[ $SLURMD_NODENAME = node01 ] || [ -e {mended} ]\n")
    epilog.chmod(0o755)
    for lab in started(Settings(nodes=2, controller=controller, epilog=str(epilog)), slurm_version):
        script = f"[ $SLURM_RESTART_COUNT ] || exit 1; touch {began}; sleep 60"
        job = lab.submit(script, "-N2", "-t", "10", "--requeue=expedite")
        wait_until(
            lambda lab=lab: "EXPEDITING" in lab.run("squeue", "-h", "-o", "%T"), "the requeue"
        )
        cluster = RealSlurm(lab, folder)
        assert [waits.id for waits in cluster.scheduler.observe().pending] == [job]
        holder = cluster.holder()
        holder.poll()
        holder.acquire((NodeRequest("node01"),))
        wait_until(
            lambda holder=holder: [f.phase for f in holder.poll()] == [FragmentPhase.READY],
            "the holder",
        )
        cluster.start_worker(holder.poll()[0], "trap '' TERM; while :; do sleep 0.5; done")
        assert not began.exists()
        mended.touch()
        lab.run("scontrol", "update", "NodeName=node02", "State=RESUME")
        wait_until(began.exists, "the expedited job")
        promise(cluster.workers() == 0, "nobody of ours is left on the nodes of a main job")
        cluster.close()
