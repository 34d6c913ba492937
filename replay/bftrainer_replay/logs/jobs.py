"""What importers collect: jobs with their times, the nodes they asked for and those they got, column by column.

A million jobs as Python objects would take gigabytes; as typed arrays they take 50 MB and the node lists 4 bytes a node.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import ParamSpec

import numpy as np
from numpy.typing import NDArray

from bftrainer.errors import InputFileError

_LISTED = 10
_What = ParamSpec("_What")


class BadLineError(ValueError):
    """A line that is not what the format says; becomes an InputFileError or, with --skip-bad, a count."""


@dataclass
class Tally:
    """Every record that was read is used, passed over for a named reason, or skipped as bad: nothing is lost silently."""

    path: str
    skip_bad: bool
    read: int = 0
    used: int = 0
    passed_over: dict[str, int] = field(default_factory=dict)
    skipped: int = 0
    examples: list[str] = field(default_factory=list)

    def take(self, line: int, job: Callable[_What, str | None], *what: _What.args, **more: _What.kwargs) -> None:
        """Count one record; ``job`` adds it to the rows, says why it is passed over, or raises ValueError."""
        self.read += 1
        try:
            reason = job(*what, **more)
        except (ValueError, RecursionError) as problem:  # the second of JSON in JSON in JSON
            self.bad(line, problem)
            return
        if reason is None:
            self.used += 1
        else:
            self.pass_over(reason)

    def pass_over(self, reason: str) -> None:
        """One record that is right and says nothing about nodes or the queue."""
        self.passed_over[reason] = self.passed_over.get(reason, 0) + 1

    def bad(self, line: int, problem: object) -> None:
        """One record that cannot be understood: the end, or with --skip-bad one more skipped."""
        # What is quoted from the line may hold bytes that are no text; no terminal should get them.
        problem = " ".join(str(problem).encode("utf-8", "backslashreplace").decode().split())
        if not self.skip_bad:
            raise InputFileError(f"{self.path}:{line}", f"{problem} (--skip-bad leaves such lines out and counts them)")
        self.skipped += 1
        if len(self.examples) < _LISTED:
            self.examples.append(f"skipped {self.path}:{line}: {problem}")

    def remarks(self, format_name: str) -> list[str]:
        """The totals, always; then the first of the skipped lines."""
        reasons = "".join(f", {count:,} {reason}" for reason, count in sorted(self.passed_over.items()))
        total = (
            f"{self.path} is {format_name}: {self.read:,} records read, {self.used:,} used, "
            f"{sum(self.passed_over.values()):,} passed over{f' ({reasons[2:]})' if reasons else ''}, "
            f"{self.skipped:,} skipped as bad"
        )
        more = self.skipped - len(self.examples)
        return [total, *self.examples, *([f"skipped {more:,} more"] if more > 0 else [])]


@dataclass(frozen=True, slots=True)
class JobTable:
    """Parallel arrays, seconds since 1970 UTC. ``start_s`` is NaN for a job that never started, ``end_s`` infinite for
    one that still runs or waits. Job j held the nodes ``names[i] for i in members[first[j]:first[j + 1]]``.
    """

    submit_s: NDArray[np.float64]
    eligible_s: NDArray[np.float64]
    start_s: NDArray[np.float64]
    end_s: NDArray[np.float64]
    asked: NDArray[np.int64]
    first: NDArray[np.int64]
    members: NDArray[np.int32]
    names: tuple[str, ...]


class JobRows:
    """Grows a :class:`JobTable` job by job. ``node_ids`` turns false with the first job that ran on nameless nodes."""

    def __init__(self) -> None:
        self._times = [array("d") for _ in range(4)]
        self._asked = array("q")
        self._first = array("q", [0])
        self._members = array("i")
        self._index: dict[str, int] = {}
        self._declared: set[int] = set()
        self.without_ids = 0

    def __len__(self) -> int:
        return len(self._asked)

    def ids(self, names: Iterable[str]) -> Sequence[int]:
        """Numbers of nodes, by which :meth:`add` takes them."""
        index = self._index
        return array("i", dict.fromkeys(index.setdefault(name, len(index)) for name in names))

    def declare(self, names: Iterable[str]) -> None:
        """Nodes that the machine has, whether or not a job runs on them."""
        self._declared.update(self.ids(names))

    def add(
        self,
        submit_s: float,
        eligible_s: float,
        start_s: float,
        end_s: float,
        asked: int,
        nodes: Sequence[int] | None,
    ) -> None:
        """One job; NaN where there is no time, ``nodes`` None where it ran on nodes without names.

        Raises :class:`BadLineError` for what no job can be.
        """
        # Called a million times: NaN is what differs from itself.
        started = start_s == start_s
        if started and end_s < start_s:
            raise BadLineError(f"the job ends {start_s - end_s:,.0f} s before it starts")
        if not 0 <= asked <= 10_000_000:
            raise BadLineError(f"a job of {asked} nodes")
        if submit_s != submit_s:
            submit_s = eligible_s if math.isfinite(eligible_s) else start_s
            if submit_s != submit_s:
                raise BadLineError("the job has no submit, eligible or start time")
        # A job can be eligible before it is submitted (requeued ones): it waits from the later moment on.
        if not eligible_s >= submit_s:
            eligible_s = submit_s
        if end_s != end_s:
            end_s = math.inf
        submits, eligibles, starts, ends = self._times
        submits.append(submit_s)
        eligibles.append(eligible_s)
        starts.append(start_s)
        ends.append(end_s)
        self._asked.append(asked)
        if started and end_s != start_s:
            if nodes is None:
                self.without_ids += 1
            else:
                self._members.extend(nodes)
        self._first.append(len(self._members))

    def table(self) -> JobTable:
        """All jobs as arrays, which share their memory with this: nothing can be added afterwards."""
        times = [np.frombuffer(column, dtype=np.float64) for column in self._times]
        members, names = self._used(np.frombuffer(self._members, dtype=np.int32))
        asked, first = np.frombuffer(self._asked, dtype=np.int64), np.frombuffer(self._first, dtype=np.int64)
        return JobTable(times[0], times[1], times[2], times[3], asked, first, members, names)

    def _used(self, members: NDArray[np.int32]) -> tuple[NDArray[np.int32], tuple[str, ...]]:
        """Without the nodes that only refused lines name: they would be idle for ever."""
        names = tuple(self._index)
        used = np.zeros(len(names), dtype=np.bool_)
        used[members] = True
        used[list(self._declared)] = True
        if used.all():
            return members, names
        number = (np.cumsum(used) - 1).astype(np.int32)
        return number[members], tuple(name for name, is_used in zip(names, used.tolist(), strict=True) if is_used)
