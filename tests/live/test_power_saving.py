"""Idle nodes that are left to power saving, and nodes that are powered down or rented: only where that is configured."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from live_house import House, house, spec

from bftrainer.config.pilot import NodesConfig
from bftrainer.core.windows import PilotJobs
from bftrainer.domain.cluster import Availability, NodeView, Observation
from bftrainer.domain.fragments import node_of
from bftrainer.live.nodes.decisions import left_idle
from bftrainer.live.nodes.selection import asleep, offered

NAMES = st.lists(st.sampled_from([f"n{i}" for i in range(8)]), unique=True)


@given(NAMES, st.sets(st.sampled_from([f"n{i}" for i in range(8)])), st.integers(-3, 9), NAMES)
def test_as_many_as_told_are_left_and_the_same_ones_again(
    idle: list[str], sleeping: set[str], keep: int, before: list[str]
) -> None:
    left = left_idle(idle, sleeping, keep, before)
    assert len(left) == min(max(keep, 0), len(idle))
    assert set(left) <= set(idle)
    assert left_idle(idle, sleeping, keep, left) == left
    if len(set(idle) & sleeping) <= keep:
        assert set(idle) & sleeping <= set(left), "no node is powered up while another is awake"


SEEN = Observation(
    0.0,
    (
        NodeView("up", Availability.FREE),
        NodeView("down", Availability.ASLEEP),
        NodeView("going", Availability.FALLING_ASLEEP),
        NodeView("rented", Availability.FREE, is_cloud=True),
        NodeView("ended", Availability.ASLEEP, is_cloud=True),
        NodeView("broken", Availability.UNUSABLE),
    ),
)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({}, {"up"}), ({"wake": True}, {"up", "down"}), ({"cloud": True}, {"up", "rented"}),
        ({"wake": True, "cloud": True}, {"up", "down", "rented", "ended"}),
        ({"wake": True, "exclude": ("down",)}, {"up"}),
    ],
)  # fmt: skip
def test_nodes_that_cost_energy_or_money_only_if_configured(config: dict[str, object], expected: set[str]) -> None:
    nodes = NodesConfig.model_validate(config)
    assert set(offered(SEEN, PilotJobs(), nodes)) == expected
    assert asleep(SEEN, nodes) == {"down", "going", "ended"} - set(nodes.exclude)


def held(home: House) -> set[str]:
    return {node_of(name) for name in home.cluster.acquired}


def test_idle_nodes_are_left_and_those_that_are_powered_down_count(tmp_path: Path) -> None:
    home = house(tmp_path / "state", nodes={"leave_for_power_saving": 2})
    home.cluster.give("n1", "n2", "n3", "n4", "n5")
    home.submit(spec("a", max_nodes=5))
    seen: list[tuple[float, set[str]]] = []
    home.after_tick = lambda: seen.append((home.clock.elapsed_s(), held(home)))

    def power_down() -> None:
        home.cluster.idle -= {"n4", "n5"}
        home.cluster.asleep |= {"n4", "n5"}
        home.cluster.give("n6", "n7")

    home.at(20, power_down)
    home.pilot(40)
    assert [nodes for at_s, nodes in seen if 15 < at_s < 20][-1] == {"n1", "n2", "n3"}
    assert seen[-1][1] == {"n1", "n2", "n3", "n6", "n7"}, "two sleep, so none has to be left"
