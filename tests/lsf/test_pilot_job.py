"""The LSF job around the pilot: what bjobs says of it, what a successor is made from, and LSF's bad
days.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from support.lsf_lab import Lab, wait_until

from bftrainer.cluster.pilot_submission import PilotJobWishes
from bftrainer.config.pilot import PilotConfig
from bftrainer.errors import CommandError, SchedulerError, UndecidedError, UnknownStateError
from bftrainer.pilot.own_site import batch_job
from bftrainer.system.clock import SystemClock
from bftrainer_clusters.holding.holder_jobs import JobPhase
from bftrainer_clusters.lsf.pilot_job import LsfPilotJob, job_is_gone, parse_job, successor_argv
from bftrainer_clusters.lsf.site import SITE
from bftrainer_clusters.slurm.pilot_job import SlurmPilotJob

RECORD = """{
  "COMMAND":"bjobs",
  "JOBS":1,
  "RECORDS":[
    {
      "JOBID":"806290",
      "STAT":"RUN",
      "USER":"me",
      "QUEUE":"batch",
      "PROJ_NAME":"BIP152",
      "RUN_TIME":"16038 second(s)",
      "RUNTIMELIMIT":"1440.0",
      "JOB_NAME":"my pilot"
    }
  ]
}
"""


@pytest.fixture
def here(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> Lab:
    lab.enter(monkeypatch.setenv)
    return lab


def running(lab: Lab) -> str:
    job = lab.bsub("-J", "p", "-W", "5", "sleep", "100")
    wait_until(lambda: lab.job(job)["stat"] == "RUN", "the job to run")
    return job


def test_what_bjobs_says_is_taken_over() -> None:
    job = parse_job(RECORD)
    assert job is not None
    assert (job.phase, job.left_s) == (JobPhase.RUNS, 1440 * 60 - 16038)
    assert successor_argv("806290", job) == [
        "bsub",
        "-w",
        "ended(806290)",
        "-J",
        "my pilot",
        "-q",
        "batch",
        "-P",
        "BIP152",
    ]
    waits = parse_job(RECORD.replace('"RUN"', '"PEND"').replace("1440.0", ""))
    assert waits is not None
    assert (waits.phase, waits.left_s) == (JobPhase.WAITS, None)
    assert parse_job("Job <12> is not found\n") is None


def test_what_cannot_be_read_is_refused() -> None:
    for cut in range(len(RECORD.rstrip())):
        with pytest.raises(SchedulerError):
            parse_job(RECORD[:cut])
    with pytest.raises(UnknownStateError, match="MOON"):
        parse_job(RECORD.replace('"RUN"', '"MOON"'))
    with pytest.raises(SchedulerError, match="is not a time"):
        parse_job(RECORD.replace("1440.0", "fortnight"))


def test_a_script_in_the_state_directory_goes_before_ours(here: Lab, tmp_path: Path) -> None:
    own = LsfPilotJob("1", tmp_path, SystemClock())
    assert own.script() == Path(__file__).parents[2] / "jobscripts" / "pilot.lsf"
    (tmp_path / "pilot.lsf").write_text("#!/bin/bash\n#BSUB -P mine\nsleep 100\n")
    own = LsfPilotJob(running(here), tmp_path, SystemClock())
    successor = here.job(own.submit_successor())
    assert (successor["stat"], successor["name"], successor["project"]) == ("PEND", "p", "mine")


def test_the_pilots_job_is_submitted_to_the_queue_that_the_user_names(
    here: Lab, tmp_path: Path
) -> None:
    config = PilotConfig.model_validate({"lsf": {"queue": "idle", "slots_per_node": 4}})
    wishes = PilotJobWishes(partition="normal", account="mine")
    script = SITE.pilot_script(config, "x", tmp_path, wishes)
    for line in ("#BSUB -q normal", "#BSUB -W 24:00", "#BSUB -P mine"):
        assert f"\n{line}\n" in script.text
    (tmp_path / script.name).write_text(script.text)
    submitted = SITE.submit_pilot(tmp_path / script.name)
    job = here.job(submitted.job)
    assert (job["name"], job["queue"], job["project"]) == ("bftrainer-pilot", "normal", "mine")
    with pytest.raises(UndecidedError, match="decide with --partition"):
        SITE.pilot_script(config, "x", tmp_path / "other", PilotJobWishes())


@pytest.mark.parametrize("kind", ["down-at-once", "truncated", "silent", "none"])
def test_while_lsf_does_not_answer_nobody_knows_and_nothing_is_submitted(
    here: Lab, tmp_path: Path, kind: str
) -> None:
    job = running(here)
    own = LsfPilotJob(job, tmp_path, SystemClock())
    here.fault("bjobs", kind)
    assert job_is_gone(job) is None
    for question in (own.ends_s, own.submit_successor):
        with pytest.raises((CommandError, SchedulerError)):
            question()
    here.heal()
    assert job_is_gone(job) is False
    assert own.ends_s() is not None
    here.forget(job)
    assert job_is_gone(job) is True


@pytest.mark.parametrize(
    ("holder", "variables", "kind"),
    [
        ("lsf", {"LSB_JOBID": "1"}, LsfPilotJob),
        ("lsf", {"SLURM_JOB_ID": "1"}, None),
        ("slurm", {"LSB_JOBID": "1"}, None),
        ("slurm", {"SLURM_JOB_ID": "1"}, SlurmPilotJob),
        ("allocation", {"LSB_JOBID": "1"}, LsfPilotJob),
        ("allocation", {"SLURM_JOB_ID": "1"}, SlurmPilotJob),
        ("allocation", {}, None),
    ],
)
def test_whose_job_it_is(
    holder: str, variables: dict[str, str], kind: type | None, tmp_path: Path
) -> None:
    job = batch_job(variables, holder, tmp_path, SystemClock())
    assert (job.id == "1", type(job.own)) == (kind is not None, kind or type(None))
