"""Batches and learning rates at every world size: examples and properties."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bftrainer.errors import InvalidValueError
from bftrainer.progress import Batches, LearningRate, LearningRateRule, Scaling, batches

TRAINER = {"version": 1, "id": "t", "command": ["python"], "cwd": "/", "min_nodes": 1, "max_nodes": 2}


def test_strong_scaling_by_hand() -> None:
    """256 samples on 3 workers: 86 + 85 + 85."""
    shared = Batches(Scaling.STRONG, 256)
    assert [shared.of(rank, 3) for rank in range(3)] == [86, 85, 85]
    assert shared.of(0, 1) == 256
    assert shared.weight(0, 3) == pytest.approx(86 * 3 / 256)


def test_weak_scaling_by_hand() -> None:
    """64 on each worker: 256 on four."""
    grows = Batches(Scaling.WEAK, 64)
    assert [grows.of(rank, 4) for rank in range(4)] == [64] * 4
    assert grows.total(4) == 256
    assert grows.weight(2, 4) == 1.0


@settings(deadline=None)
@given(st.sampled_from(Scaling), st.integers(1, 5000), st.integers(1, 300))
def test_the_workers_batches_sum_to_the_global_batch(scaling: Scaling, global_batch: int, size: int) -> None:
    rule = Batches(scaling, global_batch)
    if rule.total(size) < size:
        with pytest.raises(InvalidValueError, match="cannot be divided"):
            rule.of(0, size)
        return
    shares = [rule.of(rank, size) for rank in range(size)]
    assert sum(shares) == rule.total(size)
    assert max(shares) - min(shares) <= 1
    assert sum(rule.weight(rank, size) for rank in range(size)) == pytest.approx(size)
    assert rule.total(size) == (global_batch if scaling is Scaling.STRONG else global_batch * size)


@pytest.mark.parametrize(("rank", "size"), [(3, 3), (-1, 3), (0, 0)])
def test_a_rank_outside_of_its_world_is_refused(rank: int, size: int) -> None:
    with pytest.raises(InvalidValueError):
        Batches(Scaling.WEAK, 8).of(rank, size)


def test_the_trainer_file_outvotes_the_script(tmp_path: Path) -> None:
    (tmp_path / "trainer.json").write_text(json.dumps(TRAINER | {"scaling": "strong", "global_batch": 96}))
    here = {"BFTRAINER_TRAINER_DIR": str(tmp_path)}
    assert batches(Scaling.WEAK, 32, here) == Batches(Scaling.STRONG, 96)
    assert batches(Scaling.WEAK, 32, {}) == Batches(Scaling.WEAK, 32)
    (tmp_path / "trainer.json").write_text(json.dumps(TRAINER | {"scaling": None}))
    assert batches(Scaling.WEAK, 32, here) == Batches(Scaling.WEAK, 32)


def test_linear_learning_rate_with_warm_up_by_hand() -> None:
    """0.1 for a batch of 32; four workers: 0.4, reached in 10 steps of 0.03 from step 100 on."""
    rate = LearningRate(base=0.1, base_batch=32, warmup_steps=10)
    assert rate.at(99) == 0.1
    four = rate.rescaled(128, step=100)
    assert [round(four.at(step), 6) for step in (100, 101, 105, 110, 500)] == [0.1, 0.13, 0.25, 0.4, 0.4]
    two = four.rescaled(64, step=105)  # down in the middle of it, from 0.25 to 0.2: at once
    assert two.at(105) == pytest.approx(0.2)
    eight = two.rescaled(256, step=120)
    assert eight.at(125) == pytest.approx((0.2 + 0.8) / 2)


def test_square_root_learning_rate_by_hand() -> None:
    rate = LearningRate(base=0.1, base_batch=32, rule=LearningRateRule.SQUARE_ROOT).rescaled(128, step=0)
    assert rate.at(0) == pytest.approx(0.2)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(1, 64), st.integers(0, 50)), min_size=1, max_size=8), st.integers(0, 20))
def test_the_rate_after_the_warm_up_depends_on_the_size_only(story: list[tuple[int, int]], warmup: int) -> None:
    rate, step = LearningRate(base=0.1, base_batch=8, warmup_steps=warmup), 0
    for workers, steps in story:
        rate = rate.rescaled(8 * workers, step)
        assert rate.at(step) <= max(rate.start, rate.target)
        step += steps
    assert rate.at(step + warmup) == pytest.approx(0.1 * story[-1][0])


@pytest.mark.parametrize("bad", [{"base": 0}, {"base_batch": 0}, {"warmup_steps": -1}])
def test_bad_learning_rates_are_refused(bad: dict[str, float]) -> None:
    with pytest.raises(InvalidValueError):
        LearningRate(**{"base": 0.1, "base_batch": 32, **bad})  # type: ignore[arg-type]
