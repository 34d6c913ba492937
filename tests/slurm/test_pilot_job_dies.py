"""Ends of the pilot's process and job on a real Slurm, under real trainers.

Whatever ends, and however: what was handed in gets done, every step is made, nothing is left over.
"""

from __future__ import annotations

import signal

import pytest
from support.pilot_job import QUICK, PilotJob

from bftrainer.system.processes import send

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("elastic_horovod")]


def incarnations(on: PilotJob, *names: str) -> dict[str, int]:
    return {name: on.lines(name, "steps")[-1]["incarnation"] for name in names}


def test_deaths_of_the_process_and_of_the_job(on: PilotJob) -> None:
    on.configure(**{**QUICK, "nodes_max_nodes": 5})
    trainers = {"a": "horovod", "stock": "horovodrun", "plain": "restart"}
    for name, launcher in trainers.items():
        on.submit(name, launcher)
    first = on.sbatch(BFTRAINER_RESTART_S="1")
    on.until_training(*trainers)
    on.until_all_train(
        5
    )  # without slurmctld, srun starts no worker, and stock horovodrun ends if one is missing

    # kill -9 of the process alone, and that while Slurm does not answer: the job script starts
    # another, which finds everything as it is and waits with it.
    held, before = on.fragments(), incarnations(on, *trainers)
    dead = on.pilot_process()
    assert dead is not None
    with on.lab.silent():
        assert send(dead, signal.SIGKILL)
        on.until("another pilot", lambda: on.pilot_process() not in (None, dead))
        on.until_training(*trainers)
    on.until_training(*trainers)
    assert incarnations(on, *trainers) == before, "trainers go on, they are not started again"
    assert on.fragments() == held
    assert on.state_of(first) == "RUNNING"

    # The job's whole tree dies at once, as a cgroup dies; steps of workers train on without
    # anybody.
    tree = on.tree_of_the_job(first)
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for process in tree:
            send(process, number)
    on.until("the job to be over", lambda: on.state_of(first) not in ("RUNNING", "COMPLETING"))
    assert on.ours_on(on.lab.node_names), (
        "a lab without cgroups leaves workers to whoever comes next"
    )
    on.submit("late", "restart", max_nodes=1)
    second = on.sbatch()

    def again() -> bool:
        now = incarnations(on, *trainers)
        return all(now[name] > before[name] for name in trainers)

    on.until("all to be started again", again, 90)
    on.until_training(*trainers, "late")
    assert {f for f in on.fragments() if f in held} == held, "holders are taken over"

    # A stop by the rules, to the job script alone: everybody checkpoints.
    on.stop(second)
    on.until("nothing of ours is left", lambda: not on.left(), 10)
    for name in (*trainers, "late"):
        on.check_saved(name)

    # A plain scancel signals all that is in the job: last checkpoints count, and nothing stays
    # behind.
    third = on.sbatch()
    on.until_training(*trainers, "late")
    on.lab.run("scancel", third)
    on.until("nothing of ours is left", lambda: not on.left())
    assert on.state_of(third) == "CANCELLED"

    fourth = on.sbatch()
    on.until_training(*trainers, "late")
    on.finish(*trainers, "late")
    on.until(
        "all are done", lambda: {on.machine.status(n) for n in (*trainers, "late")} == {"done"}
    )
    for name in (*trainers, "late"):
        on.check_story(name)
    assert "0 differ" in on.machine.bftrainer_replay()
    on.stop(fourth)
    on.until("nothing of ours is left", lambda: not on.left())
    assert all(row["released_s"] is not None for row in on.machine.rows("nodes", "--all"))


def test_a_job_hands_over_before_its_limit(on: PilotJob) -> None:
    """50 s to let go and 10 to spare, of 120: the first job trains for 60 s, and so would those
    that follow.
    """
    on.configure(**{**QUICK, "times_shutdown_s": 50.0, "nodes_max_nodes": 3})
    on.submit("a", "horovod")
    on.submit("plain", "restart", max_nodes=1)
    first = on.sbatch("--time=2")
    on.until_training("a", "plain")
    on.until("a successor", lambda: on.waiting_pilots())
    (second,) = on.waiting_pilots()
    assert on.lab.run("squeue", "-h", "-j", second, "-o", "%P|%l").strip() == "service|2:00", (
        "as the first was submitted"
    )
    on.until("the first job to be over", lambda: on.state_of(first) == "COMPLETED")
    for name in ("a", "plain"):
        on.check_saved(name)
    on.until_training("a", "plain")
    on.finish("a", "plain")
    on.until("all are done", lambda: {on.machine.status(n) for n in ("a", "plain")} == {"done"})
    on.until("another successor", lambda: on.waiting_pilots())
    on.stop_all()
    for name in ("a", "plain"):
        on.check_story(name)
    assert "0 differ" in on.machine.bftrainer_replay()
