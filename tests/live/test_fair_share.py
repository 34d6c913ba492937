"""Several users' pilots split the idle nodes evenly, without a service."""

from __future__ import annotations

import math
import random
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.live_house import House, configuration, house, spec
from support.shared_cluster import Pilot, SharedCluster

from bftrainer.cluster.model import Fragment, FragmentPhase, NodeRequest, PeerPilot
from bftrainer.pilot.nodes.classifier import PoolDemand
from bftrainer.pilot.nodes.held_fragments import HeldFragment
from bftrainer.pilot.nodes.node_facts import Candidate, Moment, NodeFacts
from bftrainer.pilot.nodes.node_requests import NodeBackoff
from bftrainer.pilot.nodes.sharing import own_split
from bftrainer.sharing.fair_share import (
    OVERUSE_TIMEOUT_S,
    RELEASE_PATIENCE_S,
    SATISFIED_FRACTION,
    TURN_S,
    ShareMemory,
    Sharer,
    Split,
    parts_of,
    split,
    whole_parts,
)
from bftrainer.sharing.peers import rivals
from bftrainer.system.users import own_name
from bftrainer.times import PilotS

CLAIMS = st.lists(
    st.builds(
        Sharer,
        st.sampled_from("abc"),
        st.sampled_from("pqr"),
        st.none() | st.integers(0, 12),
        st.integers(0, 12),
    ),
    min_size=1,
    unique_by=lambda claim: claim.key,
)


def test_two_thousand_random_splits_equal_brute_force() -> None:
    """Of all ways to give out the nodes, those less than a node from the parts by weight; of these,
    odd nodes are with who holds more, then with whom most is owed. Every second problem has no
    weights: who has least has most, and so on.
    """
    chance = random.Random(0)
    for n in range(2000):
        users = "abcd"[: chance.randint(1, 4)]
        wants, holds, weights = ({u: chance.randint(0, 6) for u in users} for _ in range(3))
        weights = {u: 1 + weight * (n % 2) for u, weight in weights.items()}
        owed, nodes = {u: chance.choice((-5.0, 0.0, 5.0)) for u in users}, chance.randint(0, 20)
        ways = [
            dict(zip(users, n, strict=True)) for n in product(*(range(wants[u] + 1) for u in users))
        ]
        ways = [it for it in ways if sum(it.values()) == min(nodes, sum(wants.values()))]
        fairest = max(sorted(it.values()) for it in ways)
        means = by_weight(nodes, wants, weights)
        ways = [it for it in ways if all(abs(it[u] - means[u]) < 1 for u in users)]
        assert n % 2 or all(sorted(it.values()) == fairest for it in ways)
        below = {u: holds[u] <= means[u] // 1 for u in users}
        order = sorted(users, key=lambda u: (below[u], -owed[u] * below[u], -(means[u] % 1), u))
        found = whole_parts(nodes, wants, holds, owed, weights if n % 2 else None)
        assert found == max(ways, key=lambda it: [it[u] for u in order])


def by_weight(nodes: int, wants: dict[str, int], weights: dict[str, int]) -> dict[str, Fraction]:
    """The only division in which some have all that they want, and the others the same for each
    unit of weight, and no less.
    """
    for has_all in product((True, False), repeat=len(wants)):
        full = {u for u, it in zip(wants, has_all, strict=True) if it}
        left, weight = (
            nodes - sum(wants[u] for u in full),
            sum(weights[u] for u in wants if u not in full),
        )
        level = Fraction(left, weight) if weight else Fraction(10**9)
        if left >= 0 and all((wants[u] <= weights[u] * level) is (u in full) for u in wants):
            return {u: wants[u] if u in full else weights[u] * level for u in wants}
    raise AssertionError


@given(
    st.integers(0, 40),
    st.lists(st.tuples(*[st.integers(0, 12)] * 3), min_size=1, max_size=6),
    st.integers(1, 5),
)
def test_a_split_by_weight_is_within_demands_and_no_user_has_less_for_a_larger_weight(
    nodes: int, users: list[tuple[int, int, int]], more: int
) -> None:
    wants, holds, weights = ({str(u): it[i] for u, it in enumerate(users)} for i in range(3))
    parts = whole_parts(nodes, wants, holds, None, weights)
    assert all(0 <= parts[u] <= wants[u] for u in wants)
    assert sum(parts.values()) == min(nodes, sum(wants.values())), (
        "those of weight 0 have what is left"
    )
    for user, weight in weights.items():
        assert (
            whole_parts(nodes, wants, holds, None, weights | {user: weight + more})[user]
            >= parts[user]
        )


@settings(max_examples=200)
@given(st.integers(0, 40), CLAIMS, st.integers(0, 10**6))
def test_all_pilots_compute_the_same_split_and_no_two_come_first(
    idle: int, claims: list[Sharer], now_s: int
) -> None:
    """This includes two pilots of one user."""
    claims = [replace(c, weight=1 + ord(c.user) % 2, least=1 + (c.wants or 0) // 5) for c in claims]
    nodes = idle + sum(c.holds for c in claims)
    claims = [
        replace(c, wants=c.wants and min(c.wants, nodes))
        for c in sorted(claims, key=lambda c: c.key)
    ]
    claims = [c for c in claims if c.holds or c.wants]
    parts, before = parts_of(nodes, claims, {c.key for c in claims if c.wants is None}, now_s), 0
    for own in claims:
        found = seen_by(own, claims, idle, now_s)
        if own.wants is not None and any(c.user != own.user for c in claims):
            assert (found.part, found.left_to_others) == (parts[own.key], before)
        before += max(parts[own.key] - own.holds, 0)


def seen_by(own: Sharer, claims: list[Sharer], idle: int, now_s: float) -> Split:
    """The split as this pilot computes it from what all show."""
    names = [f"n{i:03d}" for i in range(idle + sum(c.holds for c in claims))]
    shown = {
        c: PeerPilot(c.pilot, c.user, wants=c.wants, held=c.holds, least=c.least, weight=c.weight)
        for c in claims
    }
    others = rivals([it for c, it in shown.items() if c is not own], names)
    kept = [
        HeldFragment(Fragment(f"{n}#1", FragmentPhase.READY), n, PilotS(0.0), "")
        for n in names[idle:][: own.holds]
    ]
    facts = NodeFacts(
        configuration({}),
        tuple(kept),
        candidates=tuple(Candidate(NodeRequest(n), "") for n in names[:idle]),
        rivals=others,
        usable=len(names),
        own=shown[own],
        demand=PoolDemand(((own.wants or 0, None),), min_size=own.least),
    )
    return own_split(facts, Moment(PilotS(now_s), datetime.now(UTC)), kept, ())[1]


@given(st.integers(0, 40), CLAIMS)
def test_parts_of_pilots_are_those_of_their_users_in_any_order(
    nodes: int, claims: list[Sharer]
) -> None:
    keep = {c.key for c in claims if c.wants is None}
    parts = parts_of(nodes, claims, keep)
    assert parts == parts_of(nodes, claims[::-1], keep), "all compute the same"
    assert all(
        parts[c.key] == c.holds if c.key in keep else 0 <= parts[c.key] <= (c.wants or 0)
        for c in claims
    )
    kept = sum(c.holds for c in claims if c.key in keep)
    wanted = sum(c.wants or 0 for c in claims if c.key not in keep)
    assert sum(parts.values()) == max(kept, min(nodes, kept + wanted)), (
        "nothing is left while anybody wants it"
    )


@pytest.mark.parametrize(
    ("nodes", "claims", "parts"),
    [
        (
            8,
            [Sharer("ann", "p", 8, 3), Sharer("bea", "p", 8, 2), Sharer("cal", "p", 8, 3)],
            [3, 2, 3],
        ),  # no odd node moves
        (8, [Sharer("ann", "p", 8), Sharer("ann", "q", 8), Sharer("bea", "p", 8)], [2, 2, 4]),
        (
            8,
            [Sharer("old", "p", None, 6), Sharer("ann", "p", 8, 2), Sharer("bea", "p", 8)],
            [6, 1, 1],
        ),
        (
            8,
            [Sharer("ann", "old", None, 3), Sharer("ann", "p", 8), Sharer("bea", "p", 8)],
            [3, 1, 4],
        ),
        (8, [Sharer("ann", "p", 0), Sharer("bea", "p", 1), Sharer("cal", "p", 50)], [0, 1, 7]),
        (8, [Sharer("ann", "p", 8, weight=3), Sharer("bea", "p", 8)], [6, 2]),
        (
            8,
            [
                Sharer("ann", "p", 3, weight=3),
                Sharer("bea", "p", 8),
                Sharer("cal", "p", 8, 8, weight=0),
            ],
            [3, 5, 0],
        ),
        (
            8,
            [
                Sharer("ann", "p", 3),
                Sharer("cal", "p", 8, weight=0),
                Sharer("dan", "p", 8, weight=0),
            ],
            [3, 3, 2],
        ),
        (
            108,
            [Sharer("eve", "fake", None, 100), Sharer("ann", "p", 8, 8), Sharer("bea", "p", 8)],
            [100, 4, 4],
        ),
    ],
)
def test_a_table_of_parts(nodes: int, claims: list[Sharer], parts: list[int]) -> None:
    found = parts_of(nodes, claims, {c.key for c in claims if c.wants is None})
    assert [found[c.key] for c in claims] == parts


def test_a_user_whose_part_is_too_small_for_its_trainers_takes_turns_for_as_much() -> None:
    """5 users on 8 nodes: a part of 1.6, and trainers of 4 nodes."""
    claims = [Sharer(user, "p", 8, least=4 if user in "ab" else 1) for user in "abcde"]
    found = [parts_of(8, claims, (), TURN_S * n) for n in range(1000)]
    assert all(sum(parts.values()) == 8 for parts in found)
    for claim in claims[:2]:
        had = [parts[claim.key] for parts in found]
        assert {*had} == {0, 4}
        assert sum(had) == pytest.approx(1000 * 1.6, rel=0.02)
    assert all(parts["a", "p"] + parts["b", "p"] <= 4 for parts in found), "never both at once"
    lies = [*claims[:4], Sharer("e", "p", 8, least=9)]
    assert parts_of(8, lies) == parts_of(8, [*claims[:4], Sharer("e", "p", 8)]), (
        "nobody waits for what is not wanted"
    )
    alone = split(claims[0], 0, claims[1:], (), math.inf, ShareMemory(), 100.0)
    assert alone.next_change_s <= TURN_S


def test_more_users_than_nodes_and_a_user_with_several_pilots_take_turns() -> None:
    six = [Sharer(user, "p", 8) for user in "abcdef"]
    two = [Sharer("a", "p", 8, least=4), Sharer("a", "q", 8, least=4), Sharer("b", "p", 8)]
    heavy = [Sharer("a", "p", 8, weight=15), Sharer("b", "p", 8)]
    for claims, nodes, means in (
        (six, 4, [2 / 3] * 6),
        (two, 8, [2, 2, 4]),
        (heavy, 8, [7.5, 0.5]),
    ):
        had = Counter[str]()
        for n in range(3000):
            parts = parts_of(nodes, claims, (), TURN_S * n)
            assert sum(parts.values()) == nodes
            had.update({"".join(key): part for key, part in parts.items()})
        assert [had["".join(c.key)] / 3000 for c in claims] == pytest.approx(means, rel=0.02)


@settings(deadline=None, max_examples=20)
@given(
    st.integers(6, 24), st.lists(st.integers(1, 30), min_size=2, max_size=6), st.integers(0, 1000)
)
def test_pilots_that_poll_at_their_own_times_agree_and_then_move_nothing(
    nodes: int, wants: list[int], seed: int
) -> None:
    first, *others = [Pilot(f"u{i}", n) for i, n in enumerate(wants)]
    it = SharedCluster(nodes, first, seed=seed)
    it.run(30)
    for other in others:
        it.add(other)
        it.run(it.random.choice((0, 5, 40)))
    it.run(RELEASE_PATIENCE_S + 60)
    parts = whole_parts(nodes, {p.user: p.wants for p in it.pilots.values()}, it.holds())
    assert all(it.holds().get(user, 0) >= SATISFIED_FRACTION * part for user, part in parts.items())
    assert sum(it.holds().values()) == sum(parts.values()), "no node is idle that any user wants"
    given_back = sum(p.given for p in it.pilots.values())
    assert given_back <= 2 * nodes
    it.run(600)
    assert sum(p.given for p in it.pilots.values()) == given_back


def test_idle_odd_nodes_go_to_the_user_who_has_had_the_least_of_its_part() -> None:
    it, had = SharedCluster(8, *(Pilot(user, 8) for user in ("ann", "bea", "cal"))), Counter[str]()
    for _ in range(30):
        it.main_job(8)
        it.run(15)
        it.end_main_jobs()
        it.run(45)
        assert sorted(it.holds().values()) == [2, 3, 3]
        had.update(it.holds())
    assert min(had.values()) >= 0.95 * 30 * 8 / 3


@pytest.mark.parametrize("says", [True, False], ids=["", "one with share = false"])
def test_a_pilot_that_keeps_its_nodes_is_told_and_the_others_divide_the_rest(says: bool) -> None:
    it = SharedCluster(8, ann := Pilot("ann", 8 if says else 6, says=says, stubborn=True))
    it.run(20)
    it.owner |= {"n006": None, "n007": None}
    it.add(bea := Pilot("bea", 8))
    it.run(20)
    ann.wants = 6
    it.run(20)
    it.add(Pilot("cal", 8))
    it.run(OVERUSE_TIMEOUT_S + 60)
    assert it.holds() == {"ann": 6, "bea": 1, "cal": 1}
    assert [words for words in bea.told if "has kept" in words] == [
        "a pilot of ann has kept 6 nodes for 120 s or more although its part is 3"
    ]


def test_pilots_of_several_users_begin_at_different_nodes(tmp_path: Path) -> None:
    home = house(tmp_path / "state", times={"poll_s": 2.0})
    home.cluster.give(*(f"n{k}" for k in range(8)))
    home.neighbours.others = (PeerPilot("p", "!", wants=8, job="77"),)  # before any other name
    home.submit(spec("a", max_nodes=8, samples_total=1e9))
    found: list[str] = []
    home.at(
        15, lambda: found.extend(sorted(name.partition("#")[0] for name in home.running.nodes.pool))
    )
    home.pilot(16)
    assert found == ["n4", "n5", "n6", "n7"]


def test_a_node_lost_to_a_faster_pilot_is_requested_again_once_others_have_left_it() -> None:
    it = NodeBackoff()

    def wait_s(at_s: float) -> float:
        it.add_preemption("n1", 7.0, 10.0, PilotS(at_s), is_missed=True)
        return it.nodes()[0].until_s - at_s

    assert (wait_s(0), wait_s(20)) == (10, 20), (
        "a node on which no holder starts is tried ever more rarely"
    )
    it.end_missed({"n1"})
    assert wait_s(60) == 40
    it.end_missed({"n2"})
    assert it.nodes()[0].until_s == -math.inf, "somebody has it"
    it.add_preemption("n1", 7.0, 10.0, PilotS(100.0))
    it.end_missed(())
    assert it.nodes()[0].until_s > 100, "preempted, not missed"


def test_a_pilot_that_takes_nothing_costs_the_others_little_and_a_third_one_nothing() -> None:
    it = SharedCluster(8, ann := Pilot("ann", 8), Pilot("eve", 9_999_999, idles=True))
    it.run(150)
    assert it.holds() == {"ann": 8}
    it.add(Pilot("bea", 8))
    it.run(60)
    assert it.holds()["bea"] >= 2
    it.run(6 * 3600)
    assert it.holds() == {"ann": 4, "bea": 4}
    assert ann.given <= 16, "it is tried again ever more rarely"


@pytest.mark.parametrize("period_s", [20, 240])
@pytest.mark.parametrize("users", ["ab", "a"])
def test_demands_that_come_and_go_move_few_nodes_and_fill_no_log(period_s: int, users: str) -> None:
    it = SharedCluster(8, *(Pilot(user, 8) for user in users), eve := Pilot("eve", 8, idles=True))
    for second in range(3600):
        eve.wants = 8 if second % period_s < period_s // 2 else 0
        it.run(1)
    assert sum(p.given for p in it.pilots.values()) <= 60, "an hour"
    assert all(len(p.told) < 40 for p in it.pilots.values())


def test_a_pilot_that_keeps_its_nodes_is_told_whatever_it_calls_itself() -> None:
    memory, told = ShareMemory(), list[str]()
    for at_s in range(0, 130, 10):
        eve = Sharer("eve", f"p{at_s}", 8, 8)
        found = split(Sharer("ann", "p", 8), 0, [eve], (), math.inf, memory, float(at_s))
        memory, told = found.memory, [*told, *found.messages]
    assert "a pilot of eve has kept 8 nodes for 120 s or more although its part is 4" in told


@pytest.mark.parametrize(("there_s", "away_s"), [(60, 0), (185, 15)])
def test_a_user_who_takes_nothing_costs_the_others_little_whatever_its_pilots_are_called(
    there_s: int, away_s: int
) -> None:
    it, had = SharedCluster(8, Pilot("ann", 8), Pilot("bea", 8)), 0
    for second in range(3600):
        if second % (there_s + away_s) == 0:
            it.add(Pilot("eve", 8, f"p{second}", idles=True))
        if second % (there_s + away_s) == there_s - 1:
            it.remove("eve", f"p{second - there_s + 1}")
        it.run(1)
        had += sum(it.holds().values())
    assert had >= 0.9 * 8 * 3600


@pytest.mark.parametrize("pilot", ["p", ""])
def test_who_leaves_nodes_idle_counts_with_none_whether_its_pilot_has_a_name(pilot: str) -> None:
    memory, idle = ShareMemory(), [f"n{i}" for i in range(8)]
    for at_s in range(0, 200, 10):
        found = split(
            Sharer("ann", pilot, 16, 8),
            0,
            [Sharer("eve", pilot, 8)],
            idle,
            math.inf,
            memory,
            float(at_s),
        )
        memory = found.memory
    assert found.part == 16


def test_a_node_on_its_way_between_users_is_divided_and_one_that_was_counted_twice_not_for_long() -> (
    None
):
    memory, found = ShareMemory(), list[int]()
    for at_s, theirs in (
        (0, 4),
        (60, 3),
        (61, 4),
        (70, 5),
        (71, 4),
        (80, 4),
        (83, 3),
        (84, 4),
        (100, 3),
        (113, 3),
    ):
        it = split(
            Sharer("ann", "p", 8, 4),
            0,
            [Sharer("bea", "p", 8, theirs)],
            (),
            math.inf,
            memory,
            float(at_s),
        )
        memory, found = it.memory, [*found, it.memory.capacity]
    assert found == [8, 8, 8, 9, 9, 9, 8, 8, 8, 7]


@pytest.mark.parametrize(("asks", "parts"), [(False, [4, 8, 8, 8]), (True, [4, 4, 4, 8])])
def test_a_pilot_with_a_pending_holder_is_not_taken_for_one_that_cannot_use_nodes(
    asks: bool, parts: list[int]
) -> None:
    """Of many pilots that request the same nodes, one may lose every race for a while."""
    ann, bea = Sharer("ann", "p", 8, 4), Sharer("bea", "p", 8, asks=asks)
    memory, found = ShareMemory(), list[float]()
    for now_s in range(0, 500, 5):
        made = split(ann, 0, [bea], {"n1", "n2", "n3", "n4"}, math.inf, memory, float(now_s))
        memory = made.memory
        found += [made.part] * (now_s in (115, 125, 475, 485))
    assert found == parts


def test_users_of_other_nodes_do_not_count_and_nodes_that_they_can_use_are_given() -> None:
    usable = [f"n{i}" for i in range(8)]
    apart, some, unread = (
        PeerPilot("p", "bea", hosts, (), "7", 50) for hosts in (("x[1-9]",), ("n[0-3]",), ())
    )
    assert rivals([apart], usable) == ()
    assert [(r.wants, r.nodes) for r in rivals([some], usable)] == [(4, frozenset(usable[:4]))]
    assert [(r.wants, r.nodes) for r in rivals([unread], usable)] == [(8, None)]
    it = SharedCluster(8, Pilot("bea", 8))
    it.run(20)
    it.add(Pilot("ann", 4, only=frozenset(f"n00{i}" for i in range(4, 8)), shows_hosts=True))
    it.run(40)
    assert it.holds() == {"ann": 4, "bea": 4}


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
    assert home.neighbours.wanted == [(8, False)]
    assert home.reasons().count("for bea: an equal part of 8 nodes for 2 users is 4") == 4
    assert [a.trainer.id for a in home.last_state().active] == ["a"], "it shrinks, and trains on"
    notes = home.noted("share")
    assert notes == ["an equal part of 8 nodes for 2 users is 4"]


def test_nodes_left_for_power_saving_are_no_idle_nodes(tmp_path: Path) -> None:
    home = house(tmp_path / "state", times={"poll_s": 2.0}, nodes={"leave_for_power_saving": 1})
    home.cluster.give(*(f"n{k}" for k in range(9)))
    home.submit(spec("a", max_nodes=8, samples_total=1e9))
    home.at(
        20, lambda: setattr(home.neighbours, "others", (PeerPilot("p", "bea", wants=50, job="77"),))
    )
    assert held_at(home, 19, 35) == [8, 4]


def test_a_pilot_takes_its_part_says_that_it_is_short_and_takes_what_others_leave(
    home: House,
) -> None:
    theirs = PeerPilot("theirs", "bea", wants=8, job="77")
    home.neighbours.others = (theirs,)
    assert held_at(home, 15, 40, 170) == [4, 4, 8]
    home.neighbours.others = (replace(theirs, held=6),)
    for node in ("n0", "n1", "n2", "n3", "n4", "n5"):
        home.cluster.take(node)
    assert held_at(home, 30) == [2]
    assert (8, True) in home.neighbours.wanted


def test_a_node_that_was_preempted_or_released_is_not_held_although_its_holder_still_ends() -> None:
    def known(*fragments: HeldFragment) -> float:
        bea, demand = Sharer("bea", "q", 8, 4), PoolDemand(((8, None),))
        facts = NodeFacts(
            configuration({}),
            fragments,
            rivals=(bea,),
            usable=8,
            own=PeerPilot("p", "ann"),
            demand=demand,
        )
        kept = [f for f in fragments if f.given_back_s is None]
        return own_split(facts, Moment(PilotS(0.0), datetime.now(UTC)), kept, ())[1].memory.capacity

    def one(node: str, phase: FragmentPhase, **more: Any) -> HeldFragment:
        return HeldFragment(Fragment(f"{node}#1", phase), node, PilotS(0.0), "", **more)

    ready = one("n1", FragmentPhase.READY)
    gone = (
        one("n2", FragmentPhase.LEAVING),
        one("n3", FragmentPhase.LEAVING, given_back_s=PilotS(0.0), is_released=True),
    )
    leaves = one("n4", FragmentPhase.READY, given_back_s=PilotS(0.0))
    assert known(ready) == known(ready, *gone) == 5
    assert known(ready, one("n5", FragmentPhase.PENDING)) == 5, "bea was faster"
    assert known(ready, leaves) == 6


def test_holders_of_several_nodes_count_with_their_nodes(home: House) -> None:
    theirs = PeerPilot("theirs", "bea", holders=("1", "2"), wants=8, job="77", held=8)
    home.neighbours.others = (theirs,)
    home.at(20, lambda: setattr(home.neighbours, "others", (replace(theirs, wants=2),)))
    assert held_at(home, 18, 40) == [8, 8]


def test_demand_is_what_trainers_have_used_and_the_pilot_could_hold(tmp_path: Path) -> None:
    home = house(tmp_path / "state", times={"poll_s": 2.0}, nodes={"hosts": ["n[0-2]"]})
    home.cluster.give(*(f"n{k}" for k in range(8)))
    home.submit(spec("a", max_nodes=8, samples_total=1e9))
    home.pilot(10)
    assert home.neighbours.wanted == [(3, False)]


@pytest.mark.parametrize("share", [False, True])
def test_alone_it_is_as_if_the_split_were_off(tmp_path: Path, share: bool) -> None:
    home = house(tmp_path / "state", nodes={"share": share})
    home.cluster.give("n1", "n2")
    home.submit(spec("a", max_nodes=2))
    others = (PeerPilot("mine-too", "", wants=8, job="77", held=3),)
    home.neighbours.others = tuple(
        replace(it, user="bea" if not share else own_name()) for it in others
    )
    assert held_at(home, 20) == [2]
    assert home.neighbours.wanted == ([(2, False)] if share else [])
    assert bool(home.neighbours.looks) == share
