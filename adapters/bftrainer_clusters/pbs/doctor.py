"""``bftrainer doctor --site``: every query that the pilot makes to PBS, run once. Reads only;
nothing is held.

Output that is not understood, and that of commands that failed, is saved with its command and exit
status, for an issue.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bftrainer.cluster.model import Availability
from bftrainer.counted import counted
from bftrainer.decide.domain.checks import Check, CheckStatus
from bftrainer.errors import CommandError, SchedulerError
from bftrainer.system import command
from bftrainer.system.command import Output, Parsed
from bftrainer.system.users import own_name
from bftrainer_clusters.pbs import jobs
from bftrainer_clusters.pbs.config import PbsSettings
from bftrainer_clusters.pbs.observe import (
    NODES_ARGV,
    RESERVATIONS_ARGV,
    PbsCommands,
    QueueVerdict,
    verdict_on_queue,
)
from bftrainer_clusters.pbs.queue import (
    PbsSchedulerFacts,
    PbsServer,
    parse_queues,
    parse_schedulers,
    parse_server,
    queues_argv,
    schedulers_argv,
    server_argv,
)
from bftrainer_clusters.pbs.text import PbsNodes, parse_nodes, parse_reservations

_QUEUE = "queue"
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
    examination = _Examination(PbsCommands(settings.timeout_s, env or {}), keep_in)
    examination.ask(
        "nodes", NODES_ARGV, lambda text: parse_nodes(text, settings.gpu_resource), _nodes
    )
    examination.ask("jobs", jobs.jobs_argv(), jobs.parse_jobs, _number_of("job"))
    examination.ask("ids", ["qselect"], jobs.parse_ids, _number_of("job"))
    examination.ask("holders", jobs.own_argv(own_name()), jobs.parse_ids, _number_of("holder"))
    queues = examination.ask("queues", queues_argv(), parse_queues, _number_of("queue"))
    schedulers = examination.ask("schedulers", schedulers_argv(), parse_schedulers, _orders)
    server = examination.ask(
        "server", server_argv(), parse_server, lambda server: f"PBS {server.version}"
    )
    if settings.reservations:
        reservation = _number_of("reservation")
        examination.ask("reservations", RESERVATIONS_ARGV, parse_reservations, reservation)
    checks = examination.checks
    if server is not None:
        checks += _server(server, ends_holders, environment or {})
    if queues is None or schedulers is None or server is None:
        unknown = "unknown without the answers about queues, schedulers and the server"
        return [*checks, Check.broken(_QUEUE, unknown)]
    verdict = verdict_on_queue(queues, schedulers, server, settings, ends_holders)
    return [*checks, *_queue(verdict, settings.queue, ends_holders)]


def _nodes(nodes: PbsNodes) -> str:
    idle = sum(view.availability is Availability.FREE for view in nodes.views)
    return f"{counted(len(nodes.views), 'node')}, {idle} idle"


def _orders(schedulers: Sequence[PbsSchedulerFacts]) -> str:
    return ", ".join(
        f"{scheduler.name}: preempt_order {scheduler.order}" for scheduler in schedulers
    )


def _number_of(noun: str) -> Callable[[Sequence[object]], str]:
    return lambda records: counted(len(records), noun)


@dataclass
class _Examination:
    """The checks so far, one for each query. What is not understood is kept in ``keep_in``."""

    commands: PbsCommands
    keep_in: Path
    checks: list[Check] = field(default_factory=list)

    def ask(
        self,
        name: str,
        argv: Sequence[str],
        parse: Callable[[str], Parsed],
        describe: Callable[[Parsed], str],
    ) -> Parsed | None:
        """Run one query, note its check, and return its answer; None where there is none."""
        try:
            output = self.commands.outcome(argv)
        except CommandError as error:
            state = CheckStatus.MISSING if error.problem == "not found" else CheckStatus.BROKEN
            self.checks.append(Check(name, state, str(error)))
            return None
        try:
            if output.status:
                raise command.failure(argv, output)
            answer = command.parsed(argv, output.out, parse)
        except (CommandError, SchedulerError) as error:
            path = self._keep(name, argv, output)
            self.checks.append(Check.broken(name, str(error), f"{_SEND_IN}: {path}"))
            return None
        self.checks.append(Check.ok(name, f"{argv[0]}: {describe(answer)}"))
        return answer

    def _keep(self, name: str, argv: Sequence[str], output: Output) -> Path:
        self.keep_in.mkdir(parents=True, exist_ok=True)
        path = self.keep_in / f"pbs-{name}.txt"
        text = f"{output.out}--- stderr\n{output.err}--- status {output.status}\n"
        path.write_text(f"$ {' '.join(argv)}\n{text}", encoding="utf-8")
        return path


def _server(server: PbsServer, ends_holders: bool, environment: Mapping[str, str]) -> list[Check]:
    """Check what the server lets this user see and end."""
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


def _queue(verdict: QueueVerdict, queue: str, ends_holders: bool) -> list[Check]:
    """Check whether main jobs get the nodes of holders in the configured queue."""
    warnings = [
        Check.warning("kill_delay", text, f"qmgr -c 'set queue {queue} kill_delay = 10'")
        for text in verdict.warnings
    ]
    if verdict.reasons:
        reasons = "; ".join(verdict.reasons)
        return [Check.broken(_QUEUE, reasons, "docs/pbs.md shows the settings"), *warnings]
    if ends_holders:
        detail = f"{queue} suspends no holder; the pilot ends them for main jobs itself"
    else:
        detail = f"PBS deletes jobs of {queue} for main jobs: holders may run there"
    return [Check.ok(_QUEUE, detail), *warnings]
