"""A pilot as its user runs it, as a job on the cluster of ``site_lab``; and one beside the cluster of ``lab``, in no job."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from live_machine import Machine, machine
from pilot_job import PilotJob, pilot_job
from slurm_lab import Lab

BESIDE = """
[decisions]
solver = "exact"
[nodes]
holder = "slurm"
flap_back_off_s = 1
[times]
poll_s = 1
shutdown_s = 90
[workers]
allow_root = true
[slurm]
partition = "scavenge"
"""


@pytest.fixture
def on(site_lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PilotJob]:
    for name, value in site_lab.env.items():
        monkeypatch.setenv(name, value)
    it = pilot_job(site_lab, tmp_path)
    yield it
    it.close()
    site_lab.tidy_up()


@pytest.fixture
def beside(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    for name, value in lab.env.items():
        monkeypatch.setenv(name, value)
    it = machine(tmp_path, [], BESIDE)
    yield it
    it.close()
    lab.tidy_up()
