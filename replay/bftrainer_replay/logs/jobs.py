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
from typing import Any, NamedTuple, ParamSpec

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
"""Limit for the places (a job on one node) that are worked on together; a single node may have
more."""
LISTED = 10
"""Number of skipped lines that are shown."""
MOST_HASHED = 4_000_000
"""Number of records whose hashes are kept to find equal ones, at 70 bytes each."""
_MOST_UNFINISHED = 100_000
_Arguments = ParamSpec("_Arguments")


class BadLineError(ValueError):
    """A line that breaks the format; becomes an :class:`InputFileError` or, with --skip-bad, is
    counted.
    """


@dataclass
class Tally:
    """Counts records of the file ``where()``: each is used, ignored for a named reason, or skipped
    as bad; none silently.

    ``read`` counts all records, and ``ignored`` those of each reason. ``examples`` are the messages
    on the first skipped records. ``record_hashes`` finds records that are in the log twice; an
    importer sets it to None where records have no job ids, so that equal ones are different jobs.
    """

    where: Callable[[], object]
    skip_bad: bool
    read: int = 0
    used: int = 0
    ignored: dict[str, int] = field(default_factory=dict)
    skipped: int = 0
    examples: list[str] = field(default_factory=list)
    record_hashes: set[int] | None = field(default_factory=set)

    def take(
        self,
        line: int,
        text: str,
        add_job: Callable[_Arguments, str | None],
        *args: _Arguments.args,
        **kwargs: _Arguments.kwargs,
    ) -> None:
        """Count a record, and let ``add_job`` add it to the rows.

        The record begins on ``line`` and reads ``text``. ``add_job`` is called with ``args`` and
        ``kwargs``; it adds the record and returns None, returns why it is ignored, or raises
        ValueError, which counts the record as bad.

        A record with the same text as an earlier one is ignored without that call: files of months
        that overlap have some records twice.
        """
        self.read += 1
        if self.record_hashes is not None and self.read > MOST_HASHED:
            self.record_hashes.clear()  # 400 MB: a record from here on is compared with none
        elif self.record_hashes is not None:
            n_hashes = len(self.record_hashes)
            self.record_hashes.add(hash(text))
            if len(self.record_hashes) == n_hashes:
                self.ignore("that are in the log twice")
                return
        try:
            reason = add_job(*args, **kwargs)
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

        ``problem`` says what is wrong with it.
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
        """The share of skipped records among those that were used or skipped."""
        return self.skipped / max(self.skipped + self.used, 1)

    def remarks(self, format_name: str, name: str = "") -> list[str]:
        """Return remarks for the user: the totals of records, then the first of the skipped lines.

        ``name`` is the name of the log (by default its file).
        """
        reasons = "".join(f", {count:,} {reason}" for reason, count in sorted(self.ignored.items()))
        total = (
            f"{name or self.where()} is {format_name}: {counted(self.read, 'record')} read, "
            f"{self.used:,} used, "
            f"{sum(self.ignored.values()):,} ignored{f' ({reasons[2:]})' if reasons else ''}, "
            f"{self.skipped:,} skipped as bad"
        )
        n_unlisted = self.skipped - len(self.examples)
        unchecked = (
            f"only the first {MOST_HASHED:,} records were checked for records that are in "
            "the log twice"
        )
        return [
            total,
            *self.examples,
            *([f"skipped {n_unlisted:,} more"] if n_unlisted > 0 else []),
            *([unchecked] if self.record_hashes is not None and self.read > MOST_HASHED else []),
        ]


class JobsOnNodes(NamedTuple):
    """The jobs on the nodes ``begin`` to ``end`` - 1.

    A place is an index of ``JobTable.members``, which is one job on one node: ``places`` are those
    of these nodes, and ``jobs`` has the job of each place.
    """

    begin: int
    end: int
    places: NDArray[np.int64]
    jobs: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class JobTable:
    """The jobs of a log as parallel arrays, with times in seconds since 1970 UTC.

    ``start_s`` is NaN for a job that never started, ``end_s`` infinite for a job that is still
    running or waiting. ``node_counts`` are the nodes that each job held or asked for. ``limit_s``
    is NaN where the log has no time limit, and infinite for a job without one. Job j held the nodes
    ``names[i] for i in members[offsets[j]:offsets[j + 1]]``; it needs ``all_needs[needs[j]]`` of
    each and uses ``all_uses[use[j]]``.
    """

    submit_s: Times
    eligible_s: Times
    start_s: Times
    end_s: Times
    node_counts: NDArray[Any]
    offsets: NDArray[np.uint32]
    members: NDArray[Any]
    names: tuple[str, ...]
    limit_s: Times
    needs: NDArray[Any]
    use: NDArray[Any]
    all_needs: tuple[JobNeeds, ...]
    all_uses: tuple[JobUse, ...]

    @property
    def has_run(self) -> NDArray[np.bool_]:
        """Whether each job ran for any time."""
        has_run = np.zeros(len(self.node_counts), dtype=np.bool_)
        for part in self.parts():
            has_run[part] = self.end_s[part] > self.start_s[part]
        return has_run

    def runs(self) -> Iterator[tuple[NDArray[np.float64], NDArray[np.float64], NDArray[Any]]]:
        """Yield (starts, ends, node counts) of the jobs that ran, up to a million at a time."""
        for part in self.parts():
            start_s, end_s = self.start_s[part], self.end_s[part]
            has_run = end_s > start_s
            if has_run.any():
                node_counts = self.node_counts[part][has_run].astype(np.int64)
                yield start_s[has_run], end_s[has_run], node_counts

    def waits_until(self, part: slice) -> NDArray[np.float64]:
        """Return when each job of a part starts or, if it never does, ends."""
        return started_or(self.start_s, self.end_s, part)

    def jobs_where(self, condition: Callable[[slice], NDArray[np.bool_]]) -> NDArray[np.int64]:
        """Return the indices of the jobs for which ``condition`` is true; it is called with one
        part after another.
        """
        indices = [np.flatnonzero(condition(part)) + part.start for part in self.parts()]
        return np.concatenate([np.empty(0, dtype=np.int64), *indices])

    def node_groups(self) -> Iterator[JobsOnNodes]:
        """Yield groups of adjacent nodes with all that jobs held of them, one group after another.

        A place is one job on one node. A group has at most ``MOST_PLACES`` places, or one node, so
        that work on every place needs memory for one group at a time.
        """
        # places_until[n]: the number of places on nodes 0 to n.
        places_until = np.cumsum(counts_of(self.members, len(self.names)))
        begin = 0
        while begin < len(self.names):
            places_before = places_until[begin - 1] if begin else 0
            limit = places_before + MOST_PLACES
            end = max(begin + 1, int(np.searchsorted(places_until, limit, side="right")))
            places = np.flatnonzero((self.members >= begin) & (self.members < end))
            # A key of the offsets' own type: for any other, numpy would convert all offsets.
            keys = places.astype(self.offsets.dtype)
            jobs = np.searchsorted(self.offsets, keys, side="right") - 1
            yield JobsOnNodes(begin, end, places, jobs)
            begin = end

    def parts(self) -> Iterator[slice]:
        """Yield slices that cover all jobs (:func:`parts_of`)."""
        return parts_of(len(self.node_counts))

    def without_nodes(self) -> JobTable:
        """Return a table of the same jobs without the nodes that they held, which frees their
        memory.
        """
        nothing: NDArray[Any] = np.empty(0, dtype=np.int16)
        return replace(self, offsets=nothing, members=nothing, use=nothing)

    def selected(self, mask: NDArray[np.bool_]) -> JobTable:
        """Return a table of the jobs that the mask chooses; it still names all nodes."""
        places_of_job = np.diff(self.offsets)
        columns: dict[str, Any] = {name: getattr(self, name).selected(mask) for name in TIMES}
        columns |= {name: getattr(self, name)[mask] for name in ("node_counts", "needs", "use")}
        offsets = np.concatenate(([0], np.cumsum(places_of_job[mask]))).astype(np.uint32)
        members = self.members[np.repeat(mask, places_of_job)]
        return replace(self, offsets=offsets, members=members, **columns)


class JobRows:
    """Grows a :class:`JobTable` job by job. ``without_ids`` counts the jobs that ran on nodes
    without names; ``until_s`` is the latest time at which a job was running, by its elapsed time.

    A line of a log can name 200,000 nodes in 30 characters. Therefore the memory of a job is
    counted before the job is added; more than ``most_bytes`` raises :class:`InputFileError`.
    """

    def __init__(self, where: str = "the log", most_bytes: int = MOST_BYTES) -> None:
        """Begin without jobs; ``where`` names the log in messages, ``most_bytes`` limits the
        memory.
        """
        self._where = where
        self.most_bytes = most_bytes
        self._free_places = most_bytes // PLACE_BYTES  # memory that is left, in places
        times, counts = [Column("d") for _ in TIMES], [Column("i") for _ in range(4)]
        self._submits, self._eligibles, self._starts, self._ends, self._limits = times
        self._node_counts, self._needs, self._uses, self._members = counts
        self._columns: tuple[Column, ...] = (*times, *counts)
        self._all_needs, self._all_uses = {NO_NEEDS: 0}, {NO_USE: 0}  # with their indices
        self._offsets = array("I", [0])
        self._n_places = 0
        self._node_index: dict[str, int] = {}  # by name
        self._declared: set[int] = set()  # nodes that the cluster has, even if no job runs on them
        self.without_ids = 0
        self.until_s = -math.inf
        # (index, start) of the latest record of a job, by job id, as long as it has no end.
        self._unfinished: dict[str, tuple[int, float]] = {}
        # Ends that later records told, by job index; NaN: when the job became eligible.
        self._later_ends: dict[int, float] = {}

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def ids(self, names: Iterable[str]) -> Sequence[int]:
        """Return the numbers of the nodes with these names, for :meth:`add`; new names get new
        numbers.

        A name that is listed twice counts once.
        """
        index_of = self._node_index
        node_ids = array(
            "i", dict.fromkeys(index_of.setdefault(name, len(index_of)) for name in names)
        )
        if len(index_of) > MOST_NAMES:
            raise InputFileError(
                self._where,
                f"names more than {MOST_NAMES:,} nodes; expected the nodes of one cluster",
            )
        return node_ids

    def take_room(self, jobs: int, places: int) -> None:
        """Reserve memory for a number of jobs and of places (a job on one node) before they are
        added.

        Raises :class:`InputFileError` beyond ``most_bytes``. A job takes as much as two places.
        """
        self._free_places -= 2 * jobs + places
        if self._free_places < 0:
            raise InputFileError(
                self._where,
                f"the nodes of its jobs take more than {self.most_bytes:,} bytes; --max-bytes "
                "sets another limit",
            )

    def needs(self, needs: JobNeeds) -> int:
        """Return the number of these needs, for :meth:`add`."""
        if needs not in self._all_needs:
            self.take_room(0, 8 + (len(needs.partition) + len(needs.constraint)) // 64)
        return self._all_needs.setdefault(needs, len(self._all_needs))

    def use(self, use: JobUse) -> int:
        """Return the number of this use, for :meth:`add`."""
        if use not in self._all_uses:
            self.take_room(0, 8)
        return self._all_uses.setdefault(use, len(self._all_uses))

    def declare(self, names: Iterable[str]) -> None:
        """Add nodes to the cluster, whether or not a job runs on them."""
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
        """Add a job, with times in seconds since 1970 (NaN: not known).

        ``nodes`` is None if the log does not name them; ``needs`` and ``use`` are numbers from the
        methods of that name.

        A job that ends at its start never ran: it gets no nodes. Raises :class:`BadLineError` for
        an end before the start, an impossible number of nodes, or a job without any time.
        """
        # This method is called a million times. A comparison of a time with itself is a fast test
        # for NaN, which differs from itself.
        self._free_places -= 2 if nodes is None else 2 + len(nodes)
        if self._free_places < 0:
            self.take_room(0, 0)  # raises the error
        has_started = start_s == start_s
        if has_started and end_s < start_s:
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
        # It has not ended.
        if end_s != end_s:
            end_s = math.inf
        self._submits.unpacked.append(submit_s)
        self._eligibles.unpacked.append(eligible_s)
        self._starts.unpacked.append(start_s)
        self._ends.unpacked.append(end_s)
        self._limits.unpacked.append(limit_s)
        self._node_counts.unpacked.append(node_count)
        self._needs.unpacked.append(needs)
        self._uses.unpacked.append(use)
        # It ran.
        if has_started and end_s != start_s:
            if nodes is None:
                self.without_ids += 1
            else:
                self._members.unpacked.extend(nodes)
                self._n_places += len(nodes)
        self._offsets.append(self._n_places)
        if (
            # From time to time, values are packed into fewer bytes.
            len(self._node_counts.unpacked) >= MOST_PLACES
            or len(self._members.unpacked) >= MOST_PLACES
        ):
            for column in self._columns:
                column.pack()

    def runs_at(self, start_s: float, elapsed_s: float | None) -> None:
        """Record that a job was still running ``elapsed_s`` after its start (None or NaN: not
        recorded): the log extends to that time, ``until_s``.
        """
        if elapsed_s is not None and start_s + elapsed_s > self.until_s:
            self.until_s = start_s + elapsed_s

    def unfinished(self, job_id: str, start_s: float) -> None:
        """Record that the next job to be added has not ended: a later record may tell its end. Call
        this right before :meth:`add`.
        """
        if len(self._unfinished) < _MOST_UNFINISHED:
            self._unfinished[job_id] = (len(self), start_s)

    def settles(self, job_id: str, start_s: float, end_s: float) -> bool:
        """Return whether this record only tells the end of a job that an earlier record has as
        running.

        The end is then noted, and the caller adds no job for the record. If the earlier record has
        the job as waiting, the wait is removed from that record, since the new record contains it.
        """
        job, recorded_start_s = self._unfinished.pop(job_id, (None, math.inf))
        if job is None:
            return False
        # The same start: it is the same run, not a later one after a requeue.
        if recorded_start_s == start_s and math.isfinite(end_s):
            self._later_ends[job] = end_s
            return True
        if math.isnan(recorded_start_s):
            # The wait of the earlier record ends where it begins, when the job became eligible.
            self._later_ends[job] = math.nan
        return False

    def table(self) -> JobTable:
        """Return all jobs as arrays that share memory with these rows: no job can be added
        afterwards.

        Ends that later records told replace those of the first records.
        """
        node_counts, needs, use, all_members = (
            column.values()
            for column in (self._node_counts, self._needs, self._uses, self._members)
        )
        submit_s, start_s, end_s, limit_s = (
            Times(column.values())
            for column in (self._submits, self._starts, self._ends, self._limits)
        )
        if np.array_equal(self._eligibles.values(), submit_s.packed):
            self._eligibles = self._submits  # Equal columns share their memory.
        eligible_s = submit_s
        if self._eligibles is not self._submits:
            eligible_s = Times(self._eligibles.values())
        if self._later_ends:
            jobs = np.array(list(self._later_ends))
            later_s = np.array(list(self._later_ends.values()))
            end_s = end_s.replaced(jobs, np.where(np.isnan(later_s), eligible_s[jobs], later_s))
        members, names = self._used_nodes(all_members)
        table = JobTable(
            submit_s=submit_s,
            eligible_s=eligible_s,
            start_s=start_s,
            end_s=end_s,
            node_counts=node_counts,
            offsets=np.frombuffer(self._offsets, dtype=np.uint32),
            members=members,
            names=names,
            limit_s=limit_s,
            needs=needs,
            use=use,
            all_needs=tuple(self._all_needs),
            all_uses=tuple(self._all_uses),
        )
        # Nothing here may keep the memory of nodes, which the table can free (without_nodes).
        self._offsets = array("I", [0])
        self._members = Column("i")
        self._uses = Column("i")
        self._columns = ()
        return table

    def _used_nodes(self, members: NDArray[Any]) -> tuple[NDArray[Any], tuple[str, ...]]:
        """Return ``members`` and the names of the nodes, both without nodes that only rejected
        lines name.

        Those would be idle forever. Nodes that the cluster is declared to have stay. ``members``
        are the numbers of the nodes of all jobs; they change where nodes are dropped.
        """
        names = tuple(self._node_index)
        is_used = counts_of(members, len(names)) > 0
        is_used[list(self._declared)] = True
        if is_used.all():
            return members, names
        new_index = (np.cumsum(is_used) - 1).astype(members.dtype)
        used_names = tuple(name for name, keep in zip(names, is_used.tolist(), strict=True) if keep)
        return new_index[members], used_names
