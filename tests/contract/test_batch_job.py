"""The contract of the pilot's own batch job: the same for Slurm on a real cluster and the stand-ins
for LSF and PBS.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
from support.lsf_under_test import LsfLab
from support.pbs_lab import PbsLab
from support.slurm_lab import Lab, wait_until

from bftrainer.pilot.own_site import BatchJob, batch_job
from bftrainer.system.clock import SystemClock

NAME = "my pilot"
PBS_NAME = "my-pilot"  # PBS takes no blank
SCRIPT = """#!/bin/bash
#BSUB -n 1
#BSUB -W 0:30
#PBS -l walltime=00:30:00
echo "{id}" >> {folder}/started
while [ ! -e {folder}/end ]; do sleep 0.1; done
"""


@dataclass
class Cluster:
    """Somewhere to run the pilot's job; ``id`` is the variable with its id."""

    folder: Path
    holder: str
    id: str
    submit: Callable[[], str]

    def around(self, job: str) -> BatchJob:
        return batch_job({self.id: job} if job else {}, self.holder, self.folder, SystemClock())

    def started(self) -> list[str]:
        path = self.folder / "started"
        return path.read_text().split() if path.exists() else []


@pytest.fixture(params=["slurm", "lsf", "pbs"])
def on(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Cluster]:
    name = {"slurm": "SLURM_JOB_ID", "lsf": "LSB_JOBID", "pbs": "PBS_JOBID"}[request.param]
    # The pilot knows PBS's jobs without the name of the server.
    id_ = f"${{{name}%%.*}}"
    script = SCRIPT.format(id=id_, folder=tmp_path)
    own_script = tmp_path / f"pilot.{request.param}"
    own_script.write_text(script)
    monkeypatch.chdir(tmp_path)  # the successor's output goes to the working directory
    lab: Lab | LsfLab | PbsLab
    if request.param == "slurm":
        lab = request.getfixturevalue("lab")
        argv = [
            "sbatch",
            "--parsable",
            "-p",
            "main",
            "-n1",
            "-t",
            "30",
            "-o",
            "/dev/null",
            "-J",
            NAME,
        ]
        submit = partial(lab.run, *argv, stdin=script)
    elif request.param == "pbs":
        lab = PbsLab(tmp_path / "pbs", nodes=2)
        run = partial(lab.run, "qsub", "-q", "main", "-N", PBS_NAME, str(own_script))

        def submit() -> str:
            return run().partition(".")[0]

    else:
        lab = LsfLab(tmp_path / "lsf", nodes=2)
        submit = partial(lab.bsub, "-P", "work", "-J", NAME, stdin=script)
    lab.enter(monkeypatch.setenv)
    yield Cluster(tmp_path, request.param, name, lambda: submit().strip())
    (tmp_path / "end").touch()
    if isinstance(lab, LsfLab | PbsLab):
        lab.stop()


def test_a_successor_starts_when_the_job_is_over_and_there_is_one_only(on: Cluster) -> None:
    job = on.submit()
    wait_until(lambda: on.started() == [job], "the job to start")
    batch = on.around(job)
    assert batch.id == job
    assert batch.own is not None
    ends_s = batch.own.ends_s()
    assert ends_s is not None
    assert 27 * 60 < ends_s - time.time() < 31 * 60
    successor = batch.own.submit_successor()
    assert successor != job
    assert batch.own.submit_successor() == successor
    assert batch.is_gone(job) is False
    assert batch.is_gone(successor) is False
    assert on.started() == [job]
    (on.folder / "end").touch()
    wait_until(lambda: on.started() == [job, successor], "the successor to start", 40)
    assert batch.is_gone(job) is True


def test_a_successor_that_is_withdrawn_never_starts(on: Cluster) -> None:
    job = on.submit()
    wait_until(lambda: on.started() == [job], "the job to start")
    batch = on.around(job)
    assert batch.own is not None
    successor = batch.own.submit_successor()
    batch.own.withdraw(successor)
    wait_until(lambda: batch.is_gone(successor), "the successor to be gone")
    assert batch.is_gone(job) is False
    assert on.started() == [job]


def test_a_job_that_nobody_knows_is_gone_and_outside_of_a_job_there_is_none(on: Cluster) -> None:
    outside = on.around("")
    assert (outside.id, outside.own) == ("", None)
    assert outside.is_gone("999999999") is True
