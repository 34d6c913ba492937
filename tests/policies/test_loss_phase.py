"""loss-phase: watch 100 iterations after an arrival, decide once, the smaller change gets more."""

from __future__ import annotations

import pytest
from support.policy_states import active, fresh

from bftrainer.decide.domain.events import Event, TimerDue
from bftrainer.decide.domain.model import Curve
from bftrainer.decide.domain.state import Active, Decision, Losses
from bftrainer_papers.policies.loss_phase import LossPhase, TrainingPhase
from bftrainer_papers.policies.shares import by_weight

ONE_A_SECOND = Curve((1, 4), (512.0, 2048.0))
POLICY = LossPhase()


def task(name: str, nodes: int, done: float, loss: float | None) -> Active:
    losses = None if loss is None else Losses(1.0, loss, done)
    return active(name, nodes, done=done, losses=losses, curve=ONE_A_SECOND, max_nodes=4)


def ask(
    trainers: list[Active], memory: object, at_s: float = 0.0, nodes: int = 4
) -> tuple[Decision, TrainingPhase]:
    decision, after = POLICY.decide(
        fresh(trainers, nodes, at_s=at_s, memory=memory), Event(at_s, (TimerDue(),))
    )
    return decision, after


def test_the_older_of_two_gets_three_of_four_after_100_iterations() -> None:
    alone, memory = ask([task("older", 0, 0.0, None)], None)
    assert alone.counts == (4,)
    watch, memory = ask(
        [task("older", 4, 409_600.0, 0.2), task("younger", 0, 0.0, None)], memory, at_s=200.0
    )
    assert watch.counts == (2, 2)
    assert watch.wake_at_s == pytest.approx(250.0), (
        "100 iterations of 512 samples at 1024 samples/s"
    )
    early, memory = ask(
        [task("older", 2, 430_080.0, 0.19), task("younger", 2, 20_480.0, 1.0)], memory, at_s=220.0
    )
    assert (early.counts, early.wake_at_s) == ((2, 2), pytest.approx(250.0))
    trained = [task("older", 2, 460_800.0, 0.19), task("younger", 2, 51_200.0, 0.6)]
    # The younger has reported one value only: it had none when it was marked.
    decided, memory = ask(trained, memory, at_s=250.0)
    assert (decided.counts, decided.wake_at_s) == ((3, 1), None)
    assert memory.ages == ("older", "younger")
    later = [task("older", 3, 9e5, 0.0), task("younger", 1, 6e5, 0.59)]
    assert ask(later, memory, at_s=900.0)[0].counts == (3, 1), (
        "decided once: losses no longer matter"
    )
    assert ask(later[1:], memory, at_s=901.0)[0].counts == (4,), "a finish frees all"


def test_the_smaller_change_is_the_older_whichever_came_first() -> None:
    start = [task("a", 2, 0.0, 1.0), task("b", 2, 0.0, 1.0)]
    _, memory = ask(start, None)
    end = [task("a", 2, 51_200.0, 0.5), task("b", 2, 51_200.0, 0.9)]
    assert ask(end, memory, at_s=50.0)[0].counts == (1, 3)


def test_changes_count_per_100_iterations() -> None:
    _, memory = ask([task("a", 2, 0.0, 1.0), task("b", 2, 0.0, 1.0)], None)
    end = [task("a", 2, 512_000.0, 0.5), task("b", 2, 51_200.0, 0.9)]  # a: 0.05 per 100 iterations
    assert ask(end, memory, at_s=50.0)[0].counts == (3, 1)


def test_more_than_two_go_by_the_rank_of_age() -> None:
    start = [task(name, 1, 0.0, 1.0) for name in "abc"]
    _, memory = ask(start, None, nodes=9)
    end = [task("a", 3, 51_200.0, 0.5), task("b", 3, 51_200.0, 0.9), task("c", 3, 51_200.0, 0.7)]
    assert ask(end, memory, at_s=50.0, nodes=9)[0].counts == (1, 4, 4), (
        "5:3:1 of 9, 4 being the largest size"
    )


def test_a_new_arrival_starts_the_watch_again() -> None:
    memory = TrainingPhase(ages=("a", "b"))
    decision, after = ask(
        [task("a", 3, 9e5, 0.1), task("b", 1, 9e5, 0.2), task("c", 0, 0.0, None)], memory
    )
    assert decision.counts == (2, 1, 1)
    assert [mark.id for mark in after.marks] == ["a", "b", "c"]


def test_nobody_is_woken_for_a_pool_without_nodes() -> None:
    decision, _ = ask([task("a", 0, 0.0, None), task("b", 0, 0.0, None)], None, nodes=0)
    assert decision.wake_at_s is None


@pytest.mark.parametrize(
    ("weights", "nodes", "counts"),
    [
        ((3.0, 1.0), 4, (3, 1)),
        ((1.0, 1.0, 1.0), 10, (4, 3, 3)),
        ((0.0, 1.0), 3, (0, 3)),
        ((9.0, 1.0), 30, (16, 14)),
    ],
)
def test_shares_by_weight(weights: tuple[float, ...], nodes: int, counts: tuple[int, ...]) -> None:
    trainers = [active(f"t{j}").trainer for j in range(len(weights))]
    assert by_weight(trainers, weights, nodes) == counts


def test_shares_by_weight_give_the_waiting_their_smallest_size_first() -> None:
    trainers = [
        active("a", max_nodes=4).trainer,
        active("b", min_nodes=3).trainer,
        active("c").trainer,
    ]
    assert by_weight(trainers, (5.0, 1.0, 5.0), 9) == (4, 0, 5)
    assert by_weight(trainers, (5.0, 3.0, 1.0), 8) == (4, 3, 1)
