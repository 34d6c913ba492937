"""What goes wrong on a real cluster, and what the holder makes of it."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest
from support.clusters_under_test import RealSlurm
from support.horovod_trainer import SITE
from support.slurm_lab import Lab, wait_until
from support.two_hosts import one_host

from bftrainer.cluster.model import Fragment, FragmentPhase, NodeRequest
from bftrainer.errors import CommandError, SchedulerError
from bftrainer.wires.hosts_file import HostSlots
from bftrainer.wires.messages import DriverSettings, TrainerMessage
from bftrainer.wires.paths import TrainerDirectory
from bftrainer.wires.typed_json import read_json
from bftrainer_clusters.slurm.hold import SlurmHolder
from bftrainer_clusters.slurm.site import worker_settings
from bftrainer_drivers.common.event_writer import EventWriter
from bftrainer_drivers.common.workers import WorkerStarter


@pytest.fixture
def cluster(lab: Lab, tmp_path: Path) -> Iterator[RealSlurm]:
    real = RealSlurm(lab, tmp_path)
    yield real
    lab.tidy_up()
    real.close()


def hold(
    cluster: RealSlurm, count: int, **settings: object
) -> tuple[SlurmHolder, dict[str, Fragment]]:
    """So many nodes, asked for again where the cluster was too slow for the settings, as a pilot
    does.
    """
    holder = cluster.holder(**settings)
    nodes = cluster.nodes[:count]

    def ready() -> bool:
        fragments = holder.poll()
        missing = [node for node in nodes if node not in {fragment.node for fragment in fragments}]
        if missing:
            holder.acquire(tuple(NodeRequest(node) for node in missing))
        return not missing and {fragment.phase for fragment in fragments} == {FragmentPhase.READY}

    wait_until(ready, "holders to be ready")
    return holder, {fragment.node: fragment for fragment in holder.poll()}


def test_the_log_of_a_holder_is_private_whatever_the_umask(cluster: RealSlurm) -> None:
    before = os.umask(0)
    try:
        hold(cluster, 1)
    finally:
        os.umask(before)
    logs = [*(cluster.state / "holders-test").glob("*.log")]
    assert len(logs) == 1
    assert oct(logs[0].stat().st_mode & 0o777) == "0o600"


def until_gone(holder: SlurmHolder, name: str) -> Fragment:
    found: list[Fragment] = []

    def gone() -> bool:
        holder.renew()
        found.extend(f for f in holder.poll() if f.name == name and f.phase is FragmentPhase.GONE)
        return bool(found)

    wait_until(gone, f"{name} to be gone", 40)
    return found[0]


@pytest.mark.every_slurm("installed", "sid")
def test_a_holder_that_was_cancelled_by_hand_is_gone(cluster: RealSlurm) -> None:
    holder, held = hold(cluster, 2)
    first, second = held.values()
    cluster.start_worker(first, "trap '' TERM; while :; do sleep 0.5; done")
    cluster.lab.run("scancel", first.id)
    assert until_gone(holder, first.name).why
    assert cluster.workers() == 0
    assert [f.name for f in holder.poll()] == [second.name]


@pytest.mark.every_slurm("installed", "sid")
def test_a_holder_on_a_node_that_goes_down_is_gone_and_says_so(cluster: RealSlurm) -> None:
    holder, held = hold(cluster, 2)
    node, other = cluster.nodes[:2]
    cluster.lab.run("scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=test")
    gone = until_gone(holder, held[node].name)
    assert gone.why
    assert [f.node for f in holder.poll()] == [other]


@pytest.mark.every_slurm("installed", "sid")
def test_release_leaves_nothing_on_the_node(cluster: RealSlurm) -> None:
    holder, held = hold(cluster, 1)
    fragment = held[cluster.nodes[0]]
    cluster.start_worker(
        fragment, "setsid bash -c \"trap '' TERM; while :; do sleep 0.5; done\" & wait"
    )
    cluster.start_worker(fragment, "env -u SLURM_JOB_ID setsid sleep 1000 & wait")
    holder.release(frozenset({fragment.name}))
    until_gone(holder, fragment.name)
    assert cluster.workers() == 0
    assert list(holder.holders.glob("*#*")) == []


@pytest.mark.root
def test_a_main_job_takes_held_nodes_while_the_file_system_of_their_logs_hangs(
    lab: Lab, tmp_path: Path
) -> None:
    """Whatever a holder writes to its log at its end keeps its srun, and the node, until the file
    system is back.
    """
    told = tmp_path / "told"
    with one_host(tmp_path) as (shared, server):
        cluster = RealSlurm(lab, shared)
        hold(cluster, 8)
        os.kill(server, signal.SIGSTOP)
        try:
            lab.submit(f"touch {told}", "-p", "main", "-N8", "-t", "2")
            wait_until(told.exists, "the main job")
        finally:
            os.kill(server, signal.SIGCONT)
        lab.tidy_up()


def test_released_while_slurmctld_is_down_the_payload_still_ends(cluster: RealSlurm) -> None:
    holder, held = hold(cluster, 1, timeout_s=2.0)
    fragment = held[cluster.nodes[0]]
    cluster.start_worker(fragment)
    cluster.go_silent()
    holder.release(frozenset({fragment.name}))
    wait_until(lambda: cluster.workers() == 0, "the worker to end")
    assert [f.phase for f in holder.poll()] == [FragmentPhase.LEAVING]
    cluster.answer_again()
    until_gone(holder, fragment.name)


def test_a_node_that_is_taken_first_is_given_up_in_time(cluster: RealSlurm) -> None:
    """A main job is quicker: the holder waits, is cancelled, and its node is left alone for a
    while.
    """
    cluster.main_job(8, minutes=5)
    cluster.until(lambda: "R" in cluster.lab.run("squeue", "-h", "-o", "%t"), "the main job to run")
    holder = cluster.holder(start_within_s=2.0)
    holder.poll()
    (fragment,) = holder.acquire((NodeRequest(cluster.nodes[0]),)).fragments
    gone = until_gone(holder, fragment.name)
    # start_within_s, and two rounds of backfill for a job that waits for its turn.
    assert "not running within 4 s (Resources)" in gone.why
    (refusal,) = holder.acquire((NodeRequest(cluster.nodes[0]),)).refusals
    assert refusal.retry_s > 5
    assert "holder" not in cluster.lab.run("squeue", "-h", "-o", "%j")


def test_refusals_of_sbatch_are_told_with_its_words_and_back_off(cluster: RealSlurm) -> None:
    holder = cluster.holder(options=("--constraint=nowhere",))
    holder.poll()
    claims = tuple(NodeRequest(node) for node in cluster.nodes[:4])
    first = holder.acquire(claims)
    assert first.fragments == ()
    assert "Invalid feature specification" in first.refusals[0].reason
    assert [r.node for r in first.refusals] == cluster.nodes[:4]
    assert "not tried" in first.refusals[2].reason
    waits = [holder.acquire(claims[:1]).refusals[0].retry_s]
    assert 0 < waits[0] <= 11


def test_an_sbatch_that_never_says_what_it_has_submitted_leaves_no_holder_behind(
    cluster: RealSlurm,
) -> None:
    holder = cluster.holder(timeout_s=8.0)
    holder.poll()
    sbatch = cluster.lab.real("sbatch")
    cluster.lab.put_fake("sbatch", f'#!/bin/sh\n{sbatch} "$@" >/dev/null\nsleep 1000\n')
    (refusal,) = holder.acquire((NodeRequest(cluster.nodes[0]),)).refusals
    assert "no response within 8 s" in refusal.reason
    (cluster.lab.root / "bin" / "sbatch").unlink()
    assert "bftrainer-holder" in cluster.lab.run("squeue", "-h", "-o", "%j")

    def ended() -> bool:
        assert holder.poll() == ()
        return "bftrainer-holder" not in cluster.lab.run("squeue", "-h", "-o", "%j")

    wait_until(ended, "the holder that nobody knows to be cancelled", 40)


def test_a_payload_that_cannot_start_says_why(cluster: RealSlurm) -> None:
    holder = cluster.holder(python="/nowhere/python3")
    holder.poll()
    (fragment,) = holder.acquire((NodeRequest(cluster.nodes[0]),)).fragments
    assert "/nowhere/python3" in until_gone(holder, fragment.name).why


def test_what_an_administrator_sees(cluster: RealSlurm) -> None:
    hold(cluster, 1)
    shown = cluster.lab.run("squeue", "-h", "-o", "%j|%P|%k").strip()
    assert shown.startswith("bftrainer-holder|scavenge|bftrainer: idle node held by pilot test of ")
    assert "released at once" in shown


def test_variables_of_the_pilots_own_job_do_not_reach_holders(
    cluster: RealSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {
        "SLURM_MEM_PER_NODE": "1",
        "SBATCH_PARTITION": "nowhere",
        "SLURM_JOB_ID": "4711",
    }.items():
        monkeypatch.setenv(name, value)
    _, held = hold(cluster, 1)
    assert "4711" not in held[cluster.nodes[0]].name


def test_orphans_that_cannot_be_ended_are_not_passed_over(cluster: RealSlurm) -> None:
    holder, held = hold(cluster, 1, timeout_s=2.0)
    cluster.start_worker(held[cluster.nodes[0]])
    names = frozenset(f.name for f in held.values())
    cluster.go_silent()
    with pytest.raises((CommandError, SchedulerError)):
        holder.clear(names)
    cluster.answer_again()

    def cleared() -> bool:
        with suppress(CommandError, SchedulerError):
            holder.clear(names)
        return cluster.workers() == 0

    cluster.until(cleared, "the worker to end")
    assert [f.phase for f in holder.poll()] == [FragmentPhase.READY]


def runs(title: str) -> bool:
    """Whether a process has a title that begins so."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if path.read_text(errors="replace").startswith(title):
                return True
    return False


@pytest.mark.every_slurm("installed", "sid")
def test_a_worker_that_its_driver_ends_leaves_no_daemon_of_its_step(
    cluster: RealSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A daemon that cannot tell srun of a task's end tries for seconds, and the node's next job
    waits for it.
    """
    cluster.lab.enter(monkeypatch.setenv)
    ((node, fragment),) = hold(cluster, 1)[1].items()
    directory = TrainerDirectory(tmp_path / "trainer")
    directory.path.mkdir()
    order = {
        "version": 1,
        "id": "t",
        "command": ["true"],
        "cwd": str(tmp_path),
        "min_nodes": 1,
        "max_nodes": 1,
    }
    directory.trainer.write_text(json.dumps(order))
    directory.driver.write_text(
        json.dumps({"version": 1, "driver": "restart", **SITE, **worker_settings("")})
    )
    directory.new_incarnation()
    settings = read_json(DriverSettings, directory.driver)
    with closing(EventWriter(directory.events, 1)) as events:
        starter = WorkerStarter(
            directory, read_json(TrainerMessage, directory.trainer), settings, events
        )
        host = HostSlots(node, 1, fragment.id)
        deaf = ["sh", "-c", "trap '' TERM; echo up; while sleep 1000; do :; done"]
        worker = starter.start(host, 0, deaf, {})
        wait_until(lambda: worker.log.exists() and "up" in worker.log.read_text(), "the worker")
        worker.is_planned = True
        worker.kill()
        starter.wait(worker)
        starter.close()
    log = cluster.lab.root / "log" / f"slurmd.{node}.log"
    wait_until(lambda: not runs(f"slurmstepd: [{fragment.id}.1]"), "its daemon to end")
    assert not [
        line
        for line in log.read_text().splitlines()
        if fragment.id in line and "MESSAGE_TASK_EXIT" in line
    ]
