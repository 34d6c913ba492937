"""Looking at a real Slurm: sites that hide jobs, clocks that are wrong, commands that cannot be
trusted.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from conftest import started
from support.slurm_lab import BAD_ANSWERS, Lab, Settings
from support.slurm_versions import SlurmVersion

from bftrainer.cluster.model import Hidden
from bftrainer.cluster.windows import PilotJobs, free_nodes
from bftrainer.errors import CommandError, SchedulerError, WindowsUnknownError
from bftrainer_clusters.slurm.calls import SlurmCalls
from bftrainer_clusters.slurm.observe import SlurmScheduler


@pytest.fixture
def secretive(slurm_version: SlurmVersion) -> Iterator[Lab]:
    """A site with PrivateData=jobs."""
    yield from started(Settings(nodes=2, private_data="jobs,usage"), slurm_version)


def test_a_site_that_hides_jobs_is_refused_unless_a_window_is_assumed(secretive: Lab) -> None:
    seen = SlurmScheduler(calls=SlurmCalls(secretive.env, user="somebody")).observe()
    assert seen.hidden == {Hidden.JOBS}
    with pytest.raises(WindowsUnknownError, match="assume_window_s"):
        free_nodes(seen, PilotJobs())
    assert [
        round(f.window_s(seen.at_s)) for f in free_nodes(seen, PilotJobs(assume_window_s=600.0))
    ] == [600, 600]
    root_sees = SlurmScheduler(calls=SlurmCalls(secretive.env, user="root")).observe()
    assert root_sees.hidden == frozenset()


@pytest.mark.every_slurm
def test_the_servers_time_counts_and_not_the_users_format(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_TIME_FORMAT", "relative")
    monkeypatch.setenv("SQUEUE_FORMAT", "%i")
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    seen = SlurmScheduler(calls=SlurmCalls(lab.env)).observe()
    assert len(free_nodes(seen, PilotJobs())) == 8
    # Of a quiet cluster the last plan is old; a time zone taken for another would be hours off.
    assert seen.planned_s is None or 0 <= seen.at_s - seen.planned_s < 3600


@pytest.mark.parametrize("program", ["squeue", "scontrol", "sdiag"])
def test_what_cannot_be_trusted_is_an_error(lab: Lab, program: str) -> None:
    for kind in BAD_ANSWERS.values():
        lab.put_fake(program, f"#!/bin/sh\n{kind}\n")
        with pytest.raises((CommandError, SchedulerError)):
            SlurmScheduler(calls=SlurmCalls(lab.env), timeout_s=1.0).observe()
