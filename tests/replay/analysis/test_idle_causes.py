"""What waited while nodes were idle: by hand, and against an oracle that looks at every second."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from replay.windows import window

from bftrainer_replay.analysis.idle_causes import IdleCause, idle_causes
from bftrainer_replay.logs.columns import Times
from bftrainer_replay.logs.model import LogWindow, Queue

INF, NEVER = math.inf, math.nan


def queue_of(*jobs: tuple[float, float, float, int]) -> Queue:
    """(eligible, start, end, nodes) of each."""
    columns = [np.array(column, dtype=np.float64) for column in zip(*jobs, strict=True)] or [
        np.empty(0)
    ] * 4
    eligible, start, end = (Times.from_seconds(column) for column in columns[:3])
    return Queue(eligible, start, end, columns[3].astype(np.int64))


def window_of(queue: Queue | None, debounce_s: float = 0.0) -> LogWindow:
    """Four nodes idle for 3600 s, two of them for 3600 s more."""
    return window(7200.0, "abcd", (3600.0, "cd"), queue=queue, debounce_s=debounce_s)


def test_no_queue_no_answer() -> None:
    assert idle_causes(window_of(None)) is None


def hours(queue: Queue, debounce_s: float = 0.0) -> dict[IdleCause, float]:
    """Node-hours by cause, those above zero."""
    found = idle_causes(window_of(queue, debounce_s))
    assert found.node_hours == pytest.approx(6.0)
    return {cause: round(found.of(cause), 6) for cause in IdleCause if found.of(cause) > 1e-9}


FITS, LARGE, BEYOND, NONE = IdleCause.FITS, IdleCause.TOO_LARGE, IdleCause.BEYOND, IdleCause.NO_JOB


@pytest.mark.parametrize(
    ("jobs", "expected"),
    [
        (
            [(-50, 9100, 9200, 3)],
            {FITS: 3, BEYOND: 1, LARGE: 2},
        ),  # fits into four idle nodes, not into two
        ([(0, NEVER, 3600, 1)], {FITS: 1, BEYOND: 3, NONE: 2}),  # canceled while it waited
        ([(0, NEVER, INF, 1)], {FITS: 2, BEYOND: 4}),  # waits still
        ([(INF, NEVER, INF, 1)], {NONE: 6}),  # held: never eligible
    ],
)
def test_by_hand(
    jobs: list[tuple[float, float, float, int]], expected: dict[IdleCause, float]
) -> None:
    assert hours(queue_of(*jobs)) == pytest.approx(expected)


def test_waits_under_the_debounce_are_transitions() -> None:
    queue = queue_of((100, 109, 200, 4), (1000, 1360, 2000, 4))
    assert hours(queue, 10.0) == {FITS: 0.4, NONE: 5.6}
    assert hours(queue, 0.0)[FITS] == pytest.approx(0.41)


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 30), st.integers(1, 6)), max_size=12),
    st.lists(st.integers(0, 4), min_size=6, max_size=6),
    st.booleans(),
)
def test_every_second_agrees_with_a_plain_oracle(
    jobs: list[tuple[int, int, int]], pools: list[int], only_smallest: bool
) -> None:
    sets = [set("abcd"[:count]) for count in pools]
    flips = ((10.0 * k, sets[k] ^ sets[k - 1]) for k in range(1, 6) if sets[k] != sets[k - 1])
    queue = (
        queue_of(*((e, e + w, e + w + 5, n) for e, w, n in jobs))
        if jobs
        else queue_of((99, 99, 99, 1))
    )
    queue = replace(queue, only_smallest=only_smallest)
    found = idle_causes(window(60.0, sets[0], *flips, nodes=4, queue=queue))
    totals = dict.fromkeys(IdleCause, 0)
    for second in range(60):
        idle = pools[second // 10]
        sizes = [n for e, w, n in jobs if e <= second < e + w]
        fitting = [n for n in sizes if n <= idle]
        used = min(sum(fitting), idle) if not only_smallest or not fitting else idle
        totals[FITS] += used
        totals[NONE if not sizes else LARGE if len(fitting) < len(sizes) else BEYOND] += idle - used
    assert {cause: found.of(cause) * 3600 for cause in IdleCause} == pytest.approx(totals)
    assert sum(found.shares().values()) == pytest.approx(1.0 if any(pools) else 0.0)


def test_a_sample_of_moments_is_close_and_sums_up() -> None:
    queue = queue_of(*((11.9 * k, 11.9 * k + 9, 9000, 4) for k in range(600)))
    whole, sampled = idle_causes(window_of(queue)), idle_causes(window_of(queue), max_work=0)
    assert (whole.moments, sampled.moments) == (0, 500)
    assert sampled.node_hours == pytest.approx(6.0)
    assert sampled.of(FITS) == pytest.approx(whole.of(FITS), rel=0.03)
