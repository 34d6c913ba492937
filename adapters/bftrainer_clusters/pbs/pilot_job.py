"""The PBS job that the pilot itself runs in: its end, its successor, and whether another pilot's
job is gone.

The successor is a job of its own that depends on this one (``-W depend=afterany:ID``); its script
is ``pilot.pbs`` in the state directory, or the installed one. Name, queue, account and project are
those of the running job, whatever the script says. PBS takes a user on one host for another owner
than on another, unless the server has flatuid = True: without that, a successor on another node
cannot end the holders of this one, which then end by their leases.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bftrainer.cluster.pilot_submission import PilotJobWishes, SubmittedPilot
from bftrainer.errors import CommandError, SchedulerError, UndecidedError, UserError
from bftrainer.system import command
from bftrainer.system.clock import Clock
from bftrainer.system.users import own_name
from bftrainer_clusters.holding.holder_jobs import JobPhase, holder_script
from bftrainer_clusters.holding.pilot_script import LIMIT_S, chosen_account, hours_minutes
from bftrainer_clusters.pbs import jobs
from bftrainer_clusters.pbs.config import PbsSettings
from bftrainer_clusters.pbs.observe import PbsCommands
from bftrainer_clusters.pbs.text import PbsRecord, short_id

SCRIPT = "pilot.pbs"
_TIMEOUT_S = 20.0
_PASSED_ON = ("BFTRAINER_STATE", "BFTRAINER_VENV", "BFTRAINER_RESTART_S")
_NAMES_STATE = re.compile(
    r"^#PBS\s+(?:.*\s)?-[vV]\b|^\s*(?:export\s+)?BFTRAINER_STATE=", re.MULTILINE
)
_NO_PROJECT = "_pbs_project_default"


def waiting_argv(user: str, name: str) -> list[str]:
    """Build the query for waiting jobs of a user with this name."""
    return ["qselect", "-u", user, "-N", name, "-s", "QHW"]


def successor_argv(job: PbsRecord, script: Path, variables: Mapping[str, str]) -> list[str]:
    """Build the ``qsub`` command of the successor of a job. Options here override the script's
    ``#PBS`` lines. ``variables`` are those of this pilot that the successor needs.
    """
    account, project = job.get("Account_Name"), job.get("project")
    passed_on = ",".join(f"{name}={value}" for name, value in sorted(variables.items()))
    return [
        "qsub",
        "-W",
        f"depend=afterany:{job.id}",
        "-N",
        job.get("Job_Name"),
        "-q",
        job.get("queue"),
        *(["-A", account] if account else []),
        *(["-P", project] if project not in ("", _NO_PROJECT) else []),
        *(["-v", passed_on] if passed_on else []),
        str(script),
    ]


def waits_for(record: PbsRecord, job: str) -> bool:
    """Return whether a job starts after the end of ``job``. Another pilot of the user may have a
    successor of the same name.
    """
    first = rf"(?:^|[,:])afterany:(?:[^,]*:)?{re.escape(short_id(job))}\."
    return re.search(first, record.get("depend"), re.ASCII) is not None


def passed_on(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that a successor needs. Raises ``SchedulerError`` for a value that
    ``qsub -v`` would take for several variables.
    """
    variables = {name: environment[name] for name in _PASSED_ON if name in environment}
    for name, value in variables.items():
        if any(mark in value for mark in ",\"'\\\n"):
            raise SchedulerError(f"{name}={value!r} cannot be passed to a successor by qsub -v")
    return variables


def pilot_options(
    settings: PbsSettings, default_queue: str, wishes: PilotJobWishes
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the options of qsub for a pilot's job, by their flags, and the reasons.

    ``default_queue`` is the server's; it may be empty. Raises ``UndecidedError`` if it is the
    holders' queue and ``pbs.main_queues`` does not name one queue.
    """
    if wishes.qos:
        raise UserError("--qos: not for PBS; remove the option")
    main_queues = [queue for queue in settings.main_queues if queue != settings.queue]
    if wishes.partition:
        queue, why = wishes.partition, "as --partition says"
    elif default_queue not in ("", settings.queue):
        queue, why = default_queue, "the server's default_queue"
    elif len(main_queues) == 1:
        queue, why = main_queues[0], "the only one in pbs.main_queues"
    else:
        raise UndecidedError(
            "--partition",
            "PBS does not show which queue, other than the holders', is for a job of one core that "
            "lasts a day and is not preempted",
            tuple(main_queues),
        )
    limit = f"{hours_minutes(LIMIT_S if wishes.limit_s is None else wishes.limit_s)}:00"
    options = {"-q": f"-q {queue}", "-l walltime": f"-l walltime={limit}"}
    reasons = [f"queue {queue}: {why}", f"walltime {limit}"]
    account, why_account = chosen_account(wishes, settings.account)
    if account:
        options["-A"] = f"-A {account}"
        reasons.append(f"account {account}: {why_account}")
    if settings.project:
        options["-P"] = f"-P {settings.project}"
        reasons.append(f"project {settings.project}: the holders'")
    return options, tuple(reasons)


def submit(script: Path) -> SubmittedPilot:
    """Submit the job script of a pilot from its folder, where the job's output goes.

    A script of the user's own may not name the state directory: then ``-v`` does, unless the script
    has such a list, which the option would replace.
    """
    folder = str(script.parent)
    text = script.read_text(encoding="utf-8")
    passed = [] if _NAMES_STATE.search(text) else ["-v", "BFTRAINER_STATE"]
    argv = ["qsub", *passed, script.name]
    environment = {"BFTRAINER_STATE": folder}
    answer = command.run(argv, timeout_s=_TIMEOUT_S, env=environment, cwd=folder)
    job = jobs.parse_submitted(answer)
    number = short_id(job)
    output = str(script.parent / f"bftrainer-pilot.o{number}")
    return SubmittedPilot(number, f"qstat {number}", f"qdel {number}", output)


@dataclass
class PbsPilotJob:
    """The job with id ``job``; its successor runs ``pilot.pbs`` of ``state_dir``, or ours."""

    job: str
    state_dir: Path
    clock: Clock
    commands: PbsCommands = field(default_factory=lambda: PbsCommands(_TIMEOUT_S))

    def ends_s(self) -> float | None:
        """Ask PBS for the end of the job's time limit, in seconds since 1970; None without a limit,
        and while the job does not run.
        """
        job = self._record()
        return None if job is None else jobs.ends_s(job)

    def submit_successor(self) -> str:
        """Submit the script to start when this job is over, unless its successor is pending; return
        the successor's id. Raises ``SchedulerError`` if PBS does not list the pilot's own job.
        """
        job = self._record()
        if job is None:
            raise SchedulerError(f"qstat does not list the pilot's own job {self.job}")
        argv = waiting_argv(own_name(), job.get("Job_Name"))
        if waiting := self.commands.ask(argv, jobs.parse_ids):
            records, _ = self.commands.jobs(waiting)
            if successors := [record.id for record in records if waits_for(record, job.id)]:
                return short_id(min(successors))
        argv = successor_argv(job, self.script(), passed_on(os.environ))
        return short_id(self.commands.ask(argv, jobs.parse_submitted))

    def withdraw(self, successor: str) -> None:
        argv = jobs.cancel_argv([successor])
        output = self.commands.outcome(argv)
        if output.status and not jobs.says_only_harmless(output.err):
            raise command.failure(argv, output)

    def script(self) -> Path:
        own = self.state_dir / SCRIPT
        return holder_script(own if own.exists() else None, SCRIPT)

    def _record(self) -> PbsRecord | None:
        return _record_of(self.commands, self.job)


def _record_of(commands: PbsCommands, job: str) -> PbsRecord | None:
    """Return a job's record; None if PBS says that there is no such job, or that it is over."""
    records, _ = commands.jobs([job])
    return records[0] if records else None


def job_is_gone(job: str, commands: PbsCommands | None = None) -> bool | None:
    """Return whether a job is over; None if PBS does not say."""
    try:
        record = _record_of(commands or PbsCommands(_TIMEOUT_S), job)
    except (CommandError, SchedulerError):
        return None
    return record is None or jobs.phase_of(record) is JobPhase.OVER
