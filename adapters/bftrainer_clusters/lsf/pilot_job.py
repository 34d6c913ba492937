"""The LSF job that the pilot itself runs in: its end, its successor, and whether another pilot's
job is gone.

The successor is a job of its own that depends on this one (``-w 'ended(ID)'``); ``brequeue`` would
kill the pilot first. Not every version of LSF shows a job's script (``bjobs -script`` came after
10.1.0), so the script is read again from its file: ``pilot.lsf`` in the state directory, or the
installed one. Name, queue and project are those of the running job, whatever the script says.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bftrainer.cluster.pilot_submission import PilotJobWishes, SubmittedPilot
from bftrainer.counted import counted
from bftrainer.errors import (
    CommandError,
    SchedulerError,
    UndecidedError,
    UnknownStateError,
    UserError,
)
from bftrainer.system import command
from bftrainer.system.clock import Clock
from bftrainer.system.command import Parsed
from bftrainer_clusters.holding.holder_jobs import JobPhase, holder_script
from bftrainer_clusters.holding.pilot_script import LIMIT_S, chosen_account, hours_minutes
from bftrainer_clusters.lsf.config import LsfSettings
from bftrainer_clusters.lsf.jobs import PHASES, left_s, parse_submitted
from bftrainer_clusters.lsf.observe import ask
from bftrainer_clusters.lsf.text import records, says_nothing, unknown_jobs, value_of

SCRIPT = "pilot.lsf"
_FIELDS = "jobid stat user queue proj_name run_time runtimelimit job_name"
_TIMEOUT_S = 20.0


def job_argv(job: str) -> list[str]:
    """Build the query for the pilot's own job: its end, and the options that a successor needs."""
    return ["bjobs", "-a", "-o", _FIELDS, "-json", job]


@dataclass(frozen=True, slots=True)
class LsfJobFacts:
    """A job as bjobs lists it; ``left_s`` is the time to its run limit, None without one or while
    it does not run.
    """

    phase: JobPhase
    user: str
    queue: str
    project: str
    name: str
    left_s: float | None


def parse_job(text: str) -> LsfJobFacts | None:
    """Parse the answer to :func:`job_argv`; None if LSF says that there is no such job. Raises
    ``SchedulerError`` for other than one job, and ``UnknownStateError``.
    """
    if unknown_jobs(text):
        return None
    jobs = records(text, "the pilot's job")
    if len(jobs) != 1:
        raise SchedulerError(f"bjobs listed {counted(len(jobs), 'job')}, expected one")
    job = jobs[0]
    keys = ("STAT", "USER", "QUEUE", "PROJ_NAME", "JOB_NAME")
    state, user, queue, project, name = (value_of(job, key) for key in keys)
    if state not in PHASES:
        raise UnknownStateError("job", state)
    phase = PHASES[state]
    return LsfJobFacts(
        phase,
        user=user,
        queue=queue,
        project=project,
        name=name,
        left_s=left_s(job) if phase is JobPhase.RUNS else None,
    )


def waiting_argv(job: LsfJobFacts) -> list[str]:
    """Build the query for unfinished jobs with the name and user of the pilot's job."""
    return ["bjobs", "-u", job.user, "-J", job.name, "-o", "jobid stat", "-json"]


def parse_waiting(text: str) -> list[str]:
    """Parse the answer to :func:`waiting_argv`: the ids of pending jobs, oldest first."""
    if says_nothing(text):
        return []
    jobs = [
        (value_of(item, "JOBID"), value_of(item, "STAT")) for item in records(text, "pilots' jobs")
    ]
    ids = [job_id for job_id, state in jobs if PHASES.get(state) is JobPhase.WAITS]
    return sorted(ids, key=lambda job_id: (len(job_id), job_id))  # as numbers


def successor_argv(job: str, facts: LsfJobFacts) -> list[str]:
    """Build the ``bsub`` command of the successor of the job with the id ``job`` and these facts.
    The successor's script comes on standard input; options here override its ``#BSUB`` lines.
    """
    project = ["-P", facts.project] if facts.project not in ("", "-", "default") else []
    return ["bsub", "-w", f"ended({job})", "-J", facts.name, "-q", facts.queue, *project]


def pilot_options(
    settings: LsfSettings, wishes: PilotJobWishes
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the options of bsub for a pilot's job, by their flags, and the reasons. Raises
    ``UndecidedError`` without a queue: LSF shows none that is right for a job of a day.
    """
    if wishes.qos:
        raise UserError("--qos: not for LSF; remove the option")
    if not wishes.partition or wishes.partition == settings.queue:
        raise UndecidedError(
            "--partition",
            "LSF does not show which queue, other than the holders', is for a job of one slot that "
            "lasts a day and is not preempted",
        )
    limit = hours_minutes(LIMIT_S if wishes.limit_s is None else wishes.limit_s)
    options = {"-q": f"-q {wishes.partition}", "-W": f"-W {limit}"}
    reasons = [f"queue {wishes.partition}: as --partition says", f"run limit {limit}"]
    project, why = chosen_account(wishes, settings.project)
    if project:
        options["-P"] = f"-P {project}"
        reasons.append(f"project {project}: {why}")
    return options, tuple(reasons)


def submit(script: Path) -> SubmittedPilot:
    """Submit the job script of a pilot from its folder, where the job's output goes.

    A script of the user's own may not name the state directory: the environment does.
    """
    text = script.read_text(encoding="utf-8")
    folder = str(script.parent)
    environment = {"BFTRAINER_STATE": folder}
    answer = command.run(["bsub"], timeout_s=_TIMEOUT_S, env=environment, stdin=text, cwd=folder)
    job = parse_submitted(answer)
    output = str(script.parent / f"bftrainer-pilot.{job}.out")
    return SubmittedPilot(job, f"bjobs {job}", f"bkill {job}", output)


@dataclass
class LsfPilotJob:
    """The job with id ``job``; its successor runs ``pilot.lsf`` of ``state_dir``, if that
    exists.
    """

    job: str
    state_dir: Path
    clock: Clock

    def ends_s(self) -> float | None:
        """Ask LSF for the end of the job's run limit, in seconds since 1970; None without a limit,
        and while the job does not run.
        """
        now_s = self.clock.now_s()
        facts = _ask(job_argv(self.job), parse_job)
        return None if facts is None or facts.left_s is None else now_s + facts.left_s

    def submit_successor(self) -> str:
        """Submit the script to start when this job is over, unless a successor is pending; return
        the successor's id. Raises ``SchedulerError`` if LSF does not list the pilot's own job.
        """
        facts = _ask(job_argv(self.job), parse_job)
        if facts is None:
            raise SchedulerError(f"bjobs does not list the pilot's own job {self.job}")
        if waiting := _ask(waiting_argv(facts), parse_waiting):
            return waiting[0]
        script = self.script().read_text(encoding="utf-8")
        argv = successor_argv(self.job, facts)
        return parse_submitted(command.run(argv, timeout_s=_TIMEOUT_S, stdin=script))

    def withdraw(self, successor: str) -> None:
        command.run(["bkill", successor], timeout_s=_TIMEOUT_S)

    def script(self) -> Path:
        own = self.state_dir / SCRIPT
        return holder_script(own if own.exists() else None, SCRIPT)


def _ask(argv: list[str], parse: Callable[[str], Parsed]) -> Parsed:
    return ask(argv, parse, _TIMEOUT_S, {})


def job_is_gone(job: str) -> bool | None:
    """Return whether a job is over; None if LSF does not say."""
    try:
        facts = _ask(job_argv(job), parse_job)
    except (CommandError, SchedulerError):
        return None
    return facts is None or facts.phase is JobPhase.OVER
