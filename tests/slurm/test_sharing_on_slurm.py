"""Two pilots on one real Slurm: they see each other by their jobs' comments, and leave each other's
holders alone.
"""

from __future__ import annotations

import getpass
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.live_machine import Machine, eventually, machine
from support.pilot_config import pilot_config
from support.slurm_lab import Lab, wait_until

from bftrainer_clusters.slurm import job_list, limit_waits
from bftrainer_clusters.slurm.calls import SlurmCalls
from bftrainer_clusters.slurm.job_list import parse_jobs
from bftrainer_clusters.slurm.peers import FORMAT, SlurmPeerPilots, parse_peers
from bftrainer_clusters.slurm.text import JOB_FORMAT


def config(hosts: str) -> str:
    return pilot_config(
        nodes={"flap_back_off_s": 1, "unused_after_s": 3600, "site_max_nodes": 5, "hosts": [hosts]}
    )


@pytest.fixture
def two(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Machine, Machine]]:
    lab.enter(monkeypatch.setenv)
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    made = []
    for name, hosts in (("ann", "node[01-04]"), ("bea", "node[04-08]")):
        (tmp_path / name).mkdir(mode=0o700)
        made.append(machine(tmp_path / name, [], config(hosts)))
    yield made[0], made[1]
    for one in made:
        one.close()
    lab.tidy_up()


def holders(lab: Lab) -> list[str]:
    return lab.run("squeue", "-h", "-n", "bftrainer-holder", "-t", "PD,R", "-o", "%n").split()


def nodes_of(one: Machine) -> set[str]:
    return {str(row["node"]) for row in one.rows("nodes") if row["taken_s"] is not None}


@pytest.mark.slow
def test_two_pilots_with_a_shared_cap(two: tuple[Machine, Machine], lab: Lab) -> None:
    ann, bea = two
    for one in two:
        one.submit("t", 100_000, 0.05, 4)
    first = ann.pilot()
    eventually(ann.state_is_there)
    eventually(lambda: len(nodes_of(ann)) == 4, 60)
    refused = bea.bftrainer("pilot", check=False)
    assert refused.returncode == 2
    assert len(refused.stderr.splitlines()) == 1
    assert "nodes.hosts: node04 also in the list of pilot state-" in refused.stderr
    assert f"of {getpass.getuser()} (job " in refused.stderr

    (bea.state / "bftrainer.toml").write_text(config("node[05-08]"))
    second = bea.pilot()
    eventually(lambda: bea.state_is_there() and len(nodes_of(bea)) == 1, 60)
    anns = nodes_of(ann)
    assert anns == {"node01", "node02", "node03", "node04"}
    assert nodes_of(bea) < {"node05", "node06", "node07", "node08"}
    assert len(holders(lab)) == 5, "the cap is that of both"

    bea.end(second)
    eventually(lambda: sorted(holders(lab)) == sorted(anns), 20)
    assert nodes_of(ann) == anns, "the other's end touched none of its holders"
    ann.end(first)


def running_pilot(lab: Lab) -> str:
    """A job as a pilot's; its claims count once it runs."""
    job = lab.submit("sleep 600", "-p", "main", "-N1", "-J", "bftrainer-pilot")
    wait_until(
        lambda: lab.run("squeue", "-h", "-j", job, "-o", "%T").strip() == "RUNNING",
        "the job to run",
    )
    return job


def test_a_pilot_in_a_job_shows_its_hosts_before_it_holds_a_node(lab: Lab) -> None:
    job = running_pilot(lab)
    user = getpass.getuser()
    claims: list[str] = []
    pilot = SlurmPeerPilots("ann-1", user, job, claims.append, calls=SlurmCalls(lab.env))
    other = SlurmPeerPilots("bea-2", user, calls=SlurmCalls(lab.env))
    assert other.look() == ()
    pilot.announce(("node[01-04,07]", "gpu*"))
    (seen,) = other.look()
    assert (seen.pilot, seen.user, seen.hosts, seen.holders, seen.job) == (
        "ann-1",
        user,
        ("node[01-04,07]", "gpu*"),
        (),
        job,
    )
    assert pilot.look() == ()
    assert claims == ["; hosts node[01-04,07],gpu*"]
    assert seen.wants is None
    pilot.announce((), 12, True)
    (seen,) = other.look()
    assert (seen.hosts, seen.wants, seen.is_short) == ((), 12, True), "a reload may let them go"
    pilot.announce(("node01",))
    (seen,) = other.look()
    assert (seen.hosts, seen.wants, seen.is_short) == (("node01",), 12, True), "what it wants stays"


def printed(lab: Lab, *words: str) -> str:
    return parse_jobs(all_jobs(lab, *words), "m1").as_printed(FORMAT, lambda job: bool(job["%j"]))


def all_jobs(lab: Lab, *words: str) -> str:
    """What squeue prints of the list of all jobs."""
    query = job_list.query(mark="m1")
    return lab.run(
        *words, "env", *(f"{key}={value}" for key, value in query.variables.items()), *query.argv
    )


@pytest.mark.every_slurm
def test_one_list_has_what_a_squeue_of_each_reader_prints(lab: Lab) -> None:
    lab.submit("sleep 600", "-p", "main", "-N2", "-J", "a|b\n7|root|PENDING|c", "--comment=x|y")
    lab.submit("sleep 600", "-p", "main", "-N8", "--array=1-3", "--begin=now+1hour")
    lab.run("sbatch", "-H", "-o/dev/null", "-p", "main", "-N1", ":", "-N2", "--wrap", "true")
    for name in job_list.NAMES:
        lab.submit("sleep 600", "-p", "main", "-N1", "-J", name, "--comment=a|b\n8|root|PENDING")
    wait_until(
        lambda: lab.run("squeue", "-h", "-t", "R", "-o", "%A").count("\n") == 3, "the jobs to run"
    )
    lab.submit("sleep 600", "-p", "main", "-N8", "-t", "5")
    ours = ["-n", ",".join(job_list.NAMES)]
    for form, options, wanted in (
        (JOB_FORMAT, ["-t", "PD"], job_list.waits),
        (limit_waits.FORMAT, ["-t", "PD"], job_list.waits),
        (FORMAT, ours, lambda job: bool(job["%j"])),
    ):

        def is_equal(form: str = form, options: list[str] = options, wanted: Any = wanted) -> bool:
            one = parse_jobs(all_jobs(lab), "m1").as_printed(form, wanted)
            return one.count("|m1\n") > 2 and one == lab.run(
                "squeue", "-a", "--noconvert", *options, "-o", f"{form}|m1"
            )

        wait_until(is_equal, f"the same text as of a squeue with {form}")
    assert SlurmPeerPilots("ann-1", "x", calls=SlurmCalls(lab.env)).look()


@pytest.mark.root  # to ask as somebody else
def test_another_user_sees_the_same(lab: Lab) -> None:
    job = running_pilot(lab)
    SlurmPeerPilots("ann-1", "root", job, calls=SlurmCalls(lab.env)).announce(("node01",))
    lab.root.chmod(0o711)  # slurm.conf and munge's socket are below
    nobody = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
    (seen,) = parse_peers(printed(lab, *nobody), "m1", "ann-1", "nobody")
    assert (seen.pilot, seen.user, seen.hosts) == ("ann-1", "root", ("node01",)), (
        "the same name, but another user's"
    )
