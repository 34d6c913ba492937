"""Idle nodes from jobs: by hand, and against an oracle that walks every second."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from bftrainer_replay.logs.assemble import queue_of
from bftrainer_replay.logs.columns import Column, Times
from bftrainer_replay.logs.dialect import GENERIC
from bftrainer_replay.logs.first_fit import most_at_once, place_jobs
from bftrainer_replay.logs.idle import idle_events, idle_periods
from bftrainer_replay.logs.jobs import JobRows, JobTable
from bftrainer_replay.logs.model import Events
from bftrainer_replay.logs.node_groups import grouped
from bftrainer_replay.logs.span import TrustedSpan

Jobs = list[tuple[float, float, list[str]]]


def table_of(jobs: Jobs, names: str = "") -> JobTable:
    rows = JobRows()
    rows.declare(names)
    for start, end, nodes in jobs:
        rows.add(start, start, start, end, len(nodes), rows.ids(nodes))
    return rows.table()


def events_of(table: JobTable, span: TrustedSpan, debounce_s: float) -> Events:
    jobs, groups = grouped(table, np.empty(0, dtype=np.int64))
    return idle_events(idle_periods(jobs, span), groups, span, debounce_s)


def seen(events: Events) -> list[tuple[float, str, str]]:
    return [
        (e.at_s, "".join(sorted(e.change.joined)), "".join(sorted(e.change.left))) for e in events
    ]


def test_a_job_that_still_runs_holds_its_nodes_to_the_end() -> None:
    table = table_of([(5, math.inf, ["a"])], "b")
    assert seen(events_of(table, TrustedSpan(0, 60, ()), 0)) == [
        (0, "ab", ""),
        (5, "", "a"),
        (60, "", ""),
    ]


@st.composite
def some_jobs(draw: st.DrawFn) -> Jobs:
    jobs: Jobs = []
    for _ in range(draw(st.integers(0, 12))):
        start, length = draw(st.integers(-10, 60)), draw(st.integers(1, 30))
        jobs.append(
            (
                start + 100.0,
                start + length + 100.0,
                draw(st.lists(st.sampled_from("abcd"), min_size=1, max_size=4)),
            )
        )
    return jobs


@settings(deadline=None)
@given(
    some_jobs(),
    st.integers(1, 8),
    st.lists(st.tuples(st.integers(100, 140), st.integers(1, 15)), max_size=2),
)
def test_every_second_agrees_with_a_plain_oracle(
    jobs: Jobs, debounce: int, out: list[tuple[int, int]]
) -> None:
    start, end = 100, 160
    outages = tuple((float(a), float(a + b)) for a, b in out)
    table = table_of(jobs, "abcd")
    held = jobs + [(a, b, list("abcd")) for a, b in outages]
    expected = {}
    for node in "abcd":
        idle = [
            not any(s <= t < e and node in nodes for s, e, nodes in held) for t in range(start, end)
        ]
        begin = 0
        for t in range(len(idle) + 1):
            if t == len(idle) or idle[t] != idle[begin]:
                if idle[begin] and t - begin < debounce and begin > 0 and t < len(idle):
                    idle[begin:t] = [False] * (t - begin)
                begin = t
        expected[node] = idle
    events = events_of(table, TrustedSpan(start, end, outages), debounce)
    times = [event.at_s for event in events]
    assert times == sorted(set(times))
    assert (times[0], times[-1]) == (start, end)
    pool: set[str] = set()
    found = {node: [] for node in "abcd"}  # type: dict[str, list[bool]]
    place_ = 0
    for t in range(start, end):
        while place_ < len(events) and events[place_].at_s <= t:
            change = events[place_].change
            assert change.left <= pool
            assert not change.joined & pool
            pool = (pool - change.left) | change.joined
            place_ += 1
        for node in "abcd":
            found[node].append(node in pool)
    assert found == expected


def test_first_fit_takes_the_lowest_free_nodes() -> None:
    rows = JobRows()
    for start, end, asked in ((0, 10, 2), (1, 5, 1), (5, 20, 2), (10, 20, 2), (30, 40, 9)):
        rows.add(start, start, start, end, asked, None)
    assert rows.without_ids == 5
    table = rows.table()
    assert most_at_once(table) == 9
    placed, short = place_jobs(table, 4)
    begins, ends = placed.offsets[:-1], placed.offsets[1:]
    nodes = [
        sorted(placed.names[i][-1] for i in placed.members[a:b])
        for a, b in zip(begins, ends, strict=True)
    ]
    assert nodes == [["1", "2"], ["3"], ["3", "4"], ["1", "2"], ["1", "2", "3", "4"]]
    assert short == 1
    assert all(name.startswith("firstfit-") for name in placed.names)


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 50), st.integers(1, 30), st.integers(1, 5)),
        min_size=1,
        max_size=25,
    )
)
def test_first_fit_keeps_the_counts_of_the_log(jobs: list[tuple[int, int, int]]) -> None:
    rows = JobRows()
    for start, length, asked in jobs:
        rows.add(start, start, start, start + length, asked, None)
    table = rows.table()
    size = most_at_once(table)
    placed, short = place_jobs(table, size)
    assert short == 0
    busy = np.zeros(100, dtype=int)
    for start, length, asked in jobs:
        busy[start : start + length] += asked
    pool, at = 0, 0
    events = events_of(placed, TrustedSpan(0, 100, ()), 0)
    for second in range(100):
        while at < len(events) and events[at].at_s <= second:
            pool += len(events[at].change.joined) - len(events[at].change.left)
            at += 1
        assert pool == size - busy[second]


def test_a_job_keeps_no_more_memory_than_the_nodes_it_got() -> None:
    """It kept a view of every free node: 23 GB for a log of 188,041 jobs on 24,515 nodes."""
    rows = JobRows()
    for job in range(500):
        rows.add(0.0, 0.0, float(job), math.inf, 1, None)
    table = rows.table()
    tracemalloc.start()
    placed, short = place_jobs(table, 10_000)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (short, len(placed.members)) == (0, 500)
    assert peak < 5e6, "500 views of up to 10,000 nodes are 39 MB"


def test_columns_that_most_jobs_lack_are_as_long_as_the_others() -> None:
    rows = JobRows()
    nodes = rows.ids(["a"])
    nan = math.nan
    for submit_s, eligible_s, limit_s, use in (
        (1, 1, nan, 0),
        (2, 5, nan, 0),
        (3, 3, 60.0, 1),
        (4, 4, nan, 0),
    ):
        rows.add(submit_s, eligible_s, 10.0, 20.0, 1, nodes, limit_s, use=use)
    table = rows.table()
    assert table.eligible_s[:].tolist() == [1, 5, 3, 4]
    assert [str(limit) for limit in table.limit_s[:].tolist()] == ["nan", "nan", "60.0", "nan"]
    assert table.use.tolist() == [0, 0, 1, 0]
    queue = queue_of(table, frozenset(), GENERIC)
    assert queue.eligible_s[:].tolist() == [1, 3, 4, 5]
    plain = JobRows()
    for submit_s in (2, 1):
        plain.add(submit_s, submit_s, 10.0, 20.0, 1, plain.ids(["a"]))
    queue = queue_of(plain.table(), frozenset(), GENERIC)
    assert queue.eligible_s[:].tolist() == [1, 2]  # one array is put in order once
    assert np.isnan(queue.limit_s[:]).all()


WHEN = st.sampled_from([0.0, 1.7e9, 2.0**32 - 3, math.nan, math.inf, 2.0**32, -1.0, 0.5])


@given(st.lists(st.lists(WHEN, max_size=4), max_size=4), WHEN)
def test_a_column_keeps_what_it_was_given(parts: list[list[float]], other: float) -> None:
    column, every = Column("d"), np.array([at for part in parts for at in part])
    for part in parts:
        column.unpacked.extend(part)
        column.pack()
    times = Times(column.values())
    is_whole = all(at != at or at == math.inf or at in (0.0, 1.7e9, 2.0**32 - 3) for at in every)
    assert times.packed.itemsize == (4 if is_whole else 8)
    for found in (times, Times.from_parts(map(np.array, parts))):
        np.testing.assert_array_equal(found[:], every)
    np.testing.assert_array_equal(times.extended(np.array([other]))[:], [*every, other])
    known = Times.from_seconds(np.sort(every[~np.isnan(every)]))
    assert known.count_until(1.7e9) == (known[:] <= 1.7e9).sum()
    if len(every):
        changed = times.replaced(np.array([0]), np.array([other]))
        np.testing.assert_array_equal(changed[:], [other, *every[1:]])


@given(
    st.lists(
        st.lists(st.sampled_from([0, 7, 2**15 - 1, 2**15, 10_000_000]), max_size=3), max_size=4
    )
)
def test_numbers_take_two_bytes_while_they_are_small(parts: list[list[int]]) -> None:
    column = Column("i")
    for part in parts:
        column.unpacked.extend(part)
        column.pack()
    every = [number for part in parts for number in part]
    assert column.values().tolist() == every
    assert column.values().itemsize == (2 if max(every, default=0) < 2**15 else 4)
