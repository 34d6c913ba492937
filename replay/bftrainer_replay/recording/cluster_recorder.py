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
"""Longest time between two polls after consecutive failures, as a multiple of ``every_s``; after
the first failure, it is twice ``every_s``.
"""
HEARTBEAT_S = 60.0
"""A row is written at least this often, so that a crash loses at most this much."""
_SLICE_S = 0.2


@dataclass
class RecordingTotals:
    """Counts since this recorder began: polls, polls that failed, and polls with a ``stale``
    answer, whose time is not later than that of the answer before; rows and gaps that were written.

    ``idle`` and ``machine_nodes`` are the numbers of nodes (or GPUs) in the latest sample, of the
    time ``at_s``; ``hidden`` is what the site hid in it. ``errors`` counts failures by their text.
    """

    polls: int = 0
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

    The scheduler is polled every ``every_s`` seconds; a time of more than ``unknown_after_s``
    seconds without an answer becomes a gap. A sample is written after the next one has arrived,
    which shows the transitions in it.
    """

    scheduler: Scheduler
    read: Callable[[Observation], ClusterSample]
    file: RecordFile
    clock: Clock
    every_s: float = 10.0
    unknown_after_s: float = 60.0
    on_error: Callable[[BFTrainerError, RecordingTotals], None] = lambda _error, _totals: None
    totals: RecordingTotals = field(default_factory=RecordingTotals)
    _latest: ClusterSample | None = None  # not yet written
    _previous: ClusterSample | None = None  # the one before it; None after a gap
    _written: DebouncedSample | None = None  # the last sample that this recorder wrote

    def __post_init__(self) -> None:
        """Take the last row of a file that is continued for the previous sample."""
        last_row = self.file.last_row
        if last_row is not None and not last_row.begins_gap:
            self._previous = ClusterSample(
                last_row.at_s, last_row.idle, machine_nodes=0, waiting=None
            )

    def run(
        self,
        for_s: float,
        is_over: Callable[[], bool],
        after_poll: Callable[[RecordingTotals], None] = lambda _: None,
    ) -> RecordingTotals:
        """Poll until ``for_s`` seconds have passed or ``is_over()``; return the totals.

        The last sample is written at the end. ``after_poll`` is called after every poll. After
        failures, polls are less frequent. Raises :class:`~bftrainer.errors.StoreError` if the file
        cannot be written.
        """
        began_s = self.clock.elapsed_s()
        n_failures, due_s = 0, float(began_s)
        while not is_over() and self.clock.elapsed_s() - began_s < for_s:
            n_failures = 0 if self._poll_once() else n_failures + 1
            after_poll(self.totals)
            step_s = self.every_s * min(2.0 ** min(n_failures, 10), MOST_BACK_OFF)
            # A slow scheduler is not polled more often afterwards to catch up.
            due_s = max(due_s + step_s, self.clock.elapsed_s())
            self._sleep_until(min(due_s, began_s + for_s), is_over)
        self._write_latest()
        return self.totals

    def _poll_once(self) -> bool:
        """Poll the scheduler once and add the sample; return whether the scheduler answered."""
        self.totals.polls += 1
        try:
            observation = self.scheduler.observe()
            sample = self.read(observation)
        # A file that cannot be written ends the recording; a scheduler that fails does not.
        except StoreError:
            raise
        except BFTrainerError as error:
            self.totals.failed += 1
            if not self.totals.errors[str(error)]:
                self.on_error(error, self.totals)
            self.totals.errors[str(error)] += 1
            return False
        self.totals.idle, self.totals.machine_nodes = len(sample.idle), sample.machine_nodes
        self.totals.at_s, self.totals.hidden = sample.at_s, observation.hidden
        self._add_sample(sample)
        return True

    def _add_sample(self, sample: ClusterSample) -> None:
        """Keep the latest sample, and write the one before it, whose neighbors are now known.

        A sample that is not later than the last one is stale, and ignored. After more than
        ``unknown_after_s``, a gap begins in the file.
        """
        last_s = self._last_s()
        if sample.at_s <= last_s:
            self.totals.stale += 1
            return
        # Minus infinity: nothing has been recorded before.
        if sample.at_s - last_s > self.unknown_after_s and last_s != -math.inf:
            self._write_latest()
            if self.file.last_row is not None and not self.file.last_row.begins_gap:
                self.totals.gaps += 1
                self.file.write_gap()
            self._previous = None
        elif self._latest is not None:
            self._write_sample(self._latest, sample)
            self._previous = self._latest
        self._latest = sample

    def _last_s(self) -> float:
        """Return the time of the latest sample or, without one, of the last row; minus infinity
        without either.
        """
        if self._latest is not None:
            return self._latest.at_s
        return -math.inf if self.file.last_row is None else self.file.last_row.at_s

    def _write_sample(self, sample: ClusterSample, following: ClusterSample | None) -> None:
        """Write a sample if the file needs a row for it.

        That is so if it differs from the last row, if a heartbeat is due, or if no sample follows
        before a gap or the end. Nodes that are idle in this sample alone are left out, as its
        neighbors show.
        """
        state = debounced(self._previous, sample, following)
        if following is None or self._is_new(state) or self._is_heartbeat_due(state.at_s):
            self.file.write(state)
            self.totals.rows += 1
            self._written = state

    def _is_new(self, state: DebouncedSample) -> bool:
        """Return whether a row of this state would differ from the last row, apart from its time.
        The first row of a recorder always counts as new.
        """
        last_row, written = self.file.last_row, self._written
        if written is None or last_row is None or last_row.begins_gap:
            return True
        return (state.idle, state.machine_nodes, state.smallest) != (
            last_row.idle,
            written.machine_nodes,
            written.smallest,
        )

    def _is_heartbeat_due(self, at_s: float) -> bool:
        last_row = self.file.last_row
        return last_row is not None and at_s - last_row.at_s >= HEARTBEAT_S

    def _write_latest(self) -> None:
        """Write the latest sample, unless no sample precedes it with which it can be debounced;
        then forget both.
        """
        if self._latest is not None and self._previous is not None:
            self._write_sample(self._latest, None)
        self._previous, self._latest = None, None

    def _sleep_until(self, until_s: float, is_over: Callable[[], bool]) -> None:
        """Sleep until ``until_s`` on the clock of elapsed time, or ``is_over()``."""
        while not is_over() and (left_s := until_s - self.clock.elapsed_s()) > 0:
            self.clock.sleep(min(left_s, _SLICE_S))
