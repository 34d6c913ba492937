"""PBS holder jobs: the commands that submit, list, shorten and end them, and what their output
means. Pure.

Reasons for the options of :func:`submit_argv`: ``--``, because the program is then the first
process of the job and the leader of its session, while a job *script* is run by a login shell,
which ends at SIGTERM before the payload does; PBS then waits for the rest of the session for
kill_delay, and with it the scheduler of the whole site. ``-r n``: a preempted holder must not start
again. ``-k oed``: PBS writes the output where it belongs and copies nothing at the end, which would
keep the node. ``-v``: the label, which tells the holders of two pilots apart and shows the node of
a pending one. No job arrays, as with Slurm.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Collection, Iterable, Sequence

from bftrainer.errors import SchedulerError, UnknownStateError
from bftrainer_clusters.pbs.config import PbsSettings
from bftrainer_clusters.pbs.text import (
    PbsRecord,
    natural_vnode,
    parse_length,
    parse_time,
    records_of,
    short_id,
    vnodes_of,
)
from bftrainer_clusters.simple import JobPhase, JobRecord, JobRequest

HOLDER_NAME = "bftrainer-holder"
LABEL = "BFTRAINER_HOLDER"
_LABEL_IN_VARIABLES = re.compile(rf"(?:^|,){LABEL}=([\w.:-]+)(?:,|$)", re.ASCII)
NEEDED = ("Job_Owner", "job_state", "queue")
"""Attributes that every job has, and its user does not write."""

# S and U: suspended, with memory and GPUs, so the job has to end. M: moved to another server.
PHASES = {
    **dict.fromkeys(("Q", "H", "W", "T"), JobPhase.WAITS),
    **dict.fromkeys(("R", "B"), JobPhase.RUNS),
    **dict.fromkeys(("S", "U"), JobPhase.SUSPENDED),
    "E": JobPhase.LEAVES,
    **dict.fromkeys(("F", "X", "M"), JobPhase.OVER),
}
_WALLTIME_STATUS = "-29"
_DELETED_SUBSTATE = "91"
_UNAUTHORIZED = re.compile(r"Unauthorized Request:?\s+(\d+)", re.ASCII)
_HARMLESS = re.compile(
    r"Unknown Job Id|Job has finished|Request invalid for state of job|Unauthorized Request",
    re.ASCII,
)


def submit_argv(settings: PbsSettings, job: JobRequest, cpus: int) -> list[str]:
    """Build the ``qsub`` command of one holder, for nodes with so many ``cpus`` each (0: not
    known).
    """
    amounts = [f"ncpus={cpus}"] if cpus else []
    if job.gpus:
        amounts.append(f"{settings.gpu_resource}={job.gpus}")
    if settings.chunk:
        amounts.append(settings.chunk)
    chunks = [
        ":".join((f"1:{settings.node_resource}={node}", *amounts))
        for node in (job.node, *job.beside)
    ]
    return [
        "qsub",
        "-q",
        settings.queue,
        *(["-A", settings.account] if settings.account else []),
        *(["-P", settings.project] if settings.project else []),
        "-r",
        "n",
        "-k",
        "oed",
        "-j",
        "oe",
        "-o",
        f"{job.output_folder}/" if job.output_folder else "/dev/null",
        "-m",
        "n",
        "-N",
        HOLDER_NAME,
        "-l",
        f"select={'+'.join(chunks)}",
        "-l",
        "place=scatter:exclhost" if job.beside else "place=exclhost",
        "-l",
        f"walltime={clock_time(60 * job.minutes)}",
        "-v",
        f"{LABEL}={job.label}",
        *settings.options,
        "--",
        *job.argv,
    ]


def clock_time(seconds: float) -> str:
    """Return a length of time as PBS takes it, HH:MM:SS."""
    minutes, rest = divmod(max(int(seconds), 1), 60)
    return f"{minutes // 60:02d}:{minutes % 60:02d}:{rest:02d}"


def parse_submitted(text: str) -> str:
    """Return the id in qsub's answer, ``445.head``."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if len(lines) != 1 or not re.fullmatch(r"\d+\.[\w.-]+", lines[0], re.ASCII):
        raise SchedulerError(f"qsub printed {text[:80]!r}, expected a job ID")
    return lines[0]


def own_argv(user: str, *options: str) -> list[str]:
    """Build the query for the ids of all holders of a user that are not over."""
    return ["qselect", "-u", user, "-N", HOLDER_NAME, *options]


def parse_ids(text: str) -> tuple[str, ...]:
    """Parse the answer of qselect: an id in each line. Raises ``SchedulerError``."""
    ids = tuple(line.strip() for line in text.splitlines() if line.strip())
    for id_ in ids:
        if not re.fullmatch(r"\d+(?:\[\d*\])?\.[\w.-]+", id_, re.ASCII):
            raise SchedulerError(f"qselect printed {id_[:60]!r}, expected a job ID")
    if text and not text.endswith("\n"):
        raise SchedulerError(f"output truncated: ...{text[-60:]!r}")
    return ids


def jobs_argv(ids: Iterable[str] = (), *options: str) -> list[str]:
    """Build the query for jobs; for all that are not over if no ids are given."""
    return ["qstat", *options, "-f", "-F", "dsv", *sorted(ids)]


def parse_jobs(text: str) -> tuple[PbsRecord, ...]:
    """Parse the answer to :func:`jobs_argv`. Raises ``SchedulerError``, and ``UnknownStateError``
    for a state that the manual does not have.
    """
    records = records_of(text, "Job Id", NEEDED)
    for record in records:
        if record.is_whole and record.get("job_state") not in PHASES:
            raise UnknownStateError("job", record.get("job_state"))
    return records


def phase_of(job: PbsRecord) -> JobPhase:
    """Return what the job's state means for its nodes."""
    return PHASES[job.get("job_state")]


def user_of(job: PbsRecord) -> str:
    """Return the user in the job's owner, ``user@host``."""
    return job.get("Job_Owner").partition("@")[0]


def label_of(job: PbsRecord) -> str:
    """Return the label of a holder; empty for any other job."""
    match = _LABEL_IN_VARIABLES.search(job.get("Variable_List"))
    return "" if match is None else match[1]


def ends_s(job: PbsRecord) -> float | None:
    """Return the end of a job's time limit; None while it does not run, and without a limit."""
    limit, start = job.get("Resource_List.walltime"), job.get("stime")
    if not limit or not start:
        return None
    return parse_time(start) + parse_length(limit)


def holder_record(job: PbsRecord, queue: str) -> JobRecord:
    """Build the record of a holder that was submitted to ``queue``. In another one, it may be no
    job that main jobs preempt.
    """
    runs = phase_of(job) is JobPhase.RUNS
    return JobRecord(
        short_id(job.id),
        label_of(job),
        job.get("job_state"),
        ends_s(job) if runs else None,
        _reason(job),
        "" if job.get("queue") == queue else f"in queue {job.get('queue')}, not {queue}",
        hosts_of(job) if runs else (),
    )


def hosts_of(job: PbsRecord) -> tuple[str, ...]:
    """Return the hosts in ``n1/0*8+n2/0*8``, each once; the first process is on the first one."""
    places = job.get("exec_host").split("+")
    return tuple(dict.fromkeys(host for place in places if (host := place.partition("/")[0])))


def _reason(job: PbsRecord) -> str:
    """Return why a job waits, or how it has ended."""
    if phase_of(job) is not JobPhase.OVER:
        return job.get("comment") if phase_of(job) is JobPhase.WAITS else ""
    status = job.get("Exit_status")
    if status == _WALLTIME_STATUS:
        return "time limit"
    if job.get("substate") == _DELETED_SUBSTATE:
        return "deleted"
    return f"exit status {status}" if status else ""


def cancel_argv(ids: Collection[str]) -> list[str]:
    """Build the command that ends jobs, pending or running."""
    assert ids, "qdel needs a job ID"
    return ["qdel", *sorted(ids)]


def refused_jobs(errors: str) -> frozenset[str]:
    """Return the jobs that qdel would not end, because they are another owner's: the same user on
    another host is another owner.
    """
    return frozenset(_UNAUTHORIZED.findall(errors))


def says_only_harmless(errors: str) -> bool:
    """Return whether every line of a failed command's standard error is about a job that is over,
    ends already, or is another owner's.
    """
    lines = [line for line in errors.splitlines() if line.strip()]
    return bool(lines) and all(_HARMLESS.search(line) for line in lines)


def signal_argv(ids: Collection[str], number: signal.Signals) -> list[str]:
    """Build the command that sends a signal to all processes of jobs."""
    assert ids, "qsig needs a job ID"
    return ["qsig", "-s", number.name, *sorted(ids)]


def release_argv(job: str, vnodes: Collection[str]) -> list[str]:
    """Build the command that takes vnodes from a running job, which keeps the others. PBS refuses
    those of the job's first process, and any in the job's first two seconds.
    """
    assert vnodes, "pbs_release_nodes needs a vnode"
    return ["pbs_release_nodes", "-j", job, *sorted(vnodes)]


def vnodes_on(place: str, hosts: Collection[str]) -> tuple[str, ...]:
    """Return the vnodes of these hosts in a job's exec_vnode. A host without any is its own: a site
    may name vnodes otherwise than after their hosts.
    """
    by_host: dict[str, list[str]] = {}
    for vnode in vnodes_of(place):
        by_host.setdefault(natural_vnode(vnode), []).append(vnode)
    return tuple(vnode for host in hosts for vnode in by_host.get(host, [host]))


def shorten_argv(job: str, ran_s: float, seconds: float) -> list[str]:
    """Build the command that lets a job, which has run for ``ran_s``, end after so many seconds
    more at the latest. A limit counts from the job's start; an owner may only lower it.
    """
    return ["qalter", "-l", f"walltime={clock_time(ran_s + seconds)}", job]


def node_count(job: PbsRecord) -> int:
    """Return how many nodes a job needs at most: its number of chunks."""
    text = job.get("Resource_List.nodect")
    return max(int(text), 1) if re.fullmatch(r"\d{1,7}", text, re.ASCII) else 1


def requested_hosts(job: PbsRecord) -> frozenset[str]:
    """Return the hosts that a job's request names (``host=n1``, ``vnode=n1``)."""
    select = job.get("Resource_List.select")
    return frozenset(re.findall(r"(?:host|vnode)=([\w.-]+)", select, re.ASCII))


def places_of(records: Sequence[PbsRecord]) -> list[str]:
    """Return the places of all jobs that have nodes, suspended ones included. Of a record whose
    attributes the user has hidden, every place that it names counts.
    """
    places = []
    for job in records:
        if not job.is_whole:
            text = "|".join(f"{key}={value}" for key, value in job.attributes.items())
            # Split, not searched: a long value must not cost more than its length.
            pairs = (piece.partition("=") for piece in re.split(r"\\?\|", text))
            places += [value for key, _, value in pairs if key.endswith("exec_vnode")]
        elif phase_of(job) in (JobPhase.RUNS, JobPhase.SUSPENDED, JobPhase.LEAVES):
            places.append(job.get("exec_vnode"))
    return [place for place in places if vnodes_of(place)]


def hides_tasks(array: PbsRecord, shown: Collection[int]) -> bool:
    """Return whether an array may have jobs with nodes that pbsnodes does not show: suspended ones,
    which the array counts as running. ``shown`` are the indices of its jobs that pbsnodes has shown
    after the array was listed.

    An index that was still to run when the array was listed has started since, and is not among
    those that are counted.
    """
    counts = dict(re.findall(r"(\w+):(\d{1,9})", array.get("array_state_count"), re.ASCII))
    remaining = _indices(array.get("array_indices_remaining"))
    if not array.is_whole or "Running" not in counts or remaining is None:
        return True
    had_nodes = int(counts["Running"]) + int(counts.get("Exiting", 0))
    return had_nodes > sum(not any(index in indices for indices in remaining) for index in shown)


def _indices(text: str) -> tuple[range, ...] | None:
    """Parse indices of an array, ``0-3,7,10-20:2`` or ``-`` for none; None for anything else."""
    if text == "-":
        return ()
    ranges = []
    for part in text.split(","):
        match = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9})(?::(\d{1,9}))?)?", part, re.ASCII)
        if match is None or match[3] == "0":
            return None
        first, last = int(match[1]), int(match[2] or match[1])
        ranges.append(range(first, last + 1, int(match[3] or 1)))
    return tuple(ranges)


def indices_by_array(ids: Iterable[str]) -> dict[str, set[int]]:
    """Return the indices of jobs of arrays among these ids (``411[2].head``), by the number of the
    array (``411``).
    """
    by_array: dict[str, set[int]] = {}
    for id_ in ids:
        if (match := re.match(r"(\d+)\[(\d{1,9})\]", id_, re.ASCII)) is not None:
            by_array.setdefault(match[1], set()).add(int(match[2]))
    return by_array


def may_have_nodes(line: bytes) -> bool:
    """Return whether a line of ``qstat -f -F dsv`` may be of a job that has nodes. Text of users
    cannot make it look as if it had none.
    """
    return b"exec_vnode=" in line
