"""Nodes that join within a moment move a running trainer once; a loss and a start never wait."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.live_house import House, house, spec

from bftrainer.decide.core.coordinator import adopt, decide, observe
from bftrainer.decide.domain.events import Event, PoolChanged, TimerDue, TrainerSubmitted
from bftrainer.decide.domain.model import Curve, Trainer
from bftrainer.decide.domain.state import State
from bftrainer.decide.policies.equal_share import EqualShare
from bftrainer.decide.policies.gather import Gathered, GatheringArrivals
from bftrainer.pilot.explain import explain
from bftrainer.pilot.persistence.journal import entries

POLICY = Gathered(EqualShare(), 1.0)


def trainer(name: str, most: int = 8) -> Trainer:
    return Trainer(name, Curve((1, most), (1.0, float(most))), 1, most, 5.0, 5.0)


def joins(*nodes: str) -> PoolChanged:
    return PoolChanged(joined=frozenset(nodes))


def after(state: State, at_s: float, *changes: object, all_joined: bool = False) -> State:
    forced = observe(state, event := Event(at_s, changes, all_joined=all_joined))  # type: ignore[arg-type]
    return adopt(forced, decide(forced, POLICY, event))


def sizes(state: State) -> list[int]:
    return [len(active.nodes) for active in state.active]


@pytest.fixture
def running() -> State:
    """a and b on one node each."""
    state = after(
        State(4),
        0.0,
        TrainerSubmitted(trainer("a")),
        TrainerSubmitted(trainer("b")),
        joins("n1", "n2"),
    )
    state = after(state, 1.0, TimerDue())
    assert sizes(state) == [1, 1]
    return state


def test_running_trainers_are_moved_once_for_all_that_came(running: State) -> None:
    state = after(running, 10.0, joins("n3", "n4"))
    assert (sizes(state), state.wake_at_s) == ([1, 1], 11.0)
    state = after(state, 10.5, joins("n5"))
    assert (sizes(state), state.wake_at_s) == ([1, 1], 11.0), "later ones do not extend the wait"
    state = after(state, 11.0, TimerDue(), joins("n6"))
    assert (sizes(state), state.wake_at_s, state.memory) == ([3, 3], None, None)


def test_a_loss_does_not_wait_and_ends_the_wait(running: State) -> None:
    state = after(running, 10.0, joins("n3", "n4"))
    lost = next(iter(state.active[0].nodes))
    state = after(state, 10.2, PoolChanged(left=frozenset({lost})))
    assert (sizes(state), state.wake_at_s) == ([2, 1], None)
    state = after(state, 20.0, PoolChanged(frozenset({"n8"}), frozenset({"n4"})))
    assert (sum(sizes(state)), state.wake_at_s) == (3, None), "nor do arrivals that come with it"


def test_the_last_node_that_is_about_to_join_ends_the_wait(running: State) -> None:
    state = after(running, 10.0, joins("n3", "n4"), all_joined=True)
    assert (sizes(state), state.wake_at_s) == ([2, 2], None), "there is nothing to wait for"
    state = after(state, 20.0, joins("n5"))
    assert (sizes(state), state.wake_at_s) == ([2, 2], 21.0)
    state = after(state, 20.4, joins("n6"), all_joined=True)
    assert (sizes(state), state.wake_at_s, state.memory) == ([3, 3], None, None)


def test_what_waits_at_no_nodes_starts_on_free_ones_at_once(running: State) -> None:
    state = after(running, 10.0, joins("n3", "n4", "n5", "n6"))
    state = after(state, 10.3, TrainerSubmitted(trainer("c")))
    assert sizes(state) == [1, 1, 2]
    assert sizes(after(state, 11.0, TimerDue())) == [2, 2, 2]


def test_a_submission_or_an_end_alone_waits_for_nothing(running: State) -> None:
    state = after(running, 10.0, TrainerSubmitted(trainer("c")))
    assert (sizes(state), state.wake_at_s) == ([2, 0, 0], None), "as the policy wants it"


@given(
    st.lists(
        st.tuples(st.floats(0.01, 2.0), st.integers(0, 3), st.booleans(), st.booleans()),
        max_size=25,
    )
)
def test_no_wait_is_longer_than_it_says_and_all_ends_as_without_it(
    steps: list[tuple[float, int, bool, bool]],
) -> None:
    state = after(State(4), 0.0, TrainerSubmitted(trainer("a")), TrainerSubmitted(trainer("b")))
    at_s, number = 0.0, 0
    for passed_s, count, leaves, all_joined in steps:
        while state.wake_at_s is not None and state.wake_at_s <= at_s + passed_s:
            assert state.wake_at_s - at_s <= POLICY.gather_s + 1e-9
            at_s, passed_s = state.wake_at_s, at_s + passed_s - state.wake_at_s
            state = after(state, at_s, TimerDue())
            assert not isinstance(state.memory, GatheringArrivals), (
                "one wait ends before the next begins"
            )
        at_s += passed_s
        left = frozenset(sorted(state.pool)[:1]) if leaves else frozenset()
        joined = frozenset(f"n{number + i}" for i in range(count))
        number += count
        before = {a.trainer.id: a.nodes - left for a in state.active}
        state = after(state, at_s, PoolChanged(joined, left), all_joined=all_joined)
        assert not (all_joined and isinstance(state.memory, GatheringArrivals))
        if isinstance(state.memory, GatheringArrivals):
            assert all(
                a.nodes == before[a.trainer.id] or not before[a.trainer.id] for a in state.active
            )
    if state.wake_at_s is not None:
        state = after(state, state.wake_at_s, TimerDue())
    plain = EqualShare().decide(state, Event(at_s, ()))[0].counts
    assert sizes(state) == list(plain)


NODES = ("n3", "n4", "n5")


@pytest.mark.parametrize(("gather_s", "orders"), [(0.0, 3), (1.0, 1)])
def test_three_nodes_within_0_9_s_are_one_rescale_live(
    tmp_path: Path, gather_s: float, orders: int
) -> None:
    home = house(
        tmp_path / "state",
        decisions={"gather_s": gather_s},
        times={"poll_s": 0.2, "file_poll_s": 0.1},
    )
    home.cluster.give("n1", "n2")
    home.submit(spec("a", max_nodes=8, scale_up_s=0.0, scale_down_s=0.0))
    for at_s, node in zip((20.0, 20.45, 20.9), NODES, strict=True):
        home.at(at_s, lambda node=node: home.cluster.give(node))  # type: ignore[misc]
    home.at(40.0, lambda: home.cluster.take("n1"))
    lost: list[float] = []
    home.at(40.3, lambda: lost.append(len(home.launcher.drivers["a"].hosts)))
    state = home.pilot(50)
    assert sizes(state) == [4]
    grown = [
        nodes
        for what, _, nodes in home.launcher.orders
        if what == "order" and len(nodes) > 2 and nodes >= {"n1#1"}
    ]
    assert len(grown) == orders
    assert lost == [4], "a loss does not wait"
    assert explained(home) == (gather_s > 0)
    assert not home.differences()


def explained(home: House) -> bool:
    """Whether some decision is explained by the wait."""
    with closing(home.store()) as store:
        waits = [
            entry.event.at_s
            for entry in entries(store)
            if isinstance(entry.plan.memory, GatheringArrivals)
        ]
        return any("nodes have just joined" in explain(store, "a", at_s).why for at_s in waits)


def test_a_node_that_comes_alone_waits_no_longer_than_others_may_come_live(tmp_path: Path) -> None:
    home = house(
        tmp_path / "state",
        decisions={"gather_s": 20.0},
        times={"poll_s": 0.2, "file_poll_s": 0.1},
    )
    home.cluster.give("n1")
    home.submit(spec("a", max_nodes=8, scale_up_s=0.0, scale_down_s=0.0))
    home.at(20.0, lambda: home.cluster.give("n2"))
    assert sizes(home.pilot(22)) == [2], (
        "after nodes.confirm_s and not after gather_s: no other holder is starting"
    )
    assert not home.differences()
