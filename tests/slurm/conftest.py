"""A pilot as its user runs it, as a job on the cluster of ``site_lab``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pilot_job import PilotJob, pilot_job
from slurm_lab import Lab


@pytest.fixture
def on(site_lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PilotJob]:
    for name, value in site_lab.env.items():
        monkeypatch.setenv(name, value)
    it = pilot_job(site_lab, tmp_path)
    yield it
    it.close()
    site_lab.tidy_up()
