"""A limit for which main jobs count beside holders: no main job waits for it, though Slurm does not preempt for limits."""

from __future__ import annotations

import getpass
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import need_accounting, started
from live_machine import machine
from pilot_config import pilot_config
from slurm_accounting import account_beside_pilots, preemptible_qos, sacctmgr
from slurm_gpus import A100
from slurm_lab import Lab, Settings, wait_until
from slurm_versions import SlurmVersion

PILOT = pilot_config(slurm={"partition": None, "qos": "scavenger", "account": "pilots"})
ENFORCED = "associations,limits,qos"


@pytest.fixture(scope="module")
def with_gpus(slurm_version: SlurmVersion) -> Iterator[Lab]:
    need_accounting(slurm_version)
    settings = Settings(
        nodes=4, preempt="preempt/qos", accounting=ENFORCED, gpus=A100, more="AccountingStorageTRES=gres/gpu"
    )
    for lab in started(settings, slurm_version):
        preemptible_qos(lab)
        account_beside_pilots(lab, getpass.getuser())
        yield lab


@pytest.mark.slow
@pytest.mark.root  # makes device files
@pytest.mark.parametrize(("limit", "reason"), [("node=3", "AssocGrpNodeLimit"), ("gres/gpu=12", "AssocGrpGRES")])
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
        job = lab.submit("sleep 600", "-p", "main", "-q", "normal", "-A", "physics", "-N2", "--gres=gpu:4", "-t", "10")
        wait_until(lambda: lab.run("squeue", "-h", "-j", job, "-o", "%T").strip() == "RUNNING", "the main job", 60)
        assert held() <= 1
        why = [str(row["reason"]) for row in it.rows("nodes", "--all")]
        assert any(f"job {job} waits for a limit that holders use up ({reason})" in text for text in why), why
        lab.run("scancel", job)
        wait_until(lambda: held() == 3, "the nodes to be held again", 90)
        it.end(pilot)
    finally:
        it.close()
        sacctmgr(lab, f"modify account science set GrpTRES={limit.partition('=')[0]}=-1")
        lab.tidy_up()
