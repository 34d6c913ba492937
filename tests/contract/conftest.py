"""``cluster``: what the contracts are tried on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from clusters_under_test import ClusterUnderTest, Faked, RealSlurm
from fakes_cluster import FakeClock, FakeCluster
from lsf_under_test import QUEUE, LsfLab, StandInLsf


@pytest.fixture(params=["fake", "slurm", "lsf"])
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ClusterUnderTest]:
    name, _, several = request.param.partition(", ")
    most = int(several.split()[0]) if several else 1
    if name == "fake":
        yield Faked(FakeCluster(FakeClock()), nodes_per_holder=most)
        return
    if name == "lsf":
        lsf = StandInLsf(LsfLab(tmp_path / "lsf", nodes=8, slots=2, queue=QUEUE), tmp_path)
        yield lsf
        lsf.close()
        return
    real = RealSlurm(request.getfixturevalue("lab"), tmp_path, nodes_per_holder=most)
    yield real
    real.lab.tidy_up()
    real.close()
