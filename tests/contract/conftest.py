"""``cluster``: what the contracts are tried on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.clusters_under_test import OAR, ClusterUnderTest, RealSlurm
from support.lsf_under_test import QUEUE, LsfLab, StandInLsf
from support.memory_under_test import InMemory
from support.oar_under_test import LiveOar
from support.pbs_lab import PbsLab
from support.pbs_under_test import QUEUE as PBS_QUEUE
from support.pbs_under_test import StandInPbs


@pytest.fixture(params=["slurm", "lsf", "pbs", "memory", OAR])
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ClusterUnderTest]:
    name, _, several = request.param.partition(", ")
    most = int(several.split()[0]) if several else 1
    if name == "lsf":
        lsf = StandInLsf(LsfLab(tmp_path / "lsf", nodes=8, slots=2, queue=QUEUE), tmp_path)
        yield lsf
        lsf.close()
        return
    if name == "pbs":
        pbs_lab = PbsLab(tmp_path / "pbs", nodes=8, queue=PBS_QUEUE)
        pbs = StandInPbs(pbs_lab, tmp_path, nodes_per_holder=most)
        yield pbs
        pbs.close()
        return
    if name == "memory":
        memory = InMemory(tmp_path)
        yield memory
        memory.close()
        return
    if name == "oar":
        live = LiveOar(request.getfixturevalue("oar_lab"), tmp_path)
        yield live
        live.close()
        return
    lab = request.getfixturevalue("lab")
    real = RealSlurm(lab, tmp_path, nodes_per_holder=most)
    yield real
    real.lab.tidy_up()
    real.close()
