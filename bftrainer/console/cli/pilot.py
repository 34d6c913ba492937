"""``bftrainer pilot``: the process that holds idle nodes and trains on them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bftrainer.console.cli.choices import FILE, NumberRange
from bftrainer.console.cli.output import note
from bftrainer.console.cli.state import state_option
from bftrainer.console.client.state_dir import CONFIG_NAME, read
from bftrainer.errors import DirectoryInUseError, StoreError, UserError
from bftrainer.system.umask import private_files

if TYPE_CHECKING:
    from collections.abc import Callable

    from bftrainer.config.pilot import PilotConfig
    from bftrainer.pilot.runtime import PilotDependencies
    from bftrainer.system.signals import Signals

_TRY_AGAIN_S, _SLICE_S = 10.0, 0.2


@click.command()
@state_option
@click.option(
    "--config",
    type=FILE,
    help=f"Configuration.  [default: {CONFIG_NAME} in the state directory, if it exists]",
)
@click.option(
    "--submit", is_flag=True, help="Write this site's job script of the pilot, and submit it."
)
@click.option(
    "--dry-run",
    "--print",
    "dry_run",
    is_flag=True,
    help="With --submit, print the script instead. Nothing is submitted.",
)
@click.option(
    "--partition",
    default="",
    metavar="NAME",
    help="With --submit, partition or queue of the pilot's job. Default: by the site's answers.",
)
@click.option("--qos", default="", metavar="NAME", help="With --submit, QOS of the pilot's job.")
@click.option(
    "--account", default="", metavar="NAME", help="With --submit, account of the pilot's job."
)
@click.option(
    "--time-limit",
    "limit_s",
    type=NumberRange(min=600),
    metavar="SECONDS",
    help="With --submit, time limit of the pilot's job. Default: a day, or the longest allowed.",
)
def pilot(
    state: Path,
    config: Path | None,
    submit: bool,
    dry_run: bool,
    partition: str,
    qos: str,
    account: str,
    limit_s: float | None,
) -> None:
    """Run the pilot: hold idle nodes, train on them, release each when the scheduler needs it.

    On SIGTERM, trainings checkpoint, every node is released, and the pilot exits. On SIGHUP, it
    rereads its configuration. After a crash or a kill, run the pilot again: it finds its holders
    and drivers. Inside a batch job, the pilot waits while another one uses the state directory.

    With --submit, it runs as a batch job of one core, which submits its own successor.

    \b
    Example:
      bftrainer init && bftrainer pilot
      bftrainer pilot --submit --dry-run
    """
    from bftrainer.cluster.pilot_submission import PilotJobWishes
    from bftrainer.console.cli.pilot_submission import submit_pilot

    wishes = PilotJobWishes(partition, qos, account, limit_s)
    if submit and config is not None:
        raise UserError(f"--config: a submitted pilot reads {CONFIG_NAME} of --state; remove it")
    if not submit and (dry_run or wishes != PilotJobWishes()):
        raise UserError("--dry-run and the options of a job need --submit")
    with private_files():
        if submit:
            refuse_root(read(state))
            submit_pilot(state, wishes, shown_only=dry_run)
        else:
            _pilot_of(state, config)


def _pilot_of(state: Path, config: Path | None) -> None:
    """Run the pilot of a state directory until a signal ends it.

    ``config`` is the configuration file; None for that in the directory, or the defaults. Raises
    ``UserError`` as root, and ``StoreError`` where the disk cannot be written.
    """
    from bftrainer.console.cli.pilot_log import print_fact
    from bftrainer.pilot.audit.auditor import Auditor
    from bftrainer.pilot.own_site import batch_job, build_site
    from bftrainer.pilot.persistence.spool import open_state_dir
    from bftrainer.pilot.pilot_process import run_pilot
    from bftrainer.pilot.runtime import PilotDependencies
    from bftrainer.system.background import InThread
    from bftrainer.system.clock import SystemClock
    from bftrainer.system.locks import require_locks
    from bftrainer.system.signals import Signals

    folder = open_state_dir(state, create=True)
    settings = read(folder, config)
    refuse_root(settings)
    if config is None and not (folder / CONFIG_NAME).exists():
        note(
            f"{folder} has no {CONFIG_NAME}: nodes are those of a generated log, and trainings run "
            "on this host; for a cluster: bftrainer init"
        )
    clock = SystemClock()
    site = build_site(settings, folder, clock)

    job = batch_job(os.environ, settings.nodes.holder, folder, clock)
    dependencies = PilotDependencies(
        folder,
        site,
        clock,
        job,
        log=print_fact,
        background=InThread(clock.wake),
        audit=Auditor(folder, clock),
    )
    try:
        require_locks(folder)
        with Signals().caught() as signals:
            has_ended = False
            while not has_ended:
                has_ended = run_once(
                    dependencies,
                    signals,
                    lambda: run_pilot(
                        dependencies, settings, signals, lambda: read(folder, config)
                    ),
                )
    except OSError as error:
        raise StoreError(
            f"{error.filename or folder}: {error.strerror or error}; expected a writable disk"
        ) from error


def run_once(dependencies: PilotDependencies, signals: Signals, run: Callable[[], None]) -> bool:
    """Run the pilot by ``run``, and return whether it has ended: False if the caller should try
    again, since another pilot uses the state directory.

    False is returned after a wait of ``_TRY_AGAIN_S``; a signal during the wait ends the pilot.
    Outside a batch job, another pilot is an error (``DirectoryInUseError``). A job that was
    submitted to succeed another one may start before that one has ended, and its script would take
    the error for final: no pilot would be left.
    """
    from bftrainer.pilot.facts import NoteAdded

    try:
        run()
    except DirectoryInUseError as error:
        if not dependencies.job.id:
            raise
        clock = dependencies.clock
        text = (
            f"{error}; trying again every {_TRY_AGAIN_S:g} s, since this pilot runs in job "
            f"{dependencies.job.id}"
        )
        dependencies.log(NoteAdded(clock.now_s(), "pilot", "", text), "text")
        deadline_s = clock.elapsed_s() + _TRY_AGAIN_S
        while not signals.ends and clock.elapsed_s() < deadline_s:
            clock.sleep(_SLICE_S)
        return signals.ends
    return True


def refuse_root(config: PilotConfig) -> None:
    """Raise ``UserError`` as root on a cluster, where every trainer would run as root on every
    node.

    On this host that is root's own choice.
    """
    from bftrainer.cluster.site_plugin import find_site

    if (
        os.geteuid() == 0
        and not find_site(config.nodes.holder).runs_here
        and not config.workers.allow_root
    ):
        raise UserError(
            "refusing to run as root: trainings would run as root (set workers.allow_root to "
            "allow it)"
        )
