"""``bftrainer doctor --site``: every query that the pilot makes to LSF, run once. Reads only;
nothing is held.

The adapter was written without access to IBM's LSF, so its first run at a site is this one. Output
that is not understood, and that of commands that failed, is saved with its command and exit status,
for an issue.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

from bftrainer.cluster.model import Availability, NodeView
from bftrainer.counted import counted
from bftrainer.decide.domain.checks import Check, CheckStatus
from bftrainer.errors import CommandError, SchedulerError
from bftrainer.system import command
from bftrainer.system.users import own_name
from bftrainer_clusters.lsf import jobs as lsf_jobs
from bftrainer_clusters.lsf import observe as lsf_observe
from bftrainer_clusters.lsf import queue as lsf_queue
from bftrainer_clusters.lsf import text as lsf_text
from bftrainer_clusters.lsf import windows as lsf_windows
from bftrainer_clusters.lsf.config import LsfSettings
from bftrainer_clusters.lsf.node_waits import (
    UnfinishedJobs,
    holders_argv,
    jobs_argv,
    parse_holder_ids,
    parse_jobs,
)
from bftrainer_clusters.lsf.observe import queue_problems

_SEND_IN = "please attach this file to an issue"
_NEEDED_VERSION = (10, 1, 0, 2)


def examine_lsf(settings: LsfSettings, keep_in: Path, ends_holders: bool = False) -> list[Check]:
    """Run each query that the pilot makes to LSF, and return a check for each. ``ends_holders``:
    the pilot ends holders for main jobs itself, and reads all jobs.
    """
    now_s, user = time.time(), own_name()
    slots = settings.slots_per_node
    bjobs, brsvs = settings.pending == "bjobs", settings.reservations
    questions: list[tuple[str, list[str], Callable[[str], str], str]] = [
        (
            "hosts",
            lsf_observe.hosts_argv(settings),
            lambda t: _hosts_text(lsf_text.parse_hosts(t), slots),
            "",
        ),
        (
            "windows",
            lsf_observe.windows_argv(settings),
            lambda t: _windows_text(lsf_windows.parse_windows(t), slots),
            "",
        ),
        (
            "pending",
            lsf_observe.pending_argv(),
            lambda t: _jobs_text(t, slots),
            "" if bjobs else "lsf.pending",
        ),
        (
            "holders",
            lsf_jobs.list_argv(user),
            lambda t: f"{len(lsf_jobs.parse_list(t, now_s))} known",
            "",
        ),
        (
            "brsvs",
            lsf_observe.reservations_argv(),
            lambda t: f"{counted(len(lsf_windows.parse_reservations(t, now_s)), 'reservation')}",
            "" if brsvs else "lsf.reservations",
        ),
        ("bparams", lsf_queue.params_argv(), lambda t: _params_text(lsf_queue.parse_params(t)), ""),
    ]
    if ends_holders:
        questions += [
            ("queues", lsf_queue.counts_argv(), _slot_counts_text, ""),
            ("jobs", jobs_argv(), lambda t: _unfinished_text(parse_jobs(t, {}), slots), ""),
            ("holders", holders_argv(), lambda t: counted(len(parse_holder_ids(t)), "holder"), ""),
        ]
    checks = []
    for name, argv, read, off in questions:
        if off:
            checks.append(Check.ok(name, f"{argv[0]}: not used ({off})", required=False))
        else:
            checks.append(_check_query(name, argv, read, settings, keep_in))
    return [
        _check_version(settings, keep_in),
        *checks,
        _check_queue(settings, keep_in, ends_holders),
    ]


def _check_version(settings: LsfSettings, keep_in: Path) -> Check:
    """Check whether LSF's version prints what the pilot parses."""
    check = _check_query("version", ["lsid"], lsf_text.parse_version, settings, keep_in)
    if check.state is not CheckStatus.OK:
        return Check.warning("version", check.detail, check.remedy)
    numbers = tuple(map(int, re.findall(r"[0-9]{1,9}", check.detail)))[:4]
    if numbers >= _NEEDED_VERSION:
        return check
    detail = f"{check.detail}: -o and -json of bhosts, and -o of bjobs need LSF 10.1.0.2"
    return Check.warning("version", detail, "upgrade LSF")


def _check_query(
    name: str, argv: list[str], read: Callable[[str], str], settings: LsfSettings, keep_in: Path
) -> Check:
    """Run one query and parse its answer. What is not understood is kept in a file, for
    an issue.
    """
    try:
        output = command.outcome(argv, timeout_s=settings.timeout_s)
    except CommandError as error:
        state = CheckStatus.MISSING if error.problem == "not found" else CheckStatus.BROKEN
        return Check(name, state, str(error))
    text = lsf_text.answer_of(output)
    try:
        if text is None:
            raise command.failure(argv, output)
        return Check.ok(name, f"{argv[0]}: {command.parsed(argv, text, read)}")
    except (CommandError, SchedulerError) as error:
        kept = _keep_output(
            name, argv, f"{output.out}--- stderr\n{output.err}--- status {output.status}\n", keep_in
        )
        return Check.broken(name, str(error), f"{_SEND_IN}: {kept}")


def _check_queue(settings: LsfSettings, keep_in: Path, ends_holders: bool) -> Check:
    """Check whether the configured queue ends preempted jobs, or at least does not suspend them."""
    name = "queue"
    try:
        against = queue_problems(settings, {}, ends_holders)
    except CommandError as error:
        return Check.broken(name, str(error))
    except SchedulerError as error:
        argv, text = error.answer or ((), "")
        return Check.broken(
            name, str(error), f"{_SEND_IN}: {_keep_output(name, list(argv), text, keep_in)}"
        )
    if against:
        return Check.broken(
            name, "; ".join(against), "docs/lsf.md shows the queue that a site must add"
        )
    if ends_holders:
        detail = f"{settings.queue} suspends no holder; the pilot ends them for main jobs itself"
        return Check.ok(name, detail)
    return Check.ok(name, f"{settings.queue} ends preempted jobs: holders may run there")


def _keep_output(name: str, argv: list[str], text: str, folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"lsf-{name}.txt"
    path.write_text(f"$ {' '.join(argv)}\n{text}", encoding="utf-8")
    return path


def _hosts_text(views: tuple[NodeView, ...], slots: int) -> str:
    """Describe the hosts for a check, and name one whose number of slots is not the
    configured one.
    """
    odd = [node.name for node in views if node.cpus not in (0, slots)]
    odd_hosts = (
        f", {len(odd)} do not have {counted(slots, 'slot')}, such as {odd[0]} "
        "(lsf.slots_per_node, lsf.select)"
        if odd
        else ""
    )
    return (
        f"{counted(len(views), 'host')}, "
        f"{sum(node.availability is Availability.FREE for node in views)} idle{odd_hosts}"
    )


def _windows_text(windows: tuple[lsf_windows.BackfillWindow, ...], slots: int) -> str:
    whole = lsf_windows.longest_by_host(windows, lambda host: slots)
    return f"{counted(len(windows), 'window')}, {counted(len(whole), 'whole node')}"


def _jobs_text(text: str, slots: int) -> str:
    if lsf_text.says_nothing(text):
        return f"{counted(0, 'job')} pending"
    return f"{counted(len(lsf_text.parse_pending(text, slots)), 'job')} pending"


def _slot_counts_text(text: str) -> str:
    return counted(len(lsf_queue.parse_counts(text)), "queue")


def _unfinished_text(jobs: UnfinishedJobs, slots: int) -> str:
    waiting = sum(job.is_eligible for job in jobs.pending(slots))
    return f"{counted(len(jobs.jobs), 'unfinished job')}, {waiting} waiting"


def _params_text(params: lsf_queue.ParamFacts) -> str:
    types = " ".join(sorted(params.preempted_types)) or "not set"
    return f"JOB_TERMINATE_INTERVAL {params.interval_s:g} s, PREEMPT_JOBTYPE {types}"
