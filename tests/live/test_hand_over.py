"""The pilot's own job: a successor before it ends, and whether another's is gone. squeue is a
program on PATH here.
"""

from __future__ import annotations

import os
import zlib
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from support.fakes_live import START_S, FakeClock

from bftrainer.config.in_effect import ConfigCell
from bftrainer.config.pilot import PilotConfig, TimesConfig
from bftrainer.errors import SchedulerError
from bftrainer.pilot.job_chaining import JobChain
from bftrainer_clusters.slurm.pilot_job import SlurmJobFacts, SlurmPilotJob, job_is_gone, parse_job


@dataclass
class Job:
    end_s: float | None = START_S + 1000
    fails: int = 0
    fails_after_s: float = 0.0
    asked: int = 0
    submitted: list[float] = field(default_factory=list)
    withdrawn: list[str] = field(default_factory=list)
    clock: FakeClock = field(default_factory=FakeClock)

    def ends_s(self) -> float | None:
        self.asked += 1
        if self.fails:
            self.fails -= 1
            self.clock.sleep(self.fails_after_s)
            raise SchedulerError("no answer")
        return self.end_s

    def submit_successor(self) -> str:
        self.submitted.append(self.clock.elapsed_s())
        return "43"

    def withdraw(self, successor: str) -> None:
        self.withdrawn.append(successor)


def times(**keys: float) -> ConfigCell:
    return ConfigCell(PilotConfig(times=TimesConfig(**keys)))


@pytest.mark.parametrize(("fails", "at_s"), [(0, 700), (25, 750)])
def test_one_successor_in_time_then_the_end(fails: int, at_s: float) -> None:
    job, notes = Job(fails=fails), []
    hand_over = JobChain(job, times(hand_over_s=300, shutdown_s=60), job.clock, notes.append)
    while not hand_over.attend():
        job.clock.sleep(1.0)
    assert len(job.submitted) == 1
    assert at_s <= job.submitted[0] < at_s + 31
    assert 1000 - job.clock.elapsed_s() == pytest.approx(70, abs=1.5)
    assert notes[-1] == "successor job 43 submitted; it waits for the end of this job"


def test_a_far_end_is_asked_for_rarely() -> None:
    """Two calls to slurmctld each: sites may allow a user four a minute."""
    job = Job(START_S + 86_400)
    hand_over = JobChain(job, times(), job.clock, lambda _: None)
    for _ in range(3600):
        assert not hand_over.attend()
        job.clock.sleep(1.0)
    assert job.asked <= 13
    job.end_s = START_S + 3600 + 700  # an administrator shortens the job
    while not hand_over.attend():
        job.clock.sleep(1.0)
    assert len(job.submitted) == 1


def test_a_loop_that_waits_for_a_silent_scheduler_waits_in_few_ticks() -> None:
    job = Job(fails=100, fails_after_s=40)
    hand_over = JobChain(job, times(), job.clock, lambda _: None)
    for _ in range(25):
        hand_over.attend()
        job.clock.sleep(1.0)
    assert job.asked == 1


def test_without_a_known_end_it_goes_on() -> None:
    job = Job(end_s=None)
    hand_over = JobChain(job, times(), job.clock, lambda _: None)
    for _ in range(100):
        assert not hand_over.attend()
        job.clock.sleep(60)
    assert job.submitted == []


@pytest.mark.parametrize(
    "end_s", [START_S + 200, None], ids=["the end is known", "squeue does not answer"]
)
def test_the_notice_of_the_end_is_enough(end_s: float | None) -> None:
    job, notes = Job(end_s), []
    hand_over = JobChain(job, times(hand_over_s=30, shutdown_s=60), job.clock, notes.append)
    assert not hand_over.attend()
    job.clock.sleep(5)
    hand_over.mark_end_announced()
    assert hand_over.attend() == (end_s is None)
    assert job.submitted == [5]
    job.clock.sleep(126)
    assert hand_over.attend()
    assert job.submitted == [5], "once"


def test_told_to_end_it_wants_no_successor() -> None:
    job, notes = Job(START_S + 200), []
    hand_over = JobChain(job, times(), job.clock, notes.append)
    assert not hand_over.attend()
    hand_over.cancel_successor()
    hand_over.cancel_successor()
    assert job.withdrawn == ["43"]
    assert notes[-1] == "successor job 43 canceled"


def test_what_squeue_says() -> None:
    taken = ("--partition=long", "--qos=normal", "--time=1-00:00:00")
    line = "RUNNING|1700000000|me|long|(null)|normal|1-00:00:00|(null)|pilot|x\n"
    assert parse_job(line) == SlurmJobFacts("RUNNING", 1.7e9, "me", "pilot|x", taken)
    assert parse_job("PENDING|N/A|me|p|a|(null)|UNLIMITED|r|pilot\n") == SlurmJobFacts(
        "PENDING",
        None,
        "me",
        "pilot",
        ("--partition=p", "--account=a", "--time=UNLIMITED", "--reservation=r"),
    )
    assert parse_job("") is None
    with pytest.raises(SchedulerError, match="truncated"):
        parse_job("RUNN")


FAKE = """#!/bin/sh
echo "$(basename $0) $*" >> "{log}"
case "$(basename $0) $*" in
    squeue*PD*) printf '{waiting}' ;;
    squeue*) printf '{line}' ;;
    *show*) echo "slurm_load_jobs error: Invalid job id specified" >&2; exit 1 ;;
    sbatch*) echo 43 ;;
esac
"""


def programs(
    path: Path, monkeypatch: pytest.MonkeyPatch, line: str = "", waiting: str = ""
) -> Path:
    log = path / "calls"
    for name in ("squeue", "scontrol", "sbatch"):
        (path / name).write_text(FAKE.format(log=log, line=line, waiting=waiting))
        (path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{path}{os.pathsep}{os.environ['PATH']}")
    return log


@pytest.mark.parametrize(
    ("line", "gone"),
    [
        ("RUNNING|1|me|q|a|n|1:00||p\\n", False),
        ("PENDING|1|me|q|a|n|1:00||p\\n", False),
        ("CANCELLED|1|me|q|a|n|1:00||p\\n", True),
        ("", True),
        ("RUNN", None),
    ],
)
def test_whether_another_pilots_job_is_gone(
    line: str, gone: bool | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs(tmp_path, monkeypatch, line)
    assert job_is_gone("12") is gone


def test_nobody_knows_without_a_scheduler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert job_is_gone("12") is None


@pytest.mark.parametrize(("waiting", "submits"), [("", True), ("77\\n", False)])
def test_the_successor_is_the_same_script_once(
    waiting: str, submits: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = programs(
        tmp_path, monkeypatch, "RUNNING|1700000000|me|long|(null)|(null)|5:00||my pilot\\n", waiting
    )
    job = SlurmPilotJob("12", tmp_path / "successor.sh")
    assert job.ends_s() == 1.7e9
    assert job.submit_successor() == ("43" if submits else "77")
    name = f"my pilot-{zlib.crc32(str(tmp_path).encode()):08x}"
    options = f"--dependency=afterany:12,singleton -J {name} --partition=long --time=5:00"
    expected = f"sbatch --parsable {options} {tmp_path / 'successor.sh'}"
    assert f"-n {name}" in log.read_text(), "another pilot's successor is none of ours"
    assert (expected in log.read_text()) == submits
