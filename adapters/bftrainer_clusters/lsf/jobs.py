"""LSF holder jobs: the commands that submit, list and end them, and their output. Pure. From
manuals and recordings.

Reasons for the options of :func:`submit_argv`: ``-W N/HOST``, because a plain ``-W`` is normalized
by the host's CPU factor; ``-rn``: a preempted holder must not start again; ``-Jd`` begins with the
label, which tells the holders of two pilots apart and shows the node of a pending one; ``-o
/dev/null``: holders write logs of their own, and without the option LSF sends mail. No job arrays,
as with Slurm.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Iterable
from typing import Any

from bftrainer.errors import SchedulerError, UnknownStateError
from bftrainer_clusters.lsf.config import LsfSettings
from bftrainer_clusters.lsf.text import records, says_nothing, value_of
from bftrainer_clusters.simple import JobPhase, JobRecord, JobRequest

HOLDER_NAME = "bftrainer-holder"
LIST_FIELDS = "jobid stat run_time runtimelimit exit_reason job_description"
_DESCRIPTION = "idle node held for bftrainer, released at once when needed"
"""What administrators read in bjobs -l after the label."""

# USUSP and SSUSP: suspended, with memory and GPUs, so the job has to end. UNKWN: its sbatchd does
# not answer.
PHASES = {
    **dict.fromkeys(("PEND", "PSUSP", "WAIT", "FWD_PEND", "PROV"), JobPhase.WAITS),
    **dict.fromkeys(("RUN", "UNKWN"), JobPhase.RUNS),
    **dict.fromkeys(("USUSP", "SSUSP"), JobPhase.SUSPENDED),
    "ZOMBI": JobPhase.LEAVES,
    **dict.fromkeys(("DONE", "EXIT", "POST_DONE", "POST_ERR"), JobPhase.OVER),
}
_EXPLAIN_THEMSELVES = ("USUSP", "SSUSP", "UNKWN")


def submit_argv(settings: LsfSettings, job: JobRequest) -> list[str]:
    """Build the ``bsub`` command of one holder."""
    slots = ["-n", str(settings.slots_per_node), "-R", "span[hosts=1]"]
    whole = ["-x", "-n", "1"] if settings.place == "exclusive" else slots
    return [
        "bsub",
        "-q",
        settings.queue,
        *(["-app", settings.app] if settings.app else []),
        *(["-P", settings.project] if settings.project else []),
        *(["-gpu", settings.gpu] if settings.gpu else []),
        *whole,
        "-m",
        job.node,
        "-W",
        f"{job.minutes}/{job.node}",
        "-rn",
        "-J",
        HOLDER_NAME,
        "-Jd",
        f"{job.label} {_DESCRIPTION}",
        "-o",
        "/dev/null",
        *settings.options,
        *job.argv,
    ]


def parse_submitted(text: str) -> str:
    """Return the job id in bsub's ``Job <12> is submitted to queue <idle>.``; some sites print more
    around it.
    """
    ids = re.findall(
        r"^Job <(\d+)> is submitted to (?:default )?queue <[^>]+>\.\s*$", text, re.MULTILINE
    )
    if len(ids) != 1:
        raise SchedulerError(f"bsub printed {text[:80]!r}, expected a job ID")
    return str(ids[0])


def list_argv(user: str) -> list[str]:
    """Build the query for all holders of a user, recently ended ones included (-a): bjobs has to
    say that a job is over.
    """
    return ["bjobs", "-a", "-u", user, "-J", HOLDER_NAME, "-o", LIST_FIELDS, "-json"]


def parse_list(text: str, now_s: float) -> tuple[JobRecord, ...]:
    """Parse the answer to :func:`list_argv`: the user's holders, of all pilots."""
    if says_nothing(text):
        return ()
    return tuple(_holder_record(item, now_s) for item in records(text, "holders"))


def _holder_record(item: dict[str, Any], now_s: float) -> JobRecord:
    """Build the record of a holder from one of bjobs: the label is the first word of the
    description, and the end of the run limit is known while the job runs.
    """
    job, state, words = (value_of(item, key) for key in ("JOBID", "STAT", "JOB_DESCRIPTION"))
    if state not in PHASES:
        raise UnknownStateError("job", state)
    left = left_s(item) if state == "RUN" else None
    return JobRecord(
        job,
        words.partition(" ")[0],
        state,
        None if left is None else now_s + left,
        state if state in _EXPLAIN_THEMSELVES else value_of(item, "EXIT_REASON"),
    )


def left_s(item: dict[str, Any]) -> float | None:
    """Return the seconds until a running job's run limit; None without one. They come from lengths
    of time, since the times that bjobs shows have no year.
    """
    limit, ran = value_of(item, "RUNTIMELIMIT"), value_of(item, "RUN_TIME")
    if limit in ("", "-"):
        return None
    return _parse_seconds(limit, 60.0) - _parse_seconds(ran, 1.0)


def known_argv(jobs: Iterable[str]) -> list[str]:
    """Build the query for jobs that bjobs no longer lists;
    :func:`~bftrainer_clusters.lsf.text.unknown_jobs` reads the answer.
    """
    return ["bjobs", "-a", "-o", "jobid stat", "-json", *sorted(jobs)]


def cancel_argv(jobs: Iterable[str]) -> list[str]:
    """Build the command that ends jobs. Never without ids: bkill alone ends the user's
    latest job.
    """
    ids = sorted(jobs)
    assert ids, "bkill without a job id ends something else"
    return ["bkill", *ids]


def running_argv(jobs: Iterable[str]) -> list[str]:
    """Build the query for how long these jobs have run, and where."""
    return ["bjobs", "-o", "jobid stat run_time exec_host", "-json", *sorted(jobs)]


def shorten_argv(job: str, ran_s: float, host: str, seconds: float) -> list[str]:
    """Build the command that lets a job, which has run for ``ran_s``, end after so many seconds
    more at the latest. A run limit counts from the job's start, in minutes of the host. bmod takes
    one job, and needs LSB_MOD_ALL_JOBS=Y in lsf.conf, as the installation sets it.
    """
    minutes = max(int((ran_s + seconds) // 60), 1)
    return ["bmod", "-W", f"{minutes}/{host}", job]


def parse_running(text: str) -> dict[str, tuple[float, str]]:
    """Parse the answer to :func:`running_argv`: (seconds, host) of jobs that run on one host."""
    running = {}
    for item in () if says_nothing(text) else records(text, "running holders"):
        hosts = hosts_of(value_of(item, "EXEC_HOST"))
        if value_of(item, "STAT") == "RUN" and len(hosts) == 1:
            running[value_of(item, "JOBID")] = (
                _parse_seconds(value_of(item, "RUN_TIME"), 1.0),
                hosts[0],
            )
    return running


def run_time_s(item: dict[str, Any]) -> float:
    """Return for how many seconds a job has run."""
    return _parse_seconds(value_of(item, "RUN_TIME"), 1.0)


def hosts_of(text: str) -> tuple[str, ...]:
    """Return the hosts in EXEC_HOST, each once: ``4*node1:node2`` or ``node1:node1``."""
    words = [word.rpartition("*")[2] for word in text.split(":")]
    return tuple(dict.fromkeys(word for word in words if word not in ("", "-")))


def signal_argv(jobs: Iterable[str], number: signal.Signals) -> list[str]:
    """Build the command that sends a signal to jobs."""
    return ["bkill", "-s", number.name.removeprefix("SIG"), *cancel_argv(jobs)[1:]]


def _parse_seconds(text: str, unit_s: float) -> float:
    """Parse a time of bjobs: ``1440.0`` in ``unit_s``, ``16038 second(s)``, ``00:10:00``."""
    number = re.fullmatch(r"(\d+(?:\.\d+)?)(?: second\(s\))?(?:/\S+)?", text.strip())
    if number:
        return float(number[1]) * unit_s
    clock = re.fullmatch(r"(\d+):(\d\d):(\d\d)", text.strip())
    if clock:
        return 3600.0 * int(clock[1]) + 60.0 * int(clock[2]) + int(clock[3])
    raise SchedulerError(f"{text[:60]!r} is not a time")
