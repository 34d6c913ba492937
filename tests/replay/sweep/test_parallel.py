"""P_jmax by default: enough trainers for the idle nodes of the log."""

from __future__ import annotations

import pytest

from bftrainer.domain.model import Curve, Trainer
from bftrainer_replay.comparison.advise import numbers_to_try
from bftrainer_replay.logs.model import LogWindow
from bftrainer_replay.simulation.play import enough_trainers


@pytest.mark.parametrize(
    ("nodes", "largest", "expected"), [(20, 64, 10), (407, 64, 13), (8311, 64, 100), (407, 8, 100)]
)
def test_enough_for_twice_the_mean_number_of_idle_nodes_within_bounds(nodes: int, largest: int, expected: int) -> None:
    window = LogWindow(0.0, 3600.0, frozenset(f"n{i}" for i in range(nodes)), (), nodes, "made up")
    trainers = [Trainer(f"t{n}", Curve((1, 64), (1.0, 60.0)), 1, n, 18.0, 12.0) for n in (1, largest)]
    assert enough_trainers(window, trainers) == expected


def test_more_and_fewer_are_tried_around_it() -> None:
    assert numbers_to_try(10) == (5, 10, 20, 35)
    assert numbers_to_try(100) == (25, 50, 100, 200)
    assert numbers_to_try(13) == (3, 6, 13, 26, 52)
    assert numbers_to_try(1) == (1, 2, 4)
