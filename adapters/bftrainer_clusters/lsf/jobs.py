"""LSF holder jobs: the commands that submit, list and end them, and their output. Pure. From
manuals and recordings.

Reasons for the options of :func:`submit_argv`: ``-W N/HOST``, because a plain ``-W`` is normalized
by the host's CPU factor; ``-rn``: a preempted holder must not start again; ``-Jd`` tells the
holders of two pilots apart, and shows the node of a pending one. No job arrays, as with Slurm.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bftrainer.cluster.model import NodeRequest
from bftrainer.errors import SchedulerError, UnknownStateError
from bftrainer.fragment_names import fragment_name
from bftrainer_clusters.holding.holder_jobs import JobPhase, limit_minutes
from bftrainer_clusters.lsf.config import LsfSettings
from bftrainer_clusters.lsf.text import records, says_nothing, value_of

HOLDER_NAME = "bftrainer-holder"
LIST_FIELDS = "jobid stat run_time runtimelimit exit_reason job_description"
_NODE = re.compile(r" node=(\S+)$")

# USUSP and SSUSP: suspended, with memory and GPUs, so the job has to end. UNKWN: its sbatchd does
# not answer.
PHASES = {
    **dict.fromkeys(("PEND", "PSUSP", "WAIT", "FWD_PEND", "PROV"), JobPhase.WAITS),
    **dict.fromkeys(("RUN", "UNKWN"), JobPhase.RUNS),
    **dict.fromkeys(("USUSP", "SSUSP"), JobPhase.SUSPENDED),
    "ZOMBI": JobPhase.LEAVES,
    **dict.fromkeys(("DONE", "EXIT", "POST_DONE", "POST_ERR"), JobPhase.OVER),
}


@dataclass(frozen=True, slots=True)
class LsfJob:
    """A holder as bjobs lists it. ``state`` is LSF's word."""

    id: str
    state: str
    node: str
    ends_s: float | None
    reason: str

    @property
    def phase(self) -> JobPhase:
        return PHASES[self.state]

    @property
    def fragments(self) -> tuple[str, ...]:
        return (fragment_name(self.node, self.id),)


def description(pilot: str, user: str) -> str:
    """What administrators read in bjobs -l; :func:`submit_argv` adds the node."""
    return f"bftrainer: idle node held by pilot {pilot} of {user}, released at once when needed"


def submit_argv(
    settings: LsfSettings, request: NodeRequest, label: str, command: Iterable[str], log: Path
) -> list[str]:
    """``bsub`` of one holder; ``command`` is the job script with its arguments, ``label`` the
    description.
    """
    slots = ["-n", str(settings.slots_per_node), "-R", "span[hosts=1]"]
    whole = ["-x", "-n", "1"] if settings.place == "exclusive" else slots
    minutes = limit_minutes(request.window_s, settings.longest_s)
    return [
        "bsub",
        "-q",
        settings.queue,
        *(["-app", settings.app] if settings.app else []),
        *(["-P", settings.project] if settings.project else []),
        *(["-gpu", settings.gpu] if settings.gpu else []),
        *whole,
        "-m",
        request.node,
        "-W",
        f"{minutes}/{request.node}",
        "-rn",
        "-J",
        HOLDER_NAME,
        "-Jd",
        f"{label} node={request.node}",
        "-o",
        str(log),
        *settings.options,
        *command,
    ]


def parse_submitted(text: str) -> str:
    """The job id in ``Job <12> is submitted to queue <idle>.``; some sites print more around it."""
    found = re.findall(
        r"^Job <(\d+)> is submitted to (?:default )?queue <[^>]+>\.\s*$", text, re.MULTILINE
    )
    if len(found) != 1:
        raise SchedulerError(f"bsub printed {text[:80]!r}, expected a job ID")
    return str(found[0])


def list_argv(user: str) -> list[str]:
    """All holders of a user, recently ended ones included (-a): bjobs has to say that a job is
    over.
    """
    return ["bjobs", "-a", "-u", user, "-J", HOLDER_NAME, "-o", LIST_FIELDS, "-json"]


def parse_list(text: str, label: str, now_s: float) -> dict[str, LsfJob]:
    """By id, the holders whose description begins with ``label``; the others belong to other
    pilots.
    """
    if says_nothing(text):
        return {}
    jobs = {}
    for item in records(text, "holders"):
        job, state, words = (value_of(item, key) for key in ("JOBID", "STAT", "JOB_DESCRIPTION"))
        if state not in PHASES:
            raise UnknownStateError("job", state)
        found = _NODE.search(words)
        if not words.startswith(label) or found is None:
            continue
        left = left_s(item) if state == "RUN" else None
        reason = state if state in ("USUSP", "SSUSP", "UNKWN") else value_of(item, "EXIT_REASON")
        jobs[job] = LsfJob(job, state, found[1], None if left is None else now_s + left, reason)
    return jobs


def left_s(item: dict[str, Any]) -> float | None:
    """Seconds until the run limit of a running job, from lengths: the times that bjobs shows have
    no year.
    """
    limit, ran = value_of(item, "RUNTIMELIMIT"), value_of(item, "RUN_TIME")
    if limit in ("", "-"):
        return None
    return _seconds(limit, 60.0) - _seconds(ran, 1.0)


def known_argv(jobs: Iterable[str]) -> list[str]:
    """Ask for jobs that bjobs no longer lists; :func:`~bftrainer_clusters.lsf.text.unknown_jobs`
    reads the answer.
    """
    return ["bjobs", "-a", "-o", "jobid stat", "-json", *sorted(jobs)]


def cancel_argv(jobs: Iterable[str]) -> list[str]:
    """End jobs. Never without ids: bkill alone ends the user's latest job."""
    ids = sorted(jobs)
    assert ids, "bkill without a job id ends something else"
    return ["bkill", *ids]


def _seconds(text: str, unit_s: float) -> float:
    """``1440.0`` (minutes), ``16038 second(s)``, ``00:10:00``."""
    number = re.fullmatch(r"(\d+(?:\.\d+)?)(?: second\(s\))?(?:/\S+)?", text.strip())
    if number:
        return float(number[1]) * unit_s
    clock = re.fullmatch(r"(\d+):(\d\d):(\d\d)", text.strip())
    if clock:
        return 3600.0 * int(clock[1]) + 60.0 * int(clock[2]) + int(clock[3])
    raise SchedulerError(f"{text[:60]!r} is not a time")
