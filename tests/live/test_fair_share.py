"""Several users' pilots split the idle nodes evenly, without a service."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from live_house import House, house, spec

from bftrainer.domain.cluster import PeerPilot
from bftrainer.domain.state import State
from bftrainer.live.nodes.fair_share import (
    IN_VAIN_S,
    LEFT_S,
    OwnPilot,
    ShareMemory,
    equal_parts,
    nodes_of_all,
    own_part,
)
from bftrainer.persistence.journal import last_state

WANTS = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 20), min_size=1)


@given(st.integers(0, 60), WANTS)
def test_nobody_has_less_than_another_who_does_not_want_less(nodes: int, wants: dict[str, int]) -> None:
    parts = equal_parts(nodes, wants)
    assert sum(parts.values()) == min(nodes, sum(wants.values()))
    for one, part in parts.items():
        assert 0 <= part <= wants[one]
        assert all(part >= other - 1 for other in parts.values()) or part == wants[one]


@given(st.integers(0, 60), WANTS)
def test_all_pilots_compute_the_same_split(nodes: int, wants: dict[str, int]) -> None:
    """Each sees itself and the others; the parts add up to what there is."""
    holds = Counter(equal_parts(nodes // 2, wants))
    peers = [PeerPilot("p", user, holders=("1",) * holds[user], wants=n, job=user) for user, n in wants.items()]
    idle = nodes - holds.total()
    found = {
        user: own_part(own, others, nodes_of_all(own, others, idle))
        for user, n in wants.items()
        if (own := OwnPilot(user, n, holds[user])) and (others := [it for it in peers if it.user != user]) is not None
    }
    expected = equal_parts(nodes, wants)
    assert all(part in (None, expected[user]) for user, part in found.items())


def test_pilots_of_one_user_split_the_users_part() -> None:
    peers = [PeerPilot("p", "bea", wants=8, job="1"), PeerPilot("q", "ann", wants=8, job="2")]
    assert own_part(OwnPilot("ann", 8, 8), peers, 8) == 2


def test_an_old_pilot_has_what_it_holds_and_alone_there_is_no_part() -> None:
    old = PeerPilot("p", "bea", holders=("1", "2"))
    assert own_part(OwnPilot("ann", 8, 6), [old], 8) == 6
    assert own_part(OwnPilot("ann", 8, 6), [PeerPilot("p", "bea", wants=0)], 6) is None
    assert own_part(OwnPilot("ann", 8, 6), [], 8) is None


def test_nodes_that_stay_idle_end_the_split_for_a_while() -> None:
    own, memory = OwnPilot("ann", 8, 4), ShareMemory()
    for second in range(0, 100, 5):
        memory = memory.then(4, own, idle=4, now_s=float(second))
    assert memory.left_until_s == IN_VAIN_S + LEFT_S
    assert ShareMemory().then(4, own, idle=0, now_s=0.0) == ShareMemory()


def test_a_node_on_its_way_is_not_missing() -> None:
    memory = ShareMemory().seen(8, 0.0)
    assert memory.seen(4, 10.0).nodes == 8
    assert memory.seen(4, 10.0).seen(4, 26.0).nodes == 4
    assert memory.seen(9, 10.0).nodes == 9


@pytest.fixture
def home(tmp_path: Path) -> House:
    it = house(tmp_path / "state", times={"poll_s": 2.0})
    it.cluster.give(*(f"n{k}" for k in range(8)))
    it.submit(spec("a", max_nodes=8, samples_total=1e9))
    return it


def held_at(home: House, *seconds: float) -> list[int]:
    """How many nodes the pilot has at these times of its run."""
    found: list[int] = []
    for second in seconds:
        home.at(second, lambda: found.append(len(home.running.nodes.pool)))
    home.pilot(max(seconds) + 1)
    return found


def test_a_late_comer_has_its_part_and_the_demand_is_shown(home: House) -> None:
    bea = PeerPilot("theirs", "bea", wants=50, job="77")
    home.at(20, lambda: setattr(home.neighbours, "others", (bea,)))
    assert held_at(home, 19, 30) == [8, 4]
    assert home.neighbours.wanted == [8]
    assert home.reasons().count("above an equal part of 2 users' nodes") == 4
    with closing(home.store()) as store:
        assert [a.trainer.id for a in (last_state(store) or State(1)).active] == ["a"], "it shrinks, and trains on"


def test_a_pilot_does_not_take_what_others_want_and_takes_what_nobody_uses(home: House) -> None:
    """No other holder comes: the split is of no use."""
    home.neighbours.others = (PeerPilot("theirs", "bea", wants=8, job="77"),)
    assert held_at(home, 15, 40, 70) == [4, 4, 8]


def test_what_others_no_longer_want_is_taken(home: House) -> None:
    wants = PeerPilot("theirs", "bea", holders=("1", "2"), wants=8, job="77")
    home.neighbours.others = (wants,)
    home.at(20, lambda: setattr(home.neighbours, "others", (replace(wants, wants=2),)))
    assert held_at(home, 18, 40) == [5, 8]


def test_off_by_configuration(tmp_path: Path) -> None:
    home = house(tmp_path / "state", nodes={"share": False})
    home.cluster.give("n1", "n2")
    home.submit(spec("a", max_nodes=2))
    home.neighbours.others = (PeerPilot("theirs", "bea", wants=8, job="77"),)
    assert held_at(home, 20) == [2]
    assert (home.neighbours.wanted, home.neighbours.looks) == ([], 0)


def test_a_count_that_was_too_large_is_corrected_without_any_event(home: House) -> None:
    """The others' holders were counted twice for a moment: 8 of 12 nodes, then of 8."""
    many = PeerPilot("theirs", "bea", holders=tuple(map(str, range(4))), wants=50, job="77")
    home.at(20, lambda: setattr(home.neighbours, "others", (replace(many, holders=tuple(map(str, range(8)))),)))
    home.at(22, lambda: setattr(home.neighbours, "others", (replace(many, holders=()),)))
    assert held_at(home, 19, 40, 60) == [8, 8, 4]
