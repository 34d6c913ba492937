"""The jobs that importers collect, column by column: their times, the nodes they asked for and the
nodes they got.

A million jobs as Python objects would take gigabytes; as typed arrays they take 32 MB, and node
lists 2 or 4 bytes per node.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ParamSpec

import numpy as np
from numpy.typing import NDArray

from bftrainer.counted import counted
from bftrainer.errors import InputFileError
from bftrainer_replay.limited_file import MOST_BYTES
from bftrainer_replay.logs.columns import TIMES, Column, Times, counts_of, parts_of, started_or
from bftrainer_replay.logs.job_needs import NO_NEEDS, NO_USE, JobNeeds, JobUse

MOST_NAMES = 1_000_000
"""Limit for names of nodes in one log; the largest cluster so far had 158,976."""
PLACE_BYTES = 128
"""Peak of memory for a node of a job, from the importer to the idle periods (measured: 110 to 125).
A job itself takes two.
"""
MOST_PLACES = 1_000_000
"""Jobs on nodes that are looked at together, if that is more than one node."""
LISTED = 10
"""Number of skipped lines that are shown."""
MOST_SEEN = 4_000_000
"""Number of records that are remembered to find equal ones, at 70 bytes each."""
_MOST_UNFINISHED = 100_000
_What = ParamSpec("_What")


class BadLineError(ValueError):
    """A line that breaks the format; becomes an :class:`InputFileError` or, with --skip-bad, is
    counted.
    """


@dataclass
class Tally:
    """Counts records of the file ``where()``: each is used, ignored for a named reason, or skipped
    as bad; none silently.
    """

    where: Callable[[], object]
    skip_bad: bool
    read: int = 0
    used: int = 0
    ignored: dict[str, int] = field(default_factory=dict)
    skipped: int = 0
    examples: list[str] = field(default_factory=list)
    seen: set[int] | None = field(default_factory=set)

    def take(
        self,
        line: int,
        text: str,
        job: Callable[_What, str | None],
        *what: _What.args,
        **more: _What.kwargs,
    ) -> None:
        """Count one record. ``job`` is called with ``what`` and ``more``; it adds the record to the
        rows, returns why it is ignored, or raises ValueError.

        A record with the same text as an earlier one is ignored, as of months that overlap;
        ``seen`` is None where records have no job ids, so that equal ones are different jobs.
        """
        self.read += 1
        if self.seen is not None and self.read > MOST_SEEN:
            self.seen.clear()  # 400 MB
        elif self.seen is not None:
            before = len(self.seen)
            self.seen.add(hash(text))
            if len(self.seen) == before:
                self.ignore("that are in the log twice")
                return
        try:
            reason = job(*what, **more)
        except (ValueError, RecursionError) as problem:  # the latter from deeply nested JSON
            self.bad(line, problem)
            return
        if reason is None:
            self.used += 1
        else:
            self.ignore(reason)

    def ignore(self, reason: str) -> None:
        """Count a valid record that has no information on nodes or the queue."""
        self.ignored[reason] = self.ignored.get(reason, 0) + 1

    def continued(self, line: str) -> None:
        """Count a line that is the rest of the record before it; blank lines and comments count
        nowhere.
        """
        if line and not line.startswith("#"):
            self.read += 1
            self.ignore("rest of a record with a line break")

    def bad(self, line: int, problem: object) -> None:
        """Take a record that cannot be read: raise :class:`InputFileError` or, with --skip-bad,
        count it.
        """
        # Quoted parts of the line may hold bytes that are not text and must not reach a terminal.
        problem = " ".join(str(problem).encode("utf-8", "backslashreplace").decode().split())
        if not self.skip_bad:
            raise InputFileError(
                f"{self.where()}:{line}", f"{problem} (--skip-bad skips and counts such lines)"
            )
        self.skipped += 1
        if len(self.examples) < LISTED:
            self.examples.append(f"skipped {self.where()}:{line}: {problem}")

    @property
    def bad_share(self) -> float:
        """The share of skipped records among those that say something of nodes or the queue."""
        return self.skipped / max(self.skipped + self.used, 1)

    def remarks(self, format_name: str, name: str = "") -> list[str]:
        """Return remarks for the user: the totals, then the first of the skipped lines."""
        reasons = "".join(f", {count:,} {reason}" for reason, count in sorted(self.ignored.items()))
        total = (
            f"{name or self.where()} is {format_name}: {counted(self.read, 'record')} read, "
            f"{self.used:,} used, "
            f"{sum(self.ignored.values()):,} ignored{f' ({reasons[2:]})' if reasons else ''}, "
            f"{self.skipped:,} skipped as bad"
        )
        more = self.skipped - len(self.examples)
        unseen = (
            f"only the first {MOST_SEEN:,} records were checked for records that are in "
            "the log twice"
        )
        return [
            total,
            *self.examples,
            *([f"skipped {more:,} more"] if more > 0 else []),
            *([unseen] if self.seen is not None and self.read > MOST_SEEN else []),
        ]


@dataclass(frozen=True, slots=True)
class JobTable:
    """Parallel arrays, seconds since 1970 UTC. ``start_s`` is NaN for a job that never started,
    ``end_s`` infinite for a job that is still running or waiting. ``node_counts`` are the nodes
    that each job held or asked for. ``limit_s`` is NaN where the log has no time limit, infinite
    without one. Job j held the nodes ``names[i] for i in members[first[j]:first[j + 1]]``; it
    needs ``all_needs[needs[j]]`` of each and uses ``all_uses[use[j]]``.
    """

    submit_s: Times
    eligible_s: Times
    start_s: Times
    end_s: Times
    node_counts: NDArray[Any]
    first: NDArray[np.uint32]
    members: NDArray[Any]
    names: tuple[str, ...]
    limit_s: Times
    needs: NDArray[Any]
    use: NDArray[Any]
    all_needs: tuple[JobNeeds, ...]
    all_uses: tuple[JobUse, ...]

    @property
    def ran(self) -> NDArray[np.bool_]:
        """Whether each job ran for any time."""
        has_run = np.zeros(len(self.node_counts), dtype=np.bool_)
        for part in self.parts():
            has_run[part] = self.end_s[part] > self.start_s[part]
        return has_run

    def runs(self) -> Iterator[tuple[NDArray[np.float64], NDArray[np.float64], NDArray[Any]]]:
        """Starts, ends and nodes of the jobs that ran, up to a million at a time."""
        for part in self.parts():
            start, end = self.start_s[part], self.end_s[part]
            if (ran := end > start).any():
                yield start[ran], end[ran], self.node_counts[part][ran].astype(np.int64)

    def waits_until(self, part: slice) -> NDArray[np.float64]:
        """When each job of a part starts or, if it never does, ends."""
        return started_or(self.start_s, self.end_s, part)

    def where(self, test: Callable[[slice], NDArray[np.bool_]]) -> NDArray[np.int64]:
        """The jobs that pass a test of parts."""
        places = [np.flatnonzero(test(part)) + part.start for part in self.parts()]
        return np.concatenate([np.empty(0, dtype=np.int64), *places])

    def by_nodes(self) -> Iterator[tuple[int, int, NDArray[np.int64], NDArray[np.int64]]]:
        """Yield groups of nodes, so that work on every place needs memory for one group at a time.

        A place is an index of ``members``: one job on one node. Each group is (first node, last
        node + 1, its places, the job of each place).
        """
        until = np.cumsum(counts_of(self.members, len(self.names)))
        begin = 0
        while begin < len(self.names):
            before = until[begin - 1] if begin else 0
            end = max(begin + 1, int(np.searchsorted(until, before + MOST_PLACES, side="right")))
            places = np.flatnonzero((self.members >= begin) & (self.members < end))
            yield (
                begin,
                end,
                places,
                np.searchsorted(self.first, places.astype(self.first.dtype), side="right") - 1,
            )
            begin = end

    def parts(self) -> Iterator[slice]:
        """All jobs, a million at a time: what is worked out for each of them takes memory for a
        part.
        """
        return parts_of(len(self.node_counts))

    def without_nodes(self) -> JobTable:
        """The same jobs, without the nodes that they held."""
        nothing: NDArray[Any] = np.empty(0, dtype=np.int16)
        return replace(self, first=nothing, members=nothing, use=nothing)

    def chosen(self, keep: NDArray[np.bool_]) -> JobTable:
        """Return a table of the jobs with ``keep``; it still names all nodes."""
        counts = np.diff(self.first)
        times: dict[str, Any] = {name: getattr(self, name).only(keep) for name in TIMES}
        return replace(
            self,
            **times,
            **{name: getattr(self, name)[keep] for name in ("node_counts", "needs", "use")},
            first=np.concatenate(([0], np.cumsum(counts[keep]))).astype(np.uint32),
            members=self.members[np.repeat(keep, counts)],
        )


class JobRows:
    """Grows a :class:`JobTable` job by job. ``without_ids`` counts the jobs that ran on nodes
    without names; ``until_s`` is the latest time at which a job was running, by its elapsed time.

    A line of a log can name 200,000 nodes in 30 characters. What jobs take is counted before it is
    kept; more than ``most_bytes`` raises :class:`InputFileError`.
    """

    def __init__(self, where: str = "the log", most_bytes: int = MOST_BYTES) -> None:
        self._where = where
        self.most_bytes = most_bytes
        self._room = most_bytes // PLACE_BYTES
        times, counts = [Column("d") for _ in TIMES], [Column("i") for _ in range(4)]
        self._submits, self._eligibles, self._starts, self._ends, self._limits = times
        self._node_counts, self._needs, self._uses, self._members = counts
        self._columns: tuple[Column, ...] = (*times, *counts)
        self._all_needs, self._all_uses = {NO_NEEDS: 0}, {NO_USE: 0}
        self._first = array("I", [0])
        self._places = 0
        self._settled: dict[int, float] = {}
        self._index: dict[str, int] = {}
        self._declared: set[int] = set()
        self.without_ids = 0
        self.until_s = -math.inf
        self._unfinished: dict[str, tuple[int, float]] = {}

    def __len__(self) -> int:
        return len(self._first) - 1

    def ids(self, names: Iterable[str]) -> Sequence[int]:
        """Return the numbers by which :meth:`add` knows the nodes with these names; a name that is
        listed twice counts once.
        """
        index = self._index
        node_ids = array("i", dict.fromkeys(index.setdefault(name, len(index)) for name in names))
        if len(index) > MOST_NAMES:
            raise InputFileError(
                self._where,
                f"names more than {MOST_NAMES:,} nodes; expected the nodes of one cluster",
            )
        return node_ids

    def take_room(self, jobs: int, places: int) -> None:
        """Reserve memory for jobs, and for the nodes that they hold, before they are kept; raise
        :class:`InputFileError` beyond ``most_bytes``.
        """
        self._room -= 2 * jobs + places
        if self._room < 0:
            raise InputFileError(
                self._where,
                f"the nodes of its jobs take more than {self.most_bytes:,} bytes; --max-bytes "
                "sets another limit",
            )

    def needs(self, needs: JobNeeds) -> int:
        """The number of these needs, for :meth:`add`."""
        if needs not in self._all_needs:
            self.take_room(0, 8 + (len(needs.partition) + len(needs.constraint)) // 64)
        return self._all_needs.setdefault(needs, len(self._all_needs))

    def use(self, use: JobUse) -> int:
        """The number of this use, for :meth:`add`."""
        if use not in self._all_uses:
            self.take_room(0, 8)
        return self._all_uses.setdefault(use, len(self._all_uses))

    def declare(self, names: Iterable[str]) -> None:
        """Nodes that the cluster has, whether or not a job runs on them."""
        self._declared.update(self.ids(names))

    def add(
        self,
        submit_s: float,
        eligible_s: float,
        start_s: float,
        end_s: float,
        node_count: int,
        nodes: Sequence[int] | None,
        limit_s: float = math.nan,
        needs: int = 0,
        use: int = 0,
    ) -> None:
        """Add a job. A missing time is NaN; ``nodes`` is None if the log does not name them;
        ``needs`` and ``use`` are numbers from the methods of that name.

        Raises :class:`BadLineError` for a job that cannot be.
        """
        # Called a million times. A NaN differs from itself.
        self._room -= 2 if nodes is None else 2 + len(nodes)
        if self._room < 0:
            self.take_room(0, 0)
        started = start_s == start_s
        if started and end_s < start_s:
            raise BadLineError(f"the job ends {start_s - end_s:,.0f} s before it starts")
        if not 0 <= node_count <= 10_000_000:
            raise BadLineError(f"the job has {node_count} nodes, expected 0 to 10,000,000")
        if submit_s != submit_s:
            submit_s = eligible_s if math.isfinite(eligible_s) else start_s
            if submit_s != submit_s:
                raise BadLineError("the job has no submit, eligible or start time")
        # A requeued job can be eligible before it is submitted: it waits from the later time.
        if not eligible_s >= submit_s:
            eligible_s = submit_s
        if end_s != end_s:
            end_s = math.inf
        self._submits.last.append(submit_s)
        self._eligibles.last.append(eligible_s)
        self._starts.last.append(start_s)
        self._ends.last.append(end_s)
        self._limits.last.append(limit_s)
        self._node_counts.last.append(node_count)
        self._needs.last.append(needs)
        self._uses.last.append(use)
        if started and end_s != start_s:
            if nodes is None:
                self.without_ids += 1
            else:
                self._members.last.extend(nodes)
                self._places += len(nodes)
        self._first.append(self._places)
        if len(self._node_counts.last) >= MOST_PLACES or len(self._members.last) >= MOST_PLACES:
            for column in self._columns:
                column.pack()

    def runs_at(self, start_s: float, elapsed_s: float | None) -> None:
        """A job was still running when it had run for so long (None or NaN: not recorded): the log
        goes on to that time.
        """
        if elapsed_s is not None and start_s + elapsed_s > self.until_s:
            self.until_s = start_s + elapsed_s

    def unfinished(self, job_id: str, start_s: float) -> None:
        """The next job to be added has not ended: a later record may tell its end."""
        if len(self._unfinished) < _MOST_UNFINISHED:
            self._unfinished[job_id] = (len(self), start_s)

    def settles(self, job_id: str, start_s: float, end_s: float) -> bool:
        """Return whether this record only tells the end of a job that an earlier record has as
        running: it is then no further job.

        If the earlier record has the job as waiting, that wait is dropped, since the new record has
        it.
        """
        job, before_s = self._unfinished.pop(job_id, (None, math.inf))
        if job is not None and before_s == start_s and math.isfinite(end_s):
            self._settled[job] = end_s
            return True
        if job is not None and math.isnan(before_s):
            self._settled[job] = math.nan  # when it was eligible
        return False

    def table(self) -> JobTable:
        """Return all jobs as arrays that share memory with these rows: no job can be added
        afterwards.
        """
        node_counts, needs, use, every = (
            column.values()
            for column in (self._node_counts, self._needs, self._uses, self._members)
        )
        submit, start, end, limit = (
            Times(column.values())
            for column in (self._submits, self._starts, self._ends, self._limits)
        )
        if np.array_equal(self._eligibles.values(), submit.kept):
            self._eligibles = self._submits
        eligible = submit if self._eligibles is self._submits else Times(self._eligibles.values())
        if self._settled:
            which, end_s = np.array(list(self._settled)), np.array(list(self._settled.values()))
            end = end.changed(which, np.where(np.isnan(end_s), eligible[which], end_s))
        members, names = self._used(every)
        first = np.frombuffer(self._first, dtype=np.uint32)
        more = (limit, needs, use, tuple(self._all_needs), tuple(self._all_uses))
        self._first, self._members, self._uses, self._columns = (
            array("I", [0]),
            Column("i"),
            Column("i"),
            (),
        )
        return JobTable(submit, eligible, start, end, node_counts, first, members, names, *more)

    def _used(self, members: NDArray[Any]) -> tuple[NDArray[Any], tuple[str, ...]]:
        """Drop nodes that only rejected lines name, since they would be idle forever; return the
        renumbered members and the names.
        """
        names = tuple(self._index)
        used = counts_of(members, len(names)) > 0
        used[list(self._declared)] = True
        if used.all():
            return members, names
        number = (np.cumsum(used) - 1).astype(members.dtype)
        return number[members], tuple(
            name for name, is_used in zip(names, used.tolist(), strict=True) if is_used
        )
