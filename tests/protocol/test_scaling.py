"""Batches and learning rates at every world size: examples and properties."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bftrainer.config.trainer_file import TrainerSpec
from bftrainer.errors import InvalidValueError
from bftrainer.pilot.trainers.trainer_message import trainer_message
from bftrainer.progress import Batches, LearningRate, LearningRateRule, Scaling, batches

TRAINER = {
    "version": 1,
    "id": "t",
    "command": ["python"],
    "cwd": "/",
    "min_nodes": 1,
    "max_nodes": 2,
}


def test_strong_scaling_by_hand() -> None:
    """256 samples on 3 workers: 86 + 85 + 85."""
    shared = Batches(Scaling.STRONG, 256)
    assert [shared.of(rank, 3) for rank in range(3)] == [86, 85, 85]
    assert shared.of(0, 1) == 256
    assert shared.weight(0, 3) == pytest.approx(86 * 3 / 256)


@settings(deadline=None)
@given(st.sampled_from(Scaling), st.integers(1, 5000), st.integers(1, 300))
def test_the_workers_batches_sum_to_the_global_batch(
    scaling: Scaling, global_batch: int, size: int
) -> None:
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
    (tmp_path / "trainer.json").write_text(
        json.dumps(TRAINER | {"scaling": "strong", "global_batch": 96})
    )
    here = {"BFTRAINER_TRAINER_DIR": str(tmp_path)}
    assert batches(Scaling.WEAK, 32, here) == Batches(Scaling.STRONG, 96)
    assert batches(Scaling.WEAK, 32, {}) == Batches(Scaling.WEAK, 32)
    (tmp_path / "trainer.json").write_text(json.dumps(TRAINER | {"scaling": None}))
    assert batches(Scaling.WEAK, 32, here) == Batches(Scaling.WEAK, 32)


def test_a_trainer_file_without_scaling_leaves_it_to_the_script(tmp_path: Path) -> None:
    spec = TrainerSpec(name="a", command=("python", "a.py"), max_nodes=1)
    message = {**TRAINER, "scaling": trainer_message(spec).scaling}
    (tmp_path / "trainer.json").write_text(json.dumps(message))
    here = {"BFTRAINER_TRAINER_DIR": str(tmp_path)}
    assert batches(Scaling.STRONG, 32, here) == Batches(Scaling.STRONG, 32)


def test_linear_learning_rate_with_warm_up_by_hand() -> None:
    """0.1 for a batch of 32; four workers: 0.4, reached in 10 steps of 0.03 from step 100 on."""
    rate = LearningRate(base=0.1, base_batch=32, warmup_steps=10)
    assert rate.at(32, 99) == 0.1
    assert [round(rate.at(128, step), 6) for step in (100, 101, 105, 110, 500)] == [
        0.1,
        0.13,
        0.25,
        0.4,
        0.4,
    ]
    assert rate.at(64, 501) == pytest.approx(0.2), "a lower rate at once"
    assert [rate.at(256, step) for step in (520, 525)] == pytest.approx([0.2, (0.2 + 0.8) / 2])


def test_a_start_with_a_large_batch_warms_up_too() -> None:
    rate = LearningRate(base=0.1, base_batch=32, warmup_steps=10)
    assert [round(rate.at(128, step), 6) for step in (0, 5, 10)] == [0.1, 0.25, 0.4]


def test_square_root_learning_rate_by_hand() -> None:
    assert LearningRate(base=0.1, base_batch=32, rule=LearningRateRule.SQUARE_ROOT).at(
        128, 0
    ) == pytest.approx(0.2)


class Optimizer:
    """The part of a torch optimizer that is used."""

    def __init__(self) -> None:
        self.param_groups: list[dict[str, float]] = [{"lr": 1.0}, {"lr": 2.0}]


def test_the_rate_that_an_optimizer_s_checkpoint_brings_back_is_replaced() -> None:
    rate, optimizer = LearningRate(base=0.1, base_batch=32), Optimizer()
    assert rate.apply(optimizer, 64, 7) == pytest.approx(0.2)
    assert [group["lr"] for group in optimizer.param_groups] == [rate.latest] * 2


@pytest.mark.parametrize(
    "state", [{}, {"batch": "x", "start": 1, "since_step": 0}, {"batch": 1, "start": None}]
)
def test_another_object_s_state_is_refused(state: dict[str, object]) -> None:
    with pytest.raises(InvalidValueError, match="not the state of a LearningRate"):
        LearningRate(base=0.1, base_batch=8).load_state_dict(state)


STORIES = st.lists(st.tuples(st.integers(1, 64), st.integers(1, 50)), min_size=1, max_size=8)


@settings(deadline=None)
@given(STORIES, st.integers(0, 20))
def test_the_rate_after_the_warm_up_depends_on_the_size_only(
    story: list[tuple[int, int]], warmup: int
) -> None:
    rate, step = LearningRate(base=0.1, base_batch=8, warmup_steps=warmup), 0
    for workers, steps in story:
        before = rate.at(rate.state_dict()["batch"] or 8, step)
        assert rate.at(8 * workers, step) <= max(before, rate.scaled(8 * workers))
        step += steps
    rate.at(8 * story[-1][0], step)
    assert rate.at(8 * story[-1][0], step + warmup) == pytest.approx(0.1 * story[-1][0])


@settings(deadline=None)
@given(STORIES, st.integers(0, 20), st.data())
def test_survivors_newcomers_and_restarts_have_the_same_rate(
    story: list[tuple[int, int]], warmup: int, data: st.DataObject
) -> None:
    """A worker that takes over the state, at any step, computes the same rates as one that saw
    every step.
    """
    rates, step = [LearningRate(base=0.1, base_batch=8, warmup_steps=warmup)], 0
    for workers, steps in story:
        newcomer = LearningRate(base=0.1, base_batch=8, warmup_steps=warmup)
        newcomer.load_state_dict(
            json.loads(json.dumps(data.draw(st.sampled_from(rates)).state_dict()))
        )
        rates.append(newcomer)
        for _ in range(steps):
            assert len({rate.at(8 * workers, step) for rate in rates}) == 1
            step += 1
