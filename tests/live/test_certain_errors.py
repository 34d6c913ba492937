"""Starts of trainers whose error comes again, by a pilot over a cluster in memory."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.live_house import house, spec

from bftrainer.pilot.persistence.registry import Registry, TrainerStatus


@pytest.mark.parametrize(
    ("reason", "starts"),
    [
        ("NameError: name 'loss' is not defined", 2),
        ("ModuleNotFoundError: No module named 'torch'", 4),  # the only node may lack the files
        ("RuntimeError: NCCL error", 4),
    ],
)
def test_a_trainer_on_one_node_fails_for_good(tmp_path: Path, reason: str, starts: int) -> None:
    home = house(tmp_path / "state")
    home.submit(spec("a", max_nodes=1))
    home.cluster.give("n1")
    home.launcher.behaviour["a"] = "fails"
    home.launcher.reasons["a"] = reason
    home.pilot(200)
    row = Registry(home.store()).trainer("a")
    assert row.status is TrainerStatus.FAILED
    assert row.failures == starts
