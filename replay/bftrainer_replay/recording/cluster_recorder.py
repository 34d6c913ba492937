"""Samples a cluster every few seconds and writes which nodes are idle.

Starting and resuming after a crash are one code path: the last row of the file is the last known
state. Short failures of the scheduler change nothing. After ``unknown_after_s`` without a sample,
the time between the two samples is a gap, neither idle nor busy.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from bftrainer.cluster.model import Hidden, Observation
from bftrainer.cluster.ports import Scheduler
from bftrainer.errors import BFTrainerError, StoreError
from bftrainer.system.clock import Clock
from bftrainer_replay.recording.file import RecordFile
from bftrainer_replay.recording.samples import ClusterSample, DebouncedSample, debounced

MOST_BACK_OFF = 6.0
"""Longest interval after consecutive failures, in usual intervals; the first retry comes after two
intervals.
"""
HEARTBEAT_S = 60.0
"""A row is written at least this often, so that a crash loses at most this much."""
_SLICE_S = 0.2


@dataclass
class RecordingTotals:
    """Counts since this recorder began. The time of a ``stale`` look is not later than that of the
    look before.
    """

    looks: int = 0
    failed: int = 0
    stale: int = 0
    rows: int = 0
    gaps: int = 0
    idle: int = 0
    machine_nodes: int = 0
    at_s: float | None = None
    errors: Counter[str] = field(default_factory=Counter)
    hidden: frozenset[Hidden] = frozenset()


@dataclass
class ClusterRecorder:
    """Records samples of a live cluster in a file, as changes. ``read`` makes a
    :class:`ClusterSample` of an observation. ``on_error`` is called for every failure with a new
    text.
    """

    scheduler: Scheduler
    read: Callable[[Observation], ClusterSample]
    file: RecordFile
    clock: Clock
    every_s: float = 10.0
    unknown_after_s: float = 60.0
    on_error: Callable[[BFTrainerError, RecordingTotals], None] = lambda _error, _totals: None
    totals: RecordingTotals = field(default_factory=RecordingTotals)
    _before: ClusterSample | None = None
    _open: ClusterSample | None = None  # the latest sample, written when the next one is there
    _written: DebouncedSample | None = None

    def __post_init__(self) -> None:
        last = self.file.last
        if last is not None and not last.in_gap:
            self._before = ClusterSample(last.at_s, last.idle, 0, None)

    def run(
        self,
        for_s: float,
        is_over: Callable[[], bool],
        looked: Callable[[RecordingTotals], None] = lambda _: None,
    ) -> RecordingTotals:
        """Sample until ``for_s`` seconds have passed or ``is_over``; then write the last sample.
        Returns the totals.

        Raises :class:`~bftrainer.errors.StoreError` if the file cannot be written.
        """
        began = self.clock.elapsed_s()
        failures, due = 0, float(began)
        while not is_over() and self.clock.elapsed_s() - began < for_s:
            failures = 0 if self._look() else failures + 1
            looked(self.totals)
            step_s = self.every_s * min(2.0 ** min(failures, 10), MOST_BACK_OFF)
            due = max(
                due + step_s, self.clock.elapsed_s()
            )  # a slow scheduler is not asked more often afterwards
            self._wait(min(due, began + for_s), is_over)
        self._close()
        return self.totals

    def _look(self) -> bool:
        """Poll the scheduler once and add the sample; return whether the scheduler answered."""
        self.totals.looks += 1
        try:
            seen = self.scheduler.observe()
            sample = self.read(seen)
        except StoreError:
            raise
        except BFTrainerError as error:
            self.totals.failed += 1
            if not self.totals.errors[str(error)]:
                self.on_error(error, self.totals)
            self.totals.errors[str(error)] += 1
            return False
        self.totals.idle, self.totals.machine_nodes = len(sample.idle), sample.machine_nodes
        self.totals.at_s, self.totals.hidden = sample.at_s, seen.hidden
        self._add(sample)
        return True

    def _add(self, sample: ClusterSample) -> None:
        """Take a sample: write the one before it, which is now debounced. After a long silence,
        begin a gap in the file.
        """
        last_s = self._last_s()
        if sample.at_s <= last_s:
            self.totals.stale += 1
            return
        if sample.at_s - last_s > self.unknown_after_s and last_s != -math.inf:
            self._close()
            if self.file.last is not None and not self.file.last.in_gap:
                self.totals.gaps += 1
                self.file.write_gap()
            self._before = None
        elif self._open is not None:
            self._write(self._open, sample)
            self._before = self._open
        self._open = sample

    def _last_s(self) -> float:
        """The time of the last known state."""
        if self._open is not None:
            return self._open.at_s
        return -math.inf if self.file.last is None else self.file.last.at_s

    def _write(self, sample: ClusterSample, after: ClusterSample | None) -> None:
        """Write a sample if it differs from the last row, if a heartbeat is due, or if it is the
        last one before a gap.
        """
        now, last = debounced(self._before, sample, after), self.file.last
        is_new = last is None or last.in_gap or now.idle != last.idle or self._written is None
        if self._written is not None:
            is_new |= (now.machine_nodes, now.smallest) != (
                self._written.machine_nodes,
                self._written.smallest,
            )
        if is_new or after is None or (last is not None and now.at_s - last.at_s >= HEARTBEAT_S):
            self.file.write(now)
            self.totals.rows += 1
            self._written = now

    def _close(self) -> None:
        """Write the last sample, unless there is none before it to debounce it with."""
        if self._open is not None and self._before is not None:
            self._write(self._open, None)
        self._before, self._open = None, None

    def _wait(self, until_s: float, is_over: Callable[[], bool]) -> None:
        while not is_over() and (left_s := until_s - self.clock.elapsed_s()) > 0:
            self.clock.sleep(min(left_s, _SLICE_S))
