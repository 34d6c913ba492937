"""Accounting lines of PBS Pro, OpenPBS, Torque and Cobalt: ``date time;KIND;job id;key=value ...``.

E ends a run, S starts one (and has no E where the job is still running), R ends one for a rerun.
Nodes are in ``exec_vnode`` (PBS on Cray, where exec_host is a service node) or ``exec_host``:
``n1/0*8+n2/0*8``, ``n1/7+n1/6``, ``n1/0-3,5``, Mira's blocks, Cobalt's ranges ``0-3,7``. Times are
epochs, except that R, z, r, u and c records use the line's own local time. PBS Pro and OpenPBS
write records of a whole array (``4[]``) beside those of its jobs (``4[1]``).

PBS Pro and OpenPBS also write z when a job is suspended and r when it is resumed. A suspended job
keeps memory and GPUs of its nodes, so that these are not idle, but it uses nothing: other jobs may
run there. u ends a phase of a job that gives nodes back, and c has those that it keeps; its E
record names all of them again (OpenPBS 23.06). A job with such records becomes several runs.

The nodes that a job held are in exec_host; ``Resource_List.nodect`` is its request, or counts
chunks, ppn or blocks. Where exec_host is a plain number of another meaning (``exec_host=10`` with
2,048 nodes, as in a log of CEA Curie), the request is the only size in the log.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from bftrainer.config.host_lists import MOST_NODES
from bftrainer.counted import counted
from bftrainer_replay.logs.fields import count_of, is_node_name, name_of
from bftrainer_replay.logs.job_needs import NO_USE, JobFact, JobNeeds, JobUse
from bftrainer_replay.logs.jobs import BadLineError
from bftrainer_replay.logs.slurm_needs import elapsed_s
from bftrainer_replay.logs.source import Source
from bftrainer_replay.logs.torus import MIRA_SHAPE, all_nodes, is_block, nodes_of_block

NAME = "PBS/Torque/Cobalt accounting"
_LINE = re.compile(r"(\d\d)/(\d\d)/(\d{4}) (\d\d:\d\d:\d\d);([A-Za-z]+);([^;]*);(.*)", re.DOTALL)
_RANGES = re.compile(r"\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*")
_ARRAY_PARENT = re.compile(r"\d+\[\](?:\.|$)")
"""The id of a whole array, which holds no node itself; its jobs are ``4[1]``."""
_CHANGES = ("z", "r", "c")
"""Kinds of records that change a run. The u record before a c has the nodes until then."""
_RESERVATION_RECORDS = ("B", "K", "F")
_VNODE = re.compile(r"\[\d+\]$")  # a vnode is a part of a host: node[0], node[1]


class _PbsRun(NamedTuple):
    """A run as its S or E record has it; the fields are the arguments of :meth:`JobRows.add`, in
    the same order.
    """

    submit_s: float
    eligible_s: float
    start_s: float
    end_s: float
    node_count: int
    nodes: Sequence[int] | None
    limit_s: float
    needs: int
    use: int

    def add(self, source: Source, end_s: float) -> None:
        """Add the run, which ends at ``end_s``, to the rows of the log."""
        source.rows.add(*self._replace(end_s=end_s))


def recognizes(head: str) -> bool:
    """Return whether the first line of the head is an accounting record of PBS, Torque or
    Cobalt.
    """
    line = next((line for line in head.splitlines() if line), "")
    return bool(_LINE.match(line))


def read(source: Source) -> None:
    """Add the runs of all S, E and R records to the rows, count records of other kinds, add
    remarks.

    A log whose exec_host turns out not to name nodes is read again, without names.
    """
    try:
        reader = _read_runs(source, has_names=True)
    except _NoNodesError as problem:
        source.read_again()
        reader = _read_runs(source, has_names=False)
        source.remarks.append(
            f"{problem}: node counts come from Resource_List.nodect, and the log names no nodes"
        )
    if reader.n_other_sizes:
        source.remarks.append(
            f"{counted(reader.n_other_sizes, 'job')} held another number of nodes (exec_host) "
            "than they asked for (Resource_List.nodect): "
            "those that they held count"
        )
    if reader.suspended:
        source.remarks.append(
            f"{counted(len(reader.suspended), 'suspended job')} (z records): their nodes do not "
            "count as idle meanwhile, because a suspended job keeps memory and GPUs; each part of "
            "such a run counts as a job"
        )
    if reader.shrunk:
        source.remarks.append(
            f"{counted(len(reader.shrunk), 'job')} with nodes that were released before its end "
            "(c records): they count as idle from then on"
        )


def _read_runs(source: Source, *, has_names: bool) -> _PbsReader:
    """Add the runs of all lines to the rows; return the reader, which has counts for remarks.

    Runs without an end still run at the end of the log. ``has_names``: exec_host names nodes.
    Raises :class:`_NoNodesError` if it turns out not to.
    """
    running: dict[str, _Phases] = {}  # by job id
    reader = _PbsReader(source, has_names)
    for number, line in source.lines:
        if line:
            source.tally.take(number, line, reader.record, line, running)
    for phases in running.values():
        phases.add(source, math.inf)
    return reader


@dataclass(frozen=True, slots=True)
class _Phase:
    """A part of a run from ``start_s`` on: on these ``nodes``, and with ``use`` of them."""

    start_s: float
    node_count: int
    nodes: Sequence[int] | None
    use: int


class _Phases:
    """What changes while a job runs, in the order of the log. Its first phase is the run itself."""

    def __init__(self, run: _PbsRun) -> None:
        self.run = run
        self._later: list[_Phase] = []
        self._node_count, self._nodes = run.node_count, run.nodes

    def suspend(self, at_s: float, use: int) -> None:
        """The job is suspended; ``use`` is that of a job that uses nothing."""
        self._put(at_s, use)

    def resume(self, at_s: float) -> None:
        self._put(at_s, self.run.use)

    def shrink(self, at_s: float, kept: _PbsRun) -> None:
        """The job goes on with the nodes of ``kept``. The use of a node stays the same."""
        self._node_count, self._nodes = kept.node_count, kept.nodes
        self._put(at_s, self.run.use)

    def _put(self, at_s: float, use: int) -> None:
        self._later.append(_Phase(at_s, self._node_count, self._nodes, use))

    def add(self, source: Source, end_s: float) -> None:
        """Add all phases to the rows of the log. The times of records are local: one outside of the
        run, or out of order, is moved to the nearest time that is possible.
        """
        run = self.run
        start_s = run.start_s
        for phase in self._later:
            phase_s = min(max(phase.start_s, start_s), end_s)
            # A phase that ends when it begins is no part of the run.
            if phase_s > start_s:
                run.add(source, phase_s)
            # Only the first phase has waited in the queue.
            run = run._replace(
                submit_s=run.submit_s if phase_s == run.start_s else phase_s,
                eligible_s=run.eligible_s if phase_s == run.start_s else phase_s,
                start_s=phase_s,
                node_count=phase.node_count,
                nodes=phase.nodes,
                use=phase.use,
            )
            start_s = phase_s
        # A run without length is kept once, as a job that never got nodes.
        if end_s > start_s or start_s == self.run.start_s:
            run.add(source, end_s)


class _NoNodesError(Exception):
    """exec_host holds something else than nodes."""


class _PbsReader:
    """Turns accounting records into runs; with ``has_names``, exec_host names nodes.
    ``n_other_sizes`` counts jobs that held another number of nodes than they asked for;
    ``suspended`` and ``shrunk`` are the jobs of which z and c records tell that.
    """

    def __init__(self, source: Source, has_names: bool) -> None:
        """Prepare to read the records of ``source``; nothing has been counted yet."""
        self._source = source
        self._has_names = has_names
        self.n_other_sizes = 0
        self.suspended: set[str] = set()
        self.shrunk: set[str] = set()
        self._no_use = source.rows.use(NO_USE)
        self._nodes_of_place: dict[str, Sequence[int]] = {}  # of short texts, which often repeat

    def record(self, line: str, running: dict[str, _Phases]) -> str | None:
        """Take one accounting record; return why it is ignored, or None.

        S begins a run in ``running`` (by job id); E and R end it, which adds it to the rows; z, r
        and c change it.
        """
        match = _LINE.fullmatch(line)
        if not match:
            raise BadLineError(
                "is not an accounting record, expected MM/DD/YYYY HH:MM:SS;KIND;JOB;key=value ..."
            )
        month, day, year, clock, kind, job, message = match.groups()
        local_time = f"{year}-{month}-{day}T{clock}"
        if kind in _CHANGES:
            return self._change_run(kind, job, local_time, message, running)
        if kind not in ("S", "E", "R"):
            return f"{kind} records" if len(kind) < 4 else "records of other kinds"
        if not job:
            raise BadLineError("has no job id")
        if _ARRAY_PARENT.match(job):
            return "of whole arrays, which hold no node"
        if kind == "R" and "start=" not in message:
            phases = running.pop(job, None)
            if phases is None:
                return "R records without a known run"
            at_s = self._source.clock.seconds(local_time)
            # The line's time is local: if it is before the start, the zone is wrong or clocks
            # were set.
            phases.add(self._source, max(at_s, phases.run.start_s))
            return None
        values = _parse_values(message)
        run = self._parsed_run(values, kind)
        if kind == "S":
            if math.isnan(run.start_s):
                raise BadLineError("has no start=")
            running[job] = _Phases(run)
            return None
        started = running.pop(job, None)
        end_s = self._time(values, "end")
        if math.isnan(end_s):
            raise BadLineError("has no end=")
        # The record lacks the start: the whole run is taken from its S record.
        if math.isnan(run.start_s) and started is not None:
            run = started.run
        # Another start is another run, whose S record the log lacks.
        if started is not None and started.run.start_s == run.start_s:
            started.add(self._source, end_s)
        else:
            run.add(self._source, end_s)
        return None

    def _change_run(
        self, kind: str, job: str, local_time: str, message: str, running: dict[str, _Phases]
    ) -> str | None:
        """Take a record that changes a run; return why it is ignored, or None.

        The job is suspended (z), resumed (r), or goes on with fewer nodes (c).
        """
        phases = running.get(job)
        if phases is None:
            return f"{kind} records without a known run"
        at_s = self._source.clock.seconds(local_time)
        if kind == "z":
            self.suspended.add(job)
            phases.suspend(at_s, self._no_use)
        elif kind == "r":
            phases.resume(at_s)
        else:
            self.shrunk.add(job)
            phases.shrink(at_s, self._parsed_run(_parse_values(message), "S"))
        return None

    def _parsed_run(self, values: dict[str, str], kind: str) -> _PbsRun:
        """Return the run of an S or E record (``kind``) from its ``values`` (key=value).

        Raises :class:`BadLineError`, or :class:`_NoNodesError` if exec_host holds something else
        than nodes.
        """
        submit_s, eligible_s, queued_s, start_s = (
            self._time(values, key) for key in ("ctime", "etime", "qtime", "start")
        )
        if math.isnan(submit_s):
            submit_s = queued_s
        if math.isnan(eligible_s):
            eligible_s = queued_s
        has_run = not math.isnan(start_s)
        place = values.get("exec_vnode") or values.get("exec_host", "")
        if has_run and not place:
            raise BadLineError("the job ran, but has no exec_host")
        nodes: Sequence[int] | None = ()
        if has_run:
            nodes = self._nodes(place) if self._has_names else None
        # Torque's nodect may be 1:ppn=24. Without nodect, a run has the size of its nodes, or 1.
        text = values.get("Resource_List.nodect", str(len(nodes or (1,))))
        node_count = count_of(text.partition(":")[0], "nodes (Resource_List.nodect)")
        if nodes and len(nodes) != node_count:
            # A single number cannot stand for several nodes.
            if place.isdecimal():
                raise _NoNodesError(
                    f"exec_host holds something else than nodes ({place[:20]} for "
                    f"{node_count:,} nodes)"
                )
            # PBS Pro counts chunks, of which a host may have several. An S record has the same
            # nodes as its E record, so the job is counted once.
            if kind != "S" and place.count("+") + 1 != node_count:
                self.n_other_sizes += 1
            node_count = len(nodes)
        limit_s, needs, use = self._run_needs(values, node_count)
        return _PbsRun(
            submit_s=submit_s,
            eligible_s=eligible_s,
            start_s=start_s,
            end_s=math.inf,
            node_count=node_count,
            nodes=nodes,
            limit_s=limit_s,
            needs=needs,
            use=use,
        )

    def _run_needs(self, values: dict[str, str], node_count: int) -> tuple[float, int, int]:
        """Return a run's time limit in seconds, and the numbers (of :class:`JobRows`) of its needs
        and use.
        """
        limit_s = elapsed_s(values.get("Resource_List.walltime", ""))
        queue = values.get("queue", "")[:255]
        cores, gpus = (
            _parse_count(values, f"Resource_List.{name}") / max(node_count, 1)
            for name in ("ncpus", "ngpus")
        )
        devices = (("gpu", gpus),) if gpus else ()
        facts, rows = self._source.facts, self._source.rows
        if not math.isnan(limit_s):
            facts.add(JobFact.TIME_LIMIT)
        if queue:
            facts.add(JobFact.PARTITION)
        if cores:
            facts.update((JobFact.RESOURCES, JobFact.USE))
        needs = JobNeeds(
            partition=queue if is_node_name(queue) else "",
            cores=cores,
            devices=devices,
            account=name_of(values.get("account") or values.get("project", "")),
        )
        return limit_s, rows.needs(needs), rows.use(JobUse(cores, devices))

    def _time(self, values: dict[str, str], key: str) -> float:
        return self._source.clock.seconds(values.get(key, ""))

    def _nodes(self, place: str) -> Sequence[int]:
        """Return the numbers of the nodes in exec_host or exec_vnode; short texts are cached."""
        nodes = self._nodes_of_place.get(place)
        if nodes is None:
            nodes = nodes_of(self._source, place)
            if len(self._nodes_of_place) < 10_000 and len(place) < 64:
                self._nodes_of_place[place] = nodes
        return nodes


def nodes_of(source: Source, place: str) -> Sequence[int]:
    """Return the numbers of the nodes in ``place``: exec_host, exec_vnode or Cobalt's location.

    Raises :class:`ValueError`. The first block of Mira (a box of its torus of nodes) declares all
    nodes of the torus.
    """
    if is_block(place):
        if source.machine_nodes is None:
            torus = all_nodes()
            source.rows.declare(torus)
            source.machine_nodes = len(torus)
            source.machine_why = f"Mira's torus {'x'.join(map(str, MIRA_SHAPE))}"
        return source.rows.ids(nodes_of_block(place))
    return source.rows.ids(
        _numbered_hosts(place) if _RANGES.fullmatch(place) else _parse_hosts(place)
    )


@dataclass(frozen=True, slots=True)
class ReservationRecord:
    """A record of a reservation: it begins (``nodes``, from ``start_s`` to ``end_s``), or it ends
    at ``at_s`` and has no nodes.
    """

    id: str
    at_s: float
    nodes: tuple[str, ...] = ()
    start_s: float = math.nan
    end_s: float = math.nan


def reservation_record(source: Source, line: str) -> ReservationRecord | None:
    """Return the record of a reservation (kinds B, K, F); None for all other accounting records.

    Raises :class:`ValueError`.
    """
    match = _LINE.fullmatch(line)
    if match is None or match[5] not in _RESERVATION_RECORDS:
        return None
    month, day, year, clock, kind, id_, message = match.groups()
    at_s = source.clock.seconds(f"{year}-{month}-{day}T{clock}")
    if kind != "B":
        return ReservationRecord(id_, at_s)
    values = _parse_values(message)
    start_s, end_s = (source.clock.seconds(values.get(key, "")) for key in ("start", "end"))
    if math.isnan(start_s) or math.isnan(end_s) or "nodes" not in values:
        raise BadLineError("the reservation has no start, end or nodes")
    return ReservationRecord(id_, at_s, tuple(_parse_hosts(values["nodes"])), start_s, end_s)


def _parse_values(message: str) -> dict[str, str]:
    return dict(piece.split("=", 1) for piece in message.split(" ") if "=" in piece)


def _parse_count(values: dict[str, str], key: str) -> int:
    text = values.get(key, "")
    return int(text) if text.isdecimal() and len(text) <= 9 else 0


def _parse_hosts(place: str) -> dict[str, None]:
    """Return the host names in exec_host or exec_vnode, each once.

    "r1i0n3/0*8+r1i0n4/0" -> r1i0n3, r1i0n4. Raises :class:`BadLineError`.
    """
    names: dict[str, None] = {}
    for chunk in place.replace("(", "").replace(")", "").split("+"):
        name = chunk.partition("/")[0].partition(":")[0]
        name = _VNODE.sub("", name)
        if not is_node_name(name):
            raise BadLineError(f"{chunk[:40]!r} in exec_host is not a node")
        names[name] = None
    return names


def _numbered_hosts(place: str) -> list[str]:
    """Return the names of nodes in ranges of their numbers: "3,7-8" -> nid00003, nid00007,
    nid00008.

    Raises :class:`BadLineError`.
    """
    names: list[str] = []
    for piece in place.split(","):
        if len(piece) > 20:
            raise BadLineError(f"{piece[:40]!r} is not a range of nodes")
        first_text, _, last_text = piece.partition("-")
        first, last = int(first_text), int(last_text or first_text)
        if not 0 <= last - first <= MOST_NODES:
            raise BadLineError(f"{piece[:40]!r} is not a range of nodes")
        names.extend(f"nid{number:05d}" for number in range(first, last + 1))
        if len(names) > MOST_NODES:
            raise BadLineError(f"more than {MOST_NODES:,} nodes in one job")
    return names
