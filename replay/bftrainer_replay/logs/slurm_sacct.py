"""Slurm's ``sacct --parsable2`` (and ``--parsable``): a line per job, fields between bars, any
columns in any order.

Checked with outputs of Slurm 22.05 (header, ``None`` for no start, ``None assigned``) and with
dumps from 2016 to 2020 that have no header. Steps (``123.batch``) repeat their job's nodes and are
ignored. The parts of a heterogeneous job (``123+0``) and the tasks of an array (``123_4``) are
separate jobs; ``123_[5-9]`` stands for five waiting jobs.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter

from bftrainer.config.host_lists import expand
from bftrainer.counted import counted
from bftrainer.errors import UserError
from bftrainer_replay.logs import slurm_columns
from bftrainer_replay.logs.clock import NO_TIME
from bftrainer_replay.logs.dialect import SACCT
from bftrainer_replay.logs.fields import count_of
from bftrainer_replay.logs.job_needs import Block, JobFact
from bftrainer_replay.logs.jobs import BadLineError
from bftrainer_replay.logs.slurm_columns import Layout
from bftrainer_replay.logs.slurm_lines import FREE_TEXT, RecordLines
from bftrainer_replay.logs.slurm_needs import elapsed_s, limit_s, needs_of, use_of
from bftrainer_replay.logs.slurm_runs import JobRuns
from bftrainer_replay.logs.slurm_state import check_state, eligible_from, is_running, never_started
from bftrainer_replay.logs.source import Source

NAME = "sacct --parsable2"
_MAX_BARS = 1_000
"""Bars within one text of a record; a line with more is damaged."""
_NO_NODES = frozenset({"", "None assigned", "(null)", "None", "Unknown"})
_DECIMAL = re.compile(r"\d{1,12}(?:\.\d{1,12})?(?:[eE][+-]?\d{1,2})?")
_LONGEST_S = 10 * 365 * 86400.0
_MOST_ENTRIES = 100_000
"""Entries of each look-up table, which is emptied at this size."""
_LONGEST = 500
"""Limit for the characters of an entry."""


def read(source: Source) -> None:
    """Adds all lines."""
    reader = _Reader(source)
    for number, line in source.lines:
        reader.take(number, line)
    reader.finish()


class _Reader:
    """Reads lines under the header that precedes them."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._columns: _Columns | None = None
        self._lines: RecordLines | None = None
        self._header = ""
        self._named_columns = source.options.columns
        self._runs = JobRuns()
        if self._named_columns is not None and "=" not in self._named_columns:
            self._begin(slurm_columns.given(self._named_columns))

    def take(self, number: int, line: str) -> None:
        """Take a line of the file, which is a header, a record, or a part of a record with line
        breaks; add the job of every record that it completes.
        """
        lines = self._lines
        if lines is None or not lines.is_unfinished:
            if not line or line.startswith("#"):
                return
            if lines is None:
                layout_of = (
                    slurm_columns.renamed if self._named_columns else slurm_columns.layout_of
                )
                layout = layout_of(self._source, number, line)
                lines = self._begin(layout)
                if layout.is_header:
                    self._header = line
                    return
            if self._is_header(line):
                self._repeated_header(number, line)
                return
        joined = lines.joined
        record = lines.record(self._source.lines.path, number, line)
        if lines.joined > joined:
            self._source.tally.continued(line)
        if record is not None:
            self._take_record(*record)

    def finish(self) -> None:
        """Take the end of the file: add the record that is still incomplete, and remarks on the
        whole log.
        """
        if self._lines is not None and (record := self._lines.rest()) is not None:
            self._take_record(*record)
        if self._columns is not None:
            self._columns.finish()
        if self._source.dialect.slurm:
            self._runs.remark(self._source)

    def _take_record(self, number: int, text: str) -> None:
        assert self._columns is not None  # a record has columns
        self._source.tally.take(number, text, self._columns.job, text)

    def _begin(self, layout: Layout) -> RecordLines:
        self._columns = _Columns(self._source, layout, self._runs)
        self._lines = RecordLines(layout)
        return self._lines

    def _is_header(self, line: str) -> bool:
        if line[:5].lower() != self._header[:5].lower():
            return False
        return line == self._header or (
            self._named_columns is None and slurm_columns.header(line) is not None
        )

    def _repeated_header(self, number: int, line: str) -> None:
        """Take a header after the first, as in a file to which months were written one after
        another; if its columns differ, they hold for the records that follow.
        """
        self._source.tally.read += 1
        self._source.tally.ignore("repeated headers")
        if line != self._header:
            if self._columns is not None:
                self._columns.finish()
            self._begin(slurm_columns.layout_of(self._source, number, line))
            self._header = line


@dataclass(frozen=True, slots=True)
class _Shared:
    """What a record says in the fields that many jobs have in common (state, partition, limit ...),
    which are parsed once for all of them.
    """

    node_count: int
    state: str
    limit_s: float
    needs: int
    use: int
    is_limited: bool


class _Columns:
    """Turns records into jobs by the positions of their columns. ``job`` is called a million times,
    so it does little.
    """

    def __init__(self, source: Source, layout: Layout, runs: JobRuns) -> None:
        slurm_columns.check(source, layout)
        self._source, self._layout = source, layout
        self._runs = runs
        names = list(layout.names)
        self._trailing = names[-1] == ""  # --parsable ends each line with a bar
        names = names[:-1] if self._trailing else names
        self._rows, self._clock = source.rows, source.clock
        self._count = len(names)
        free = [names.index(name) for name in FREE_TEXT if name in names]
        self._free_names = [names[place] for place in sorted(free)]
        self._free = free[0] if len(free) == 1 else None

        def place(*either: str) -> int:
            """Return the position of the first of these columns that the table has, else that of
            the empty field that :meth:`_fields` adds at the end.
            """
            return next((names.index(name) for name in either if name in names), len(names))

        self._submit, self._start, self._end = (
            place("submit", "start"),
            place("start"),
            place("end"),
        )
        self._eligible = place("eligible", "submit", "start")
        self._id, self._list = place("jobid", "jobidraw"), place("nodelist")
        self._has_id, self._has_list, self._has_state, self._has_flags = (
            column < self._count
            for column in (self._id, self._list, place("state"), place("flags"))
        )
        self._elapsed, self._elapsed_is_raw = place("elapsedraw", "elapsed"), "elapsedraw" in names
        places = {fact: place(name.lower()) for fact, name in SACCT.places.items()}
        places[JobFact.TIME_LIMIT] = place("timelimitraw", "timelimit")
        self._wait, self._run = place("wait"), place("run")
        self._cores, self._gpus = place("cores", "alloccpus", "ncpus"), place("gpus")
        self._counts_cores = self._count > min(self._cores, self._gpus) and "alloctres" not in names
        if self._counts_cores:  # as in AllocTRES, which is added to the fields
            places[JobFact.USE] = self._count + 1
            source.facts.add(JobFact.USE)
        if self._counts_cores and "reqtres" not in names:
            places[JobFact.RESOURCES] = self._count + 1
            source.facts.add(JobFact.RESOURCES)
        source.facts |= {fact for fact, where in places.items() if where < self._count}
        self._flags = place("flags")
        self._cluster, self._user = place("cluster"), place("user")
        if not self._has_id:
            source.tally.seen = None
        self._number = (
            None if "jobid" in names else ""
        )  # the tasks of an array get their raw ids as they start
        if source.options.cluster is not None and self._cluster == self._count:
            raise UserError(f"{source.path}: --cluster needs the column Cluster; run sacct with it")
        nodes, self._qos = place("nnodes", "allocnodes"), place("qos")
        self._counts_names = nodes == self._count
        # What many jobs have in common is read once.
        shared = (
            self._list if self._counts_names else nodes,
            place("state"),
            *(places[fact] for fact in JobFact),
        )
        self._shared = itemgetter(*shared, place("account"), self._qos)
        self._started, self._backfilled = 0, 0
        self._limited: Counter[str] = Counter()
        self._node_lists: dict[str, Sequence[int]] = {}
        self._shared_facts: dict[tuple[str, ...], _Shared] = {}

    def job(self, line: str) -> str | None:
        """Add the job of a record (one per task, if waiting tasks of an array share it) to the
        rows.

        Return why the record is ignored, or None. Raises ValueError for a record that breaks the
        format.
        """
        fields = self._fields(line)
        job_id = fields[self._id]
        if "." in job_id:
            return "steps"
        tasks = _tasks(job_id) if "[" in job_id else 1
        if self._source.is_of_another(fields[self._cluster], fields[self._user]):
            return "of other clusters"
        elapsed = self._ran_s(fields[self._elapsed])
        submit_s, eligible_s, start_s, end_s = self._times(fields, elapsed)
        texts = self._shared(fields)
        shared = self._shared_facts.get(texts) or self._read_shared(texts)
        start_s, end_s = self._times_in_state(shared.state, start_s, end_s, elapsed)
        if self._has_id and self._rows.settles(job_id, start_s, end_s):
            return "that were running in an earlier record"
        ran = start_s < end_s or (math.isnan(end_s) and not math.isnan(start_s))
        if ran and elapsed is not None:
            self._clock.compare(start_s, end_s, elapsed)
        if self._has_id:
            start_s = self._runs.add(job_id, shared.state, submit_s, start_s, end_s, self._number)
        nodes = self._ids(fields[self._list], ran) if self._has_list else None
        node_count = self._node_count(nodes, shared, ran)
        if not node_count:
            return "without nodes"
        if tasks > 1:
            self._take_tasks(job_id, tasks, ran)
        self._count_facts(fields, shared, ran)
        if self._has_id and math.isinf(end_s) and tasks == 1:
            self._rows.unfinished(job_id, start_s)
        use = shared.use if ran else 0
        for _ in range(tasks):
            self._rows.add(
                submit_s,
                eligible_from(eligible_s, start_s),
                start_s,
                end_s,
                node_count,
                nodes,
                shared.limit_s,
                shared.needs,
                use,
            )
        return None

    def _fields(self, line: str) -> list[str]:
        """Split a record into its fields; add an empty one for columns that the table lacks, and
        the job's cores and GPUs as one TRES text if the table has columns for them.
        """
        fields = self._layout.split(line)
        if len(fields) != self._count:
            fields = self._rejoined(fields)
        fields.append("")
        if self._counts_cores:
            fields.append(_tres(fields[self._cores], fields[self._gpus]))
        return fields

    def _times(self, fields: list[str], elapsed: float | None) -> list[float]:
        """Return the job's submit, eligible, start and end time; a table with columns ``wait`` and
        ``run`` gives start and end by these durations.
        """
        texts = (
            fields[self._submit],
            fields[self._eligible],
            fields[self._start],
            fields[self._end],
        )
        times = self._clock.in_order(texts, elapsed)
        if self._wait < self._count:
            times[2] = times[0] + _seconds(fields[self._wait], "wait")
            times[1] = times[0]
        if self._run < self._count:
            times[3] = times[2] + _seconds(fields[self._run], "run")
        return times

    def _times_in_state(
        self, state: str, start_s: float, end_s: float, elapsed: float | None
    ) -> tuple[float, float]:
        """Return start and end of a job as its state tells them: a running job has no end
        (infinite), a job that never started has neither.
        """
        if is_running(state, end_s):
            self._rows.runs_at(start_s, elapsed)
            return start_s, math.inf
        if never_started(state):
            return math.nan, math.inf
        return start_s, end_s

    def _node_count(self, nodes: Sequence[int] | None, shared: _Shared, ran: bool) -> int:
        """Return the number of nodes that the job held or asks for.

        Raises :class:`BadLineError` if the job ran and its node list has another number.
        """
        count = len(nodes or ()) if self._counts_names else shared.node_count
        if nodes is not None and ran and len(nodes) != count:
            raise BadLineError(
                f"the node list names {counted(len(nodes), 'node')}, the job has {count}"
            )
        return count

    def _take_tasks(self, job_id: str, tasks: int, ran: bool) -> None:
        """Reserve memory for the waiting tasks of an array that one record stands for; raise
        :class:`BadLineError` if the record has run, since a task that ran has its own.
        """
        if ran:
            raise BadLineError(
                f"job {job_id[:60]} represents {tasks} pending array tasks, but has already run"
            )
        # A line of 12 characters may stand for 100,000 jobs: each counts four times.
        self._rows.take_room(3 * tasks, 0)

    def _count_facts(self, fields: list[str], shared: _Shared, ran: bool) -> None:
        """Count jobs started by backfill and jobs that wait because of a limit, for the remarks in
        :meth:`finish`.
        """
        if ran and self._has_flags:
            self._started += 1
            self._backfilled += "SchedBackfill" in fields[self._flags]
        if shared.is_limited and len(self._limited) < _MOST_ENTRIES:
            self._limited[fields[self._qos]] += 1

    def _read_shared(self, texts: tuple[str, ...]) -> _Shared:
        """Parse the fields that many jobs have in common, and keep the result for records with the
        same texts.
        """
        count, state, limit, partition, reason, tres, constraint, use, *payer = texts
        if self._counts_names:
            node_count = len(expand(count.replace(" ", ","))) if count not in _NO_NODES else 0
        else:
            node_count = count_of(count, "nodes")
        state = check_state(state) if self._has_state else ""
        self._source.has_state(state)
        needs = needs_of(partition, constraint, reason, tres, node_count, *payer)
        shared = _Shared(
            node_count,
            state,
            limit_s(limit),
            self._rows.needs(needs),
            self._rows.use(use_of(use, node_count)),
            needs.block is Block.LIMIT,
        )
        if len(self._shared_facts) >= _MOST_ENTRIES:
            self._shared_facts.clear()
        if sum(map(len, texts)) < _LONGEST:
            self._shared_facts[texts] = shared
        return shared

    def finish(self) -> None:
        """Add remarks on free-text columns, on backfill, and on limits that kept jobs waiting."""
        if self._free_names:
            self._remark_on_texts(" and ".join(self._free_names))
        if self._started:
            self._source.remarks.append(
                f"{self._backfilled / self._started:.0%} of the jobs that ran were started by "
                "backfill (column Flags)"
            )
        if self._limited:
            qos, jobs = self._limited.most_common(1)[0]
            example = f", most of them in QOS {qos[:40]} ({jobs:,})" if qos else ""
            self._source.remarks.append(
                f"{counted(self._limited.total(), 'job')} waited because of a limit of their "
                "association, QOS or partition (column "
                f"Reason){example}"
            )

    def _remark_on_texts(self, columns: str) -> None:
        """Remark that text of users in these columns can look like records; make it a warning if
        job ids repeat, a sign that some did.
        """
        repeated = self._runs.repeated_ids()
        if repeated:
            records = counted(repeated, "record repeats", "records repeat")
            self._source.warnings.append(
                f"{records} the id of another job without a requeue: text of users (column "
                f"{columns}) with line breaks can look like jobs; run sacct without it"
            )
            return
        self._source.remarks.append(
            f"column {columns} has text of users, which can look like other jobs where it "
            "holds line breaks; without it, no user can write into the log"
        )

    def _ran_s(self, text: str) -> float | None:
        if self._elapsed_is_raw:
            return float(text) if text.isdecimal() and len(text) < 12 else None
        seconds = elapsed_s(text) if text else math.nan
        return None if math.isnan(seconds) else seconds

    def _rejoined(self, fields: list[str]) -> list[str]:
        """Join fields of a record that has too many: sacct does not escape bars, so surplus ones
        belong to the free-text column, if there is exactly one.

        Raises :class:`BadLineError` if the record cannot be repaired.
        """
        if (
            len(fields) == self._count + 1
            and fields[-1] == ""
            and (self._trailing or self._free is None)
        ):
            return fields[:-1]
        surplus = len(fields) - self._count - self._trailing
        is_text = 0 <= surplus <= _MAX_BARS
        if not is_text or self._free is None or self._layout.delimiter != "|":
            bars = (
                ""
                if self._layout.delimiter == "|"
                else "; values hold commas, so run sacct with -P and no --delimiter"
            )
            raise BadLineError(f"has {len(fields)} fields, expected {self._count}{bars}")
        free = self._free
        joined = self._layout.delimiter.join(fields[free : free + surplus + 1])
        return [*fields[:free], joined, *fields[free + surplus + 1 :]]

    def _ids(self, text: str, ran: bool) -> Sequence[int]:
        """Return the numbers of the nodes in a node list; none for a job that did not run. Raises
        :class:`BadLineError` for a job that ran without nodes.
        """
        listed = self._node_lists.get(text)
        if listed is not None and ran:
            return listed
        if text in _NO_NODES:
            if ran:
                raise BadLineError(f"the job ran, but its node list is {text or 'empty'}")
            return ()
        if not ran:
            return ()  # some versions name nodes for canceled jobs
        nodes = self._rows.ids(expand(text.replace(" ", ",")))
        if len(self._node_lists) >= _MOST_ENTRIES:
            self._node_lists.clear()
        if len(text) < 64:
            self._node_lists[text] = nodes
        return nodes


def _seconds(text: str, column: str) -> float:
    """Parse a duration in seconds or as ``[days-][hours:]minutes:seconds``; NaN where there is
    none.
    """
    if text.strip() in NO_TIME:
        return 0.0 if text.strip() in ("0", "0.0") else math.nan
    seconds = elapsed_s(text.strip())
    if math.isnan(seconds) and len(text) < 32 and _DECIMAL.fullmatch(text.strip()):
        seconds = float(text)
    if not 0 <= seconds < _LONGEST_S:
        raise BadLineError(f"{column} is {text[:40]!r}, expected seconds, or hours:minutes:seconds")
    return seconds


def _tres(cores: str, gpus: str) -> str:
    """Write a job's numbers of cores and GPUs as sacct does in AllocTRES: ``cpu=8,gres/gpu=2``."""
    pairs = (("cpu", cores), ("gres/gpu", gpus))
    return ",".join(
        f"{name}={count_of(text.strip(), name)}"
        for name, text in pairs
        if text.strip() not in NO_TIME
    )


def _tasks(job_id: str) -> int:
    """Return the number of waiting tasks in a job id: "123_[5-9,20%4]" -> 6; 1 for an id of one
    job.

    Raises :class:`BadLineError` for a list that is not one of tasks, or of more than 100,000.
    """
    before, bracket, inside = job_id.partition("_[")
    if not bracket:
        return 1
    inside = inside.rstrip("]").partition("%")[0]
    if inside.endswith("..."):  # Slurm shortens long lists; the omitted tasks cannot be counted
        inside = inside[:-3].rstrip(",-")
    total = 0
    for piece in inside.split(","):
        first, _, last = piece.partition(":")[0].partition("-")
        step = piece.partition(":")[2] or "1"
        last = last or first
        if (
            not (first.isdecimal() and last.isdecimal() and step.isdecimal())
            or len(piece) > 40
            or int(step) < 1
        ):
            raise BadLineError(f"{job_id[:60]!r} is not a job id of an array")
        total += (int(last) - int(first)) // int(step) + 1
    if not 1 <= total <= 100_000:
        raise BadLineError(f"{before[:40]}_[...] has {total} tasks")
    return total
