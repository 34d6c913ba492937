"""Parsers of ``bqueues -l``, ``bqueues -w``, ``bapp -l`` and ``bparams -a``: a queue, the numbers
of jobs, an application profile, the cluster. Pure.

Known from manuals, and ``bqueues -l`` from recordings of a descendant
(tests/recorded/lsf-descendant-2.2). LSF omits what is not configured and uses several layouts
(``NAME = value``, ``NAME: value``), so a setting is searched by its name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from bftrainer.errors import SchedulerError

DEFAULT_INTERVAL_S = 10.0
DELAYS = ("NO_PREEMPT_RUN_TIME", "NO_PREEMPT_INTERVAL", "NO_PREEMPT_FINISH_TIME")
PREEMPT_DELAY = "PREEMPT_DELAY"


@dataclass(frozen=True, slots=True)
class QueueFacts:
    """The settings of a queue. Actions are as LSF prints them; empty: its defaults (SIGSTOP to
    suspend, SIGINT ... to end).
    """

    name: str
    status: str
    preemptable: bool
    """PREEMPTION has PREEMPTABLE."""
    terminate_when: frozenset[str]
    suspend: str
    terminate: str
    backfill: bool
    interruptible: bool
    """INTERRUPTIBLE_BACKFILL: LSF ends jobs at the last moment only, and does not preempt them
    otherwise.
    """
    exclusive: bool
    rerunnable: bool
    loads: bool
    """Jobs are suspended on a busy host: loadStop or STOP_COND."""
    windows: str
    """RUN_WINDOW: jobs are suspended when it closes."""
    delays: Mapping[str, str]
    """Settings that keep a running job from being preempted for a while."""


@dataclass(frozen=True, slots=True)
class AppFacts:
    """The settings of an application profile; they override the queue's."""

    suspend: str = ""
    terminate: str = ""
    delays: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ParamFacts:
    """The settings of the cluster; ``interval_s`` is the time between SIGINT, SIGTERM and
    SIGKILL.
    """

    preempted_types: frozenset[str]
    resources: frozenset[str]
    delays: Mapping[str, str]
    interval_s: float


def queue_argv(queue: str) -> list[str]:
    """Build the query for all settings of a queue."""
    return ["bqueues", "-l", queue]


def counts_argv() -> list[str]:
    """Build the query for the numbers of jobs in all queues: one line a queue, however many jobs
    there are.
    """
    return ["bqueues", "-w"]


def app_argv(app: str) -> list[str]:
    """Build the query for all settings of an application profile."""
    return ["bapp", "-l", app]


def params_argv() -> list[str]:
    """Build the query for all parameters of the cluster."""
    return ["bparams", "-a"]


def parse_queue(text: str, name: str) -> QueueFacts:
    """Parse ``bqueues -l NAME``. Raises ``SchedulerError`` if the output is truncated."""
    head = re.search(r"^QUEUE:\s*(\S+)\s*$", text, re.MULTILINE)
    if head is None or head[1] != name:
        raise SchedulerError(f"bqueues -l {name} did not print this queue: {text[:80]!r}")
    status = re.search(r"\b(Open|Closed):(Active|Inact\w*)", text)
    # USERS and HOSTS are printed for every queue, after the policies and before the job controls.
    if status is None or not re.search(r"^HOSTS:.*\n", text, re.MULTILINE):
        raise SchedulerError(f"bqueues: the output about {name} is truncated: ...{text[-60:]!r}")
    policies = " ".join(
        re.findall(r"^(?:SCHEDULING POLICIES|PREEMPTION)\s*[:=](.*)$", text, re.MULTILINE)
    )
    stops = [
        word
        for line in re.findall(r"^\s*loadStop(.*)$", text, re.MULTILINE)
        for word in line.split()
    ]
    return QueueFacts(
        name=name,
        status=status[0],
        preemptable="PREEMPTABLE" in policies,
        terminate_when=frozenset(_setting_value(text, "TERMINATE_WHEN").upper().split()),
        suspend=_job_control_action(text, "SUSPEND"),
        terminate=_job_control_action(text, "TERMINATE"),
        backfill="BACKFILL" in policies.split(),
        interruptible="INTERRUPTIBLE_BACKFILL" in text,
        exclusive="EXCLUSIVE" in policies.split(),
        rerunnable=_setting_value(text, "RERUNNABLE").lower() in ("y", "yes"),
        loads=any(word != "-" for word in stops) or bool(_setting_value(text, "STOP_COND")),
        windows=_setting_value(text, "RUN_WINDOWS?"),
        delays=_delay_settings(text),
    )


@dataclass(frozen=True, slots=True)
class QueueCounts:
    """A queue in ``bqueues -w``: its priority, and its slots of jobs, of pending, of running and of
    suspended ones.
    """

    name: str
    priority: int
    slots: tuple[int, ...]


_COUNTS = ("NJOBS", "PEND", "RUN", "SUSP")


def parse_counts(text: str) -> tuple[QueueCounts, ...]:
    """Parse ``bqueues -w``. Raises ``SchedulerError`` if the output is not a complete table."""
    header, *lines = [line.split() for line in text.splitlines() if line.strip()] or [[]]
    needed = ("QUEUE_NAME", "PRIO", *_COUNTS)
    if not text.endswith("\n") or not lines or any(header.count(name) != 1 for name in needed):
        raise SchedulerError(f"bqueues -w did not print a table of queues: {text[:80]!r}")
    name, priority, *counts = (header.index(column) for column in needed)
    queues = []
    for words in lines:
        numbers = [words[column] for column in (priority, *counts) if column < len(words)]
        if len(words) != len(header) or not all(word.isdecimal() for word in numbers):
            raise SchedulerError(f"bqueues -w: unrecognized line {' '.join(words)[:80]!r}")
        queues.append(QueueCounts(words[name], int(words[priority]), tuple(map(int, numbers[1:]))))
    return tuple(queues)


def parse_app(text: str, name: str) -> AppFacts:
    """Parse ``bapp -l NAME``. Raises ``SchedulerError`` if the output is truncated."""
    if not re.search(
        rf"^APPLICATION NAME:\s*{re.escape(name)}\s*$", text, re.MULTILINE
    ) or not text.endswith("\n"):
        raise SchedulerError(
            f"bapp -l {name} did not print a complete application profile: {text[:80]!r}"
        )
    return AppFacts(
        _job_control_action(text, "SUSPEND"),
        _job_control_action(text, "TERMINATE"),
        _delay_settings(text),
    )


def parse_params(text: str) -> ParamFacts:
    """Parse ``bparams -a``. Raises ``SchedulerError`` if the output is truncated."""
    if not re.search(r"^\s*\w+\s*=", text, re.MULTILINE) or not text.endswith("\n"):
        raise SchedulerError(
            f"bparams -a did not print a complete list of parameters: {text[:60]!r}"
        )
    interval = _setting_value(text, "JOB_TERMINATE_INTERVAL").partition(" ")[0]
    return ParamFacts(
        preempted_types=frozenset(_setting_value(text, "PREEMPT_JOBTYPE").upper().split()),
        resources=frozenset(_setting_value(text, "PREEMPTABLE_RESOURCES").split()),
        delays=_delay_settings(text),
        interval_s=float(interval) if interval.isdecimal() else DEFAULT_INTERVAL_S,
    )


def _setting_value(text: str, name: str) -> str:
    """Return the value of a setting (``NAME = value`` or ``NAME: value``); empty if LSF does not
    print it.
    """
    match = re.search(rf"^\s*{name}\s*[:=](.*)$", text, re.MULTILINE)
    return match[1].strip() if match else ""


def _job_control_action(text: str, name: str) -> str:
    """Return an action of JOB_CONTROLS (``SUSPEND: [SIGTSTP]`` -> ``SIGTSTP``), or a profile's
    SUSPEND_CONTROL; empty if LSF does not print it.
    """
    match = re.search(rf"^\s*{name}(?:_CONTROL)?\s*[:=]\s*\[?(.*?)\]?\s*$", text, re.MULTILINE)
    return match[1].strip() if match else ""


def _delay_settings(text: str) -> dict[str, str]:
    values = {name: _setting_value(text, name) for name in (*DELAYS, PREEMPT_DELAY)}
    return {name: value for name, value in values.items() if value}
