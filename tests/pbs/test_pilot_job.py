"""The PBS job around the pilot: what a successor is made from, and PBS's bad days."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.pbs_under_test import QUEUE, StandInPbs
from support.recorded_pbs import as_dsv, recorded

from bftrainer.cluster.pilot_submission import PilotJobWishes
from bftrainer.config.pilot import PilotConfig
from bftrainer.errors import CommandError, SchedulerError, UserError
from bftrainer.system.clock import SystemClock
from bftrainer_clusters.pbs.jobs import ends_s, parse_jobs
from bftrainer_clusters.pbs.pilot_job import (
    PbsPilotJob,
    job_is_gone,
    passed_on,
    successor_argv,
    waits_for,
)
from bftrainer_clusters.pbs.site import SITE
from bftrainer_clusters.pbs.text import parse_time


def test_a_successor_has_the_options_of_the_job() -> None:
    record = parse_jobs(as_dsv("release.before.qstat-f.json"))[0]
    assert ends_s(record) == parse_time("Sat Nov 28 16:37:17 2026")
    variables = {"BFTRAINER_STATE": "/shared/me", "BFTRAINER_VENV": "/venv"}
    assert successor_argv(record, Path("/s/pilot.pbs"), variables) == [
        "qsub",
        "-W",
        "depend=afterany:1651.head",
        "-N",
        "multi",
        "-q",
        "preempt",
        "-v",
        "BFTRAINER_STATE=/shared/me,BFTRAINER_VENV=/venv",
        "/s/pilot.pbs",
    ]


def test_only_what_a_successor_needs_is_passed_on() -> None:
    environment = {"BFTRAINER_STATE": "/shared/me", "PBS_JOBID": "1.head", "PATH": "/bin"}
    assert passed_on(environment) == {"BFTRAINER_STATE": "/shared/me"}
    with pytest.raises(SchedulerError, match="cannot be passed to a successor by qsub -v"):
        passed_on({"BFTRAINER_STATE": "/a,b"})


def test_a_script_in_the_state_directory_goes_before_ours(tmp_path: Path) -> None:
    own = PbsPilotJob("1", tmp_path, SystemClock())
    assert own.script() == Path(__file__).parents[2] / "jobscripts" / "pilot.pbs"
    (tmp_path / "pilot.pbs").write_text("#!/bin/bash\n")
    assert own.script() == tmp_path / "pilot.pbs"


def test_another_pilot_of_the_user_has_a_successor_of_the_same_name(
    pbs: StandInPbs, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pbs.lab.enter(monkeypatch.setenv)
    words = ("qsub", "-N", "bftrainer-pilot", "-q", "main", "-l", "select=1:ncpus=8")
    first, second = (
        pbs.lab.run(*words, "--", "/bin/sleep", "60").strip().partition(".")[0] for _ in range(2)
    )
    pilots = [PbsPilotJob(id_, tmp_path, SystemClock()) for id_ in (first, second)]
    successors = [pilot.submit_successor() for pilot in pilots]
    assert [pbs.lab.job(id_)["after"] for id_ in successors] == [first, second]
    assert [pilot.submit_successor() for pilot in pilots] == successors


def test_the_pilots_job_is_submitted_to_the_servers_default_queue(
    pbs: StandInPbs, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pbs.lab.enter(monkeypatch.setenv)
    config = PilotConfig.model_validate({"pbs": {"queue": QUEUE, "account": "lab"}})
    script = SITE.pilot_script(config, "x", tmp_path, PilotJobWishes(limit_s=7200.0))
    for line in ("#PBS -q main", "#PBS -l walltime=2:00:00", "#PBS -A lab"):
        assert f"\n{line}\n" in script.text
    assert script.text.count("walltime=") == 1
    (tmp_path / script.name).write_text(script.text)
    submitted = SITE.submit_pilot(tmp_path / script.name)
    assert job_is_gone(submitted.job) is False
    assert pbs.lab.job(submitted.job)["queue"] == "main"
    with pytest.raises(UserError, match="--qos: not for PBS"):
        SITE.pilot_script(config, "x", tmp_path, PilotJobWishes(qos="q"))


def test_a_job_waits_for_the_one_that_its_dependency_names() -> None:
    by_id = {record.id: record for record in parse_jobs(recorded("busy.qstat-f.dsv"))}
    assert waits_for(by_id["413.head"], "412.head")
    assert not waits_for(by_id["412.head"], "413.head")
    assert not waits_for(by_id["413.head"], "41.head")


def test_a_server_that_is_down_says_nothing(
    pbs: StandInPbs, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pbs.lab.enter(monkeypatch.setenv)
    id_ = pbs.lab.main_job()
    own = PbsPilotJob(id_, tmp_path, SystemClock())
    assert own.ends_s() is not None
    pbs.lab.fault("*", "down")
    assert job_is_gone(id_) is None
    with pytest.raises(CommandError, match="Connection refused"):
        own.submit_successor()
    pbs.lab.heal()
    assert job_is_gone(id_) is False
    assert job_is_gone("1") is True
    with pytest.raises(SchedulerError, match="does not list the pilot's own job 1"):
        PbsPilotJob("1", tmp_path, SystemClock()).submit_successor()
