"""The upper bound of trainers that differ: by hand, and above every policy on the Summit log."""

from __future__ import annotations

import numpy as np
import pytest

from bftrainer.decide.domain.model import Curve, Trainer
from bftrainer_replay.analysis.window_fragments import PoolSizes
from bftrainer_replay.simulation.upper_bound import upper_bound

FAST = Curve((1, 2, 4), (10.0, 18.0, 30.0))
SLOW = Curve((1, 2, 4), (1.0, 1.9, 3.6))


def trainer(name: str, curve: Curve, total: float | None) -> Trainer:
    return Trainer(name, curve, 1, 4, 18.0, 12.0, samples_total=total)


def constant(nodes: int, span_s: float = 100.0) -> PoolSizes:
    return PoolSizes(np.array([0.0]), np.array([span_s]), np.array([nodes]))


def test_one_trainer_trains_at_its_best() -> None:
    assert upper_bound(constant(2), [trainer("a", FAST, 1e9)], 10) == pytest.approx(1800)
    assert upper_bound(constant(9), [trainer("a", FAST, 1e9)], 10) == pytest.approx(
        3000
    )  # at most max_nodes
    assert upper_bound(constant(3), [trainer("a", FAST, 1e9)], 10) == pytest.approx(
        2400
    )  # between breakpoints


def test_work_ends() -> None:
    assert upper_bound(constant(4), [trainer("a", FAST, 70.0)], 10) == pytest.approx(70)
    assert upper_bound(constant(4), [trainer("a", FAST, None)], 10) == pytest.approx(3000)


def test_the_queue_is_served_in_order() -> None:
    """A slow trainer holds the only place until it is done: 360 samples take it 100 s of the 100
    s.
    """
    queue = [trainer("slow", SLOW, 360.0), trainer("fast", FAST, 1e9)]
    assert upper_bound(constant(4), queue, 1) == pytest.approx(360)
    half = [trainer("slow", SLOW, 180.0), trainer("fast", FAST, 1e9)]
    assert upper_bound(constant(4), half, 1) == pytest.approx(
        180 + 50 * 30, rel=1e-5
    )  # a millionth of the fast one counts as finished
    assert upper_bound(constant(4), queue, 2) == pytest.approx(3000)


def test_nothing_idle_nothing_trained() -> None:
    assert upper_bound(constant(0), [trainer("a", FAST, 1e9)], 10) == 0
    assert upper_bound(constant(4), [], 10) == 0
