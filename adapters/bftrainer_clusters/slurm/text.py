"""Parsers of the text that Slurm's commands print; pure. The commands are in observe.py.

Tried with 22.05.8 on a real cluster, and with recordings of 24.11.7, 25.11.2 and 26.05.2. Every
function raises :class:`~bftrainer.errors.SchedulerError` with the text that it does not understand:
truncated or missing output is not an empty cluster.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace

from bftrainer.cluster.model import Hidden, Idle, NodeView, PendingJob, Reservation
from bftrainer.decide.yielding.facts import JobCounters
from bftrainer.errors import SchedulerError
from bftrainer_clusters.slurm.hostlists import NOTHING, HostLists
from bftrainer_clusters.slurm.records import fields_of, is_number, parse_records
from bftrainer_clusters.slurm.states import idle_gpus, node_view, with_idle

# Only what Slurm itself writes: names and comments of other users are not needed. %A, not %i: an
# array that is pending and each component of a heterogeneous job have one id. The reason comes
# last: it may quote a plug-in's text.
JOB_FORMAT = "%A|%u|%P|%S|%Y|%D|%r"
_JOB_HEADER = "JOBID|USER|PARTITION|START_TIME|SCHEDNODES|NODES|REASON"
# The reasons for which a job is not eligible (https://slurm.schedmd.com/job_reason_codes.html).
NOT_ELIGIBLE = (
    "BeginTime",
    "Dependency",
    "DependencyNeverSatisfied",
    "JobHeldAdmin",
    "JobHeldUser",
)
_NO_RESERVATIONS = "No reservations in the system"
_FREE_TEXT = re.compile(r"\s(?:Comment|Extra|Reason)=", re.ASCII)
"""Where administrators' words begin; Slurm prints its own fields of a node before them."""


def parse_nodes(text: str) -> tuple[NodeView, ...]:
    """Parse ``scontrol -a -o show node``, also with ``-d``: a record per node, ``Key=Value`` with
    blanks in some values.

    A comment or reason may contain line breaks, so a record begins where a line begins with
    ``NodeName=``. Only operators can write these texts.
    """
    nodes = [_node_view(record) for record in _beginning_with("NodeName", text, "nodes")]
    for name, n_records in Counter(node.name for node in nodes).items():
        if n_records > 1:
            raise SchedulerError(f"node {name} is listed twice")
    return tuple(nodes)


_ALSO_ASKED_FOR = (
    "Gres",
    "Sockets",
    "CoresPerSocket",
    "ThreadsPerCore",
    "TmpDisk",
    "Arch",
)
"""What else a job may ask of its nodes: ``--gres=nvme:1``, ``-B``, ``--tmp``."""


def _node_view(record: str) -> NodeView:
    """Parse the record of one node; one that was asked for with ``-d`` has an idle part as well."""
    slurms_fields = _FREE_TEXT.split(record, maxsplit=1)[0]
    name = value_of(slurms_fields, "NodeName")
    state = value_of(slurms_fields, "State")
    cpus = value_of(slurms_fields, "CPUTot", "")
    gres = value_of(slurms_fields, "Gres", "")
    if gres in NOTHING:
        gres = ""
    partitions = _listed_words(value_of(slurms_fields, "Partitions", ""))
    last_busy = value_of(slurms_fields, "LastBusyTime", "")
    node = node_view(
        name,
        state,
        partitions,
        gres,
        cpus=int(cpus) if is_number(cpus) else 0,
        last_busy_s=float(last_busy) if is_number(last_busy) else 0.0,
    )
    memory = value_of(slurms_fields, "RealMemory", "")
    node = replace(
        node,
        features=frozenset(_listed_words(value_of(slurms_fields, "AvailableFeatures", "(null)"))),
        memory_mib=int(memory) if is_number(memory) else 0,
        rest="|".join([value_of(slurms_fields, key, "") for key in _ALSO_ASKED_FOR]),
    )
    if not value_of(slurms_fields, "GresUsed", ""):
        return node
    return with_idle(node, _idle_part(slurms_fields, gres))


def _idle_part(record: str, gres: str) -> Idle | None:
    """Return the part of a node that no job has, without the cores and memory that the node keeps
    for itself; None if its GPUs cannot be held one by one. The record is of a node that was asked
    for with ``-d``.
    """
    gpus = idle_gpus(gres, value_of(record, "GresUsed", ""), value_of(record, "GresDrain"))
    if gpus is None:
        return None
    cpus = _count_field(record, "CPUEfctv") - _count_field(record, "CPUAlloc")
    reserved = value_of(record, "MemSpecLimit", "")
    reserved_mib = int(reserved) if is_number(reserved) else 0
    total_mib = _count_field(record, "RealMemory")
    idle_mib = total_mib - _count_field(record, "AllocMem") - reserved_mib
    return Idle(gpus, max(cpus, 0), max(idle_mib, 0), total_mib)


def _count_field(record: str, key: str) -> int:
    """Return the number of a field. Raises ``SchedulerError`` if it is missing, or no number."""
    if not is_number(value := value_of(record, key)):
        raise SchedulerError(f"{key}={value[:40]!r} is not a number in {record[:80]!r}")
    return int(value)


def parse_pending(text: str, mark: str) -> tuple[PendingJob, ...]:
    """Parse the pending jobs in ``squeue -o JOB_FORMAT|mark``; the header tells an empty queue from
    missing output. Raises ``SchedulerError``.
    """
    lists = HostLists()
    return tuple(
        _pending_job(record, lists) for record in parse_records(text, mark, _JOB_HEADER, "jobs")
    )


def parse_reservations(text: str) -> tuple[Reservation, ...]:
    """Parse ``scontrol -a show reservation``, with or without ``-o``; times are in seconds
    (SLURM_TIME_FORMAT=%s).
    """
    if text.strip() == _NO_RESERVATIONS:
        return ()
    reservations, lists = [], HostLists()
    for record in _beginning_with("ReservationName", text, "reservations"):
        line = _FREE_TEXT.split(record, maxsplit=1)[0]
        name = value_of(line, "ReservationName")
        reservations.append(
            Reservation(
                name,
                _epoch_seconds(value_of(line, "StartTime"), name),
                _epoch_seconds(value_of(line, "EndTime"), name),
                lists.read(value_of(line, "Nodes", "")),
            )
        )
    return tuple(reservations)


def parse_times(text: str) -> tuple[float, float | None]:
    """Return from sdiag's output the time of slurmctld and the time of its latest backfill cycle
    (None: there was none since slurmctld started), both in seconds since 1970. Raises
    ``SchedulerError`` without the first one.
    """
    server_time = re.search(r"^sdiag output at .* \((\d+)\)$", text, re.MULTILINE)
    if server_time is None:
        first_line = next((line for line in text.split("\n") if line.strip("* ")), "nothing")
        raise SchedulerError(
            f"sdiag does not show the server's time in seconds: {first_line[:80]!r}"
        )
    cycle_time = re.search(
        r"^Backfilling stats.*?Last cycle when: .*? \((\d+)\)$", text, re.MULTILINE | re.DOTALL
    )
    cycle_s = None
    if cycle_time is not None and int(cycle_time[1]) > 0:  # 0: no cycle yet
        cycle_s = float(cycle_time[1])
    return float(server_time[1]), cycle_s


_COUNTERS = ("submitted", "started", "completed", "canceled", "failed")


def parse_counters(text: str) -> JobCounters:
    """Return from sdiag's output how many jobs of all users were submitted, started and ended since
    midnight or ``sdiag --reset``.

    ``pending`` is up to 30 s old. While a backfill cycle goes on, the time of the latest cycle is
    None. Raises ``SchedulerError`` if a number is missing.
    """
    at_s, cycle_s = parse_times(text)
    counts = {
        word: int(number)
        for word, number in re.findall(r"^Jobs (\w+):\s+(\d{1,18})$", text, re.MULTILINE)
    }
    if missing := [word for word in _COUNTERS if word not in counts]:
        raise SchedulerError(f"sdiag does not show the line 'Jobs {missing[0]}:'")
    pending_time = re.search(r"^Job states ts:.* \((\d+)\)$", text, re.MULTILINE)
    is_planning = re.search(r"^Backfilling stats \(WARNING", text, re.MULTILINE)
    return JobCounters(
        at_s,
        counts["submitted"],
        counts["started"],
        counts["completed"] + counts["canceled"] + counts["failed"],
        counts.get("pending", 0),
        float(pending_time[1]) if pending_time else 0.0,
        None if is_planning else cycle_s,
    )


def parse_hidden(text: str, user: str) -> frozenset[Hidden]:
    """Return the kinds of data that PrivateData hides from ``user``, by ``scontrol show config``;
    nothing is hidden from root and SlurmUser. Raises ``SchedulerError`` if PrivateData is missing.
    """
    lines = re.finditer(r"^(PrivateData|SlurmUser)\s*=(.*)$", text, re.MULTILINE)
    config = {line[1]: line[2].strip() for line in lines}
    if "PrivateData" not in config:
        raise SchedulerError("scontrol show config does not show PrivateData")
    if user in ("root", config.get("SlurmUser", "").partition("(")[0]):
        return frozenset()
    words = set(config["PrivateData"].lower().split(","))
    return frozenset(kind for kind in Hidden if words & {kind.value, "all"})


def hides_jobs(text: str, user: str) -> bool:
    """Return whether other users' jobs are hidden from ``user``, by ``scontrol show config``."""
    return Hidden.JOBS in parse_hidden(text, user)


def parse_has_epilog(text: str) -> bool:
    """Return whether slurmd runs a program after each job, by ``scontrol show config``.

    22.05 prints ``Epilog = (null)`` where there is none; 24.11 and later print no line, or
    ``Epilog[0] = ...``.
    """
    programs = re.findall(r"^Epilog(?:\[\d+\])?\s*=\s*(\S*)", text, re.MULTILINE)
    if not programs and not re.search(r"^Epilog(MsgTime|Slurmctld)\s*=", text, re.MULTILINE):
        raise SchedulerError(
            "scontrol show config shows no line of Epilog: the output is truncated"
        )
    return any(value not in NOTHING for value in programs)


def parse_has_cgroups(text: str) -> bool:
    """Return whether a step lasts until its cgroup is empty, by ``scontrol show config``."""
    return bool(re.search(r"^ProctrackType\s*=\s*(proctrack/)?cgroup\s*$", text, re.MULTILINE))


def _pending_job(record: str, lists: HostLists) -> PendingJob:
    """Parse a record of :data:`JOB_FORMAT` into a pending job."""
    job, user, partitions, start, nodes, size, reason = fields_of(record, 7)
    if not is_number(size):
        raise SchedulerError(f"squeue: record truncated or garbled: {record[:80]!r}")
    return PendingJob(
        id=job,
        user=user,
        partitions=_listed_words(partitions),
        size=int(size),
        starts_s=None if start in NOTHING else _epoch_seconds(start, f"job {job}"),
        nodes=lists.read(nodes),
        is_eligible=reason not in NOT_ELIGIBLE,
    )


def whole_lines(text: str, what: str) -> list[str]:
    """Return the lines of an output. Raises ``SchedulerError`` if it is empty, or does not end with
    a whole line.
    """
    if not text.strip():
        raise SchedulerError(f"Slurm printed nothing about {what}")
    if not text.endswith("\n"):
        raise SchedulerError(f"the output about {what} is truncated: ...{text[-60:]!r}")
    return [line for line in text.split("\n") if line.strip()]


def _beginning_with(key: str, text: str, what: str) -> list[str]:
    """Split an output into records, each of which begins with ``key=`` at the beginning of a line.
    ``what`` names the records in errors. Raises ``SchedulerError`` if the output is empty or
    truncated, or begins otherwise.
    """
    whole_lines(text, what)
    head, *records = re.split(rf"^(?={key}=)", text, flags=re.MULTILINE)
    if head.strip():
        raise SchedulerError(f"no {key} in {head[:80]!r}")
    return records


def value_of(line: str, key: str, default: str | None = None) -> str:
    """Return the value of ``key=`` in a line, up to a blank. Raises ``SchedulerError`` if it is
    missing and has no default.
    """
    if match := re.search(rf"(?:^|[ \n]){key}=(\S*)", line):
        return match[1]
    if default is None:
        raise SchedulerError(f"no {key} in {line[:80]!r}")
    return default


def _listed_words(text: str) -> tuple[str, ...]:
    """Return the words of a list with commas; none for Slurm's words for nothing."""
    return () if text in NOTHING else tuple(text.split(","))


def _epoch_seconds(text: str, what: str) -> float:
    """Parse a time in seconds since 1970. Raises ``SchedulerError`` about ``what`` for another
    text.
    """
    if not is_number(text):
        raise SchedulerError(
            f"{what}: {text[:40]!r} is not a time in seconds (SLURM_TIME_FORMAT=%s)"
        )
    return float(text)
