"""Parsers of ``qstat -Qf``, ``qstat -Bf`` and ``qmgr -c "list sched"``: queues, the server, its
schedulers. Every user may read them (OpenPBS 23.06.06). Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from bftrainer.errors import SchedulerError
from bftrainer_clusters.pbs.text import attributes_of, records_of

DEFAULT_KILL_DELAY_S = 10.0
_TARGETS = "preempt_targets"


@dataclass(frozen=True, slots=True)
class PbsQueue:
    """A queue. ``counts`` is PBS's text of the numbers of its jobs by state, ``targets`` the jobs
    that its jobs may preempt (resources_default.preempt_targets; empty: all).
    """

    name: str
    priority: int = 0
    is_execution: bool = True
    enabled: bool = True
    started: bool = True
    kill_delay_s: float = DEFAULT_KILL_DELAY_S
    counts: str = ""
    targets: str = ""

    @property
    def has_waiting_jobs(self) -> bool:
        return re.search(r"(?:Queued|Held|Waiting|Begun|Transit):0*[1-9]", self.counts) is not None


@dataclass(frozen=True, slots=True)
class PbsSchedulerFacts:
    """A scheduler of the server. ``order`` is preempt_order, ``levels`` preempt_prio."""

    name: str
    order: str
    queue_priority: int
    levels: str


@dataclass(frozen=True, slots=True)
class PbsServer:
    """The server. ``shows_jobs``: users see the jobs of others (query_other_jobs). ``is_flat``: a
    user on one host is the same owner as on another (flatuid). ``default_queue`` may be empty, and
    so may ``targets``: what jobs preempt in queues that say nothing else (preempt_targets).
    """

    version: str
    shows_jobs: bool
    is_flat: bool
    default_queue: str = ""
    targets: str = ""


def queues_argv() -> list[str]:
    """Build the query for all queues; its cost does not grow with the number of jobs."""
    return ["qstat", "-Q", "-f", "-F", "dsv"]


def parse_queues(text: str) -> tuple[PbsQueue, ...]:
    """Parse the answer to :func:`queues_argv`. Raises ``SchedulerError``."""
    queues = []
    for record in records_of(text, "Queue", ("queue_type", "enabled", "started")):
        if not record.is_whole:
            raise SchedulerError(f"qstat -Q shows queue {record.id} without its type or state")
        delay = record.get("kill_delay")
        queues.append(
            PbsQueue(
                record.id,
                int(record.get("Priority") or "0"),
                record.get("queue_type").startswith("E"),
                record.get("enabled") == "True",
                record.get("started") == "True",
                float(delay) if delay else DEFAULT_KILL_DELAY_S,
                record.get("state_count"),
                record.get(f"resources_default.{_TARGETS}"),
            )
        )
    if not queues:
        raise SchedulerError("qstat -Q lists no queue")
    return tuple(queues)


def schedulers_argv() -> list[str]:
    """Build the query for all schedulers of the server."""
    return ["qmgr", "-c", "list sched"]


def parse_schedulers(text: str) -> tuple[PbsSchedulerFacts, ...]:
    """Parse the answer to :func:`schedulers_argv`. Raises ``SchedulerError``."""
    schedulers = tuple(
        PbsSchedulerFacts(name, *_preemption(name, block))
        for name, block in attributes_of(text, "Sched ")
    )
    if not schedulers:
        raise SchedulerError("qmgr lists no scheduler")
    return schedulers


def _preemption(name: str, block: Mapping[str, str]) -> tuple[str, int, str]:
    keys = ("preempt_order", "preempt_queue_prio", "preempt_prio")
    if missing := [key for key in keys if not block.get(key)]:
        raise SchedulerError(f"qmgr shows scheduler {name} without {' and '.join(missing)}")
    order, priority, levels = (block[key] for key in keys)
    if not re.fullmatch(r"\d{1,9}", priority, re.ASCII):
        raise SchedulerError(f"qmgr shows preempt_queue_prio = {priority[:40]!r}")
    return order, int(priority), levels


def server_argv() -> list[str]:
    """Build the query for the server's attributes, which only administrators write."""
    return ["qstat", "-B", "-f", "-F", "json"]


def parse_server(text: str) -> PbsServer:
    """Parse the answer to :func:`server_argv`. Raises ``SchedulerError``."""
    document = json.loads(text, strict=False)
    servers = document.get("Server")
    if not isinstance(servers, dict) or len(servers) != 1:
        raise SchedulerError("qstat -B shows no server")
    (server,) = servers.values()
    return PbsServer(
        str(document.get("pbs_version", "")),
        # Without the attribute, users see only their own jobs.
        server.get("query_other_jobs") == "True",
        server.get("flatuid") == "True",
        str(server.get("default_queue", "")),
        str((server.get("resources_default") or {}).get(_TARGETS, "")),
    )
