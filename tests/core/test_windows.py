"""Which nodes are free, and until when: by hand, and for every observation."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bftrainer.cluster.model import (
    Availability,
    Hidden,
    NodeView,
    Observation,
    PendingJob,
    Reservation,
)
from bftrainer.cluster.windows import (
    EndKind,
    PilotJobs,
    free_nodes,
    may_be_taken_at_once,
    window_ends,
)
from bftrainer.decide.core.debounce import DebounceState, debounce
from bftrainer.errors import WindowsUnknownError

AT_S = 1000.0


FREE, PLANNED, ASLEEP, FALLING_ASLEEP, BUSY, SHARED, UNUSABLE = Availability


def seen(*states: Availability, **more: object) -> Observation:
    nodes = tuple(NodeView(f"n{i}", state, ("main", "scavenge")) for i, state in enumerate(states))
    return replace(Observation(AT_S, nodes), **more)


def job(
    name: str, starts_s: float | None, *nodes: str, partitions: tuple[str, ...] = ("main",)
) -> PendingJob:
    return PendingJob(name, "ann", partitions, len(nodes), starts_s, frozenset(nodes))


def free(observation: Observation, ours: PilotJobs = PilotJobs()) -> dict[str, tuple[float, str]]:  # noqa: B008
    return {
        found.node.name: (found.end.at_s, found.end.id) for found in free_nodes(observation, ours)
    }


def test_only_free_nodes_and_those_with_a_known_plan_are_free() -> None:
    observation = seen(FREE, PLANNED, UNUSABLE, BUSY, PLANNED, pending=(job("7", 1500.0, "n1"),))
    assert free(observation) == {"n0": (math.inf, ""), "n1": (1500.0, "7")}


def test_a_window_that_the_scheduler_tells_of_the_node_itself() -> None:
    observation = seen(FREE, PLANNED, BUSY, pending=(job("7", 1500.0, "n1"),))
    nodes = tuple(
        replace(node, window_end_s=1000.0 + 300 * i) for i, node in enumerate(observation.nodes, 1)
    )
    observation = replace(observation, nodes=nodes)
    assert free(observation) == {"n0": (1300.0, ""), "n1": (1500.0, "7")}
    assert window_ends(observation, PilotJobs())["n0"].kind is EndKind.BACKFILL_WINDOW
    assert window_ends(observation, PilotJobs())["n2"].at_s == 1900.0
    over = replace(observation, nodes=(replace(nodes[0], window_end_s=AT_S),))
    assert free(over) == {}


def test_the_earliest_end_counts_and_names_its_cause() -> None:
    observation = seen(
        FREE,
        FREE,
        pending=(job("9", 1900.0, "n0"), job("10", 1700.0, "n0", "n1"), job("11", None, "n0")),
        reservations=(
            Reservation("maint", 1600.0, 9000.0, frozenset({"n1"})),
            Reservation("old", 1.0, 900.0, frozenset({"n0"})),
        ),
    )
    assert free(observation) == {"n0": (1700.0, "10"), "n1": (1600.0, "maint")}


def test_a_plan_or_reservation_that_is_due_leaves_no_window() -> None:
    due = seen(FREE, pending=(job("9", AT_S, "n0"),))
    assert free(due) == {}
    assert (
        free(seen(FREE, reservations=(Reservation("m", 900.0, 1100.0, frozenset({"n0"})),))) == {}
    )


def test_jobs_of_ours_and_of_the_scavenger_partition_end_no_window() -> None:
    holder = seen(FREE, pending=(job("9", 1500.0, "n0"),))
    assert free(holder, PilotJobs(frozenset({"9"}))) == {"n0": (math.inf, "")}
    both = ("main", "scavenge")
    scavengers = seen(
        FREE,
        FREE,
        pending=(
            job("9", 1500.0, "n0", partitions=("scavenge",)),
            job("10", 1500.0, "n1", partitions=both),
        ),
    )
    assert free(scavengers, PilotJobs(partitions=frozenset({"scavenge"}))) == {
        "n0": (math.inf, ""),
        "n1": (1500.0, "10"),
    }
    by_qos = PilotJobs(frozenset({"9"}), frozenset({"main"}), shares_partitions=True)
    main_queue = seen(
        FREE,
        FREE,
        pending=(
            job("9", 1400.0, "n0", partitions=("main",)),
            job("10", 1500.0, "n1", partitions=("main",)),
        ),
    )
    assert free(main_queue, by_qos) == {"n0": (math.inf, ""), "n1": (1500.0, "10")}


@pytest.mark.parametrize("kind", [Hidden.JOBS, Hidden.RESERVATIONS])
def test_what_is_hidden_is_refused_unless_a_window_is_assumed(kind: Hidden) -> None:
    hidden = seen(FREE, FREE, hidden=frozenset({kind}), pending=(job("9", 1100.0, "n1"),))
    with pytest.raises(WindowsUnknownError, match=f"{kind.value}.*assume_window_s"):
        free_nodes(hidden, PilotJobs())
    assert free(hidden, PilotJobs(assume_window_s=300.0)) == {
        "n0": (1300.0, ""),
        "n1": (1100.0, "9"),
    }
    assert window_ends(hidden, PilotJobs(assume_window_s=300.0))["n0"].kind is EndKind.ASSUMED


def test_a_node_that_the_scavenger_partition_does_not_have_is_not_free() -> None:
    nodes = tuple(
        NodeView(name, FREE, partitions)
        for name, partitions in {"a": ("main", "scavenge"), "b": ("main",), "c": ()}.items()
    )
    observation = Observation(AT_S, nodes)
    assert [
        f.node.name for f in free_nodes(observation, PilotJobs(partitions=frozenset({"scavenge"})))
    ] == ["a", "c"]
    assert [f.node.name for f in free_nodes(observation, PilotJobs())] == ["a", "b", "c"]


def test_held_nodes_have_ends_too() -> None:
    held = seen(BUSY, pending=(job("9", 1500.0, "n0"),))
    assert free(held) == {}
    assert window_ends(held, PilotJobs())["n0"].at_s == 1500.0


def test_the_window_of_a_node_that_is_drained_is_over() -> None:
    held = seen(BUSY, BUSY)
    held = replace(held, nodes=(replace(held.nodes[0], is_withdrawn=True), held.nodes[1]))
    ends = window_ends(held, PilotJobs())
    assert (ends["n0"].at_s, ends["n0"].kind) == (AT_S, EndKind.WITHDRAWN)
    assert ends["n1"].kind is EndKind.NEVER


@settings(deadline=None)
@given(st.lists(st.sampled_from(Availability), max_size=6), st.data())
def test_for_every_observation(states: list[Availability], data: st.DataObject) -> None:
    names = [f"n{i}" for i in range(len(states))]
    plans = st.lists(
        st.tuples(st.floats(0, 3000), st.sets(st.sampled_from(names or ["x"]))), max_size=5
    )
    pending = tuple(job(str(i), at, *nodes) for i, (at, nodes) in enumerate(data.draw(plans)))
    observation = seen(*states, pending=pending)
    found = free_nodes(observation, PilotJobs())
    for each in found:
        assert each.node.availability in (FREE, PLANNED)
        assert each.window_s(AT_S) > 0
        assert all(
            each.end.at_s <= p.starts_s
            for p in pending
            if p.starts_s is not None and each.node.name in p.nodes
        )
    # Later plans of others never take a node away; one more plan never makes a window longer.
    more = replace(observation, pending=(*pending, job("more", 1200.0, *names)))
    before = window_ends(observation, PilotJobs())
    assert all(
        end.at_s <= min(before[name].at_s, 1200.0)
        for name, end in window_ends(more, PilotJobs()).items()
    )


def test_a_node_may_be_between_two_main_jobs_while_one_waits_or_may_be_hidden() -> None:
    ours = PilotJobs(frozenset({"5"}), frozenset({"scavenge"}))
    holders = (
        job("5", None),
        job("6", None, partitions=("scavenge",)),
    )  # of this pilot and of another
    assert not may_be_taken_at_once(seen(FREE, pending=holders), ours)
    assert may_be_taken_at_once(seen(FREE, pending=(*holders, job("7", None))), ours)
    chained = replace(job("7", None), is_eligible=False)
    assert may_be_taken_at_once(seen(FREE, pending=(chained,)), ours), (
        "the end of another job may start it"
    )
    assert may_be_taken_at_once(seen(FREE, hidden=frozenset({Hidden.JOBS})), ours)
    assert may_be_taken_at_once(seen(FREE, lists_pending=False), ours), "unknown is not none"
    assert may_be_taken_at_once(seen(FREE, pending=holders), replace(ours, shares_partitions=True))


# --- Debounce: a node idle in one record only is between two jobs (paper 2.1)

NODES = ("a", "b", "c")


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.floats(0.0, 3.0), st.none() | st.sets(st.sampled_from(NODES)))),
    st.sampled_from([0.0, 0.5, 2.0]),
)
def test_against_a_node_by_node_reading(
    observations: list[tuple[float, set[str] | None]], confirm_s: float
) -> None:
    seen, now_s = DebounceState(), 0.0
    shown: list[tuple[float, set[str]]] = []
    pool: set[str] = set()
    for wait_s, idle in observations:
        now_s += wait_s
        if idle is not None:
            shown.append((now_s, idle))
        seen, change = debounce(seen, None if idle is None else frozenset(idle), now_s, confirm_s)
        if change is not None:
            pool = (pool - change.left) | change.joined
        expected = set()
        for node in NODES:
            run: list[float] = []
            for at_s, there in reversed(shown):
                if node not in there:
                    break
                run.append(at_s)
            if run and run[0] - run[-1] >= confirm_s:
                expected.add(node)
        assert pool == seen.offered == expected
