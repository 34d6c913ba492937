"""``bftrainer doctor --site``: every query that the pilot makes to PBS, run once. Reads only;
nothing is held.

Output that is not understood, and that of commands that failed, is saved with its command and exit
status, for an issue.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from bftrainer.cluster.model import Availability
from bftrainer.counted import counted
from bftrainer.decide.domain.checks import Check, CheckStatus
from bftrainer.errors import CommandError, SchedulerError
from bftrainer.system import command
from bftrainer.system.users import own_name
from bftrainer_clusters.pbs import jobs
from bftrainer_clusters.pbs.config import PbsSettings
from bftrainer_clusters.pbs.observe import (
    NODES_ARGV,
    RESERVATIONS_ARGV,
    PbsCommands,
    ask_about_queue,
    ask_server,
)
from bftrainer_clusters.pbs.queue import (
    parse_queues,
    parse_schedulers,
    parse_server,
    queues_argv,
    schedulers_argv,
    server_argv,
)
from bftrainer_clusters.pbs.text import parse_nodes, parse_reservations

_SEND_IN = "please attach this file to an issue"


def examine_pbs(
    settings: PbsSettings,
    keep_in: Path,
    ends_holders: bool = False,
    environment: Mapping[str, str] | None = None,
    env: Mapping[str, str] | None = None,
) -> list[Check]:
    """Run each query that the pilot makes to PBS, and return a check for each. ``ends_holders``:
    the pilot ends holders for main jobs itself. ``environment`` is that of the pilot's process, and
    ``env`` is added to that of each command.
    """
    commands = PbsCommands(settings.timeout_s, env or {})
    questions: list[tuple[str, Sequence[str], Callable[[str], str]]] = [
        ("nodes", NODES_ARGV, lambda text: _nodes(text, settings.gpu_resource)),
        ("jobs", jobs.jobs_argv(), lambda text: counted(len(jobs.parse_jobs(text)), "job")),
        ("ids", ["qselect"], lambda text: counted(len(jobs.parse_ids(text)), "job")),
        (
            "holders",
            jobs.own_argv(own_name()),
            lambda text: counted(len(jobs.parse_ids(text)), "holder"),
        ),
        ("queues", queues_argv(), lambda text: counted(len(parse_queues(text)), "queue")),
        (
            "schedulers",
            schedulers_argv(),
            lambda text: ", ".join(
                f"{scheduler.name}: preempt_order {scheduler.order}"
                for scheduler in parse_schedulers(text)
            ),
        ),
        ("server", server_argv(), lambda text: f"PBS {parse_server(text).version}"),
    ]
    if settings.reservations:
        questions.append(
            (
                "reservations",
                RESERVATIONS_ARGV,
                lambda text: counted(len(parse_reservations(text)), "reservation"),
            )
        )
    checks = [_ask(name, argv, read, commands, keep_in) for name, argv, read in questions]
    checks += _server(commands, ends_holders, environment or {})
    return [*checks, *_queue(settings, commands, ends_holders)]


def _nodes(text: str, gpu_resource: str) -> str:
    views = parse_nodes(text, gpu_resource).views
    idle = sum(view.availability is Availability.FREE for view in views)
    return f"{counted(len(views), 'node')}, {idle} idle"


def _ask(
    name: str,
    argv: Sequence[str],
    read: Callable[[str], str],
    commands: PbsCommands,
    keep_in: Path,
) -> Check:
    """Run one query and parse its answer. What is not understood is kept in a file."""
    try:
        output = commands.outcome(argv)
    except CommandError as error:
        state = CheckStatus.MISSING if error.problem == "not found" else CheckStatus.BROKEN
        return Check(name, state, str(error))
    try:
        if output.status:
            raise command.failure(argv, output)
        return Check.ok(name, f"{argv[0]}: {command.parsed(argv, output.out, read)}")
    except (CommandError, SchedulerError) as error:
        keep_in.mkdir(parents=True, exist_ok=True)
        path = keep_in / f"pbs-{name}.txt"
        text = f"{output.out}--- stderr\n{output.err}--- status {output.status}\n"
        path.write_text(f"$ {' '.join(argv)}\n{text}", encoding="utf-8")
        return Check.broken(name, str(error), f"{_SEND_IN}: {path}")


def _server(
    commands: PbsCommands, ends_holders: bool, environment: Mapping[str, str]
) -> list[Check]:
    """Check what the server lets this user see and end."""
    try:
        server = ask_server(commands)
    except (CommandError, SchedulerError):
        return []  # the query's own check says so
    checks = []
    if not server.shows_jobs:
        detail = "users do not see the jobs of others (query_other_jobs = False)"
        hidden = "qmgr -c 'set server query_other_jobs = True'"
        if ends_holders:
            checks.append(Check.broken("other users' jobs", detail, hidden))
        else:
            checks.append(
                Check.warning("other users' jobs", f"{detail}: no window has an end", hidden)
            )
    if not server.is_flat and environment.get("PBS_JOBID"):
        checks.append(
            Check.warning(
                "owner",
                "the pilot runs as a job, and PBS takes a user on another node for another owner: "
                "a successor on another node cannot end these holders, only their leases can",
                "qmgr -c 'set server flatuid = True', or run the pilot on one login node",
            )
        )
    return checks


def _queue(settings: PbsSettings, commands: PbsCommands, ends_holders: bool) -> list[Check]:
    """Check whether main jobs get the nodes of holders in the configured queue."""
    name = "queue"
    try:
        verdict = ask_about_queue(commands, settings, ends_holders)
    except (CommandError, SchedulerError) as error:
        return [Check.broken(name, str(error))]
    warnings = [
        Check.warning("kill_delay", text, f"qmgr -c 'set queue {settings.queue} kill_delay = 10'")
        for text in verdict.warnings
    ]
    if verdict.reasons:
        reasons = "; ".join(verdict.reasons)
        return [Check.broken(name, reasons, "docs/pbs.md shows the settings"), *warnings]
    if ends_holders:
        detail = f"{settings.queue} suspends no holder; the pilot ends them for main jobs itself"
    else:
        detail = f"PBS deletes jobs of {settings.queue} for main jobs: holders may run there"
    return [Check.ok(name, detail), *warnings]
