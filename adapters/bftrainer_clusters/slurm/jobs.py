"""Holder jobs: the commands that submit, list and cancel them, and their output. Pure. Tried with
Slurm 22.05.8.

A holder of a part of a node bounds its cores and memory instead; steps with ``--overlap --mem=0``
get all of the job's.

Reasons for the options of :func:`submit_argv`: ``--exclusive`` alone gives steps neither all memory
(``--mem=0``; else the default memory, 800 of 2,000 MB) nor any GPU (``--gres``). ``--no-requeue``:
a preempted holder must not start again. No job arrays: a task cannot be canceled by its raw id. No
``-c`` and no ``--exact``: steps would see only a part of the node.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from bftrainer.cluster.model import NodeRequest
from bftrainer.errors import SchedulerError, UnknownStateError
from bftrainer.fragment_names import fragment_name, id_in_job
from bftrainer_clusters.holding.holder_jobs import JobPhase, limit_minutes
from bftrainer_clusters.on_node.payload import NOTICE
from bftrainer_clusters.slurm.config import SlurmSettings
from bftrainer_clusters.slurm.hostlists import NOTHING, parse_hostlist
from bftrainer_clusters.slurm.job_list import HOLDER_NAME, JobList
from bftrainer_clusters.slurm.records import MarkedQuery, fields_of, is_number, parse_records

PAYLOAD_STEP = "bftrainer-payload"
LIST_FORMAT = "%A|%T|%n|%e|%r|%k"
_LIST_HEADER = "JOBID|STATE|REQ_NODES|END_TIME|REASON|COMMENT"
_NODES_FORMAT = "%i|%N"
_NODES_HEADER = "JOBID|NODELIST"
_STEP_HEADER = "STEPID|NAME"
LAST_IN_QUEUE = "--nice=2147483645"
"""The option of sbatch by which a holder comes after main jobs, where priorities differ at all: the
largest nice value that Slurm takes.
"""
STEP_END = "end"
"""Ends a record of a step. It is no secret: only the user of a job can name its steps, and squeue
takes the format of steps from its arguments only.
"""
_ID_FORMAT = "%A"
_ID_HEADER = "JOBID"

_ACCEPTS = " (failed checks accepted by the user: "
_COMMENT_ENDS = (_ACCEPTS, "; wants ", "; hosts ")

JOB_PHASES = {
    **dict.fromkeys(
        ("PENDING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT"), JobPhase.WAITS
    ),
    **dict.fromkeys(("RESV_DEL_HOLD", "POWER_UP_NODE", "EXPEDITING"), JobPhase.WAITS),
    **dict.fromkeys(("RUNNING", "CONFIGURING", "STOPPED", "SIGNALING", "RESIZING"), JobPhase.RUNS),
    "SUSPENDED": JobPhase.SUSPENDED,
    **dict.fromkeys(("COMPLETING", "STAGE_OUT"), JobPhase.LEAVES),
    **dict.fromkeys(
        ("COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL"),
        JobPhase.OVER,
    ),
    **dict.fromkeys(
        ("DEADLINE", "OUT_OF_MEMORY", "REVOKED", "LAUNCH_FAILED", "RECONFIG_FAIL"), JobPhase.OVER
    ),
}


@dataclass(frozen=True, slots=True)
class HolderJob:
    """A holder as squeue lists it. ``state`` is Slurm's word, ``ends_s`` the end of its time limit
    while it runs.

    ``node`` is what it was submitted for, one node or a list, also after it has given some of them
    back.
    """

    id: str
    state: str
    node: str
    ends_s: float | None
    reason: str
    has: tuple[str, ...] | None = None
    """The nodes that a job of several still has, if that was asked for (:func:`nodes_query`)."""

    @property
    def phase(self) -> JobPhase:
        return JOB_PHASES[self.state]

    @property
    def separable(self) -> frozenset[str]:
        """None: Slurm loses sight of a node that a job gives back (several_nodes.py)."""
        return frozenset()

    @property
    def is_for_several(self) -> bool:
        """Whether the holder job was submitted for several nodes: a list of names contains a comma
        or a range.
        """
        return any(sign in self.node for sign in ",[")

    @property
    def fragments(self) -> tuple[str, ...]:
        if not self.is_for_several:
            return (fragment_name(self.node, self.id),)
        nodes = sorted(parse_hostlist(self.node)) if self.has is None else self.has
        return tuple(fragment_name(node, id_in_job(self.id, node)) for node in nodes)


def comment(pilot: str, user: str) -> str:
    """Return the comment of holders, which administrators read in squeue; it also tells the holders
    of two pilots apart.
    """
    return f"bftrainer: idle node held by pilot {pilot} of {user}; released at once when needed"


def accepts(names: Iterable[str]) -> str:
    """Return the end of a holder's comment that names the checks of the site that fail and that the
    user has accepted; empty if there are none.
    """
    words = ", ".join(names)
    return f"{_ACCEPTS}{words})" if words else ""


def submit_argv(
    settings: SlurmSettings,
    request: NodeRequest,
    comment: str,
    command: Iterable[str],
    log: Path,
    beside: tuple[str, ...] = (),
) -> list[str]:
    """Build the ``sbatch`` command of one holder, for a node and those ``beside`` it; ``command``
    is the job script with its arguments.
    """
    size = 1 + len(beside)
    # Slurm refuses --gres=gpu beside --gpus-per-node.
    gpus = f"gpu:{request.gpus}" if request.gpus and not settings.gpu_options else ""
    partition, qos = settings.partition, settings.qos
    if request.cpus:
        partition, qos = settings.parts_partition or partition, settings.parts_qos or qos
    chosen = [
        *(["-p", partition] if partition else []),
        *(["-q", qos] if qos else []),
        *(["-A", settings.account] if settings.account else []),
        *([f"--gres={gres}"] if (gres := settings.gres or gpus) else []),
    ]
    part_of_node = ["-c", str(request.cpus), f"--mem={request.mib}"]
    whole_node = ["--exclusive", *_memory_of_node(settings)]
    return [
        "sbatch",
        "--parsable",
        *chosen,
        f"-N{size}",
        f"-n{size}",
        "-w",
        ",".join((request.node, *beside)),
        *(part_of_node if request.cpus else whole_node),
        "-t",
        str(limit_minutes(request.window_s, settings.longest_s)),
        "--no-requeue",
        "-J",
        HOLDER_NAME,
        f"--signal={NOTICE}@0",
        "--chdir=/",  # a step starts in the folder, and could not end if its file system hung
        f"--comment={comment}",
        "-o",
        str(log),
        "--open-mode=append",
        *settings.options,
        *command,
    ]


def _memory_of_node(settings: SlurmSettings) -> list[str]:
    """Return the request for memory of a holder that has its node alone; none if ``options`` have
    one, since Slurm refuses two.
    """
    if not settings.mem or settings.memory_options:
        return []
    return [f"--mem={settings.mem}"]


@dataclass(frozen=True, slots=True)
class SubmittedJob:
    """A job that sbatch has submitted. ``cluster`` is empty where sbatch does not name it: the one
    that was asked.
    """

    job: str
    cluster: str = ""


def parse_submitted(text: str) -> SubmittedJob:
    """Parse the output of ``sbatch --parsable``: the last line that is not empty is ``12`` or
    ``12;cluster``.

    Filters of a site print lines of their own before it.
    """
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    last = lines[-1] if lines else ""
    words = re.fullmatch(r"([0-9]{1,19})(?:;(\S+))?", last)
    if words is None or not text.endswith("\n"):
        raise SchedulerError(
            f"the last line that sbatch printed is {last[:80]!r}, expected a job ID"
        )
    return SubmittedJob(words[1], words[2] or "")


def list_query(user: str) -> MarkedQuery:
    """Build the query for all holders of a user, recently ended ones included: squeue has to say
    that a job is over.
    """
    chosen = ("--local", "-t", "all", "-u", user, "-n", HOLDER_NAME)
    return MarkedQuery(("squeue", "-a", "--noconvert", *chosen), LIST_FORMAT)


def as_listed(jobs: JobList, user: str) -> str:
    """Format a user's holders in a list of all jobs as the answer to :func:`list_query`."""
    return jobs.as_printed(LIST_FORMAT, lambda job: job["%j"] == HOLDER_NAME and job["%u"] == user)


def parse_list(text: str, mark: str) -> list[str]:
    """Return the records in the answer to :func:`list_query`; :func:`parse_holder` reads each."""
    return parse_records(text, mark, _LIST_HEADER, "holders")


def parse_holder(record: str, comment: str) -> HolderJob | None:
    """Parse a record of squeue into a holder; None if its comment shows that it is another pilot's.
    ``comment`` is this pilot's own; accepted checks and claims (:mod:`.peers`) may follow it.
    """
    job, state, node, ends, reason, words = fields_of(record, 6)
    if state not in JOB_PHASES:
        raise UnknownStateError("job", state)
    if ends not in NOTHING and not is_number(ends):
        raise SchedulerError(
            f"job {job}: {ends[:40]!r} is not a time in seconds (SLURM_TIME_FORMAT=%s)"
        )
    if words != comment and not words.startswith(tuple(comment + end for end in _COMMENT_ENDS)):
        return None
    return HolderJob(job, state, node, None if ends in NOTHING else float(ends), reason)


def exists_argv(job: str) -> list[str]:
    """Build the query for one job that squeue no longer lists; :func:`is_unknown_job` reads the
    error.
    """
    return ["scontrol", "-o", "show", "job", job]


def is_unknown_job(problem: str) -> bool:
    """Return whether an error says that there is no such job, and not that the controller did not
    answer.
    """
    return "Invalid job id specified" in problem


def known_query(jobs: Iterable[str]) -> MarkedQuery:
    """Build the query for several jobs at once, under any name and in any state. For one unknown id
    alone squeue fails (:func:`is_unknown_job`); among several it leaves the unknown ones out
    (22.05.8).
    """
    return MarkedQuery(("squeue", "-a", "-t", "all", "-j", ",".join(sorted(jobs))), _ID_FORMAT)


def parse_known(text: str, mark: str) -> frozenset[str]:
    """Parse the answer to :func:`known_query`: the ids that the controller knows."""
    return frozenset(
        fields_of(record, 1)[0] for record in parse_records(text, mark, _ID_HEADER, "jobs")
    )


# Reasons of a holder that the scheduler has not looked at, or whose node it keeps in mind for a
# main job that waits.
_WAITS_ITS_TURN = re.compile(
    r"(None|Priority|Resources)?$|Nodes.required.for.job.are|ReqNodeNotAvail,.May.be.reserved"
)
# 22.05.8, 24.11.5 and 26.05.5 (libslurmfull.so). MaxMemPerLimit and ReqNodeNotAvail, for example,
# are a node's.
_LIMIT = re.compile(
    r"\b(?:(?:QOS|Assoc)\w+|Max\w+Per(?:Account|User)|Partition(?:Down|Inactive|Config|\w+(?:Limit|Nodes))|Licenses"
    r"|Account(?:ingPolicy|NotAllowed)|Invalid(?:Account|QOS))\b"
)
_REFUSED = (
    "Job violates accounting/QOS policy",
    "Invalid account or account/partition combination specified",
    "Invalid qos specification",
    "Job has invalid qos",
    "Requested time limit is invalid",
    "Required partition not available",
    "User's group not permitted to use this partition",
)


def is_limit(reason: str) -> bool:
    """Return whether sbatch's words or a pending job's reason mean a limit on the pilot's jobs,
    which would be the same for any other node.

    ``QOSMaxSubmitJobPerUserLimit``, ``AssocGrpGRES``, ``MaxJobsPerAccount``, ``PartitionTimeLimit``
    (https://slurm.schedmd.com/job_reason_codes.html).
    """
    return bool(_LIMIT.search(reason)) or any(words in reason for words in _REFUSED)


def waits_its_turn(reason: str) -> bool:
    """Return whether backfill may still start a job that is pending for this reason."""
    return _WAITS_ITS_TURN.match(reason) is not None


def nodes_query(jobs: Iterable[str]) -> MarkedQuery:
    """Build the query for the nodes that jobs have: the list of those that a job was submitted for
    does not change when it is shrunk.
    """
    return MarkedQuery(
        ("squeue", "-a", "--noconvert", "-t", "R", "-j", ",".join(sorted(jobs))), _NODES_FORMAT
    )


def parse_nodes(text: str, mark: str) -> dict[str, tuple[str, ...]]:
    """Parse the answer to :func:`nodes_query`: the nodes of each running job."""
    rows = (fields_of(record, 2) for record in parse_records(text, mark, _NODES_HEADER, "jobs"))
    return {job: tuple(sorted(parse_hostlist(nodes))) for job, nodes in rows}


def shorten_argv(jobs: Iterable[str], seconds: float) -> list[str]:
    """Build the command that lets jobs end earlier, all by one call. A user may lower a time limit,
    and never raise it.
    """
    minutes = max(int(seconds // 60), 1)
    return [
        "scontrol",
        "update",
        f"JobId={','.join(sorted(jobs))}",
        f"EndTime=now+{minutes}minutes",
    ]


def cancel_argv(jobs: Iterable[str]) -> list[str]:
    """Build the command that ends jobs."""
    return ["scancel", *sorted(jobs)]


def leave_argv(jobs: Iterable[str]) -> list[str]:
    """Build the command that sends payloads the signal of a preemption, so that they leave at once.
    After a plain scancel, slurmd looks once a second whether all processes have ended.
    """
    return ["scancel", "-s", str(NOTICE), *sorted(jobs)]


def steps_argv(jobs: Iterable[str]) -> list[str]:
    """Build the query for all steps of these jobs; :func:`parse_steps` reads the answer."""
    return [
        "squeue",
        "-a",
        "--local",
        "-s",
        "-j",
        ",".join(sorted(jobs)),
        "-o",
        f"%i|%j|{STEP_END}",
    ]


@dataclass(frozen=True, slots=True)
class HolderSteps:
    """Steps of holders: those of workers by id, and the jobs whose payload is listed."""

    workers: tuple[str, ...]
    payloads: frozenset[str]


def parse_steps(text: str, mark: str = STEP_END) -> HolderSteps:
    """Parse the answer to :func:`steps_argv`; Slurm's own steps (batch, extern) are left
    out.

    Slurm's stepmgr hides the others from slurmctld, the payload's as well
    (SlurmctldParameters=enable_stepmgr; 24.11.5, 26.05.5).
    """
    records = [record.split("|", 1) for record in parse_records(text, mark, _STEP_HEADER, "steps")]
    return _holder_steps((step, "".join(name)) for step, *name in records)


def job_steps_argv(job: str) -> list[str]:
    """Build the query for all steps of one job. Unlike squeue, scontrol asks the node's stepmgr as
    well.
    """
    return ["scontrol", "-o", "show", "step", job]


def parse_job_steps(text: str, nodes: frozenset[str] | None = None) -> HolderSteps:
    """Parse the answer to :func:`job_steps_argv`, a line per step: ``StepId=12.0 UserId=0 ...
    NodeList=node01 ... Name=bftrainer-payload Network=...``.

    With ``nodes``: of the workers, only those that run on these nodes.
    """
    steps = re.findall(
        r"^StepId=(\S+) .* NodeList=(\S+) .* Name=(.*?) Network=", text, re.MULTILINE
    )
    if not steps:
        raise SchedulerError(f"no step in {text[:80]!r}")
    running = (
        (step, at, name)
        for step, at, name in steps
        if nodes is None or name == PAYLOAD_STEP or nodes & parse_hostlist(at)
    )
    return _holder_steps((step, name) for step, _, name in running)


def _holder_steps(steps: Iterable[tuple[str, str]]) -> HolderSteps:
    """Sort (step id, name) into workers' steps and the jobs whose payload is listed; ids such as
    ``12.batch`` are Slurm's own.
    """
    named = [
        (step, name == PAYLOAD_STEP)
        for step, name in steps
        if re.fullmatch(r"[0-9]+\.[0-9]+", step)
    ]
    return HolderSteps(
        tuple(step for step, is_payload in named if not is_payload),
        frozenset(step.partition(".")[0] for step, is_payload in named if is_payload),
    )


def kill_steps_argv(steps: Iterable[str]) -> list[str]:
    """Build the command that sends SIGKILL to steps."""
    return ["scancel", "-s", "KILL", *sorted(steps)]
