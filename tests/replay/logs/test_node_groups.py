"""Nodes as groups: every figure is that of the same nodes one by one."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from bftrainer_replay.analysis.characterize import characterize
from bftrainer_replay.analysis.plain_jobs import plain_jobs
from bftrainer_replay.analysis.window_fragments import (
    fragments_of,
    joined_and_left,
    pool_sizes_of,
    sizes_once_started,
    weighted_quantiles,
)
from bftrainer_replay.logs.idle import idle_events, idle_periods
from bftrainer_replay.logs.jobs import JobRows, JobTable
from bftrainer_replay.logs.model import (
    EventLog,
    LogWindow,
    Queue,
    cut_short,
    pieces,
    restricted_log,
)
from bftrainer_replay.logs.node_groups import NodeGroups, grouped
from bftrainer_replay.logs.span import TrustedSpan

NONE = np.empty(0, dtype=np.int64)
RACKS = [[f"r{rack}n{node}" for node in range(size)] for rack, size in enumerate((5, 3, 1, 7))]
SPAN = TrustedSpan(0.0, 100.0, ())


@st.composite
def tables(draw: st.DrawFn) -> JobTable:
    """Jobs on whole racks of a cluster of 16 nodes."""
    rows = JobRows()
    rows.declare(name for rack in RACKS for name in rack)
    for _ in range(draw(st.integers(0, 12))):
        begin, length = draw(st.integers(-10, 100)), draw(st.integers(1, 40))
        racks = draw(st.lists(st.sampled_from(RACKS), min_size=1, max_size=3))
        nodes = rows.ids(name for rack in racks for name in rack)
        submit = begin - draw(st.integers(0, 30))
        rows.add(submit, submit, begin, begin + length, len(nodes), nodes, limit_s=float(length))
    return rows.table()


def logs_of(table: JobTable) -> tuple[EventLog, EventLog]:
    """The log of the table in groups, and the same with each event as it is."""
    jobs, groups = grouped(table, NONE)
    events = idle_events(idle_periods(jobs, SPAN), groups, SPAN, 0.0)
    queue = Queue(
        table.eligible_s, table.start_s, table.end_s, table.node_counts, limit_s=table.limit_s
    )
    log = EventLog(events, "made", queue=queue, machine_nodes=16)
    return log, replace(log, events=tuple(events))


def assert_equal_figures(groups: LogWindow, single: LogWindow) -> None:
    assert (groups.initial, groups.events) == (single.initial, single.events)
    for mine, its in zip(joined_and_left(groups), joined_and_left(single), strict=True):
        assert mine.tolist() == its.tolist()
    for sizes in (pool_sizes_of, lambda window: sizes_once_started(window, 3.0)):
        assert sizes(groups).nodes.tolist() == sizes(single).nodes.tolist()
        assert sizes(groups).start_s.tolist() == sizes(single).start_s.tolist()
    lengths_s, counts = fragments_of(groups).by_length()
    its_lengths_s, its_counts = fragments_of(single).by_length()
    assert (lengths_s.tolist(), counts.tolist()) == (its_lengths_s.tolist(), its_counts.tolist())
    np.testing.assert_allclose(
        [row.share for row in plain_jobs(groups, (1, 2, 5, 16), 2.0)],
        [row.share for row in plain_jobs(single, (1, 2, 5, 16), 2.0)],
        rtol=1e-12,
        atol=1e-12,
    )


@settings(deadline=None)
@given(tables(), st.integers(0, 60), st.integers(1, 40))
def test_a_window_in_groups_has_the_figures_of_its_nodes(
    table: JobTable, start: int, length: int
) -> None:
    log, single = logs_of(table)
    for window, other in (
        (restricted_log(log), restricted_log(single)),
        (
            restricted_log(log, start_s=start, end_s=start + length),
            restricted_log(single, start_s=start, end_s=start + length),
        ),
        (cut_short(restricted_log(log), start), cut_short(restricted_log(single), start)),
        *zip(
            pieces(restricted_log(log), (float(start), start + 5.5), float(length)),
            pieces(restricted_log(single), (float(start), start + 5.5), float(length)),
            strict=True,
        ),
    ):
        assert_equal_figures(window, other)


@settings(deadline=None)
@given(tables())
def test_the_causes_of_idle_nodes_are_the_same_in_groups(table: JobTable) -> None:
    log, single = logs_of(table)
    mine, its = characterize(restricted_log(log)), characterize(restricted_log(single))
    assert (mine.fragments, mine.joins, mine.leaves) == (its.fragments, its.joins, its.leaves)
    assert (mine.idle_while is None) == (its.idle_while is None)
    if mine.idle_while is not None and its.idle_while is not None:
        np.testing.assert_allclose(mine.idle_while.node_h, its.idle_while.node_h, atol=1e-9)


@given(
    st.lists(st.tuples(st.floats(0, 1e6), st.integers(1, 50)), min_size=1, max_size=30),
    st.lists(st.floats(0, 1), min_size=1, max_size=5),
)
def test_quantiles_of_weighted_values_are_those_of_repeated_ones(
    pairs: list[tuple[float, int]], shares: list[float]
) -> None:
    values, weights = (np.array(column) for column in zip(*pairs, strict=True))
    expected = np.quantile(np.repeat(values, weights), shares).tolist()
    assert weighted_quantiles(values, weights, shares) == expected


def test_nodes_of_the_same_jobs_are_a_group_but_for_those_that_differ_otherwise() -> None:
    rows = JobRows()
    rows.declare("abcdefgh")
    rows.add(0, 0, 0, 5, 4, rows.ids("abcd"))
    rows.add(0, 0, 5, 9, 6, rows.ids("abcdef"))
    table = rows.table()
    jobs, groups = grouped(table, np.array([3]))
    assert [sorted(members) for members in groups.members] == [
        ["a", "b", "c"],
        ["d"],
        ["e", "f"],
        ["g", "h"],
    ]
    assert jobs.offsets.tolist() == [0, 2, 5]
    assert jobs.members.tolist() == [0, 1, 0, 1, 2]
    assert jobs.node_counts.tolist() == [4, 6]


def test_where_jobs_take_single_nodes_each_is_alone() -> None:
    rows = JobRows()
    for number in range(9):
        rows.add(0, 0, number, 20, 1, rows.ids([f"n{number}"]))
    table = rows.table()
    jobs, groups = grouped(table, NONE)
    assert jobs is table
    assert groups.are_single


def test_events_in_groups_are_small_when_they_go_to_another_process() -> None:
    """The nodes of a group are named once, not at each event."""
    rows = JobRows()
    machine = rows.ids(f"n{number:05d}" for number in range(5000))
    for begin in range(500):
        rows.add(begin, begin, begin, begin + 0.5, 5000, machine)
    jobs, groups = grouped(rows.table(), NONE)
    span = TrustedSpan(0.0, 500.0, ())
    events = idle_events(idle_periods(jobs, span), groups, span, 0.0)
    again = pickle.loads(pickle.dumps(events))
    assert len(pickle.dumps(events)) < 200_000
    assert again == events
    assert len(again[1].change.joined) == len(NodeGroups.alone(groups.names))
