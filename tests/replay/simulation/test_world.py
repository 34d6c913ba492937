"""ReplayWorld by hand: what happens when, and in which order at one instant."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from replay.windows import window

from bftrainer.decide.domain.events import (
    Event,
    PoolChanged,
    TimerDue,
    TrainerFinished,
    TrainerSubmitted,
)
from bftrainer.decide.domain.model import Curve, Trainer
from bftrainer.decide.domain.state import Rescale, State
from bftrainer_replay.simulation.progress import CostModel
from bftrainer_replay.simulation.replay_world import Arrival, DecideOn, ReplayWorld

ABCD = frozenset("abcd")


def trainer(name: str, total: float = 1e6) -> Trainer:
    return Trainer(name, Curve((1, 8), (10.0, 80.0)), 1, 8, 20.0, 10.0, total)


def world(
    *arrivals: Arrival, cost_model: CostModel = CostModel.PAPER, decide_on: DecideOn = DecideOn.ALL
) -> ReplayWorld:
    return ReplayWorld(
        window(300.0, "abcd", (100.0, "d"), (200.0, "e")), arrivals, cost_model, decide_on
    )


def kinds(event: Event | None) -> tuple[float, list[type]]:
    return event.at_s, [type(change) for change in event.changes]


def hold(here: ReplayWorld, name: str, nodes: str, before: str = "") -> None:
    here.apply((Rescale(name, frozenset(before), frozenset(nodes), forced=False),))


def test_events_come_in_order_and_end_with_the_window() -> None:
    here = world(
        Arrival(-5.0, trainer("early")),
        Arrival(50.0, trainer("later")),
        Arrival(301.0, trainer("never")),
    )
    assert kinds(here.next_event(State(1))) == (0.0, [PoolChanged, TrainerSubmitted])
    assert kinds(here.next_event(State(1))) == (50.0, [TrainerSubmitted])
    assert kinds(here.next_event(State(1))) == (100.0, [PoolChanged])
    assert kinds(here.next_event(State(1, wake_at_s=150.0))) == (150.0, [TimerDue])
    assert kinds(here.next_event(State(1, wake_at_s=200.0))) == (200.0, [PoolChanged, TimerDue])
    assert here.next_event(State(1)) is None
    assert here.next_event(State(1)) is None
    assert "never" not in here.runs


def test_a_completion_is_an_event_of_its_own() -> None:
    here = world(Arrival(0.0, trainer("t", total=1500.0)))
    here.next_event(State(1))
    hold(here, "t", "abc")
    event = here.next_event(State(1))
    assert kinds(event) == (50.0, [TrainerFinished])
    assert here.totals().samples == 1500.0


def test_deciding_on_pool_changes_only_sees_completions_and_submissions_late_and_discards_the_excess() -> (
    None
):
    here = world(
        Arrival(0.0, trainer("t", total=1500.0)),
        Arrival(20.0, trainer("u")),
        decide_on=DecideOn.POOL,
    )
    here.next_event(State(1))
    hold(here, "t", "abc")
    event = here.next_event(State(1))
    assert kinds(event) == (100.0, [PoolChanged, TrainerFinished, TrainerSubmitted])
    assert here.totals().samples == 1500.0


def test_losses_come_off_before_whoever_is_done_is_done() -> None:
    # By 100 s it has 4,000 samples; losing d costs 400, so it is not done at 3,800.
    here = world(Arrival(0.0, trainer("t", total=3800.0)), decide_on=DecideOn.POOL)
    here.next_event(State(1))
    hold(here, "t", "abcd")
    event = here.next_event(State(1))
    assert kinds(event) == (100.0, [PoolChanged])
    assert event.samples_done == (("t", 3600.0),)
    here.apply((Rescale("t", ABCD, frozenset("abc"), forced=True),))
    assert kinds(here.next_event(State(1))) == (200.0, [PoolChanged, TrainerFinished])


def test_a_forced_step_that_is_not_what_happened_is_a_bug() -> None:
    here = world(Arrival(0.0, trainer("t")))
    here.next_event(State(1))
    hold(here, "t", "abcd")
    here.next_event(State(1))
    with pytest.raises(AssertionError, match="3 nodes, 2 planned"):
        here.apply((Rescale("t", ABCD, frozenset("ab"), forced=True),))


@pytest.mark.parametrize(
    ("cost_model", "expected"),
    [
        # 100 s at 40/s, 200 s at 30/s; stalls: 20 s starting, 10 s after the loss.
        (
            CostModel.STALL,
            {"samples": 80 * 40 + 190 * 30, "lost_to_preemption": 300.0, "lost_to_rescale": 800.0},
        ),
        (
            CostModel.PAPER,
            {"samples": 4000 + 6000 - 400, "lost_to_preemption": 400.0, "lost_to_rescale": 0.0},
        ),
    ],
)
def test_totals_at_the_end(cost_model: CostModel, expected: dict[str, Any]) -> None:
    here = world(Arrival(0.0, trainer("t")), cost_model=cost_model)
    here.next_event(State(1))
    hold(here, "t", "abcd")
    here.next_event(State(1))
    here.apply((Rescale("t", ABCD, frozenset("abc"), forced=True),))
    here.next_event(State(1))
    assert here.next_event(State(1)) is None
    assert {name: getattr(here.totals(), name) for name in expected} == expected
    run = here.runs["t"]
    assert (run.node_s, run.preemptions, run.rescales) == (4 * 100 + 3 * 200, 1, 1)


@pytest.mark.parametrize("model", ["delay", "overlap"])
def test_when_the_old_nodes_of_a_growing_trainer_leave_the_starting_ones_do_not_train_yet(
    model: str,
) -> None:
    """a and b train, c and d start at 100; a and b leave at 110. c and d train when their start is
    over, at 120.
    """
    own = trainer("t") if model == "delay" else replace(trainer("t"), start_s=20.0, scale_up_s=0.0)
    here = ReplayWorld(window(300.0, "abcd", (110.0, "ab")), (Arrival(0.0, own),), CostModel(model))
    here.next_event(State(1))
    here.apply((Rescale("t", frozenset(), frozenset("ab"), forced=False),))
    here.next_event(State(1, wake_at_s=100.0))
    here.apply((Rescale("t", frozenset("ab"), ABCD, forced=False),))
    here.next_event(State(1))
    here.apply((Rescale("t", ABCD, frozenset("cd"), forced=True),))
    here.next_event(State(1, wake_at_s=115.0))
    run = here.runs["t"]
    assert run.samples_at(110.0) == run.samples_at(119.0)
    assert run.samples_at(130.0) - run.samples_at(120.0) == pytest.approx(10 * run.rate)
