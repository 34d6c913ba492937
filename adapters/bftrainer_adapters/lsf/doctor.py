"""``bftrainer doctor --lsf``: every query that the pilot makes to LSF, run once. Reads only; nothing is held.

The adapter was written without access to an LSF, so its first run at a site is this one. Output that is not understood is saved
with its command, for an issue.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from bftrainer.domain.checks import Check, CheckStatus
from bftrainer.domain.cluster import Availability, NodeView
from bftrainer.errors import CommandError, SchedulerError
from bftrainer.system import command
from bftrainer.system.users import own_name
from bftrainer_adapters.lsf import jobs as lsf_jobs
from bftrainer_adapters.lsf import observe as lsf_observe
from bftrainer_adapters.lsf import queue as lsf_queue
from bftrainer_adapters.lsf import text as lsf_text
from bftrainer_adapters.lsf import windows as lsf_windows
from bftrainer_adapters.lsf.config import LsfSettings
from bftrainer_adapters.lsf.observe import queue_problems

_SEND_IN = "please attach this file to an issue"


def examine_lsf(settings: LsfSettings, keep_in: Path) -> list[Check]:
    """One check per command."""
    now_s, user = time.time(), own_name()
    slots = settings.slots_per_node
    hosts = lsf_text.parse_hosts_json if settings.format == "json" else lsf_text.parse_hosts_text
    questions: list[tuple[str, list[str], Callable[[str], str], bool]] = [
        ("hosts", lsf_observe.hosts_argv(settings), lambda t: _hosts(hosts(t), slots), True),
        ("windows", lsf_observe.windows_argv(settings), lambda t: _windows(lsf_windows.parse_windows(t), slots), True),
        ("pending", lsf_observe.pending_argv(), lambda t: _jobs(t, slots), settings.pending == "bjobs"),
        ("holders", lsf_jobs.list_argv(user), lambda t: f"{len(lsf_jobs.parse_list(t, '', now_s))} known", True),
        (
            "brsvs",
            lsf_observe.reservations_argv(),
            lambda t: f"{len(lsf_windows.parse_reservations(t, now_s))} reservations",
            settings.reservations,
        ),
        ("jobstat", ["jobstat"], lambda t: _jobstat(lsf_text.parse_jobstat(t)), settings.pending == "jobstat"),
        ("bparams", lsf_queue.params_argv(), lambda t: _params(lsf_queue.parse_params(t)), True),
    ]
    checks = [_ask(name, argv, read, settings, required, keep_in) for name, argv, read, required in questions]
    return [*checks, _queue(settings, keep_in)]


def _ask(
    name: str, argv: list[str], read: Callable[[str], str], settings: LsfSettings, required: bool, keep_in: Path
) -> Check:
    try:
        text = command.run(argv, timeout_s=settings.timeout_s)
    except CommandError as error:
        if error.status is None or not lsf_text.says_nothing(error.problem):
            state = CheckStatus.MISSING if error.problem == "not found" else CheckStatus.BROKEN
            return Check(name, state, str(error), required=required)
        text = error.problem
    try:
        return Check.ok(name, f"{argv[0]}: {read(lsf_text.without_waiting(text))}", required=required)
    except SchedulerError as error:
        kept = _keep(name, argv, text, keep_in)
        return Check.broken(name, str(error), f"{_SEND_IN}: {kept}", required=required)


def _queue(settings: LsfSettings, keep_in: Path) -> Check:
    name = "queue"
    try:
        against = queue_problems(settings, {})
    except CommandError as error:
        return Check.broken(name, str(error))
    except SchedulerError as error:
        argv, text = error.answer or ((), "")
        return Check.broken(name, str(error), f"{_SEND_IN}: {_keep(name, list(argv), text, keep_in)}")
    if against:
        return Check.broken(name, "; ".join(against), "docs/lsf.md shows the queue that a site must add")
    return Check.ok(name, f"{settings.queue} ends preempted jobs: holders may run there")


def _keep(name: str, argv: list[str], text: str, folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"lsf-{name}.txt"
    path.write_text(f"$ {' '.join(argv)}\n{text}", encoding="utf-8")
    return path


def _hosts(views: tuple[NodeView, ...], slots: int) -> str:
    odd = [node.name for node in views if node.cpus not in (0, slots)]
    odd_hosts = (
        f", {len(odd)} do not have {slots} slots, such as {odd[0]} (lsf.slots_per_node, lsf.select)" if odd else ""
    )
    return f"{len(views)} hosts, {sum(node.availability is Availability.FREE for node in views)} idle{odd_hosts}"


def _windows(windows: tuple[lsf_windows.BackfillWindow, ...], slots: int) -> str:
    return f"{len(windows)} windows, {len(lsf_windows.longest_by_host(windows, lambda host: slots))} whole nodes"


def _jobs(text: str, slots: int) -> str:
    return f"{0 if lsf_text.says_nothing(text) else len(lsf_text.parse_pending(text, slots))} jobs pending"


def _jobstat(seen: lsf_text.Jobstat) -> str:
    return f"{seen.used} of {seen.nodes} nodes in use, {len(seen.eligible)} jobs eligible"


def _params(params: lsf_queue.ParamFacts) -> str:
    types = " ".join(sorted(params.preempted_types)) or "not set"
    return f"JOB_TERMINATE_INTERVAL {params.interval_s:g} s, PREEMPT_JOBTYPE {types}"
