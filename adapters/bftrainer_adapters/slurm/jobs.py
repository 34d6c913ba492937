"""Holder jobs: the commands that submit, list and cancel them, and what those answer. Pure. Tried with Slurm 22.05.8.

Why each option of :func:`submit_argv` is there: ``--exclusive`` alone gives neither all memory (``--mem=0``; else the default
memory, 800 of 2,000 MB) nor any GPU to steps (``--gres``). ``--no-requeue``: a preempted holder must not come back by itself.
No job arrays: a task cannot be cancelled by its raw id. No ``-c`` and no ``--exact``: steps would see a part of the node.
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
    """A holder as squeue lists it. ``state`` is Slurm's word, ``ends_s`` the end of its time limit if it runs."""

    id: str
    state: str
    node: str
    ends_s: float | None
    reason: str
    comment: str

    @property
    def phase(self) -> JobPhase:
        """What the state means."""
        return JOB_PHASES[self.state]


def comment(pilot: str, user: str) -> str:
    """What an administrator reads in squeue, and what tells one pilot's holders from another's."""
    return f"bftrainer: idle node held by pilot {pilot} of {user}; it is given back at once when wanted"


def submit_argv(settings: SlurmSettings, claim: NodeRequest, said: str, command: Iterable[str], log: Path) -> list[str]:
    """``sbatch`` of one holder; ``command`` is the job script and its arguments, ``said`` the comment."""
    chosen = [
        *(["-p", settings.partition] if settings.partition else []),
        *(["-q", settings.qos] if settings.qos else []),
        *(["-A", settings.account] if settings.account else []),
        *([f"--gres={gres}"] if (gres := settings.gres or (f"gpu:{claim.gpus}" if claim.gpus else "")) else []),
    ]
    return [
        "sbatch", "--parsable", *chosen, "-N1", "-n1", "-w", claim.node, "--exclusive", "--mem=0",
        "-t", str(limit_minutes(claim.window_s, settings.longest_s)), "--no-requeue", "-J", HOLDER_NAME,
        f"--signal={NOTICE}@0",
        f"--comment={said}", "-o", str(log), "--open-mode=append", *settings.options, *command,
    ]  # fmt: skip


def parse_submitted(text: str) -> str:
    """The job id that ``sbatch --parsable`` prints, ``12`` or ``12;cluster``."""
    found = re.fullmatch(r"(\d+)(;\S+)?\n", text)
    if found is None:
        raise SchedulerError(f"sbatch answered {text[:80]!r} instead of a job id")
    return found[1]


def list_argv(user: str) -> list[str]:
    """All holders of a user, those that ended lately too: ended is something squeue says, not that it says nothing."""
    return ["squeue", "-a", "--noconvert", "-t", "all", "-u", user, "-n", HOLDER_NAME, "-o", _LIST_FORMAT]


def parse_list(text: str, said: str) -> dict[str, HolderJob]:
    """The holders whose comment is ``said``, with or without a host list, by id; another pilot's are none of ours."""
    header, *lines = whole_lines(text, "holders")
    if header != _LIST_HEADER:
        raise SchedulerError(f"squeue's header is {header[:80]!r}, expected {_LIST_HEADER!r}")
    jobs = {}
    for line in lines:
        fields = line.split("|", 5)
        if len(fields) != 6 or not fields[0].isdecimal():
            raise SchedulerError(f"squeue's line is cut short or garbled: {line[:80]!r}")
        job, state, node, ends, reason, words = fields
        if state not in JOB_PHASES:
            raise UnknownStateError("job", state)
        if ends not in NOTHING and not ends.isdecimal():
            raise SchedulerError(f"job {job}: {ends!r} is not a time in seconds (SLURM_TIME_FORMAT=%s)")
        if words.partition("; hosts ")[0] == said:
            jobs[job] = HolderJob(job, state, node, None if ends in NOTHING else float(ends), reason, words)
    return jobs


def exists_argv(job: str) -> list[str]:
    """Asks for one job that squeue does not list any more; :func:`is_unknown_job` reads the refusal."""
    return ["scontrol", "-o", "show", "job", job]


def is_unknown_job(problem: str) -> bool:
    """Whether a command's failure says that there is no such job, and not that nobody answered."""
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
