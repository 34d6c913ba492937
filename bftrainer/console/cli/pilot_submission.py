"""``bftrainer pilot --submit``: the pilot as a batch job of the site that its configuration
names.
"""

from __future__ import annotations

import os
import shlex
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from bftrainer.console.cli.output import say
from bftrainer.console.client.state_dir import CONFIG_NAME, has_registry, pilot_has_ended, read
from bftrainer.errors import CommandError, SchedulerError, UndecidedError, UserError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bftrainer.cluster.pilot_submission import (
        PilotJobWishes,
        PilotScript,
        PilotSubmitter,
        SubmittedPilot,
    )
    from bftrainer.config.pilot import PilotConfig

JOB_NAME = "pilot-job"
"""The file in the state directory with the id of the job that was submitted last."""
_MAX_ID_BYTES = 256


def submit_pilot(state: Path, wishes: PilotJobWishes, *, shown_only: bool) -> None:
    """Write the pilot's job script to its state directory, and submit it; with ``shown_only``,
    print it instead.

    Raises ``UserError`` where no pilot can run as a job, where one runs or waits, and where the
    user has to decide.
    """
    from bftrainer.pilot.persistence.spool import open_state_dir
    from bftrainer.system.files import write_atomically

    folder = open_state_dir(state).absolute()
    path = folder / CONFIG_NAME
    settings = read(folder)
    submitter = _submitter(settings, path)
    if shown_only:
        say(_script(submitter, settings, folder, wishes).text, nl=False)
        return
    with _only_submission(folder):
        _refuse_second(folder, settings)
        script = _script(submitter, settings, folder, wishes)
        if not script.is_own:
            write_atomically(folder / script.name, script.text.encode(), 0o700)
        job = _submitted(submitter, folder / script.name)
        write_atomically(folder / JOB_NAME, f"{job.job}\n".encode(), 0o600)
    _show(folder, script, job)


def _script(
    submitter: PilotSubmitter, settings: PilotConfig, folder: Path, wishes: PilotJobWishes
) -> PilotScript:
    """Return the job script of a state directory. Raises ``UserError`` for a question that is left
    to the user.
    """
    try:
        return submitter.pilot_script(settings, str(folder / CONFIG_NAME), folder, wishes)
    except UndecidedError as question:
        names = f" (such as {', '.join(question.choices)})" if question.choices else ""
        raise UserError(f"{question}{names}") from None


def _submitted(submitter: PilotSubmitter, path: Path) -> SubmittedPilot:
    """Submit a job script. Raises ``SchedulerError`` where the scheduler has not said whether it
    has the job.
    """
    try:
        return submitter.submit_pilot(path)
    except (CommandError, SchedulerError) as error:
        if isinstance(error, CommandError) and not error.problem.startswith("no response"):
            raise
        raise SchedulerError(
            f"{error}; the job may have been submitted: look for bftrainer-pilot among your jobs "
            "before you submit it again"
        ) from error


@contextmanager
def _only_submission(folder: Path) -> Iterator[None]:
    """Let one command at a time submit the pilot of a state directory: the second one must see the
    job of the first. Raises ``UserError`` in the second one.
    """
    from bftrainer.system.locks import OwnerLock

    lock = OwnerLock(folder / JOB_NAME)
    if not lock.acquire():
        raise UserError(
            f"--submit: another command submits the pilot of {folder}; wait until it has ended"
        )
    try:
        yield
    finally:
        lock.release()


def _submitter(settings: PilotConfig, path: Path) -> PilotSubmitter:
    """Return the site of a configuration, which runs pilots as jobs. Raises ``UserError`` if it
    does not.
    """
    from bftrainer.cluster.pilot_submission import PilotSubmitter
    from bftrainer.cluster.site_plugin import find_site

    holder = settings.nodes.holder
    site = find_site(holder)
    if isinstance(site, PilotSubmitter):
        return site
    if not path.exists():
        raise UserError(
            f"--submit: {path} does not exist, so no scheduler is known; write it with "
            "`bftrainer init --holder SCHEDULER`"
        )
    raise UserError(
        f"--submit: a pilot with holder {holder!r} does not run as a job of its own; run "
        "`bftrainer pilot` "
        + ("here" if site.runs_here or site.batch is not None else "in a job of yours")
    )


def _refuse_second(folder: Path, settings: PilotConfig) -> None:
    """Raise ``UserError`` if a pilot of this state directory runs, or its job waits."""
    from bftrainer.cluster.site_plugin import find_site
    from bftrainer.console.client.state_dir import opened_registry

    if has_registry(folder):
        with opened_registry(folder) as registry:
            pilot = registry.store.holder()
            if pilot is not None and not pilot_has_ended(registry.store, time.time()):
                job = f" in job {pilot.job_id}" if pilot.job_id else ""
                raise UserError(
                    f"--submit: the pilot of {folder} runs already, on {pilot.host}{job}; stop it "
                    "first, or use another --state"
                )
    job_id = _last_job(folder)
    batch = find_site(settings.nodes.holder).batch
    if job_id and batch is not None and batch.job_is_gone(job_id) is False:
        raise UserError(
            f"--submit: job {job_id}, the pilot of {folder}, waits or runs already; cancel it "
            "first, or use another --state"
        )


def _last_job(folder: Path) -> str:
    """Return the id of the job that was submitted last; empty if there is none."""
    from bftrainer.system.regular import read_regular

    path = folder / JOB_NAME
    try:
        return read_regular(path, _MAX_ID_BYTES).decode("ascii", "replace").strip()
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise UserError(
            f"{path} cannot be read ({error}); expected a job ID; remove the file"
        ) from None


def _show(folder: Path, script: PilotScript, job: SubmittedPilot) -> None:
    """Print what was submitted, and how to watch it."""
    from bftrainer.console.client.state_dir import STATE_VARIABLE, default_state

    say(f"submitted: job {job.job}")
    say(f"  script: {folder / script.name}")
    for reason in script.reasons:
        say(f"  {reason}")
    say(f"  output: {job.output}")
    is_default = default_state().absolute() == folder and STATE_VARIABLE not in os.environ
    where = "" if is_default else f" --state {shlex.quote(str(folder))}"
    say(f"watch it: {job.watch}; bftrainer top{where}")
    say(f"stop it: {job.stop}")
