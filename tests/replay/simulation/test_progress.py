"""The cost models, worked out by hand. One trainer: 10 samples/s per node, R_up 20 s, R_dw 10 s."""

from __future__ import annotations

import copy
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.node_names import first, last

from bftrainer.decide.domain.model import Curve, Trainer
from bftrainer_replay.simulation.progress import CostModel, ReplayedTrainer


def run(cost_model: CostModel, total: float | None = 1e6, min_nodes: int = 1) -> ReplayedTrainer:
    curve = Curve((1, 8), (10.0, 80.0))
    return ReplayedTrainer(
        Trainer("t", curve, min_nodes, 8, 20.0, 10.0, total), cost_model, since_s=0.0
    )


def test_stall_one_event_costs_the_larger_of_both() -> None:
    trainer = run(CostModel.STALL)
    trainer.rescale(first(4), 0.0)
    trainer.lose_nodes(last(trainer.node_names, 1), 100.0)
    trainer.rescale(first(6), 100.0)
    trainer.settle(200.0)
    assert trainer.samples == 80 * 40 + (100 - 20) * 60
    # The first ten seconds are the preemption's, the rest is the price of growing.
    assert trainer.lost_to_preemption == 10 * 60
    assert trainer.lost_to_rescale == 20 * 40 + 10 * 60


def test_stall_a_later_shorter_stall_does_not_end_an_earlier_longer_one() -> None:
    trainer = run(CostModel.STALL)
    trainer.rescale(first(4), 0.0)
    trainer.lose_nodes(last(trainer.node_names, 1), 5.0)
    assert trainer.samples_at(20.0) == 0
    assert trainer.samples_at(21.0) == 30
    trainer.settle(20.0)
    assert trainer.lost_to_preemption == 10 * 30
    assert trainer.lost_to_rescale == 5 * 40 + 5 * 30


def test_paper_lumps_come_off_the_trainers_samples() -> None:
    trainer = run(CostModel.PAPER)
    trainer.rescale(first(4), 0.0)  # from 0: costs nothing
    assert trainer.samples_at(100.0) == 4000
    trainer.lose_nodes(last(trainer.node_names, 1), 100.0)  # O(4) * R_dw
    assert trainer.samples_at(100.0) == 4000 - 40 * 10
    trainer.rescale(first(6), 100.0)  # O(3) * R_up, the count after the loss
    assert trainer.samples_at(100.0) == 4000 - 400 - 30 * 20
    trainer.rescale(first(2), 110.0)  # O(6) * R_dw
    assert trainer.samples_at(110.0) == 3000 + 600 - 60 * 10
    assert trainer.lost_to_preemption == 400
    assert trainer.lost_to_rescale == 600 + 600


def test_paper_below_its_minimum_it_stands_and_growing_again_is_free() -> None:
    trainer = run(CostModel.PAPER, min_nodes=4)
    trainer.rescale(first(4), 0.0)
    trainer.lose_nodes(last(trainer.node_names, 1), 10.0)
    assert trainer.samples_at(1000.0) == 400 - 400
    trainer.rescale(first(5), 1000.0)
    assert trainer.lost_to_rescale == 0


@pytest.mark.parametrize(
    ("cost_model", "finish_s"), [(CostModel.STALL, 120.0), (CostModel.PAPER, 100.0)]
)
def test_the_end_is_predicted(cost_model: CostModel, finish_s: float) -> None:
    trainer = run(cost_model, total=4000.0)
    assert trainer.finishes_s == math.inf
    trainer.rescale(first(4), 0.0)
    assert trainer.finishes_s == finish_s
    trainer.finish(finish_s)
    assert (trainer.samples, trainer.finished_s, trainer.nodes) == (4000.0, finish_s, 0)
    assert trainer.node_s == 4 * finish_s


def test_without_a_total_it_never_ends() -> None:
    trainer = run(CostModel.STALL, total=None)
    trainer.rescale(first(4), 0.0)
    assert trainer.finishes_s == math.inf


def test_the_longest_wait_is_between_admission_and_start_or_at_no_nodes() -> None:
    run = ReplayedTrainer(
        Trainer("t", Curve((1, 2), (10.0, 20.0)), 1, 2, 0.0, 0.0), CostModel.STALL, 0.0
    )
    assert run.longest_wait_s(50.0) == 0.0
    run.admitted_s = 10.0
    assert run.longest_wait_s(40.0) == 30.0
    run.rescale(first(2), 40.0)
    run.lose_nodes(last(run.node_names, 1), 60.0)
    assert run.longest_wait_s(90.0) == 30.0
    run.lose_nodes(last(run.node_names, 1), 100.0)
    assert run.longest_wait_s(120.0) == 30.0
    assert run.longest_wait_s(145.0) == 45.0


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(CostModel),
    st.none() | st.sampled_from((500.0, 1e6)),
    st.sampled_from((None, 30.0)),
    st.lists(
        st.tuples(
            st.sampled_from(("rescale", "lose", "settle")), st.integers(0, 8), st.floats(0.0, 50.0)
        ),
        max_size=8,
    ),
)
def test_what_is_kept_between_bends_is_what_the_line_says(
    cost_model: CostModel,
    total: float | None,
    checkpoint_s: float | None,
    changes: list[tuple[str, int, float]],
) -> None:
    curve = Curve((1, 8), (10.0, 80.0))
    told = Trainer("t", curve, 1, 8, 20.0, 10.0, total, start_s=7.0)
    trainer = ReplayedTrainer(told, cost_model, since_s=0.0, checkpoint_s=checkpoint_s)
    now_s = 0.0
    for what, nodes, passed_s in changes:
        now_s += passed_s
        if what == "rescale":
            trainer.rescale(first(nodes), now_s)
        elif what == "lose" and trainer.nodes:
            trainer.lose_nodes(last(trainer.node_names, min(nodes + 1, trainer.nodes)), now_s)
        else:
            trainer.settle(now_s)
        from_scratch = copy.copy(trainer)
        from_scratch.refresh()
        assert trainer == from_scratch
        assert trainer.steady_s == max(trainer.since_s, trainer.ready_s)
        if math.isfinite(trainer.finishes_s):
            assert trainer.samples_at(trainer.finishes_s) == pytest.approx(
                max(total or 0.0, trainer.samples)
            )


def overlapping() -> ReplayedTrainer:
    """A start of 20 s, a switch of 4 s up and 2 s down."""
    trainer = Trainer("t", Curve((1, 8), (10.0, 80.0)), 1, 8, 4.0, 2.0, start_s=20.0)
    return ReplayedTrainer(trainer, CostModel.OVERLAP, since_s=0.0)


def test_overlap_the_old_nodes_train_on_and_all_stall_for_the_switch() -> None:
    run = overlapping()
    run.rescale(first(2), 0.0)
    assert run.samples_at(24.0) == 0
    run.rescale(first(6), 100.0)
    assert run.samples_at(120.0) == 96 * 20
    assert run.samples_at(124.0) == 96 * 20
    assert run.samples_at(130.0) == 96 * 20 + 6 * 60
    run.settle(130.0)
    assert run.lost_to_rescale == 24 * 20 + 20 * 40 + 4 * 60


def test_overlap_only_nodes_that_train_are_missed() -> None:
    run = overlapping()
    run.rescale(first(2), 0.0)
    run.rescale(first(6), 100.0)
    run.lose_nodes(last(run.node_names, 2), 110.0)  # they were starting
    assert run.samples_at(120.0) == 96 * 20
    run.lose_nodes(first(1), 114.0)
    assert run.samples_at(120.0) == 90 * 20 + 4 * 10, "the other one stalls for 2 s"
    assert run.samples_at(134.0) == 90 * 20 + 4 * 10 + 10 * 30
    run.settle(134.0)
    assert run.lost_to_preemption == 2 * 30


@pytest.mark.parametrize("model", [CostModel.STALL, CostModel.DELAY])
def test_other_models_count_start_and_switch_as_one(model: CostModel) -> None:
    whole = Trainer("t", Curve((1, 8), (10.0, 80.0)), 1, 8, 24.0, 2.0)
    for trainer in (whole, overlapping().trainer):
        run = ReplayedTrainer(trainer, model, since_s=0.0)
        run.rescale(first(2), 0.0)
        assert run.samples_at(25.0) == 20
