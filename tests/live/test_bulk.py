"""A bulk of requests: the work of a tick does not depend on how many there are, and nothing is lost
or reordered.
"""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
from support.live_house import House, configuration, house, spec

from bftrainer.decide.domain.state import State
from bftrainer.pilot.decision_maker import PLACES, settings_of
from bftrainer.pilot.live_world import QUEUE_AHEAD, REQUESTS_AT_ONCE
from bftrainer.pilot.persistence.spool import Request, RequestKind
from bftrainer.wires.reports import DriverView

MANY = 400


@pytest.fixture
def home(tmp_path: Path) -> House:
    it = house(tmp_path / "state", decisions={"max_parallel": 2}, nodes={"unused_after_s": 60.0})
    it.cluster.give("n1", "n2", "n3", "n4")
    it.submit(spec("a", max_nodes=2), spec("b", max_nodes=2))
    return it


def counted(home: House) -> list[Counter[str]]:
    """The work of each tick: commits by kind, requests left in the spool at its begin, drivers
    looked at.
    """
    ticks = [Counter[str]()]
    home.at_step = lambda step: (
        ticks[-1].update({step: 1}) if step.endswith(": committed") else None
    )
    look = home.launcher.look

    def counting_look(name: str) -> DriverView:
        ticks[-1]["look"] += 1
        return look(name)

    home.launcher.look = counting_look  # type: ignore[method-assign]
    home.after_tick = lambda: ticks.append(Counter(left=len(list(home.spool.path.glob("*.json")))))
    return ticks


def test_a_tick_takes_a_few_requests_whatever_the_spool_holds(home: House) -> None:
    ticks = counted(home)
    home.at(10, lambda: home.submit(*(spec(f"t{i:03d}") for i in range(MANY))))
    home.at(10.5, lambda: home.cluster.take("n1"))
    home.pilot(40)
    taken = [before["left"] - after["left"] for before, after in pairwise(ticks)]
    assert sum(n for n in taken if n > 0) == MANY + 2
    assert max(taken) <= REQUESTS_AT_ONCE
    assert max(tick["submission: committed"] for tick in ticks) == 1, (
        "one commit for all that a tick takes"
    )
    assert max(tick["look"] for tick in ticks) <= REQUESTS_AT_ONCE + 2, (
        "each new one once, then those with a driver"
    )
    assert list(home.statuses()) == ["a", "b", *(f"t{i:03d}" for i in range(MANY))], (
        "in the order of submission"
    )
    assert not home.differences()
    assert list(home.spool.take(1)) == []


def test_the_state_that_every_decision_writes_stays_small(home: House) -> None:
    home.submit(*(spec(f"t{i:03d}") for i in range(MANY)))
    home.pilot(30)
    state = home.last_state()
    assert len(state.active) + len(state.queue) == 2 + QUEUE_AHEAD
    assert [trainer.id for trainer in state.queue] == [f"t{i:03d}" for i in range(QUEUE_AHEAD)], (
        "first come, first served"
    )


def test_those_behind_come_up_as_those_before_them_end(tmp_path: Path) -> None:
    home = house(tmp_path / "state", decisions={"max_parallel": 50})
    home.cluster.give(*(f"n{i}" for i in range(50)))
    home.submit(*(spec(f"t{i:03d}", max_nodes=1) for i in range(200)))

    def finish() -> None:
        for name, driver in list(home.launcher.drivers.items()):
            if driver.view.on:
                home.launcher.finish(name)

    for at_s in range(10, 100, 5):
        home.at(at_s, finish)
    home.pilot(110)
    assert [*home.statuses().values()] == ["done"] * 200


def test_requests_keep_their_order_and_a_rejected_one_rejects_no_other(home: House) -> None:
    home.spool.put(Request(kind=RequestKind.SUBMIT, trainer="c", spec=spec("c"), owner="me"))
    home.ask(RequestKind.CANCEL, "c")
    home.spool.put(Request(kind=RequestKind.SUBMIT, trainer="c", spec=spec("c"), owner="you"))
    home.submit(spec("d"))
    home.pilot(10)
    assert home.status("c") == "canceled"
    assert home.status("d") in ("queued", "waiting", "running")
    assert any(
        note.endswith(" c submission of 'c' rejected: the name is taken") for note in home.notes()
    )


# --- How many trainers train is part of the decision: the default of a pilot

TRIALS = 300


def with_many(path: Path) -> tuple[House, State]:
    """Thirty nodes and 300 trials of one size, submitted at once."""
    home = house(path)
    home.cluster.give(*(f"n{i:02d}" for i in range(30)))
    home.submit(*(spec(f"t{i:03d}", max_nodes=1, samples_total=1e6) for i in range(TRIALS)))
    home.pilot(40)
    return home, home.last_state()


def test_every_node_trains_and_the_oldest_first(tmp_path: Path) -> None:
    home, state = with_many(tmp_path / "state")
    assert state.max_parallel is None
    assert [a.trainer.id for a in state.active if a.nodes] == [f"t{i:03d}" for i in range(30)]
    assert len(state.active) == 2 * 30 + QUEUE_AHEAD, (
        "the state that each decision writes stays small"
    )
    assert not home.differences()


def test_one_that_waits_hears_how_many_are_before_it(tmp_path: Path) -> None:
    home, _ = with_many(tmp_path / "state")
    assert (
        home.explain("t100").why
        == "it waits: with these nodes, 100 trainers before it would finish sooner"
    )


def test_submissions_of_unknown_length_evict_nothing_and_hear_why(tmp_path: Path) -> None:
    home = house(tmp_path / "state")
    home.cluster.give("n1", "n2")
    home.submit(spec("runs", max_nodes=2, samples_total=5e5))
    home.at(30, lambda: home.submit(*(spec(f"new{i}", max_nodes=2) for i in range(3))))
    home.pilot(60)
    assert [len(a.nodes) for a in home.last_state().active] == [2, 0, 0, 0]
    waits = home.explain("new0").why
    assert re.search(r", and for \d+ s more it does not displace runs, which was started", waits)
    home.pilot(300)
    assert [len(a.nodes) for a in home.last_state().active] == [2, 0, 0, 0]
    assert home.explain("new0").why.endswith(
        "; its length is unknown (samples_total), so it counts as a day of work on one node"
    )


@pytest.mark.parametrize(
    ("decisions", "objective", "forward_s", "places"),
    [
        ({}, "fair", 240.0, None),
        ({"objective": "soon"}, "soon", 120.0, None),
        ({"objective": "fair", "forward_s": 60.0, "max_parallel": 5}, "fair", 60.0, 5),
        ({"max_parallel": 5}, "relative-speed", 120.0, 5),
        ({"objective": "throughput"}, "throughput", 120.0, PLACES),
        ({"policy": "equal-share"}, "relative-speed", 120.0, PLACES),
    ],
)
def test_the_defaults_depend_on_one_another(
    decisions: dict[str, object], objective: str, forward_s: float, places: int | None
) -> None:
    found = settings_of(configuration({"decisions": decisions}))
    assert (found.objective, found.forward_s, found.max_parallel) == (objective, forward_s, places)
