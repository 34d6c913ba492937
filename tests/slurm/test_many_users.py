"""Pilots of two users who are not root, as jobs on one cluster: they split the idle nodes, and each
sees why.
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from conftest import need, need_accounting, started
from support.pilot_config import pilot_config
from support.pilot_job import CHECKOUT, PILOT_SCRIPT
from support.slurm_accounting import preemptible_qos, sacctmgr
from support.slurm_lab import Lab, Settings, wait_until
from support.slurm_user import NAME, LabUser, lab_user, missing_user, python_for_users
from support.slurm_versions import SlurmVersion

from bftrainer_clusters.holding.call_budget import CallKind
from bftrainer_clusters.slurm import job_list
from bftrainer_clusters.slurm.broker import Guard
from bftrainer_clusters.slurm.calls import SlurmCalls
from bftrainer_clusters.slurm.job_list import HOLDER_NAME, PILOT_NAME
from bftrainer_clusters.slurm.observe import NODES_ARGV
from bftrainer_clusters.slurm.text import parse_nodes

pytestmark = [pytest.mark.root, pytest.mark.slow]


@pytest.fixture
def users(site_lab: Lab) -> Iterator[tuple[LabUser, LabUser]]:
    with ann_and_bea(site_lab) as both:
        yield both


@contextmanager
def ann_and_bea(lab: Lab, *accounts: str) -> Iterator[tuple[LabUser, LabUser]]:
    need(
        missing_user() or ("" if python_for_users() else f"{sys.executable} is not for other users")
    )
    others = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
    if subprocess.run([*others, "test", "-x", sys.executable], check=False).returncode:
        pytest.skip(
            "this Python lies below a folder that other users may not enter: their jobs cannot "
            "start it"
        )
    with lab_user(lab, accounts, f"{NAME}-a") as ann, lab_user(lab, accounts, f"{NAME}-b") as bea:
        yield ann, bea


def config(poll_s: float, **slurm: object) -> str:
    nodes, times = {"flap_back_off_s": 1}, {"poll_s": poll_s}
    return pilot_config(learning={"measure": False}, nodes=nodes, times=times, slurm=slurm)


def house(user: LabUser, trainers: int, most: int, poll_s: float = 2.0, **slurm: object) -> Path:
    state = user.folder("state")
    user.run(
        "sh",
        "-c",
        'printf %s "$1" > "$2"',
        "sh",
        config(poll_s, **slurm),
        str(state / "bftrainer.toml"),
    )
    stepper = CHECKOUT / "tests" / "live" / "stepper.py"
    words = (
        f"--name t --launcher restart --max-nodes {most} --samples-per-s 10 --cwd {user.home}"
    ).split()
    words += [
        "--grid",
        f"seed=1..{trainers}",
        "--set",
        "scale_up_s = 2",
        "--set",
        "scale_down_s = 1",
    ]
    words += ["--set", 'env = { SEED = "{seed}" }', "--", sys.executable, str(stepper)]
    words += ["{name}.json", "{name}.steps", "1000000", "0.5"]
    bftrainer(user, "submit", *words)
    return state


def bftrainer(user: LabUser, command: str, *words: str) -> str:
    argv = (sys.executable, "-m", "bftrainer", command, "--state", str(user.home / "state"), *words)
    return user.run(*argv).stdout


@contextmanager
def broker(user: LabUser, *options: str) -> Iterator[dict[str, object]]:
    """A broker of this user; what pilots have to know of it."""
    folder = user.folder("published")
    (folder / "squeue").unlink(missing_ok=True)
    user.run("chmod", "755", str(user.home), str(folder))
    argv = (
        sys.executable,
        "-m",
        "bftrainer",
        "broker",
        str(folder),
        "--partition",
        "scavenge",
        *options,
    )
    process = user.spawn(*argv, out=user.lab.root / "broker.out")
    try:
        wait_until(lambda: (folder / "squeue").exists(), "the broker")
        yield {"broker": str(folder), "broker_user": user.name}
    finally:
        process.kill()
        process.wait(10)


def pilot(user: LabUser) -> str:
    own = (f"BFTRAINER_STATE={user.home}/state", f"BFTRAINER_VENV={sys.prefix}")
    argv = (
        "sbatch",
        "--parsable",
        "--partition=service",
        f"--chdir={user.home}",
        str(PILOT_SCRIPT),
    )
    return user.run("env", *own, *argv).stdout.strip()


def held(lab: Lab) -> Counter[str]:
    """With holders that are being preempted: 24.11 and later do not list them as running."""
    return Counter(lab.run("squeue", "-h", "-t", "R,SI", "-n", HOLDER_NAME, "-o", "%u").split())


@pytest.mark.every_slurm("installed", "sid")  # all versions: make slurm-versions
def test_a_late_comer_has_half_of_the_nodes_and_each_user_sees_why(
    site_lab: Lab, users: tuple[LabUser, LabUser]
) -> None:
    ann, bea = users
    house(ann, 1, 8)
    house(bea, 20, 1)
    pilot(ann)
    wait_until(lambda: held(site_lab) == {ann.name: 8}, "ann to hold all nodes", 60)
    theirs = pilot(bea)
    wait_until(
        lambda: held(site_lab) == {ann.name: 4, bea.name: 4}, "both to hold half of the nodes", 90
    )
    words = "an equal part of 8 nodes for 2 users is 4"
    assert words in bftrainer(ann, "events")
    assert bftrainer(ann, "nodes", "--all", "--json").count(f"for {bea.name}: {words}") == 4
    assert words in bftrainer(ann, "explain", "t-seed1")

    site_lab.submit("sleep 3", "-p", "main", "-N8", "-t", "5")
    wait_until(lambda: not held(site_lab), "a main job to have all nodes", 60)
    wait_until(
        lambda: held(site_lab) == {ann.name: 4, bea.name: 4}, "half of the nodes for each again", 90
    )

    site_lab.run("scancel", "--batch", "--signal=TERM", theirs)
    wait_until(lambda: held(site_lab) == {ann.name: 8}, "ann to hold what bea left", 120)


def test_a_broker_that_is_killed_and_comes_back_changes_no_holder(
    site_lab: Lab, users: tuple[LabUser, LabUser]
) -> None:
    ann, bea = users

    def running() -> list[str]:
        return sorted(
            site_lab.run("squeue", "-h", "-t", "R", "-n", HOLDER_NAME, "-o", "%A").split()
        )

    with lab_user(site_lab, name=f"{NAME}-k") as its:
        with broker(its) as known:
            for user in users:
                house(user, 1, 8, **known)
                pilot(user)
            wait_until(
                lambda: held(site_lab) == {ann.name: 4, bea.name: 4},
                "both to hold half of the nodes",
                120,
            )
            before = running()
        words = "the pilot polls the scheduler itself"
        wait_until(
            lambda: all(words in bftrainer(user, "events") for user in users),
            "the pilots to notice",
            60,
        )
        with broker(its):
            assert running() == before


@pytest.fixture
def shares_lab(slurm_version: SlurmVersion) -> Iterator[Lab]:
    need_accounting(slurm_version)
    settings = Settings(service=2, preempt="preempt/qos", accounting="associations,limits,qos")
    for lab in started(settings, slurm_version):
        preemptible_qos(lab)
        yield lab


@pytest.mark.every_slurm("installed", "sid")
def test_shares_in_the_account_of_holders_weigh_users(shares_lab: Lab) -> None:
    with (
        ann_and_bea(shares_lab, "users", "pilots") as (ann, bea),
        lab_user(shares_lab, ("users",), f"{NAME}-k") as its,
    ):
        own = {
            "account": "pilots",
            "qos": "scavenger",
            "broker": str(its.home / "published"),
            "broker_user": its.name,
        }
        for user, share in ((ann, 3), (bea, 1)):
            sacctmgr(
                shares_lab,
                f"modify user {user.name} where account=pilots set fairshare={share} "
                "qos+=scavenger",
            )
            house(user, 8, 2, **own)
            pilot(user)
        wait_until(
            lambda: held(shares_lab) == {ann.name: 6, bea.name: 2},
            "three times as many nodes for ann",
            90,
        )
        assert "weight" in bftrainer(bea, "users")
        assert "of 8 nodes by weight 3 of 4" in bftrainer(ann, "events")
        assert "of 8 nodes by weight 1 of 4" in bftrainer(bea, "explain", "t-seed1")

        sacctmgr(shares_lab, f"modify user {ann.name} where account=pilots set fairshare=parent")
        sacctmgr(shares_lab, f"modify user {bea.name} where account=pilots set fairshare=7")
        with broker(its, "--weights", "pilots"):
            wait_until(
                lambda: held(shares_lab) == {ann.name: 1, bea.name: 7},
                "the broker to publish new shares",
                90,
            )


@pytest.mark.every_slurm
def test_a_coordinator_ends_the_latest_holder_above_a_part_and_can_end_no_other_job(
    qos_lab: Lab,
) -> None:
    names = [f"{NAME}-{n}" for n in "abk"]
    with (
        lab_user(qos_lab, ("pilots", "users"), names[0]) as ann,
        lab_user(qos_lab, ("users",), names[1]) as bea,
        lab_user(qos_lab, ("users",), names[2]) as its,
    ):
        sacctmgr(qos_lab, f"modify user {ann.name} set qos+=scavenger")
        sacctmgr(qos_lab, f"add coordinator account=pilots names={its.name}")
        holds = ("-N1", "-t9", f"-J{HOLDER_NAME}", "-Apilots", "-qscavenger", "-pscavenge")
        claims = (
            "-N1",
            "-t9",
            f"-J{PILOT_NAME}",
            "-Ausers",
            f"--comment=bftrainer: pilot b of {bea.name}; wants 4 short",
        )
        jobs = [
            bea.job("sleep 500", *claims),
            ann.job("sleep 500", "-N1", "-t9", f"-J{HOLDER_NAME}", "-Ausers"),
        ]
        jobs += [ann.job("sleep 500", *holds) for _ in range(2)]
        wait_until(lambda: len(qos_lab.run("squeue", "-h", "-tR").splitlines()) == 4, "all to run")
        cancel = qos_lab.real("scancel")
        qos_lab.put_fake("scancel", "#!/bin/sh\nexec " + " ".join([*its.argv(cancel), '"$@"']))
        calls, told = SlurmCalls(qos_lab.env), list[str]()
        guard = Guard(calls, frozenset(), "pilots", told.append)
        for at_s in (0.0, 125.0):
            text = calls.query(job_list.query(mark="m"), CallKind.LOOK, 10.0)
            nodes = parse_nodes(calls.run(NODES_ARGV, CallKind.LOOK, 10.0))
            guard.look(job_list.parse_jobs(text, "m"), nodes, at_s)
        (qos_lab.root / "bin" / "scancel").unlink()
        assert told[-1] == f"ended 1 holder of {ann.name}, whose part is 2: {jobs[3]}"
        wait_until(
            lambda: sorted(qos_lab.run("squeue", "-h", "-tR", "-o%A").split()) == sorted(jobs[:3]),
            "its end",
        )
        assert "denied" in its.run(cancel, jobs[1], check=False).stderr
