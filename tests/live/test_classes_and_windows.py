"""The pilot on nodes of several classes, and on nodes that the scheduler has plans for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.fakes_live import START_S
from support.live_house import House, house, spec

from bftrainer.cluster.classes import class_of
from bftrainer.cluster.model import Availability, Device, NodeView, Observation, PendingJob
from bftrainer.cluster.observed import ObservedSite
from bftrainer.cluster.selection import asleep_nodes, offered_windows
from bftrainer.cluster.windows import PilotJobs
from bftrainer.config.pilot import NodeClassConfig, NodesConfig, PilotConfig
from bftrainer.config.validation import check_table
from bftrainer.errors import InputFileError
from bftrainer.fragment_names import node_of
from bftrainer.pilot.nodes.classifier import PoolDemand
from bftrainer.pilot.nodes.decisions import left_idle

GPU, CPU = ("g1", "g2", "g3"), ("c1", "c2", "c3")
FAST: dict[str, Any] = {"classes": {"fast": {"gpu": "a100", "interface": "ib0", "slots": 4}}}


def site(path: Path, **tables: Any) -> House:
    home = house(path, **tables)
    for name in GPU:
        home.cluster.hardware[name] = NodeView(
            name, Availability.FREE, ("gpu",), (Device("a100", 4),), 64
        )
    for name in CPU:
        home.cluster.hardware[name] = NodeView(name, Availability.FREE, ("cpu",), cpus=32)
    return home


def kinds(nodes: frozenset[str]) -> set[str]:
    return {name[0] for name in nodes}


def assert_one_class_each(home: House) -> None:
    for _, _, nodes in home.launcher.orders:
        assert len(kinds(nodes)) <= 1
    assert not home.launcher.overlaps
    assert home.differences() == []


def test_trainers_run_each_in_its_class_and_nodes_come_with_their_gpus(tmp_path: Path) -> None:
    home = site(tmp_path / "s", **FAST)
    home.cluster.give(*GPU, *CPU)
    home.submit(
        spec("named", 3, node_class="fast"),
        spec("hardware", 2, node_class="32 cpus"),
        spec("nowhere", node_class="4 h100"),
    )
    state = home.pilot(20)
    assert {a.trainer.id: (kinds(a.nodes), len(a.nodes)) for a in state.active} == {
        "named": ({"g"}, 3),
        "hardware": ({"c"}, 2),
        "nowhere": (set(), 0),
    }
    assert {(c.node[0], c.gpus) for c in home.cluster.claims} == {("g", 4), ("c", 0)}
    assert len(home.cluster.acquired) == 5, "no node of a class that nobody can use any more"
    assert (
        home.explain("nowhere").why
        == "no node of class 4 h100 is idle, and it runs only on that class (node_class)"
    )
    assert home.explain("named").why == "it has as many nodes as it can use (max_nodes)"
    named, hardware = (home.launcher.drivers[name] for name in ("named", "hardware"))
    assert ({it.slots for it in named.hosts}, named.interface) == ({4}, "ib0")
    assert ({it.slots for it in hardware.hosts}, hardware.interface) == ({1}, None)
    assert_one_class_each(home)


def test_a_trainer_without_a_class_never_mixes_and_moves_only_when_it_has_lost_all(
    tmp_path: Path,
) -> None:
    home = site(tmp_path / "s", nodes={"flap_back_off_s": 1000.0})
    home.cluster.give("g1", "g2")
    home.submit(spec("a", 3))
    home.at(8, lambda: home.cluster.give("c1", "c2"))
    home.at(20, lambda: [home.cluster.take(node) for node in ("g1", "g2")])
    home.launcher.slow["a"] = 1.5
    before: list[set[str]] = []
    home.at(19, lambda: before.append({n[0] for n in home.cluster.fragments}))
    state = home.pilot(50)
    assert before == [{"g"}], "nodes of another class are of no use to it"
    assert [kinds(a.nodes) for a in state.active] == [{"c"}]
    what = [(kind, kinds(nodes)) for kind, _, nodes in home.launcher.orders]
    assert what.index(("order", set())) < what.index(("start", {"c"})), "its driver ends first"
    assert_one_class_each(home)


def test_what_the_core_was_told_of_classes_outlives_the_pilot(tmp_path: Path) -> None:
    home = site(tmp_path / "s")
    home.cluster.give("g1", "g2")
    home.submit(spec("a", 2))
    home.killed(at="usage")
    home.cluster.down = True
    pools: list[int] = []
    until_s = home.clock.elapsed_s() + 9
    home.after_tick = lambda: (
        pools.append(len(home.nodes.pool)) if home.clock.elapsed_s() < until_s else None
    )
    state = home.pilot(10)
    assert set(pools) == {2}, "without a look at the scheduler it knows what it had"
    assert [name for name, _ in state.classes] == ["4 a100"]
    assert_one_class_each(home)


@pytest.mark.parametrize(
    ("table", "name"),
    [
        ({}, "4 a100"),
        ({"all": {}}, "all"),
        ({"cpu": {"partitions": ["cpu"]}, "gpu": {"partitions": ["gpu", "x"]}}, "gpu"),
        ({"h": {"gpu": "h100"}, "a": {"gpu": "a100"}}, "a"),
        ({"first": {"hosts": ["g[1-2]"]}, "rest": {}}, "first"),
        ({"other": {"hosts": ["c*"]}}, "4 a100"),
    ],
)
def test_the_first_class_that_a_node_fits(tmp_path: Path, table: dict[str, Any], name: str) -> None:
    home = site(tmp_path / "s", classes=table)
    assert class_of(home.cluster.hardware["g1"], home.config.classes) == name


def test_a_misspelt_class_is_one_line() -> None:
    with pytest.raises(InputFileError, match=r"classes\.fast: .*'gpus'.*gpu"):
        check_table({"classes": {"fast": {"gpus": "a100"}}}, PilotConfig, "test")


def test_demand_is_of_those_that_may_go_there() -> None:
    demand = PoolDemand(((4, None), (2, "a"), (8, "b")))
    assert (demand.total, demand.of("a"), demand.of("b"), demand.of("c")) == (14, 6, 12, 4)


def planned(node: str, at_s: float) -> PendingJob:
    return PendingJob("77", "somebody", ("main",), 1, START_S + at_s, frozenset({node}))


def test_a_node_that_ends_before_it_pays_is_not_grown_onto_and_does_not_keep_others_away(
    tmp_path: Path,
) -> None:
    """On 2 nodes, R 20 and 10 s: a third must be there for more than 90 s."""
    home = house(tmp_path / "s", nodes={"leave_before_s": 0.0, "unused_after_s": 3.0})
    home.cluster.give("n1", "n2")
    home.submit(spec("a", 4, scale_up_s=20.0, scale_down_s=10.0))

    def short() -> None:
        home.cluster.pending.append(planned("n3", 70.0))
        home.cluster.give("n3")

    home.at(10, short)
    home.at(40, lambda: home.cluster.give("n4"))
    seen: list[tuple[float, int]] = []
    home.after_tick = lambda: seen.append(
        (home.clock.elapsed_s(), len(home.trainers._occupancy.desired()))
    )
    state = home.pilot(60)
    assert max(n for t, n in seen if t < 40) == 2
    assert {node_of(n) for n in state.active[0].nodes} == {"n1", "n2", "n4"}
    taken = [f for f in home.fragments() if f.node == "n3"]
    assert len(taken) == 1, "once, and then left alone until its window has ended"
    assert taken[0].released_s is not None
    assert taken[0].released_s < START_S + 25
    told = [dict(e.event.window_ends) for e in home.entries()]
    ends = {
        round(end_s - START_S, 2)
        for it in told
        for name, end_s in it.items()
        if name.startswith("n3")
    }
    assert ends == {70.0}
    assert home.explain("a", START_S + 13.0).why.startswith(
        "3 nodes would not pay off: the scheduler needs some"
    )
    assert home.differences() == []


def test_a_node_that_is_there_for_long_enough_is_used_and_given_back_in_time(
    tmp_path: Path,
) -> None:
    home = house(tmp_path / "s", nodes={"leave_before_s": 5.0})
    home.cluster.give("n1", "n2")
    home.submit(spec("a", 4, scale_up_s=20.0, scale_down_s=10.0))

    def long() -> None:
        home.cluster.pending.append(planned("n3", 140.0))
        home.cluster.give("n3")

    home.at(10, long)
    seen: list[tuple[float, int]] = []
    home.after_tick = lambda: seen.append(
        (home.clock.elapsed_s(), len(home.trainers._occupancy.desired()))
    )
    home.pilot(150)
    assert max(n for t, n in seen if t < 130) == 3
    assert all(n == 2 for t, n in seen if 136 < t < 148)
    left = next(f for f in home.fragments() if f.node == "n3")
    assert "planned" in left.reason
    assert left.released_s is not None
    assert left.released_s < START_S + 140


def test_a_job_that_starts_now_preempts_what_it_needs_and_its_plan_takes_no_other_node(
    tmp_path: Path,
) -> None:
    """While the holders that it preempts end, Slurm's plan may name others; idle ones are left to
    the job.
    """
    home = house(tmp_path / "s")
    home.cluster.give("n1", "n2")
    home.submit(spec("a", 4))

    def starts() -> None:
        home.cluster.pending += [
            planned("n1", home.clock.elapsed_s()),
            planned("n3", home.clock.elapsed_s()),
        ]
        home.cluster.give("n3")

    home.at(10, starts)
    state = home.pilot(30)
    assert {node_of(n) for n in state.active[0].nodes} == {"n1", "n2"}
    assert len(home.cluster.acquired) == 2
    assert "planned: the scheduler's window ends" not in home.reasons()


def test_nodes_of_no_use_are_tried_once_and_again_once_a_node_in_use_is_lost(
    tmp_path: Path,
) -> None:
    home = house(tmp_path / "s")
    home.cluster.give(*(f"n{i}" for i in range(10)))
    slower = {"nodes": [1, 2, 8], "samples_per_s": [10.0, 18.0, 5.0]}
    home.submit(spec("a", 8, curve=slower, samples_per_s=None))
    tried: list[int] = []
    home.at(60, lambda: tried.append(len(home.cluster.acquired)))
    home.at(
        60, lambda: home.cluster.take(sorted(f.node for f in home.cluster.fragments.values())[0])
    )
    state = home.pilot(90)
    assert tried == [8]
    assert 8 < len(home.cluster.acquired) <= 16
    assert len(state.active[0].nodes) == 2


def test_record_knows_the_classes_too() -> None:
    nodes = [
        NodeView("g1", Availability.FREE, devices=(Device("a100", 4),)),
        NodeView("c1", Availability.FREE, cpus=32),
    ]
    fast = {"fast": NodeClassConfig(gpu="a100")}
    cluster: Any = None
    for name, expected in (
        ("fast", {"g1"}),
        ("4 a100", set()),
        ("32 cpus", {"c1"}),
        (None, {"g1", "c1"}),
    ):
        assert (
            ObservedSite(cluster, cluster, NodesConfig(node_class=name), classes=fast).chosen(nodes)
            == expected
        )


def test_a_node_is_left_before_its_holders_time_limit_and_held_again(tmp_path: Path) -> None:
    """A QOS or a partition may limit holders to less than any window."""
    home = house(tmp_path / "s", nodes={"leave_before_s": 5.0})
    home.cluster.limit_s = 60.0
    home.cluster.give("n1")
    home.submit(spec("a", 1))
    home.pilot(150)
    assert len(home.cluster.acquired) >= 3
    assert "TIMEOUT" not in home.reasons()
    assert home.reasons()[0] == "planned: the holder's time limit ends"
    first, second, *_ = home.fragments()
    assert first.released_s is not None
    assert 50 < first.released_s - START_S < 60
    assert second.asked_s - first.released_s < 5, "no back-off: the scheduler did not take it"
    assert home.differences() == []


def test_a_node_is_idle_again_by_the_end_of_its_window_whatever_its_epilog_takes(
    tmp_path: Path,
) -> None:
    home = house(tmp_path / "s", nodes={"leave_before_s": 5.0})
    home.cluster.release_s = 30.0
    home.cluster.pending.append(planned("n1", 100.0))
    home.cluster.give("n1")
    home.submit(spec("a", 1))
    home.pilot(90)
    held, *_ = [
        f for f in home.fragments() if f.released_s is not None and f.released_s < START_S + 80
    ]
    assert held.reason == "planned: the scheduler's window ends"
    assert 60 < held.released_s - START_S < 70 if held.released_s is not None else False


# --- Idle nodes that are left to power saving, and nodes that are powered down or rented: only
# where that is configured

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
        ({}, {"up"}),
        ({"wake": True}, {"up", "down"}),
        ({"cloud": True}, {"up", "rented"}),
        ({"wake": True, "cloud": True}, {"up", "down", "rented", "ended"}),
        ({"wake": True, "exclude": ("down",)}, {"up"}),
    ],
)
def test_nodes_that_cost_energy_or_money_only_if_configured(
    config: dict[str, object], expected: set[str]
) -> None:
    nodes = NodesConfig.model_validate(config)
    assert set(offered_windows(SEEN, PilotJobs(), nodes)) == expected
    assert asleep_nodes(SEEN, nodes) == {"down", "going", "ended"} - set(nodes.exclude)


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
