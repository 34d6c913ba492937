"""Several pilots on one site: host lists that overlap, and the shared cap."""

from __future__ import annotations

import math
import tracemalloc
from contextlib import closing, suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.fakes_live import FakeNeighbours
from support.live_house import House, configuration, house, spec

from bftrainer.cluster.model import Hidden, Observation, PeerPilot
from bftrainer.config.host_lists import matches
from bftrainer.errors import InvalidValueError, UserError
from bftrainer.fragment_names import fragment_name
from bftrainer.pilot.persistence.registry import Registry
from bftrainer.pilot.persistence.store import open_store
from bftrainer.sharing import claims
from bftrainer.sharing.claims import ClaimComparison, read_claim
from bftrainer.sharing.peers import claim_hosts, overlap, peer_holders, room_beside, surplus
from bftrainer.system.users import own_name

NODES = [f"node{n:02d}" for n in range(1, 9)]


def other(*hosts: str, holders: tuple[str, ...] = (), user: str = "bea") -> PeerPilot:
    return PeerPilot("theirs-1", user, hosts, holders, "12")


@pytest.mark.parametrize(
    ("ours", "theirs", "both"),
    [
        (("node[01-04]",), ("node[05-08]",), None),
        (("node[01-04]",), ("node[04-08]",), "node04"),
        (("node*",), ("node[07-08]",), "node07, node08"),
        (("node[01-08]",), ("node0?",), "node01, node02, node03 and 5 more"),
        (("node[01-04]",), (), None),
        (("other*",), ("node*",), None),
        (("node01",), ("node[1-999999999]", "x[1-1000][1-1000]", "[", "node01 ; true"), None),
    ],
)
def test_lists_that_overlap_are_named_and_strange_ones_are_left_out(
    ours: tuple[str, ...], theirs: tuple[str, ...], both: str | None
) -> None:
    found = overlap(ours, [other(*theirs)], NODES)
    if both is None:
        assert found == ""
    else:
        assert found.startswith(
            f"nodes.hosts: {both} also in the list of pilot theirs-1 of bea (job 12); expected"
        )


def beside(tmp_path: Path, neighbours: FakeNeighbours) -> House:
    """A pilot's house with idle nodes, beside other pilots."""
    home = house(tmp_path / "state")
    home.cluster.give(*NODES)
    home.neighbours = neighbours
    return home


def test_a_pilot_whose_hosts_are_anothers_of_its_user_does_not_start(tmp_path: Path) -> None:
    neighbours = FakeNeighbours((other("node[01-02]", user=own_name()),))
    home = beside(tmp_path, neighbours)
    with pytest.raises(
        UserError, match=f"node01, node02 also in the list of pilot theirs-1 of {own_name()}"
    ):
        home.start_and_end(nodes={"hosts": ["node0[1-4]"]})
    assert neighbours.announced == [("node0[1-4]",)], (
        "shown before it looked: one of two that start at once sees the other"
    )
    home.start_and_end(nodes={"hosts": ["node0[3-4]"]})
    home.start_and_end()


def test_a_claim_of_another_user_keeps_no_pilot_from_its_trainers_but_is_said(
    tmp_path: Path,
) -> None:
    """Anybody can submit a job that looks like a pilot's and claims every host."""
    home = beside(tmp_path, FakeNeighbours((other("*"), other(user=own_name()))))
    hosts = ("node0[1-4]",)
    said = claim_hosts(home.neighbours, home.cluster, hosts, refused_by=own_name())
    assert "node01, node02, node03 and 1 more also in the list of pilot theirs-1 of bea" in said
    home.start_and_end(nodes={"hosts": list(hosts)})
    with closing(open_store(home.path)) as store:
        assert [note.text for note in Registry(store).notes() if "theirs-1 of bea" in note.text]


def test_silence_keeps_no_pilot_from_its_trainers_but_is_said(tmp_path: Path) -> None:
    home = beside(tmp_path, FakeNeighbours(silent=True))
    assert "claim the same hosts: made up" in claim_hosts(
        home.neighbours, home.cluster, ("node01",)
    )


def test_a_reload_with_anothers_hosts_is_refused(tmp_path: Path) -> None:
    home = house(tmp_path / "state")
    home.cluster.give(*NODES)
    home.neighbours.others = (other("node[05-08]"),)
    home.submit(spec("a", max_nodes=8))
    home.at(5, lambda: home.reload(nodes={"hosts": ["node[01-05]"]}))
    home.at(10, lambda: home.reload(nodes={"hosts": ["node[01-04]"]}))
    home.pilot(15)
    first, second = home.noted("reload")
    assert first.startswith(
        "rejected, the old configuration remains in effect: nodes.hosts: node05 also in the list of"
    )
    assert second.endswith("changed: nodes.hosts")
    assert home.neighbours.announced == [(), ("node[01-05]",), (), ("node[01-04]",)]


def test_a_pilot_that_comes_later_and_claims_ours_is_said_once(tmp_path: Path) -> None:
    """It runs outside of a job, and was seen only when it held a node."""
    home = house(tmp_path / "state", nodes={"hosts": ["node[01-04]"]})
    home.cluster.give(*NODES)
    home.at(5, lambda: setattr(home.neighbours, "others", (other("node04"),)))
    home.at(15, lambda: setattr(home.neighbours, "others", ()))
    home.pilot(20)
    (note,) = home.noted("hosts")
    assert note.startswith("nodes.hosts: node04 also in the list of pilot theirs-1 of bea")


def held(home: House) -> int:
    return len(home.cluster.fragments)


def test_the_shared_cap_counts_everybodys_holders(tmp_path: Path) -> None:
    home = house(tmp_path / "state", nodes={"site_max_nodes": 6})
    home.cluster.give(*NODES)
    home.neighbours.others = (other(holders=("1", "2")), other(holders=("3",)))
    home.cluster.number = 100
    home.submit(spec("a", max_nodes=8))
    seen: list[int] = []
    home.at(15, lambda: seen.append(held(home)))
    home.at(16, lambda: setattr(home.neighbours, "others", (other(holders=("1",)),)))
    home.at(30, lambda: seen.append(held(home)))
    # Two that raced: of 5 + 3 the two latest go, and both of them are ours.
    home.at(31, lambda: setattr(home.neighbours, "others", (other(holders=("1", "2", "3")),)))
    home.at(45, lambda: seen.append(held(home)))
    # And here the latest ones are the other's to give back.
    home.at(
        46,
        lambda: setattr(home.neighbours, "others", (other(holders=("1", "2", "3", "901", "902")),)),
    )
    home.at(60, lambda: seen.append(held(home)))
    home.pilot(65)
    assert seen == [3, 5, 3, 3]
    assert sum(f.reason == "above nodes.site_max_nodes" for f in home.fragments()) == 2


def test_without_a_shared_cap_nobody_is_asked(tmp_path: Path) -> None:
    home = house(tmp_path / "state", nodes={"share": False})
    home.cluster.give(*NODES)
    home.submit(spec("a", max_nodes=8))
    home.pilot(15)
    assert home.neighbours.looks == 0


def test_what_cannot_be_counted_is_not_nobody(tmp_path: Path) -> None:
    home = house(tmp_path / "state", nodes={"site_max_nodes": 6})
    home.cluster.give(*NODES)
    home.neighbours.silent = True
    home.submit(spec("a", max_nodes=8))
    home.pilot(15)
    assert home.cluster.acquired == []
    nodes = configuration({"nodes": {"site_max_nodes": 6}}).nodes
    with pytest.raises(UserError, match="PrivateData"):
        peer_holders(nodes, Observation(0.0, (), hidden=frozenset({Hidden.JOBS})), ())


@settings(deadline=None)
@given(st.lists(st.integers(1, 3), max_size=30), st.integers(1, 12))
def test_pilots_that_see_each_other_are_together_at_the_cap(owners: list[int], cap: int) -> None:
    """Whoever owns what: exactly what is above the cap goes, and never more, however many pilots
    look.
    """
    ids = {str(10 * n): owner for n, owner in enumerate(owners, 1)}
    gone: set[str] = set()
    for me in (1, 2, 3):
        mine = [fragment_name(f"n{job}", job) for job, owner in ids.items() if owner == me]
        others = tuple(job for job, owner in ids.items() if owner != me)
        gone |= set(surplus(mine, others, cap))
        assert room_beside(others, cap) == max(cap - len(others), 0)
    assert len(ids) - len(gone) == min(len(ids), cap)
    assert room_beside((), None) == math.inf
    assert surplus((), ("1",), None) == ()


# --- Host lists of other users: compared as their expansion would be, without expanding them, and
# within a budget

HOSTS = [f"node{n:05d}" for n in range(10_000)]
RANGES = ",".join(["1-199999"] * 85)
HOSTILE = f"n[{RANGES}]", f"node[{RANGES}]", f"[{RANGES}]"
"""A comment of 800 characters that stands for 17 million names."""


@pytest.mark.parametrize(
    "pattern",
    [
        "",
        "[",
        "n[",
        "n[]",
        "n[1-]",
        "n[3-1]",
        "n[1]]",
        "n 1",
        "n1;n2[1]",
        "[1-12][1-12]",
        "*[1-12]",
        "*a*b*",
        "é[1]",
        "n[1-" + "9" * 40 + "]",
        "n[" + "1," * 1000 + "1]",
    ],
)
def test_what_is_no_pattern_or_fits_in_several_ways_is_left_out(pattern: str) -> None:
    assert read_claim(pattern) is None


PIECES = st.sampled_from(
    ["n", "0", "1", "-", "[1-3]", "[08-11]", "[1,3,12]", "[9-12]", "?", "*", "r"]
)


@settings(deadline=None, max_examples=300)
@given(
    st.lists(PIECES, min_size=1, max_size=6).map("".join), st.text(alphabet="nr-0123", max_size=7)
)
def test_it_says_what_expanding_would_say(pattern: str, node: str) -> None:
    claim = read_claim(pattern)
    if claim is None:
        return
    with suppress(InvalidValueError):  # no name, or more names than a list may have
        assert (node in claim) == matches(node, (pattern,))


@settings(deadline=None)
@given(st.text(alphabet="n019[]-,*?.\n é", max_size=60))
def test_any_text_is_a_claim_or_none(pattern: str) -> None:
    claim = read_claim(pattern)
    assert claim is None or isinstance("n1" in claim, bool)


def test_a_comment_that_stands_for_millions_of_names_costs_little() -> None:
    """Expanded, one such comment took 750 MB and 20 s, twenty of them all memory."""
    others = [PeerPilot(f"p{n}", f"user{n}", HOSTILE, job=str(n)) for n in range(20)]
    tracemalloc.start()
    try:
        assert overlap(("x[1-5]",), others, [f"x{n}" for n in range(10)]) == ""
        found = overlap(("node[00000-09999]",), others, HOSTS)
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found == "" or "user" in found
    assert peak_bytes < 50e6


def test_the_work_is_counted_for_each_user_and_over_all() -> None:
    comparison = ClaimComparison(HOSTS)
    greedy = tuple(f"node[{n},1-199999]" for n in range(100))
    comparison.claimed("user0", greedy)
    assert 0 < comparison.steps <= claims.MOST_STEPS_OF_A_USER
    for n in range(1, 20):
        comparison.claimed(f"user{n}", greedy)
    assert comparison.steps <= claims.MOST_STEPS
    before = comparison.steps
    assert comparison.claimed("honest", ("node00007", "x")) == ["node00007"], (
        "plain names cost nothing"
    )
    assert comparison.steps == before


def test_one_users_excess_does_not_use_up_the_budget_of_others() -> None:
    comparison = ClaimComparison(HOSTS)
    comparison.claimed("greedy", tuple(f"node[{n},{RANGES[:600]}]" for n in range(1000)))
    assert comparison.claimed("honest", ("node[00010-00012]",)) == [
        "node00010",
        "node00011",
        "node00012",
    ]
