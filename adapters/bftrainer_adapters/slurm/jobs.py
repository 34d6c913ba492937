"""Holder jobs: the commands that submit, list and cancel them, and their output. Pure. Tried with Slurm 22.05.8.

Reasons for the options of :func:`submit_argv`: ``--exclusive`` alone gives steps neither all memory (``--mem=0``; else the
default memory, 800 of 2,000 MB) nor any GPU (``--gres``). ``--no-requeue``: a preempted holder must not start again. No job
arrays: a task cannot be canceled by its raw id. No ``-c`` and no ``--exact``: steps would see only a part of the node.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from bftrainer.domain.cluster import NodeRequest
from bftrainer.errors import SchedulerError, UnknownStateError
from bftrainer_adapters.holding.held import JobPhase, limit_minutes
from bftrainer_adapters.on_node.payload import NOTICE
from bftrainer_adapters.slurm.config import SlurmSettings
from bftrainer_adapters.slurm.text import NOTHING, whole_lines

HOLDER_NAME = "bftrainer-holder"
PAYLOAD_STEP = "bftrainer-payload"
_LIST_FORMAT = "%i|%T|%n|%e|%r|%k"
_LIST_HEADER = "JOBID|STATE|REQ_NODES|END_TIME|REASON|COMMENT"
_STEP_FORMAT = "%i|%j"
_STEP_HEADER = "STEPID|NAME"

JOB_PHASES = {
    **dict.fromkeys(
        ("PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT"), JobPhase.WAITS
    ),
    **dict.fromkeys(("RESV_DEL_HOLD", "POWER_UP_NODE", "EXPEDITING"), JobPhase.WAITS),
    **dict.fromkeys(("RUNNING", "STOPPED", "SIGNALING", "RESIZING"), JobPhase.RUNS),
    "SUSPENDED": JobPhase.SUSPENDED,
    **dict.fromkeys(("COMPLETING", "STAGE_OUT"), JobPhase.LEAVES),
    **dict.fromkeys(
        ("COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL"), JobPhase.OVER
    ),
    **dict.fromkeys(("DEADLINE", "OUT_OF_MEMORY", "REVOKED", "LAUNCH_FAILED", "RECONFIG_FAIL"), JobPhase.OVER),
}


@dataclass(frozen=True, slots=True)
class HolderJob:
    """A holder as squeue lists it. ``state`` is Slurm's word, ``ends_s`` the end of its time limit while it runs."""

    id: str
    state: str
    node: str
    ends_s: float | None
    reason: str
    comment: str

    @property
    def phase(self) -> JobPhase:
        return JOB_PHASES[self.state]


def comment(pilot: str, user: str) -> str:
    """What administrators read in squeue; it also tells the holders of two pilots apart."""
    return f"bftrainer: idle node held by pilot {pilot} of {user}; it is given back at once when wanted"


def submit_argv(
    settings: SlurmSettings, request: NodeRequest, comment: str, command: Iterable[str], log: Path
) -> list[str]:
    """``sbatch`` of one holder; ``command`` is the job script with its arguments."""
    chosen = [
        *(["-p", settings.partition] if settings.partition else []),
        *(["-q", settings.qos] if settings.qos else []),
        *(["-A", settings.account] if settings.account else []),
        *([f"--gres={gres}"] if (gres := settings.gres or (f"gpu:{request.gpus}" if request.gpus else "")) else []),
    ]
    return [
        "sbatch", "--parsable", *chosen, "-N1", "-n1", "-w", request.node, "--exclusive", "--mem=0",
        "-t", str(limit_minutes(request.window_s, settings.longest_s)), "--no-requeue", "-J", HOLDER_NAME,
        f"--signal={NOTICE}@0",
        f"--comment={comment}", "-o", str(log), "--open-mode=append", *settings.options, *command,
    ]  # fmt: skip


def parse_submitted(text: str) -> str:
    """The job id that ``sbatch --parsable`` prints, ``12`` or ``12;cluster``."""
    found = re.fullmatch(r"(\d+)(;\S+)?\n", text)
    if found is None:
        raise SchedulerError(f"sbatch printed {text[:80]!r}, expected a job ID")
    return found[1]


def list_argv(user: str) -> list[str]:
    """All holders of a user, recently ended ones included: squeue has to say that a job is over."""
    return ["squeue", "-a", "--noconvert", "-t", "all", "-u", user, "-n", HOLDER_NAME, "-o", _LIST_FORMAT]


def parse_list(text: str, comment: str) -> dict[str, HolderJob]:
    """By id, the holders with this comment, with or without a host list; the others belong to other pilots."""
    header, *lines = whole_lines(text, "holders")
    if header != _LIST_HEADER:
        raise SchedulerError(f"squeue's header is {header[:80]!r}, expected {_LIST_HEADER!r}")
    jobs = {}
    for line in lines:
        fields = line.split("|", 5)
        if len(fields) != 6 or not fields[0].isdecimal():
            raise SchedulerError(f"squeue: line truncated or garbled: {line[:80]!r}")
        job, state, node, ends, reason, words = fields
        if state not in JOB_PHASES:
            raise UnknownStateError("job", state)
        if ends not in NOTHING and not ends.isdecimal():
            raise SchedulerError(f"job {job}: {ends!r} is not a time in seconds (SLURM_TIME_FORMAT=%s)")
        if words.partition("; hosts ")[0] == comment:
            jobs[job] = HolderJob(job, state, node, None if ends in NOTHING else float(ends), reason, words)
    return jobs


def exists_argv(job: str) -> list[str]:
    """Ask for one job that squeue no longer lists; :func:`is_unknown_job` reads the error."""
    return ["scontrol", "-o", "show", "job", job]


def is_unknown_job(problem: str) -> bool:
    """Whether an error says that there is no such job, and not that the controller did not answer."""
    return "Invalid job id specified" in problem


def cancel_argv(jobs: Iterable[str]) -> list[str]:
    """End jobs."""
    return ["scancel", *sorted(jobs)]


def steps_argv(jobs: Iterable[str]) -> list[str]:
    """All steps of these jobs."""
    return ["squeue", "-a", "-s", "-j", ",".join(sorted(jobs)), "-o", _STEP_FORMAT]


def parse_worker_steps(text: str) -> list[str]:
    """Steps that are neither the payload nor Slurm's own (batch, extern)."""
    header, *lines = whole_lines(text, "steps")
    if header != _STEP_HEADER:
        raise SchedulerError(f"squeue's header is {header[:80]!r}, expected {_STEP_HEADER!r}")
    steps = [line.split("|", 1) for line in lines]
    return [step for step, *name in steps if re.fullmatch(r"\d+\.\d+", step) and name != [PAYLOAD_STEP]]


def kill_steps_argv(steps: Iterable[str]) -> list[str]:
    """SIGKILL to steps."""
    return ["scancel", "-s", "KILL", *sorted(steps)]
