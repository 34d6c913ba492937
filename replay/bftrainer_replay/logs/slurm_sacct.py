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
"""Limit for the bars within the text of a record; a line with more is damaged."""
_NO_NODES = frozenset({"", "None assigned", "(null)", "None", "Unknown"})
_DECIMAL = re.compile(r"\d{1,12}(?:\.\d{1,12})?(?:[eE][+-]?\d{1,2})?")
_LONGEST_S = 10 * 365 * 86400.0
_MOST_ENTRIES = 100_000
"""Limit for the entries of each look-up table, which is emptied at this size."""
_LONGEST_ENTRY = 500
"""Limit for the characters of an entry."""


def read(source: Source) -> None:
    """Add the jobs of all lines to the rows."""
    reader = _Reader(source)
    for number, line in source.lines:
        reader.take(number, line)
    reader.finish()


class _Reader:
    """Reads each line with the columns of the latest header or, without a header, with those of
    --columns or of a layout that the first line shows.
    """

    def __init__(self, source: Source) -> None:
        """Begin before the first line; columns named by --columns are known already."""
        self._source = source
        self._columns: _Columns | None = None  # None: before the first header
        self._lines: RecordLines | None = None  # as above
        self._header = ""  # the latest one
        self._named_columns = source.options.columns
        self._runs = JobRuns()
        if self._named_columns is not None and "=" not in self._named_columns:
            self._begin_layout(slurm_columns.specified_layout(self._named_columns))

    def take(self, number: int, line: str) -> None:
        """Take a line of the file; add the job of every record that it completes.

        A line is a header, a record, or a part of a record with line breaks.
        """
        if self._lines is None or not self._lines.is_unfinished:
            if not line or line.startswith("#"):
                return
            if self._lines is None and self._begin_with(number, line):
                return
            if self._is_header(line):
                self._repeated_header(number, line)
                return
        lines = self._lines
        assert lines is not None  # the first line began a table
        n_joined = lines.joined
        record = lines.record(self._source.lines.path, number, line)
        if lines.joined > n_joined:
            self._source.tally.continued(line)
        if record is not None:
            self._take_record(*record)

    def _begin_with(self, number: int, line: str) -> bool:
        """Begin the table with its first line; return whether the line is a header, not a job.

        The line shows the layout: which columns the table has.
        """
        layout_of = slurm_columns.renamed if self._named_columns else slurm_columns.layout_of
        layout = layout_of(self._source, number, line)
        self._begin_layout(layout)
        if layout.is_header:
            self._header = line
        return layout.is_header

    def finish(self) -> None:
        """Take the end of the file: add the record that is still incomplete, and remarks on the
        log.
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

    def _begin_layout(self, layout: Layout) -> None:
        """Read the lines that follow with this layout."""
        self._columns = _Columns(self._source, layout, self._runs)
        self._lines = RecordLines(layout)

    def _is_header(self, line: str) -> bool:
        """Return whether a line after the first is a header. All headers begin with the same
        letters, which makes the test fast for jobs.
        """
        if line[:5].lower() != self._header[:5].lower():
            return False
        return line == self._header or (
            self._named_columns is None and slurm_columns.header(line) is not None
        )

    def _repeated_header(self, number: int, line: str) -> None:
        """Take a header after the first, as in a file to which months were written one after
        another.

        If its columns differ, they hold for the records that follow.
        """
        self._source.tally.read += 1
        self._source.tally.ignore("repeated headers")
        if line != self._header:
            if self._columns is not None:
                self._columns.finish()
            self._begin_layout(slurm_columns.layout_of(self._source, number, line))
            self._header = line


@dataclass(frozen=True, slots=True)
class _Shared:
    """The fields that many jobs have in common (state, partition, limit ...), parsed once for all
    of these jobs. ``needs`` and ``use`` are numbers from :class:`JobRows`; ``is_limited``: the job
    waits because of a limit.
    """

    node_count: int
    state: str
    limit_s: float
    needs: int
    use: int
    is_limited: bool


class _Columns:
    """Turns records into jobs by the positions of their columns. ``job`` is called a million times:
    all that depends on the layout alone is worked out once, here.

    An attribute named after a column (``_submit``, ``_flags`` ...) is its position in a record.
    """

    def __init__(self, source: Source, layout: Layout, runs: JobRuns) -> None:
        """Find the position of each column in this layout; raises :class:`UserError`."""
        slurm_columns.check(source, layout)
        self._source, self._layout, self._runs = source, layout, runs
        self._rows, self._clock = source.rows, source.clock
        names = list(layout.names)
        self._has_trailing_bar = names[-1] == ""  # as --parsable prints
        if self._has_trailing_bar:
            names = names[:-1]
        self._n_columns = len(names)
        free = [index for index, name in enumerate(names) if name in FREE_TEXT]
        self._free_names = [names[index] for index in free]
        self._free = free[0] if len(free) == 1 else None  # the only column of free text

        def position(*alternatives: str) -> int:
            """Return the position of the first of these columns that the table has, else that of
            the empty field that :meth:`_split_record` adds at the end.
            """
            return next((names.index(name) for name in alternatives if name in names), len(names))

        self._submit, self._eligible = (
            position("submit", "start"),
            position("eligible", "submit", "start"),
        )
        self._start, self._end = position("start"), position("end")
        self._wait, self._run = position("wait"), position("run")
        self._elapsed = position("elapsedraw", "elapsed")
        self._elapsed_is_raw = "elapsedraw" in names
        self._id, self._list = position("jobid", "jobidraw"), position("nodelist")
        self._cluster, self._user = position("cluster"), position("user")
        self._flags, self._qos = position("flags"), position("qos")
        self._cores, self._gpus = position("cores", "alloccpus", "ncpus"), position("gpus")
        node_count, state = position("nnodes", "allocnodes"), position("state")
        self._has_id, self._has_list, self._has_state, self._has_flags = (
            column < self._n_columns for column in (self._id, self._list, state, self._flags)
        )
        fact_columns = {fact: position(name.lower()) for fact, name in SACCT.places.items()}
        fact_columns[JobFact.TIME_LIMIT] = position("timelimitraw", "timelimit")
        # Without AllocTRES, columns with numbers of cores and GPUs stand in for it: _fields() adds
        # the same text after the empty field.
        has_amounts = min(self._cores, self._gpus) < self._n_columns
        self._adds_tres = has_amounts and "alloctres" not in names
        if self._adds_tres:
            fact_columns[JobFact.USE] = self._n_columns + 1
            source.facts.add(JobFact.USE)
        if self._adds_tres and "reqtres" not in names:
            fact_columns[JobFact.RESOURCES] = self._n_columns + 1
            source.facts.add(JobFact.RESOURCES)
        source.facts |= {fact for fact, column in fact_columns.items() if column < self._n_columns}
        if not self._has_id:
            source.tally.record_hashes = None  # equal records are different jobs
        # JobRuns compares ids with the order of submissions. None: with the job ids; empty: not at
        # all, because the tasks of an array get their raw ids as they start.
        self._submission_id = None if "jobid" in names else ""
        if source.options.cluster is not None and self._cluster == self._n_columns:
            raise UserError(f"{source.path}: --cluster needs the column Cluster; run sacct with it")
        self._counts_names = node_count == self._n_columns
        # The fields that many jobs have in common, in the order of _read_shared().
        self._shared = itemgetter(
            self._list if self._counts_names else node_count,
            state,
            *(fact_columns[fact] for fact in JobFact),
            position("account"),
            self._qos,
        )
        self._shared_by_texts: dict[tuple[str, ...], _Shared] = {}
        self._ids_by_list: dict[str, Sequence[int]] = {}
        # Counts for the remarks of finish(): jobs that ran, those of them that backfill started,
        # and jobs that waited because of a limit, by QOS.
        self._n_started, self._n_backfilled = 0, 0
        self._limited: Counter[str] = Counter()

    def job(self, line: str) -> str | None:
        """Add the job of a record to the rows; return why the record is ignored, or None.

        If the record stands for waiting tasks of an array, a job is added per task. Raises
        ValueError for a record that breaks the format.
        """
        fields = self._split_record(line)
        job_id = fields[self._id]
        if "." in job_id:
            return "steps"
        n_tasks = _waiting_tasks(job_id) if "[" in job_id else 1
        if self._source.is_of_another(fields[self._cluster], fields[self._user]):
            return "of other clusters"
        elapsed_s = self._elapsed_s(fields[self._elapsed])
        submit_s, eligible_s, start_s, end_s = self._job_times(fields, elapsed_s)
        texts = self._shared(fields)
        shared = self._shared_by_texts.get(texts) or self._read_shared(texts)
        start_s, end_s = self._times_in_state(shared.state, start_s, end_s, elapsed_s)
        if self._has_id and self._rows.settles(job_id, start_s, end_s):
            return "that were running in an earlier record"
        has_run = start_s < end_s or (math.isnan(end_s) and not math.isnan(start_s))
        if has_run and elapsed_s is not None:
            self._clock.compare(start_s, end_s, elapsed_s)
        if self._has_id:
            start_s = self._runs.add(
                job_id, shared.state, submit_s, start_s, end_s, self._submission_id
            )
        nodes = self._node_numbers(fields[self._list], has_run) if self._has_list else None
        node_count = self._node_count(nodes, shared, has_run)
        if not node_count:
            return "without nodes"
        if n_tasks > 1:
            self._take_tasks(job_id, n_tasks, has_run)
        self._count_facts(fields, shared, has_run)
        if self._has_id and math.isinf(end_s) and n_tasks == 1:
            self._rows.unfinished(job_id, start_s)
        use = shared.use if has_run else 0
        for _ in range(n_tasks):
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

    def _split_record(self, line: str) -> list[str]:
        """Return the fields of a record, and some more that the table may lack.

        An empty one stands for all columns that the table lacks; the job's cores and GPUs follow as
        one TRES text if the table has columns for them.
        """
        fields = self._layout.split(line)
        if len(fields) != self._n_columns:
            fields = self._rejoined_fields(fields)
        fields.append("")
        if self._adds_tres:
            fields.append(_tres_text(fields[self._cores], fields[self._gpus]))
        return fields

    def _job_times(
        self, fields: list[str], elapsed_s: float | None
    ) -> tuple[float, float, float, float]:
        """Return the job's submit, eligible, start and end time, in seconds since 1970 (NaN: none).

        In a table with columns ``wait`` and ``run``, start and end follow from these durations.
        """
        submit_s, eligible_s, start_s, end_s = self._clock.in_order(
            (
                fields[self._submit],
                fields[self._eligible],
                fields[self._start],
                fields[self._end],
            ),
            elapsed_s,
        )
        if self._wait < self._n_columns:
            eligible_s = submit_s
            start_s = submit_s + _parse_duration(fields[self._wait], "wait")
        if self._run < self._n_columns:
            end_s = start_s + _parse_duration(fields[self._run], "run")
        return submit_s, eligible_s, start_s, end_s

    def _times_in_state(
        self, state: str, start_s: float, end_s: float, elapsed_s: float | None
    ) -> tuple[float, float]:
        """Return start and end of a job as its state has them.

        The end of a running job is infinite; a job that never started has no start (NaN), and an
        infinite end. A running job extends the log to the time that it has reached by its elapsed
        time.
        """
        if is_running(state, end_s):
            self._rows.runs_at(start_s, elapsed_s)
            return start_s, math.inf
        if never_started(state):
            return math.nan, math.inf
        return start_s, end_s

    def _node_count(self, nodes: Sequence[int] | None, shared: _Shared, has_run: bool) -> int:
        """Return the number of nodes that the job held or asks for.

        It is that of the column or, without one, of the node list. Raises :class:`BadLineError` if
        the job ran and its node list has another number.
        """
        count = len(nodes or ()) if self._counts_names else shared.node_count
        if nodes is not None and has_run and len(nodes) != count:
            raise BadLineError(
                f"the node list names {counted(len(nodes), 'node')}, the job has {count}"
            )
        return count

    def _take_tasks(self, job_id: str, n_tasks: int, has_run: bool) -> None:
        """Reserve memory for the waiting tasks of an array that one record stands for.

        Raises :class:`BadLineError` if the record has run, since a task that ran has a record of
        its own.
        """
        if has_run:
            raise BadLineError(
                f"job {job_id[:60]} represents {n_tasks} pending array tasks, but has already run"
            )
        # A line of 12 characters may stand for 100,000 jobs: each counts four times, three of them
        # here.
        self._rows.take_room(3 * n_tasks, 0)

    def _count_facts(self, fields: list[str], shared: _Shared, has_run: bool) -> None:
        """Count jobs started by backfill, and jobs that wait because of a limit, for the remarks at
        the end.
        """
        if has_run and self._has_flags:
            self._n_started += 1
            self._n_backfilled += "SchedBackfill" in fields[self._flags]
        if shared.is_limited and len(self._limited) < _MOST_ENTRIES:
            self._limited[fields[self._qos]] += 1

    def _read_shared(self, texts: tuple[str, ...]) -> _Shared:
        """Return the fields that many jobs have in common, parsed once for records with the same
        texts.

        ``texts`` are these fields in the order of ``self._shared``.
        """
        nodes, state, limit, partition, reason, requested, constraint, allocated, account, qos = (
            texts
        )
        if not self._counts_names:
            node_count = count_of(nodes, "nodes")
        else:
            node_count = 0 if nodes in _NO_NODES else len(expand(nodes.replace(" ", ",")))
        state = check_state(state) if self._has_state else ""
        self._source.has_state(state)
        needs = needs_of(partition, constraint, reason, requested, node_count, account, qos)
        shared = _Shared(
            node_count=node_count,
            state=state,
            limit_s=limit_s(limit),
            needs=self._rows.needs(needs),
            use=self._rows.use(use_of(allocated, node_count)),
            is_limited=needs.block is Block.LIMIT,
        )
        if len(self._shared_by_texts) >= _MOST_ENTRIES:
            self._shared_by_texts.clear()
        if sum(map(len, texts)) < _LONGEST_ENTRY:
            self._shared_by_texts[texts] = shared
        return shared

    def finish(self) -> None:
        """Add remarks on free-text columns, on backfill, and on limits that kept jobs waiting."""
        if self._free_names:
            self._remark_on_texts(" and ".join(self._free_names))
        if self._n_started:
            self._source.remarks.append(
                f"{self._n_backfilled / self._n_started:.0%} of the jobs that ran were started by "
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
        """Add a remark that text of users in these columns can look like records.

        It is a warning if job ids repeat, a sign that some did.
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

    def _elapsed_s(self, text: str) -> float | None:
        """Parse a job's elapsed time; None if it is not recorded."""
        if self._elapsed_is_raw:
            return float(text) if text.isdecimal() and len(text) < 12 else None
        seconds = elapsed_s(text) if text else math.nan
        return None if math.isnan(seconds) else seconds

    def _rejoined_fields(self, fields: list[str]) -> list[str]:
        """Return the fields of a record that has too many, with surplus ones joined.

        sacct does not escape bars, so surplus fields belong to the free-text column, if there is
        exactly one. Raises :class:`BadLineError` if the record cannot be repaired.
        """
        has_empty_last = len(fields) == self._n_columns + 1 and fields[-1] == ""
        if has_empty_last and (self._has_trailing_bar or self._free is None):
            return fields[:-1]
        n_surplus = len(fields) - self._n_columns - self._has_trailing_bar
        has_bars = self._layout.delimiter == "|"
        if not 0 <= n_surplus <= _MAX_BARS or self._free is None or not has_bars:
            hint = "; values hold commas, so run sacct with -P and no --delimiter"
            raise BadLineError(
                f"has {len(fields)} fields, expected {self._n_columns}{'' if has_bars else hint}"
            )
        # A trailing bar leaves one more empty field, which comes after all columns.
        text_end = self._free + n_surplus + 1
        text = self._layout.delimiter.join(fields[self._free : text_end])
        return [*fields[: self._free], text, *fields[text_end:]]

    def _node_numbers(self, text: str, has_run: bool) -> Sequence[int]:
        """Return the numbers of the nodes in a node list; none for a job that did not run.

        Short lists are cached, as many jobs have the same. Raises :class:`BadLineError` for a job
        that ran without nodes.
        """
        if not has_run:
            return ()  # some versions name nodes for canceled jobs
        known_ids = self._ids_by_list.get(text)
        if known_ids is not None:
            return known_ids
        if text in _NO_NODES:
            raise BadLineError(f"the job ran, but its node list is {text or 'empty'}")
        nodes = self._rows.ids(expand(text.replace(" ", ",")))
        if len(self._ids_by_list) >= _MOST_ENTRIES:
            self._ids_by_list.clear()
        if len(text) < 64:
            self._ids_by_list[text] = nodes
        return nodes


def _parse_duration(text: str, column: str) -> float:
    """Return a duration in seconds; NaN where there is none.

    The text is in seconds, or like ``[days-][hours:]minutes:seconds``. Raises
    :class:`BadLineError`, which names the ``column``.
    """
    if text.strip() in NO_TIME:
        # As a time, 0 stands for none; as a duration, it is a value.
        return 0.0 if text.strip() in ("0", "0.0") else math.nan
    seconds = elapsed_s(text.strip())
    if math.isnan(seconds) and len(text) < 32 and _DECIMAL.fullmatch(text.strip()):
        seconds = float(text)
    if not 0 <= seconds < _LONGEST_S:
        raise BadLineError(f"{column} is {text[:40]!r}, expected seconds, or hours:minutes:seconds")
    return seconds


def _tres_text(cores: str, gpus: str) -> str:
    """Return a job's numbers of cores and GPUs as sacct has them in AllocTRES:
    ``cpu=8,gres/gpu=2``.
    """
    pairs = (("cpu", cores), ("gres/gpu", gpus))
    return ",".join(
        f"{name}={count_of(text.strip(), name)}"
        for name, text in pairs
        if text.strip() not in NO_TIME
    )


def _waiting_tasks(job_id: str) -> int:
    """Return the number of waiting tasks in a job id: "123_[5-9,20%4]" -> 6; 1 for an id of one
    job.

    Raises :class:`BadLineError` for a list that is not one of tasks, or of more than 100,000.
    """
    array_id, bracket, tail = job_id.partition("_[")
    if not bracket:
        return 1
    task_list = tail.rstrip("]").partition("%")[0]  # %4: at most 4 tasks at once
    if task_list.endswith("..."):  # Slurm shortens long lists; the omitted tasks are not counted
        task_list = task_list[:-3].rstrip(",-")
    n_tasks = 0
    for task_range in task_list.split(","):
        bounds, _, step = task_range.partition(":")
        first, _, last = bounds.partition("-")
        step, last = step or "1", last or first
        are_numbers = first.isdecimal() and last.isdecimal() and step.isdecimal()
        if not are_numbers or len(task_range) > 40 or int(step) < 1:
            raise BadLineError(f"{job_id[:60]!r} is not a job id of an array")
        n_tasks += (int(last) - int(first)) // int(step) + 1
    if not 1 <= n_tasks <= 100_000:
        raise BadLineError(f"{array_id[:40]}_[...] has {n_tasks} tasks")
    return n_tasks
