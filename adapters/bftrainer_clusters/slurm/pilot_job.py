"""The Slurm job that the pilot itself runs in: its end, its successor, and whether another pilot's
job is gone.

A successor that depends on its predecessor starts 0.4 s after its end; with ``scontrol requeue``
the pilot would be eligible only after 121 s (22.05.8). ``singleton`` compares users and names, so
the name is made unique for the state directory: a successor must not wait for other pilots of its
user. Options of sbatch that are not in the script are repeated as far as squeue shows them.
"""

from __future__ import annotations

import os
import shlex
import zlib
from dataclasses import dataclass
from pathlib import Path

from bftrainer.cluster.pilot_submission import SubmittedPilot
from bftrainer.errors import CommandError, SchedulerError
from bftrainer.system import command
from bftrainer.system.files import remove_file
from bftrainer_clusters.slurm.clusters import HOST_CLUSTER, of_cluster
from bftrainer_clusters.slurm.hostlists import NOTHING
from bftrainer_clusters.slurm.jobs import exists_argv, is_unknown_job, parse_submitted

SCRIPT = "pilot.slurm"
_OVER = frozenset(
    (
        "BOOT_FAIL",
        "CANCELLED",
        "COMPLETED",
        "DEADLINE",
        "FAILED",
        "NODE_FAIL",
        "OUT_OF_MEMORY",
        "PREEMPTED",
        "REVOKED",
        "TIMEOUT",
    )
)
_REPEATED = ("partition", "account", "qos", "time", "reservation")
"""Options of sbatch that a successor gets as well, in the order of the fields of squeue."""
_TIMEOUT_S = 10.0
_SUBMIT_TIMEOUT_S = 60.0
"""A user waits, not the pilot; sbatch itself tries again while slurmctld does not answer."""
_UNSET = (*NOTHING, "INVALID", "NOT_SET")


def job_argv(job: str) -> list[str]:
    """Build the query for the pilot's own job: its state, its end, and the options that a successor
    needs.
    """
    return ["squeue", "-a", "-h", "-t", "all", "-j", job, "-o", "%T|%e|%u|%P|%a|%q|%l|%v|%j"]


@dataclass(frozen=True, slots=True)
class SlurmJobFacts:
    """A line of squeue. ``options`` are the sbatch options that the successor gets as well."""

    state: str
    ends_s: float | None
    user: str
    name: str
    options: tuple[str, ...] = ()


def parse_job(text: str) -> SlurmJobFacts | None:
    """Parse the answer to :func:`job_argv`; None if squeue lists no such job."""
    lines = text.split("\n")
    if not lines[0]:
        return None
    fields = lines[0].split("|", 8)  # the name comes last, and may contain bars
    if len(fields) != 9:
        raise SchedulerError(f"squeue: line truncated or garbled: {lines[0][:80]!r}")
    state, ends, user, *repeated, name = fields
    options = tuple(
        f"--{key}={value}"
        for key, value in zip(_REPEATED, repeated, strict=True)
        if value not in _UNSET
    )
    return SlurmJobFacts(state, float(ends) if ends.isdecimal() else None, user, name, options)


def waiting_argv(user: str, name: str) -> list[str]:
    """Build the query for the ids of pending jobs with this user and name."""
    return ["squeue", "-a", "-h", "-t", "PD", "-u", user, "-n", name, "-o", "%i"]


def successor_argv(facts: SlurmJobFacts, job: str, name: str, script: Path) -> list[str]:
    """Build the ``sbatch`` command of the successor, which is called ``name``, of the job with the
    id ``job`` and these facts; options on the command line win over the script's.
    """
    return [
        "sbatch",
        "--parsable",
        f"--dependency=afterany:{job},singleton",
        "-J",
        name,
        *facts.options,
        str(script),
    ]


def submit(script: Path) -> SubmittedPilot:
    """Submit the job script of a pilot from its folder, where the job's output goes.

    A script of the user's own may not name the state directory: the environment does.
    """
    folder = str(script.parent)
    argv = ["sbatch", "--parsable", str(script)]
    environment = {"BFTRAINER_STATE": folder}
    answer = command.run(argv, timeout_s=_SUBMIT_TIMEOUT_S, env=environment, cwd=folder)
    submitted = parse_submitted(answer)
    job, cluster = submitted.job, submitted.cluster
    return SubmittedPilot(
        f"{job};{cluster}" if cluster else job,
        shlex.join(of_cluster(["squeue", "-j", job], cluster)),
        shlex.join(of_cluster(["scancel", "--batch", "--signal=TERM", job], cluster)),
        str(script.parent / f"bftrainer-pilot.{job}.out"),
    )


@dataclass
class SlurmPilotJob:
    """The job with id ``job``; a copy of its batch script is written to ``script`` for the
    successor.
    """

    job: str
    script: Path

    def ends_s(self) -> float | None:
        """Ask Slurm for the end of the job's time limit, in seconds since 1970; None if unknown."""
        facts = parse_job(self._run(job_argv(self.job)))
        return None if facts is None else facts.ends_s

    def submit_successor(self) -> str:
        """Submit the same batch script to start when this job is over, unless a successor is
        pending; return the successor's id. Raises ``SchedulerError`` if squeue does not list the
        pilot's own job, or if the successor is on another cluster.
        """
        facts = parse_job(self._run(job_argv(self.job)))
        if facts is None:
            raise SchedulerError(f"squeue does not list the pilot's own job {self.job}")
        # A name for this state directory: see above. A successor's name has the suffix already.
        suffix = f"-{zlib.crc32(str(self.script.parent.absolute()).encode()):08x}"
        name = facts.name.removesuffix(suffix) + suffix
        if pending_ids := self._run(waiting_argv(facts.user, name)).split():
            return pending_ids[0]
        remove_file(self.script)
        self._run(["scontrol", "write", "batch_script", self.job, str(self.script)])
        submission = parse_submitted(self._run(successor_argv(facts, self.job, name, self.script)))
        own_cluster = os.environ.get(HOST_CLUSTER, "")
        if own_cluster and submission.cluster not in ("", own_cluster):
            raise SchedulerError(
                f"sbatch submitted the successor, job {submission.job}, to cluster "
                f"{submission.cluster}, expected {own_cluster}; "
                f"`scancel -M {submission.cluster} {submission.job}` ends it"
            )
        return submission.job

    def withdraw(self, successor: str) -> None:
        self._run(["scancel", successor])

    def _run(self, argv: list[str]) -> str:
        return command.run(argv, timeout_s=_TIMEOUT_S, env={"SLURM_TIME_FORMAT": "%s"})


def job_is_gone(job: str) -> bool | None:
    """Return whether a job is over; None if Slurm does not say. ``job`` is an id, or as sbatch
    prints it for another cluster: ``4711;name``.
    """
    number, _, cluster = job.partition(";")
    try:
        facts = parse_job(command.run(of_cluster(job_argv(number), cluster), timeout_s=_TIMEOUT_S))
        if facts is not None:
            return facts.state in _OVER
        # squeue does not list it; only the error of this query says that there is no such job.
        command.run(of_cluster(exists_argv(number), cluster), timeout_s=_TIMEOUT_S)
    except CommandError as error:
        return True if is_unknown_job(error.problem) else None
    except SchedulerError:
        return None
    return None
