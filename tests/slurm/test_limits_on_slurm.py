"""Limits of a site: QOSes that cap jobs, Prologs that take time, and answers of scontrol that are
whole but "failed".
"""

from __future__ import annotations

import getpass
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from conftest import need_accounting, started
from support.clusters_under_test import RealSlurm
from support.live_machine import machine
from support.pilot_config import pilot_config
from support.slurm_accounting import account_beside_pilots, preemptible_qos, sacctmgr
from support.slurm_gpus import A100
from support.slurm_lab import Lab, Settings, wait_until
from support.slurm_user import NAME, LabUser, lab_user, missing_user, python_for_users
from support.slurm_versions import SlurmVersion

from bftrainer.cluster.model import FragmentPhase, NodeRequest
from bftrainer_clusters.slurm.calls import SlurmCalls
from bftrainer_clusters.slurm.hold import SlurmHolder
from bftrainer_clusters.slurm.observe import SlurmScheduler

QOS = {"partition": "", "qos": "scavenger", "account": "pilots"}
LIMITS = {
    "MaxSubmitJobsPerUser of the QOS": (
        "modify qos scavenger set MaxSubmitJobsPerUser={}",
        "QOSMaxSubmitJobPerUserLimit",
    ),
    "MaxJobsPerUser of the QOS": (
        "modify qos scavenger set MaxJobsPerUser={}",
        "QOSMaxJobsPerUserLimit",
    ),
    "GrpTRES of the QOS": ("modify qos scavenger set GrpTRES=node={}", "QOSGrpNodeLimit"),
    "MaxJobs of the user": (f"modify user {NAME} set MaxJobs={{}}", "AssocMaxJobsLimit"),
    "GrpTRES of the account above": (
        "modify account science set GrpTRES=cpu={}",
        "AssocGrpCpuLimit",
    ),
    "MaxJobsPerUser of the partition's QOS": (
        "modify qos partq set MaxJobsPerUser={}",
        "QOSMaxJobsPerUserLimit",
    ),
}


@dataclass
class Holding:
    """A holder that an ordinary user runs."""

    out: Path
    process: subprocess.Popen[bytes]

    def last(self) -> dict[str, Any]:
        lines = [line for line in self.out.read_text().splitlines() if line.startswith("{")]
        found: dict[str, Any] = json.loads(lines[-1]) if lines else {"held": 0, "reasons": []}
        return found

    def holds(self, count: int) -> bool:
        assert self.process.poll() is None, self.out.read_text()
        return bool(self.last()["held"] == count)


@contextmanager
def holding(user: LabUser, nodes: list[str], **settings: object) -> Iterator[Holding]:
    state = user.folder(f"state-{time.monotonic_ns()}")
    argv = [sys.executable, str(Path(__file__).with_name("holding_as_user.py")), str(state)]
    out = user.lab.root / "log" / f"{state.name}.out"
    process = user.spawn(
        *argv, json.dumps({**QOS, "timeout_s": 15.0, **settings}), ",".join(nodes), out=out
    )
    try:
        yield Holding(out, process)
    finally:
        user.run("touch", str(state / "end"))
        process.wait(60)


@pytest.fixture(scope="module")
def ann(qos_lab: Lab) -> Iterator[LabUser]:
    """An ordinary user in account pilots, which is below account science; root's own jobs are in
    another one.
    """
    if reason := missing_user() or (
        "" if python_for_users() else f"{sys.executable} is not for other users"
    ):
        pytest.skip(reason)
    sacctmgr(qos_lab, "add account science")
    sacctmgr(qos_lab, "modify account pilots set parent=science")
    sacctmgr(qos_lab, "add qos partq")
    # A QOS that does not preempt holders would be a reason to hold no node.
    sacctmgr(qos_lab, "modify qos partq set Preempt=scavenger")
    with lab_user(qos_lab, ["pilots"]) as user:
        sacctmgr(qos_lab, f"modify user {NAME} set qos+=scavenger")
        yield user


@pytest.mark.root
@pytest.mark.slow
@pytest.mark.parametrize("name", LIMITS)
def test_a_limit_is_the_pilots_and_no_node_is_backed_off_for_it(ann: LabUser, name: str) -> None:
    lab, (words, reason) = ann.lab, LIMITS[name]
    lab.run("scontrol", "update", "PartitionName=main", "QOS=partq" if "partq" in words else "QOS=")
    sacctmgr(lab, words.format(4 if "cpu" in words else 2))  # a node has 2 CPUs
    with holding(
        ann, lab.node_names, start_within_s=3.0, back_off_s=600.0, back_off_most_s=6000.0
    ) as it:
        wait_until(
            lambda: it.holds(2) and any(reason in text for text in it.last()["reasons"]),
            f"{reason} at 2 nodes",
            60,
        )
        assert it.holds(2)
        sacctmgr(lab, words.format(-1))
        wait_until(lambda: it.holds(4), "all nodes, soon after the limit is lifted", 90)
        assert not any("backing off" in text for text in it.last()["reasons"]), it.last()
    lab.run("scontrol", "update", "PartitionName=main", "QOS=")
    lab.tidy_up()


@pytest.mark.root
@pytest.mark.slow
def test_holders_are_as_short_as_a_qos_wants_them(ann: LabUser) -> None:
    """MaxWall is read at the start, and again when it has become shorter."""
    lab = ann.lab

    def limits() -> set[str]:
        return set(lab.run("squeue", "-h", "-t", "R", "-q", "scavenger", "-o", "%l").split())

    sacctmgr(lab, "modify qos scavenger set MaxWall=30")
    with holding(ann, lab.node_names[:1]) as it:
        wait_until(lambda: it.holds(1), "a node", 60)
        assert limits() == {"30:00"}
        sacctmgr(lab, "modify qos scavenger set MaxWall=5")
        lab.run("scancel", "--qos=scavenger")
        wait_until(lambda: limits() == {"5:00"}, "a holder of 5 minutes", 90)
    sacctmgr(lab, "modify qos scavenger set MaxWall=-1")
    lab.tidy_up()


@pytest.mark.root
@pytest.mark.slow
def test_doctor_says_which_main_jobs_would_wait_for_a_limit(ann: LabUser) -> None:
    """They do: Slurm preempts for nodes, not for limits."""
    lab = ann.lab
    state = ann.folder("doctor")
    config = '[nodes]\nholder = "slurm"\n[slurm]\nqos = "scavenger"\naccount = "pilots"\n'
    ann.run(
        "sh",
        "-c",
        f"printf %s '{config}' > {state}/bftrainer.toml; chmod 600 {state}/bftrainer.toml",
    )

    def doctor() -> list[dict[str, str]]:
        done = ann.run(
            sys.executable,
            "-m",
            "bftrainer",
            "doctor",
            "--json",
            "--state",
            str(state),
            check=False,
        )
        found: list[dict[str, str]] = json.loads(done.stdout)["checks"]
        return [check for check in found if check["name"] == "limits"]

    assert doctor() == []
    sacctmgr(lab, "modify account science set GrpTRES=node=3")
    (check,) = doctor()
    assert check["state"] == "BROKEN"
    assert (
        "account science: GrpTRES node=3: holders count, so main jobs of account science would wait"
        in check["detail"]
    )
    with holding(ann, lab.node_names) as it:
        wait_until(lambda: it.holds(3), "three nodes", 60)
        job = ann.job("true", "-q", "normal", "-A", "pilots", "-N1", "--exclusive", "-t", "5")
        wait_until(
            lambda: "AssocGrpNodeLimit" in lab.run("squeue", "-h", "-j", job, "-o", "%r"),
            "the job to wait",
            30,
        )
    sacctmgr(lab, "modify account science set GrpTRES=node=-1")
    lab.tidy_up()


@pytest.mark.slow
def test_a_holder_waits_for_backfill_while_a_main_job_is_pending(
    slurm_version: SlurmVersion, tmp_path: Path
) -> None:
    """Then slurmctld's main cycle starts nothing on the same nodes. With the default interval that
    is every 30 s.
    """
    for lab in started(
        Settings(nodes=4, scheduler="bf_interval=12,bf_continue,bf_resolution=1"), slurm_version
    ):
        cluster = RealSlurm(lab, tmp_path)
        lab.submit("sleep 600", "-p", "main", "-N1", "-w", "node01", "-t", "30")
        lab.submit("sleep 600", "-p", "main", "-N4", "-t", "30")
        wait_until(
            lambda lab=lab: "node[01-04]" in lab.run("squeue", "-h", "-t", "PD", "-o", "%Y"),
            "a plan",
            60,
        )
        holder = cluster.holder(start_within_s=2.0)
        holder.poll()
        assert (
            len(
                holder.acquire(
                    tuple(NodeRequest(node, 1200.0) for node in cluster.nodes[1:])
                ).fragments
            )
            == 3
        )
        reasons = set[str]()

        def ready(holder: SlurmHolder = holder, reasons: set[str] = reasons) -> bool:
            fragments = holder.poll()
            reasons.update(fragment.why for fragment in fragments)
            return [fragment.phase for fragment in fragments].count(FragmentPhase.READY) == 3

        wait_until(ready, "three nodes, with the first submission", 60)
        assert reasons == {""}


@pytest.mark.slow
@pytest.mark.every_slurm("installed", "sid")
@pytest.mark.parametrize("more", ["", "PrologFlags=Alloc"], ids=["at launch", "at allocation"])
def test_a_prolog_longer_than_the_payload_may_take_is_waited_for(
    slurm_version: SlurmVersion, tmp_path: Path, more: str
) -> None:
    """A job is RUNNING during its Prolog. How long holders take to start is measured, and counts in
    windows.
    """
    folder = Path(tempfile.mkdtemp(prefix="bftrainer-prolog."))
    prolog = folder / "prolog"
    prolog.write_text("#!/bin/sh\nsleep 8\n")
    prolog.chmod(0o755)
    try:
        for lab in started(Settings(nodes=2, prolog=str(prolog), more=more), slurm_version):
            cluster = RealSlurm(lab, tmp_path)
            holder = cluster.holder(start_within_s=3.0, ready_within_s=3.0)
            holder.poll()
            assert len(holder.acquire((NodeRequest(cluster.nodes[0]),)).fragments) == 1
            seen: set[FragmentPhase] = set()

            def ready(holder: SlurmHolder = holder, seen: set[FragmentPhase] = seen) -> bool:
                seen.update(fragment.phase for fragment in holder.poll())
                return FragmentPhase.READY in seen

            wait_until(ready, "the holder to be ready")
            assert seen <= {FragmentPhase.PENDING, FragmentPhase.READY}, (
                "it was not given up in between"
            )
            (refusal,) = holder.acquire((NodeRequest(cluster.nodes[1], 70.0),)).refusals
            assert "too short" in refusal.reason
            assert holder.acquire((NodeRequest(cluster.nodes[1], 300.0),)).fragments
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def test_the_configuration_is_asked_rarely_and_a_ping_that_is_refused_does_no_harm(
    lab: Lab, tmp_path: Path
) -> None:
    """With rl_enable, `scontrol show config` prints everything, takes the controller for down, and
    exits with 1.
    """
    asked = tmp_path / "asked"
    fake = f"""#!/bin/sh
echo "$@" >>{asked}
case "$*" in
    "show config") {lab.real("scontrol")} "$@" | sed 's/ is UP$/ is DOWN/'; exit 1 ;;
    *) exec {lab.real("scontrol")} "$@" ;;
esac
"""
    lab.put_fake("scontrol", fake)
    scheduler = SlurmScheduler(calls=SlurmCalls(lab.env))
    for _ in range(5):
        assert len(scheduler.observe().nodes) == 8
    assert asked.read_text().count("show config") == 1
    holder = RealSlurm(lab, tmp_path).holder()
    holder.poll()
    assert holder.acquire((NodeRequest("node01"),)).fragments


def test_what_keeps_the_holder_from_working_is_in_its_refusals(lab: Lab, tmp_path: Path) -> None:
    lab.put_fake("scontrol", "#!/bin/sh\necho 'SLURM_VERSION = 1.2.3'\n")
    holder = RealSlurm(lab, tmp_path).holder()
    holder.poll()
    (refusal,) = holder.acquire((NodeRequest("node01"),)).refusals
    assert "has not listed the existing holders yet: " in refusal.reason
    assert "Epilog" in refusal.reason


# --- A limit for which main jobs count beside holders: no main job waits for it, though Slurm does
# not preempt for limits

PILOT = pilot_config(slurm={"partition": None, "qos": "scavenger", "account": "pilots"})
ENFORCED = "associations,limits,qos"


@pytest.fixture(scope="module")
def with_gpus(slurm_version: SlurmVersion) -> Iterator[Lab]:
    need_accounting(slurm_version)
    settings = Settings(
        nodes=4,
        preempt="preempt/qos",
        accounting=ENFORCED,
        gpus=A100,
        more="AccountingStorageTRES=gres/gpu",
    )
    for lab in started(settings, slurm_version):
        preemptible_qos(lab)
        account_beside_pilots(lab, getpass.getuser())
        yield lab


@pytest.mark.slow
@pytest.mark.root  # makes device files
@pytest.mark.parametrize(
    ("limit", "reason"), [("node=3", "AssocGrpNodeLimit"), ("gres/gpu=12", "AssocGrpGRES")]
)
def test_holders_make_room_for_a_main_job_that_waits_for_a_limit(
    with_gpus: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, reason: str
) -> None:
    lab = with_gpus
    lab.enter(monkeypatch.setenv)
    sacctmgr(lab, f"modify account science set GrpTRES={limit}")
    it = machine(tmp_path, [], PILOT)

    def held() -> int:
        return len(lab.run("squeue", "-h", "-t", "R", "-q", "scavenger", "-o", "%N").split())

    try:
        it.submit("a", 100_000, 0.1, 4)
        pilot = it.pilot()
        wait_until(lambda: held() == 3, "as many holders as the limit allows", 60)
        job = lab.submit(
            "sleep 600",
            "-p",
            "main",
            "-q",
            "normal",
            "-A",
            "physics",
            "-N2",
            "--gres=gpu:4",
            "-t",
            "10",
        )
        wait_until(
            lambda: lab.run("squeue", "-h", "-j", job, "-o", "%T").strip() == "RUNNING",
            "the main job",
            60,
        )
        assert held() <= 1
        why = [str(row["reason"]) for row in it.rows("nodes", "--all")]
        assert any(
            f"job {job} waits for a limit that holders use up ({reason})" in text for text in why
        ), why
        lab.run("scancel", job)
        wait_until(lambda: held() == 3, "the nodes to be held again", 90)
        it.end(pilot)
    finally:
        it.close()
        sacctmgr(lab, f"modify account science set GrpTRES={limit.partition('=')[0]}=-1")
        lab.tidy_up()
