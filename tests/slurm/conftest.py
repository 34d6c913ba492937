"""A pilot as its user runs it, as a job on the cluster of ``site_lab``; and one beside the cluster
of ``lab``, in no job.
"""

from __future__ import annotations

import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from conftest import need_accounting, started
from support.clusters_under_test import RealSlurm
from support.live_machine import Machine, machine
from support.pilot_config import pilot_config
from support.pilot_job import PilotJob, pilot_job
from support.slurm_accounting import limit, preemptible_qos
from support.slurm_lab import Lab, Settings
from support.slurm_versions import SlurmVersion

LOG_LINES = 400
"""Of each daemon, at the end of the report of a test that fails."""

BESIDE = pilot_config(nodes={"flap_back_off_s": 1})


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Function,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        for lab in {
            id(lab): lab for lab in item.funcargs.values() if isinstance(lab, Lab)
        }.values():
            for log in sorted((lab.root / "log").glob("slurm*.log")):
                report.sections.append(
                    (log.name, "\n".join(log.read_text(errors="replace").splitlines()[-LOG_LINES:]))
                )
    return report


@pytest.fixture
def folder() -> Iterator[Path]:
    """That commands of a cluster's daemons may reach, unlike pytest's."""
    with tempfile.TemporaryDirectory(prefix="bftrainer-slurm.", ignore_cleanup_errors=True) as path:
        yield Path(path)


@pytest.fixture
def on(site_lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PilotJob]:
    site_lab.enter(monkeypatch.setenv)
    it = pilot_job(site_lab, tmp_path)
    yield it
    it.close()
    site_lab.tidy_up()


@pytest.fixture
def beside(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    yield from _beside(lab, tmp_path, monkeypatch, BESIDE)


@pytest.fixture
def beside_sharing(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    """Up to four nodes have one holder."""
    yield from _beside(lab, tmp_path, monkeypatch, BESIDE + "nodes_per_holder = 4\n")


def _beside(
    lab: Lab, folder: Path, monkeypatch: pytest.MonkeyPatch, config: str
) -> Iterator[Machine]:
    lab.enter(monkeypatch.setenv)
    it = machine(folder, [], config)
    yield it
    it.close()
    lab.tidy_up()


@pytest.fixture(scope="module")
def qos_lab(slurm_version: SlurmVersion) -> Iterator[Lab]:
    need_accounting(slurm_version)
    for lab in started(
        Settings(nodes=4, preempt="preempt/qos", accounting="associations,limits,qos"),
        slurm_version,
    ):
        preemptible_qos(lab)
        yield lab


@pytest.fixture
def by_qos(qos_lab: Lab, tmp_path: Path) -> Iterator[RealSlurm]:
    real = RealSlurm(qos_lab, tmp_path)
    yield real
    limit(
        qos_lab,
        "MaxSubmitJobsPerUser=-1 MaxJobsPerUser=-1 GraceTime=0 PreemptExemptTime=-1 MaxWall=-1",
    )
    qos_lab.tidy_up()
    real.close()
