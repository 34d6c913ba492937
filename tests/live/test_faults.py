"""Faults of docs/faults.md on a cluster in memory: after each nothing is lost, nothing is held,
everything is explained.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from support.fakes_live import START_S
from support.live_house import House, house, spec

from bftrainer.decide.domain.events import PoolChanged
from bftrainer.errors import StoreError
from bftrainer.fragment_names import node_of
from bftrainer.pilot.persistence.spool import RequestKind


@pytest.fixture
def home(tmp_path: Path) -> House:
    return house(tmp_path / "state")


def story(home: House) -> None:
    """Something of everything that is written down."""
    home.cluster.give("n1", "n2", "n3")
    home.submit(spec("a", max_nodes=2), spec("b", max_nodes=2))
    home.at(6, lambda: home.cluster.take("n1"))
    home.at(8, lambda: home.ask(RequestKind.PAUSE, "b"))
    home.at(10, lambda: home.submit(spec("c", max_nodes=1)))
    home.at(12, lambda: home.ask(RequestKind.RESUME, "b"))
    home.at(14, lambda: home.cluster.give("n1"))
    home.at(
        16, lambda: home.launcher.finish("a") if home.launcher.drivers["a"].view.alive else None
    )


def test_a_disk_that_is_full_at_any_write_loses_nothing() -> None:
    """Each kind of write fails three times in a row; in between the supervisor starts the pilot
    again.
    """
    written: set[str] = set()
    with tempfile.TemporaryDirectory() as folder:
        home = house(Path(folder) / "all")
        home.at_step = lambda step: written.add(step) if step.endswith("written") else None
        story(home)
        home.pilot(25)
        home.assert_in_order("a", "b", "c")
        assert len(written) >= 10
        for step in sorted(written):
            home = house(Path(folder) / step.replace(" ", "-").replace(":", ""))
            left = 3

            def full(now: str, step: str = step) -> None:
                nonlocal left
                if now == step and left:
                    left -= 1
                    raise StoreError("database or disk is full")

            home.at_step = full
            story(home)
            ended = False
            while not ended:
                try:
                    home.pilot(max(25.0 - home.clock.elapsed_s(), 10.0))
                    ended = True
                except StoreError:
                    home.clock.sleep(0.5)
            assert left < 3, step
            home.assert_in_order("a", "b", "c")


@pytest.mark.parametrize("after_s", [0.05, 0.3, 1.0, 2.5])
def test_a_node_that_leaves_during_a_resize(home: House, after_s: float) -> None:
    """While it grows onto n2 and n3, n2 leaves; its driver needs 2 s for a change of size."""
    home.cluster.give("n1")
    home.submit(spec("a", max_nodes=3))
    home.launcher.slow["a"] = 2.0
    home.at(10, lambda: home.cluster.give("n2", "n3"))
    gone = False

    def take() -> None:
        nonlocal gone
        grows = [
            nodes for what, _, nodes in home.launcher.orders if what == "order" and len(nodes) > 1
        ]
        if grows and not gone:
            gone = True
            home.at(after_s, lambda: home.cluster.take("n2"))

    home.after_tick = take
    state = home.pilot(40)
    assert {node_of(n) for n in state.active[0].nodes} == {"n1", "n3"}
    assert [what for what, _, _ in home.launcher.orders].count("start") == 1, "it went on"
    home.assert_in_order("a")


def test_a_pilot_that_stood_still_asks_before_it_gives_anything_away(home: House) -> None:
    """Stopped for longer than stale_after_s; the first look after that fails."""
    home.cluster.give("n1", "n2")
    home.submit(spec("a", max_nodes=2))

    def stop() -> None:
        home.clock.now += 30.0
        home.cluster.down = True

    home.at(10, stop)
    home.at(45, lambda: setattr(home.cluster, "down", False))
    state = home.pilot(60)
    assert len(home.cluster.acquired) == 2, "nothing was given back and taken again"
    assert len(state.active[0].nodes) == 2
    home.assert_in_order("a")


def test_every_change_of_a_trainer_is_answered_by_a_row_of_the_journal(home: House) -> None:
    home.cluster.give("n1", "n2")
    home.submit(spec("a", max_nodes=2))
    home.at(8, lambda: [home.cluster.take(node) for node in ("n1", "n2")])
    home.at(9, lambda: home.cluster.give("n1"))
    home.pilot(30)
    rows = home.entries()
    left = [c for e in rows for c in e.event.changes if isinstance(c, PoolChanged) and c.left]
    assert [len(c.left) for c in left] == [2], "all nodes at once are one event"
    assert all(e.event.at_s >= START_S for e in rows)
    given = [nodes for e in rows for nodes in e.plan.nodes]
    ordered = {
        nodes for what, _, nodes in home.launcher.orders if what in ("start", "order") and nodes
    }
    assert ordered <= set(given), "no order without a decision"
    home.assert_in_order("a")
