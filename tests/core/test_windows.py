"""Which nodes are free, and until when: by hand, and for every observation."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bftrainer.core.windows import EndKind, Ours, free_nodes, window_ends
from bftrainer.domain.cluster import Hidden, NodeFlag, NodeView, Observation, PendingJob, Reservation
from bftrainer.errors import UnknownStateError, WindowsUnknownError

AT_S = 1000.0


def seen(*states: str, **more: object) -> Observation:
    nodes = tuple(NodeView(f"n{i}", state, ("main", "scavenge")) for i, state in enumerate(states))
    return replace(Observation(AT_S, nodes), **more)


def job(name: str, starts_s: float | None, *nodes: str, partitions: tuple[str, ...] = ("main",)) -> PendingJob:
    return PendingJob(name, "ann", partitions, len(nodes), starts_s, frozenset(nodes))


def free(observation: Observation, ours: Ours = Ours()) -> dict[str, tuple[float, str]]:  # noqa: B008
    return {found.node.name: (found.end.at_s, found.end.id) for found in free_nodes(observation, ours)}


def test_only_idle_alone_or_with_a_known_plan_is_free() -> None:
    observation = seen(
        "IDLE", "IDLE+PLANNED", "IDLE+DRAIN", "IDLE+MAINTENANCE+RESERVED", "ALLOCATED", "MIXED", "DOWN",
        "IDLE+COMPLETING", "IDLE+NOT_RESPONDING", "idle*", "IDLE+CLOUD+POWERED_DOWN", "IDLE+DYNAMIC_NORM",
        "IDLE+REBOOT_REQUESTED",
        pending=(job("7", 1500.0, "n1"),),
    )  # fmt: skip
    assert free(observation) == {"n0": (math.inf, ""), "n1": (1500.0, "7"), "n11": (math.inf, "")}


def test_the_earliest_end_counts_and_names_its_cause() -> None:
    observation = seen(
        "IDLE", "IDLE",
        pending=(job("9", 1900.0, "n0"), job("10", 1700.0, "n0", "n1"), job("11", None, "n0")),
        reservations=(
            Reservation("maint", 1600.0, 9000.0, frozenset({"n1"})), Reservation("old", 1.0, 900.0, frozenset({"n0"})),
        ),
    )  # fmt: skip
    assert free(observation) == {"n0": (1700.0, "10"), "n1": (1600.0, "maint")}


def test_a_plan_or_reservation_that_is_due_leaves_no_window() -> None:
    due = seen("IDLE", pending=(job("9", AT_S, "n0"),))
    assert free(due) == {}
    assert free(seen("IDLE", reservations=(Reservation("m", 900.0, 1100.0, frozenset({"n0"})),))) == {}


def test_jobs_of_ours_and_of_the_scavenger_partition_end_no_window() -> None:
    holder = seen("IDLE", pending=(job("9", 1500.0, "n0"),))
    assert free(holder, Ours(frozenset({"9"}))) == {"n0": (math.inf, "")}
    both = ("main", "scavenge")
    scavengers = seen("IDLE", "IDLE", pending=(
        job("9", 1500.0, "n0", partitions=("scavenge",)), job("10", 1500.0, "n1", partitions=both),
    ))  # fmt: skip
    assert free(scavengers, Ours(partitions=frozenset({"scavenge"}))) == {"n0": (math.inf, ""), "n1": (1500.0, "10")}


@pytest.mark.parametrize("kind", [Hidden.JOBS, Hidden.RESERVATIONS])
def test_what_is_hidden_is_refused_unless_a_window_is_assumed(kind: Hidden) -> None:
    hidden = seen("IDLE", "IDLE", hidden=frozenset({kind}), pending=(job("9", 1100.0, "n1"),))
    with pytest.raises(WindowsUnknownError, match=f"{kind.value}.*assume_window_s"):
        free_nodes(hidden, Ours())
    assert free(hidden, Ours(assume_window_s=300.0)) == {"n0": (1300.0, ""), "n1": (1100.0, "9")}
    assert window_ends(hidden, Ours(assume_window_s=300.0))["n0"].kind is EndKind.ASSUMED


def test_a_node_that_the_scavenger_partition_does_not_have_is_not_free() -> None:
    nodes = tuple(
        NodeView(name, "IDLE", partitions)
        for name, partitions in {"a": ("main", "scavenge"), "b": ("main",), "c": ()}.items()
    )
    observation = Observation(AT_S, nodes)
    assert [f.node.name for f in free_nodes(observation, Ours(partitions=frozenset({"scavenge"})))] == ["a", "c"]
    assert [f.node.name for f in free_nodes(observation, Ours())] == ["a", "b", "c"]


def test_held_nodes_have_ends_too() -> None:
    held = seen("ALLOCATED", pending=(job("9", 1500.0, "n0"),))
    assert free(held) == {}
    assert window_ends(held, Ours())["n0"].at_s == 1500.0


def test_a_state_that_nobody_knows_is_raised() -> None:
    with pytest.raises(UnknownStateError, match="IDLE\\+SHINY"):
        free_nodes(seen("IDLE", "IDLE+SHINY"), Ours())


@settings(deadline=None)
@given(st.lists(st.sets(st.sampled_from(NodeFlag), min_size=1, max_size=4), max_size=6), st.data())
def test_for_every_observation(states: list[set[NodeFlag]], data: st.DataObject) -> None:
    names = [f"n{i}" for i in range(len(states))]
    plans = st.lists(st.tuples(st.floats(0, 3000), st.sets(st.sampled_from(names or ["x"]))), max_size=5)
    pending = tuple(job(str(i), at, *nodes) for i, (at, nodes) in enumerate(data.draw(plans)))
    observation = seen(*["+".join(sorted(flag.value for flag in flags)) for flags in states], pending=pending)
    found = free_nodes(observation, Ours())
    for each in found:
        assert NodeFlag.IDLE in each.node.flags
        assert not each.node.flags & {
            NodeFlag.DOWN,
            NodeFlag.DRAIN,
            NodeFlag.ALLOCATED,
            NodeFlag.MIXED,
            NodeFlag.UNKNOWN,
        }
        assert each.window_s(AT_S) > 0
        assert all(each.end.at_s <= p.starts_s for p in pending if p.starts_s is not None and each.node.name in p.nodes)
    # Later plans of others never take a node away; one more plan never makes a window longer.
    more = replace(observation, pending=(*pending, job("more", 1200.0, *names)))
    before = window_ends(observation, Ours())
    assert all(end.at_s <= min(before[name].at_s, 1200.0) for name, end in window_ends(more, Ours()).items())


def test_classes_of_nodes() -> None:
    def kind(gres: str) -> str:
        return NodeView("n", "IDLE", (), (), gres, 32).node_class

    assert kind("gpu:a100:4(S:0-3,5),nsight:no_consume:1,gpfs:scratch:no_consume:1") == "4 a100"
    assert kind("gpu:2") == kind("gpu:no_consume:2") == "2 gpu"
    assert kind("gpu:model_a:2,gpu:model_b:2") == "2 model_a + 2 model_b"
    assert kind("gpu") == "1 gpu"
    assert kind("craynetwork:4") == kind("") == "32 cpus"
