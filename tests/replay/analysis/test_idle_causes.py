"""What waited while nodes were idle: by hand, and against an oracle that looks at every second."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bftrainer.domain.events import PoolChanged
from bftrainer_replay.analysis.idle_causes import IdleCauses, idle_causes
from bftrainer_replay.logs.model import LogWindow, PoolEvent, Queue

INF, NEVER = math.inf, math.nan
NODES = frozenset("abcd")


def queue_of(*jobs: tuple[float, float, float, int]) -> Queue:
    """(eligible, start, end, nodes) of each."""
    columns = [np.array(column, dtype=np.float64) for column in zip(*jobs, strict=True)] or [np.empty(0)] * 4
    return Queue(columns[0], columns[0], columns[1], columns[2], columns[3].astype(np.int64))


def window_of(queue: Queue | None, debounce_s: float = 0.0) -> LogWindow:
    """Four nodes idle for 3600 s, two of them for 3600 s more."""
    events = (PoolEvent(3600.0, PoolChanged(left=frozenset("cd"))),)
    return LogWindow(0.0, 7200.0, NODES, events, 8, "by hand", "", queue, debounce_s)


def test_no_queue_no_answer() -> None:
    assert idle_causes(window_of(None)) is None


@pytest.mark.parametrize(
    ("jobs", "expected"),
    [
        ([(9000, 9100, 9200, 1)], (6, 0, 0)),
        ([(-50, 9100, 9200, 2)], (0, 6, 0)),
        ([(-50, 9100, 9200, 3)], (0, 4, 2)),  # fits into four idle nodes, not into two
        ([(-50, 9100, 9200, 5)], (0, 0, 6)),
        ([(1800, 5400, 9200, 5)], (3, 0, 3)),
        ([(1800, 5400, 9200, 5), (3600, 4500, 5000, 1)], (3, 0.5, 2.5)),
        ([(0, NEVER, 3600, 1)], (2, 4, 0)),  # cancelled while it waited
        ([(0, NEVER, INF, 1)], (0, 6, 0)),  # waits still
        ([(INF, NEVER, INF, 1)], (6, 0, 0)),  # held: never eligible
    ],
)
def test_by_hand(jobs: list[tuple[float, float, float, int]], expected: tuple[float, float, float]) -> None:
    assert idle_causes(window_of(queue_of(*jobs))) == IdleCauses(*(float(each) for each in expected))


def test_waits_under_the_debounce_are_transitions() -> None:
    queue = queue_of((100, 109, 200, 1), (1000, 1360, 2000, 1))
    assert idle_causes(window_of(queue, 10.0)) == IdleCauses(5.6, 0.4, 0.0)
    without = idle_causes(window_of(queue, 0.0))
    assert without is not None
    assert without.a_waiting_job_fits_node_h == pytest.approx(0.41)


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 30), st.integers(1, 6)), max_size=12),
    st.lists(st.integers(0, 4), min_size=6, max_size=6),
)
def test_every_second_agrees_with_a_plain_oracle(jobs: list[tuple[int, int, int]], pools: list[int]) -> None:
    names = ("a", "b", "c", "d")
    sets = [frozenset(names[:count]) for count in pools]
    events = tuple(
        PoolEvent(10.0 * k, PoolChanged(sets[k] - sets[k - 1], sets[k - 1] - sets[k]))
        for k in range(1, 6)
        if sets[k] != sets[k - 1]
    )
    queue = queue_of(*((e, e + w, e + w + 5, n) for e, w, n in jobs)) if jobs else queue_of((99, 99, 99, 1))
    found = idle_causes(LogWindow(0.0, 60.0, sets[0], events, 4, "drawn", "", queue))
    totals = [0, 0, 0]
    for second in range(60):
        idle = pools[second // 10]
        sizes = [n for e, w, n in jobs if e <= second < e + w]
        kind = 0 if not sizes else 1 if min(sizes) <= idle else 2
        totals[kind] += idle
    assert found is not None
    parts = (found.no_job_waits_node_h, found.a_waiting_job_fits_node_h, found.only_larger_jobs_wait_node_h)
    assert [part * 3600 for part in parts] == pytest.approx(totals)
    assert found.node_hours * 3600 == pytest.approx(sum(pools) * 10)
    assert sum(found.shares()) == pytest.approx(1.0 if any(pools) else 0.0)
