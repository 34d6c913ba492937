"""Several pilots on one site: host lists that overlap, and the shared cap."""

from __future__ import annotations

import math
from contextlib import closing
from pathlib import Path

import pytest
from fakes_live import FakeClock, FakeCluster, FakeNeighbours
from hypothesis import given, settings
from hypothesis import strategies as st
from live_house import House, configuration, house, spec

from bftrainer.domain.cluster import Fragment, FragmentPhase, Hidden, Observation, PeerPilot
from bftrainer.domain.fragments import fragment_name
from bftrainer.errors import UserError
from bftrainer.live.nodes.held_fragments import HeldFragment
from bftrainer.live.nodes.sharing import claim_hosts, overlap, peer_holders, room_beside, surplus
from bftrainer.live.pilot_process import run_pilot
from bftrainer.live.runtime import PilotDependencies
from bftrainer.live.signals import Signals
from bftrainer.live.site import Site
from bftrainer.persistence.registry import Registry
from bftrainer.persistence.store import open_store
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
        assert found.startswith(f"nodes.hosts: {both} also in the list of pilot theirs-1 of bea (job 12); expected")


def parts(tmp_path: Path, neighbours: FakeNeighbours) -> PilotDependencies:
    clock = FakeClock()
    cluster = FakeCluster(clock, idle=set(NODES))
    path = tmp_path / "state"
    path.mkdir(mode=0o700)
    return PilotDependencies(path, Site(cluster, cluster, peers=neighbours), clock)


def test_a_pilot_whose_hosts_are_anothers_of_its_user_does_not_start(tmp_path: Path) -> None:
    neighbours = FakeNeighbours((other("node[01-02]", user=own_name()),))
    it = parts(tmp_path, neighbours)
    with pytest.raises(UserError, match=f"node01, node02 also in the list of pilot theirs-1 of {own_name()}"):
        run_pilot(it, configuration({"nodes": {"hosts": ["node0[1-4]"]}}), Signals(ends=True))
    assert neighbours.announced == [("node0[1-4]",)], (
        "shown before it looked: one of two that start at once sees the other"
    )
    run_pilot(it, configuration({"nodes": {"hosts": ["node0[3-4]"]}}), Signals(ends=True))
    run_pilot(it, configuration({}), Signals(ends=True))


def test_a_claim_of_another_user_keeps_no_pilot_from_its_trainers_but_is_said(tmp_path: Path) -> None:
    """Anybody can submit a job that looks like a pilot's and claims every host."""
    it = parts(tmp_path, FakeNeighbours((other("*"), other(user=own_name()))))
    hosts = ("node0[1-4]",)
    said = claim_hosts(it.site.peers, it.site.scheduler, hosts, refused_by=own_name())
    assert "node01, node02, node03 and 1 more also in the list of pilot theirs-1 of bea" in said
    run_pilot(it, configuration({"nodes": {"hosts": list(hosts)}}), Signals(ends=True))
    with closing(open_store(it.state_dir)) as store:
        assert [note.text for note in Registry(store).notes() if "theirs-1 of bea" in note.text]


def test_silence_keeps_no_pilot_from_its_trainers_but_is_said(tmp_path: Path) -> None:
    it = parts(tmp_path, FakeNeighbours(silent=True))
    assert "claim the same hosts: made up" in claim_hosts(it.site.peers, it.site.scheduler, ("node01",))


def test_a_reload_with_anothers_hosts_is_refused(tmp_path: Path) -> None:
    home = house(tmp_path / "state")
    home.cluster.give(*NODES)
    home.neighbours.others = (other("node[05-08]"),)
    home.submit(spec("a", max_nodes=8))
    home.at(5, lambda: home.reload(nodes={"hosts": ["node[01-05]"]}))
    home.at(10, lambda: home.reload(nodes={"hosts": ["node[01-04]"]}))
    home.pilot(15)
    with closing(home.store()) as store:
        first, second = (n.text for n in Registry(store).notes() if n.kind == "reload")
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
    with closing(home.store()) as store:
        (note,) = (n for n in Registry(store).notes() if n.kind == "hosts")
    assert note.text.startswith("nodes.hosts: node04 also in the list of pilot theirs-1 of bea")


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
    home.at(46, lambda: setattr(home.neighbours, "others", (other(holders=("1", "2", "3", "901", "902")),)))
    home.at(60, lambda: seen.append(held(home)))
    home.pilot(65)
    assert seen == [3, 5, 3, 3]
    with closing(home.store()) as store:
        assert sum(f.reason == "above nodes.site_max_nodes" for f in Registry(store).fragments()) == 2


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
    """Whoever owns what: exactly what is above the cap goes, and never more, however many pilots look."""
    ids = {str(10 * n): owner for n, owner in enumerate(owners, 1)}
    gone: set[str] = set()
    for me in (1, 2, 3):
        mine = [
            HeldFragment(Fragment(fragment_name(f"n{job}", job), FragmentPhase.READY), f"n{job}", 0.0)
            for job, owner in ids.items()
            if owner == me
        ]
        others = tuple(job for job, owner in ids.items() if owner != me)
        gone |= set(surplus(mine, others, cap))
        assert room_beside(others, cap) == max(cap - len(others), 0)
    assert len(ids) - len(gone) == min(len(ids), cap)
    assert room_beside((), None) == math.inf
    assert surplus((), ("1",), None) == ()
