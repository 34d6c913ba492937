"""``pbs``: the stand-in PBS with four nodes, and its holders."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.pbs_lab import PbsLab
from support.pbs_under_test import QUEUE, StandInPbs


@pytest.fixture
def pbs(tmp_path: Path) -> Iterator[StandInPbs]:
    pbs = StandInPbs(PbsLab(tmp_path / "pbs", nodes=4, cpus=8, gpus=2, queue=QUEUE), tmp_path)
    yield pbs
    pbs.close()
