"""observe, decide, adopt, rescales: events in, decisions out."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

import pytest

from bftrainer.decide.core.coordinator import QueuedIds, adopt, decide, observe, rescales
from bftrainer.decide.domain.events import (
    Change,
    Event,
    PoolChanged,
    TimerDue,
    TrainerFinished,
    TrainerSubmitted,
)
from bftrainer.decide.domain.model import Curve, Trainer
from bftrainer.decide.domain.state import Active, Decision, Rescale, State
from bftrainer.decide.policies.shares import equal_shares
from bftrainer.errors import InvalidValueError, RejectedAnswerError
from bftrainer.slots import Grain

CURVE = Curve((1, 8), (1.0, 8.0))


def trainer(
    name: str, min_nodes: int = 1, max_nodes: int = 8, sizes: tuple[int, ...] | None = None
) -> Trainer:
    return Trainer(name, CURVE, min_nodes, max_nodes, 18.0, 12.0, 1000.0, sizes=sizes)


def event(*changes: Change, at_s: float = 10.0, done: tuple[tuple[str, float], ...] = ()) -> Event:
    return Event(at_s, changes, done)


@dataclass(frozen=True)
class Fixed:
    """A policy that gives the same counts and counts how often it was asked."""

    counts: tuple[int, ...]
    wake_at_s: float | None = None
    name: str = "fixed"

    def decide(self, state: State, event: Event) -> tuple[Decision, object]:
        asked = state.memory if isinstance(state.memory, int) else 0
        return Decision(self.counts, self.wake_at_s), asked + 1


HELD = State(
    max_parallel=2,
    pool=frozenset("abcd"),
    active=(Active(trainer("t1"), frozenset("ab")), Active(trainer("t2"), frozenset("c"))),
    queue=(trainer("t3"),),
)


def test_nodes_that_left_are_gone_from_pool_and_trainer() -> None:
    state = observe(HELD, event(PoolChanged(frozenset("xy"), frozenset("bd"))))
    assert state.pool == frozenset("acxy")
    assert [a.nodes for a in state.active] == [frozenset("a"), frozenset("c")]
    assert state.at_s == 10.0
    assert rescales(HELD, state, forced=True) == (
        Rescale("t1", frozenset("ab"), frozenset("a"), True),
    )


def test_a_pool_is_divided_by_gpu_once_a_gpu_has_joined() -> None:
    whole = observe(State(2), event(PoolChanged(joined=frozenset({"n1", "n2#7", "n3#8.n3"}))))
    assert whole.grain is Grain.NODE
    gpus = frozenset({"n4#9.g0", "n4#9.g1"})
    divided = observe(whole, event(PoolChanged(joined=gpus)))
    assert divided.grain is Grain.GPU
    assert observe(divided, event(TimerDue())).grain is Grain.GPU
    # Placement by parts is placement by name where every part is a whole node.
    assert observe(divided, event(PoolChanged(left=gpus))).grain is Grain.GPU


def test_a_decision_on_gpus_takes_few_parts() -> None:
    pool = frozenset({"n1#1.g0", "n1#1.g1", "n2#2.g0", "n2#2.g1", "n2#2.g2"})
    joined = event(PoolChanged(joined=pool), TrainerSubmitted(trainer("t")))
    plan = decide(observe(State(2), joined), Fixed((3,)), joined)
    assert plan.nodes == (frozenset({"n2#2.g0", "n2#2.g1", "n2#2.g2"}),)


def test_a_trainer_can_be_submitted_and_ended_in_one_event_and_its_id_used_again() -> None:
    new = (TrainerSubmitted(trainer("t4")), TrainerFinished("t4"), TrainerSubmitted(trainer("t4")))
    assert [t.id for t in observe(HELD, event(*new)).queue] == ["t3", "t4"]
    with pytest.raises(InvalidValueError, match="'t4' is taken"):
        observe(HELD, event(TrainerSubmitted(trainer("t4")), TrainerSubmitted(trainer("t4"))))


def test_ids_are_taken_while_their_trainers_wait_and_free_afterwards() -> None:
    """Many trainers come and go, of two states in turn: a submission is refused exactly if its id
    waits or is admitted.
    """
    rng = random.Random(1)
    states = [State(max_parallel=2), State(max_parallel=3)]
    refused, queued = 0, QueuedIds()
    for step in range(400):
        which = rng.randrange(10) == 0
        state = states[which]
        known = [t.id for t in (*(a.trainer for a in state.active), *state.queue)]
        new = [f"t{rng.randrange(30)}" for _ in range(rng.randrange(3))]
        ended = rng.sample(known, min(len(known), rng.randrange(3)))
        changes = [*map(TrainerFinished, ended), *(TrainerSubmitted(trainer(name)) for name in new)]
        there = [name for name in known if name not in ended]
        if len({*there, *new}) < len(there) + len(new):
            refused += 1
            with pytest.raises(InvalidValueError, match="is taken"):
                observe(state, event(*changes, at_s=step), queued)
            continue
        states[which] = after = observe(state, event(*changes, at_s=step), queued)
        assert [t.id for t in (*(a.trainer for a in after.active), *after.queue)] == [*there, *new]
    assert 20 < refused < 200


def test_a_waiting_trainer_about_which_nothing_is_new_stays_the_same_object() -> None:
    waiting = replace(
        HELD, active=(*HELD.active, Active(trainer("t0"), samples_done=5.0)), max_parallel=3
    )
    assert observe(waiting, event(done=(("t0", 5.0),))).active[2] is waiting.active[2]
    assert observe(waiting, event(done=(("t0", 6.0),))).active[2].samples_done == 6.0


def test_reported_samples_reach_the_state() -> None:
    state = observe(HELD, event(TimerDue(), done=(("t2", 250.0),)))
    assert [a.samples_done for a in state.active] == [0.0, 250.0]
    assert [a.remaining_samples for a in state.active] == [1000.0, 750.0]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (PoolChanged(left=frozenset("z")), "node z left but was not in the pool"),
        (PoolChanged(joined=frozenset("a")), "node a joined but was in the pool already"),
        (TrainerSubmitted(trainer("t1")), "'t1' is taken"),
        (TrainerSubmitted(trainer("t3")), "'t3' is taken"),
        (TrainerFinished("t9"), "'t9' finished but is not known"),
    ],
)
def test_a_world_that_contradicts_itself_is_refused(change: Change, complaint: str) -> None:
    with pytest.raises(InvalidValueError, match=complaint):
        observe(HELD, event(change))


def test_a_plan_is_adopted_with_memory_and_wake_up() -> None:
    policy = Fixed((1, 3), wake_at_s=99.0)
    plan = decide(HELD, policy, event(TimerDue()))
    state = adopt(HELD, plan)
    assert [a.nodes for a in state.active] == [frozenset("a"), frozenset("bcd")]
    assert (state.memory, state.wake_at_s) == (1, 99.0)
    assert observe(state, event(TimerDue())).wake_at_s is None
    assert decide(state, policy, event(TimerDue())).memory == 2


def test_nodes_are_let_go_before_they_are_taken() -> None:
    steps = rescales(HELD, adopt(HELD, decide(HELD, Fixed((1, 3)), event(TimerDue()))))
    assert [(s.trainer_id, len(s.before), len(s.after), s.forced) for s in steps] == [
        ("t1", 2, 1, False),
        ("t2", 1, 3, False),
    ]
    back = replace(HELD, active=HELD.active[::-1])
    steps = rescales(back, adopt(back, decide(back, Fixed((3, 1)), event(TimerDue()))))
    assert [s.trainer_id for s in steps] == ["t1", "t2"]


@pytest.mark.parametrize(
    ("counts", "complaint"),
    [
        ((1,), "1 count for 2 trainers"),
        ((3, 2), "5 nodes were allocated, but the pool has 4"),
        ((9, 0), "t1 got 9 nodes, which is not one of its legal sizes"),
        ((-1, 0), "t1 got -1 nodes"),
    ],
)
def test_a_policy_that_breaks_a_rule_is_refused(counts: tuple[int, ...], complaint: str) -> None:
    with pytest.raises(RejectedAnswerError, match=complaint):
        decide(HELD, Fixed(counts), event(TimerDue()))


@pytest.mark.parametrize(
    ("trainers", "nodes", "counts"),
    [
        ([], 5, ()),
        ([trainer("a"), trainer("b")], 0, (0, 0)),
        ([trainer("a"), trainer("b"), trainer("c")], 2, (2, 0, 0)),
        ([trainer("a"), trainer("b"), trainer("c")], 8, (4, 2, 2)),
        ([trainer("a"), trainer("b"), trainer("c")], 24, (8, 8, 8)),
        ([trainer("a"), trainer("b"), trainer("c")], 99, (8, 8, 8)),
        ([trainer("a", 4), trainer("b"), trainer("c")], 8, (4, 2, 2)),
        ([trainer("a", 6), trainer("b"), trainer("c", 5)], 8, (6, 2, 0)),
        ([trainer("a", max_nodes=1), trainer("b"), trainer("c")], 9, (1, 5, 3)),
        ([trainer("a", sizes=(1, 2, 4, 8)), trainer("b", sizes=(1, 2, 4, 8))], 7, (4, 2)),
    ],
)
def test_equal_shares(trainers: list[Trainer], nodes: int, counts: tuple[int, ...]) -> None:
    assert equal_shares(trainers, nodes) == counts
