"""Asks Slurm for all pilots and publishes the answers; on request it ends holders of those who keep
nodes above their part.

It holds no node, hears of no user but through Slurm, and no pilot needs it. Jobs are asked for
every few seconds, when a counter of jobs has moved, and twice a second for a moment after a change
of pilots or holders, then less and less often; nodes after a job has started or ended.
"""

from __future__ import annotations

import math
import os
import stat
import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import click

from bftrainer.cluster.model import Availability, NodeView
from bftrainer.console.cli.choices import DIR, NumberRange
from bftrainer.counted import counted
from bftrainer.errors import CommandError, SchedulerError, UserError
from bftrainer.sharing.fair_share import (
    MAX_DISTRUST_S,
    ShareMemory,
    Sharer,
    has_too_few,
    parts_of,
    split,
)
from bftrainer.sharing.peers import rivals
from bftrainer.system import command
from bftrainer.system.command import Parsed
from bftrainer.system.files import write_atomically
from bftrainer.system.printable import printable
from bftrainer_clusters.holding.call_budget import Bucket, CallKind
from bftrainer_clusters.holding.holder_jobs import JobPhase
from bftrainer_clusters.slurm import job_list, peers
from bftrainer_clusters.slurm import text as slurm_text
from bftrainer_clusters.slurm.calls import SlurmCalls, cost
from bftrainer_clusters.slurm.clusters import VARIABLE, chosen_cluster, cluster_name
from bftrainer_clusters.slurm.hostlists import parse_hostlist
from bftrainer_clusters.slurm.job_list import HOLDER_NAME, Job, JobList
from bftrainer_clusters.slurm.jobs import JOB_PHASES
from bftrainer_clusters.slurm.node_waits import RECENT_S, STARTED
from bftrainer_clusters.slurm.observe import NODES_ARGV, RESERVATIONS_ARGV
from bftrainer_clusters.slurm.published import (
    COUNTERS,
    JOBS,
    MOST_S,
    Head,
    name_of,
    packed,
    packed_weights,
)
from bftrainer_clusters.slurm.records import is_number
from bftrainer_clusters.slurm.setup import config_argv
from bftrainer_clusters.slurm.user_weights import Weights

NODES_S, RESERVATIONS_S = 40.0, 45.0
EVERY_S, SOON_S, SLOWS = 4.0, 0.5, 3.0
COUNT_S = 1.0
"""How often jobs are counted. Pilots read the counters twice a second, so that they see a main job
within the two seconds of a look of their own.
"""
_BURST = 120.0
_TIMEOUT_S = 10.0


def check_folder(folder: Path) -> None:
    """Raise ``UserError`` unless only this user can write the folder."""
    status = folder.stat() if folder.is_dir() else None
    if (
        status is None
        or status.st_uid != os.getuid()
        or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    ):
        raise UserError(
            f"{folder}: expected a folder of user {os.getuid()} that others cannot write, such "
            "as mode 0755"
        )


def _usable_nodes(own: Sharer, own_jobs: Sequence[Job], names: Sequence[str]) -> list[str]:
    """Return the nodes that a pilot can use, by its own list; if it holds other nodes as well, the
    list does not count, and all ``names`` are returned.
    """
    lists = [parse_hostlist(job["%n"]) for job in own_jobs]
    if own.nodes is None or not all(hosts and hosts <= own.nodes for hosts in lists):
        return list(names)
    return sorted(own.nodes)


@dataclass
class Guard:
    """Tells who keeps nodes above a part, and with an ``account`` ends the latest holders there."""

    calls: SlurmCalls
    partitions: frozenset[str]
    account: str
    tell: Callable[[str], None]
    _memory: ShareMemory = field(default_factory=ShareMemory)
    _ended: frozenset[str] = frozenset()
    _warned_s: dict[str, float] = field(default_factory=dict)
    """Until when users who have lost holders are not waited for again."""

    def look(self, jobs: JobList, nodes: tuple[NodeView, ...], now_s: float) -> None:
        """Tell which pilots keep nodes above their part while others lack some and, with an
        ``account``, end holders of these pilots.

        ``Sharer("", "", 0)`` computes the split as a pilot without a user, a name and nodes
        would: all pilots are its rivals. That split is of all nodes. A pilot with a host list
        has a part only of the nodes on its list, so before its holders are ended, its part is
        computed again from these nodes.
        """
        ours = [node for node in nodes if self._counts(node)]
        names = sorted(node.name for node in ours)
        idle = [node.name for node in ours if node.availability is Availability.FREE]
        pilots = peers.of_jobs(jobs)
        claims = rivals(pilots, names)
        result = split(Sharer("", "", 0), 0, claims, idle, math.inf, self._memory, now_s)
        self._memory = result.memory
        for text in result.messages:
            self.tell(text)
        if not self.account:
            return
        holders = {(pilot.user, pilot.pilot): pilot.holders for pilot in pilots}
        by_id = {job["%A"]: job for job in jobs.jobs}
        above = self._above_part(now_s)
        for own in [claim for claim in claims if claim.key in above]:
            own_jobs = [by_id[job] for job in holders[own.key]]
            visible = _usable_nodes(own, own_jobs, names)
            others = [claim for claim in rivals(pilots, visible) if claim.key != own.key]
            total = own.holds + len({*visible} & {*idle}) + sum(claim.holds for claim in others)
            parts = parts_of(total, [own, *others], (), now_s, self._memory.deficit_node_s)
            if any(
                has_too_few(claim, parts) and not claim.takeable_count(idle) for claim in others
            ):
                self._warned_s[own.user] = now_s + MAX_DISTRUST_S
                self._end_latest(own_jobs, parts[own.key])

    def _counts(self, node: NodeView) -> bool:
        """Whether a node is in the partitions that are divided."""
        return not self.partitions or bool(self.partitions.intersection(node.partitions))

    def _above_part(self, now_s: float) -> frozenset[tuple[str, str]]:
        """Return the users and pilots that keep more than their part, or that have lost holders for
        it before.
        """
        memory = self._memory
        again = (key for key in memory.overuse_since if now_s < self._warned_s.get(key[0], now_s))
        return frozenset(memory.overusers).union(again)

    def _end_latest(self, holders: list[Job], part: int) -> None:
        """End the latest running holders of this account, as many nodes as are above the part; if
        every one is larger than that, end one.
        """
        running = [
            job for job in holders if job["%T"] == "RUNNING" and job["%A"] not in self._ended
        ]
        above = sum(int(job["%D"]) for job in running) - part
        chosen = list[str]()
        order = sorted(running, key=lambda job: (int(job["%D"]) > above, -int(job["%A"])))
        for job in [job for job in order if job["%a"] == self.account]:
            if int(job["%D"]) <= above or (above > 0 and not chosen):
                above -= int(job["%D"])
                chosen.append(job["%A"])
        if chosen:
            user = running[0]["%u"]
            # The filters hold where another job has got the id.
            options = [f"--user={user}", f"--account={self.account}", f"--name={HOLDER_NAME}"]
            self.calls.run(["scancel", *options, *chosen], CallKind.RELEASE, _TIMEOUT_S)
            self._ended |= {*chosen}
            self.tell(
                f"ended {counted(len(chosen), 'holder')} of {user}, whose part is {part}: "
                f"{', '.join(chosen)}"
            )


@dataclass
class Broker:
    """Asks Slurm and publishes the answers in ``folder``, with ``per_minute`` calls to slurmctld at
    most. Without ``weights``, pilots ask for these themselves.
    """

    folder: Path
    calls: SlurmCalls
    guard: Guard
    per_minute: float = 50.0
    weights: Weights | None = None
    _cluster: str = ""
    _states: int = -1
    _news: int = -1
    _nodes: tuple[NodeView, ...] = ()
    _nodes_s: float = -math.inf
    _reservations_s: float = -math.inf
    _changed_s: float = -math.inf
    _counts: tuple[int, int, int] = (-1, -1, -1)
    _publish_s: float = -math.inf
    """When the list of jobs is due, whatever the counters say."""

    def __post_init__(self) -> None:
        self._bucket = Bucket.full(_BURST, self.per_minute / 60.0, self.calls.elapsed_s())
        self._epoch_s = time.time() - self.calls.elapsed_s()

    def step(self) -> float:
        """Count jobs, and publish Slurm's answers if a job has come, started or ended, or if it is
        time; then publish the counters. Returns the seconds until the next step.

        In this order, a pilot that sees that a counter has moved finds the new list. Where an
        answer fails, the counters get old, and pilots ask Slurm themselves. Raises as
        :meth:`publish`.
        """
        at_s, text = time.time(), self._ask(COUNTERS)
        counters = command.parsed(COUNTERS, text, slurm_text.parse_counters)
        counts = counters.submitted, counters.started, counters.ended
        if counts != self._counts or self.calls.elapsed_s() >= self._publish_s:
            wait_s = self.publish()
            self._publish_s, self._counts = self.calls.elapsed_s() + wait_s, counts
        body = text.encode()
        head = Head(at_s, MOST_S, len(body), cluster=self._cluster)
        write_atomically(self.folder / name_of(COUNTERS), packed(head, body), 0o644)
        now_s = self.calls.elapsed_s()
        enough_s = self._bucket.wait_s(5, 0, now_s)
        return max(enough_s, SOON_S, min(COUNT_S, self._publish_s - now_s))

    def publish(self) -> float:
        """Ask Slurm and publish its answers, once; return the seconds until the next time. Raises
        if a command fails or its answer is not understood.
        """
        weights = self.weights.current() if self.weights else None
        query, at_s = job_list.query(ended=True, with_waits=True), time.time()
        self._bucket = self._bucket.take(cost(query.argv), self.calls.elapsed_s())
        text = self.calls.query(query, CallKind.LOOK, _TIMEOUT_S)
        jobs = command.parsed(query.argv, text, lambda text: job_list.parse_jobs(text, query.mark))
        now_s, lasting = self.calls.elapsed_s(), [job for job in jobs.jobs if _is_lasting(job)]
        states = _checksum_of(
            [_job_state(job) for job in lasting if not (job["%j"] and job_list.waits(job))]
        )
        if now_s - self._reservations_s >= RESERVATIONS_S:
            self._run_and_publish(RESERVATIONS_ARGV, slurm_text.parse_reservations, MOST_S)
            self._reservations_s = now_s
        if states != self._states or now_s - self._nodes_s >= NODES_S:
            self._nodes = self._run_and_publish(
                NODES_ARGV, slurm_text.parse_nodes, NODES_S + 3 * EVERY_S
            )
            self._nodes_s = now_s
        job_states = [(_job_state(job), job["%k"]) for job in lasting if job["%j"]]
        news = _checksum_of([weights, *job_states])
        if news != self._news:
            self._changed_s = now_s
        self._states, self._news = states, news
        columns = job_list.WAITS if jobs.has_waits else job_list.FORMAT
        since_s = at_s - RECENT_S
        text = jobs.as_printed(columns, lambda job: _is_shown(job, since_s))
        body, shares = text.encode(), packed_weights(weights)
        head = Head(
            at_s,
            3 * EVERY_S,
            len(body),
            query.mark,
            f"{states:08x}{news:08x}",
            len(shares),
            self._cluster,
        )
        write_atomically(self.folder / JOBS, packed(head, shares + body), 0o644)
        # Patience runs by the monotonic clock: a step of the host's clock shortens none.
        self.guard.look(replace(jobs, weights=weights), self._nodes, self._epoch_s + now_s)
        enough_s = self._bucket.wait_s(4, 0, self.calls.elapsed_s())
        return max(enough_s, SOON_S, min((now_s - self._changed_s) / SLOWS, EVERY_S))

    def check_hidden(self) -> None:
        """Raise ``UserError`` where the site hides from users what would be published."""
        config = self.calls.config(_TIMEOUT_S)
        self._cluster = cluster_name(config)
        hidden = command.parsed(
            config_argv(), config, lambda text: slurm_text.parse_hidden(text, "?")
        )
        if hidden:
            words = ", ".join(sorted(kind.value for kind in hidden))
            raise UserError(
                f"the site hides {words} (PrivateData), so nothing may be published; pilots "
                "ask Slurm themselves"
            )

    def _run_and_publish(
        self, argv: tuple[str, ...], parse: Callable[[str], Parsed], for_s: float
    ) -> Parsed:
        """Run a command and publish its answer, which counts for ``for_s`` seconds; return it
        parsed.
        """
        at_s, text = time.time(), self._ask(argv)
        answer = command.parsed(argv, text, parse)
        body = text.encode()
        write_atomically(
            self.folder / name_of(argv),
            packed(Head(at_s, for_s, len(body), cluster=self._cluster), body),
            0o644,
        )
        return answer

    def _ask(self, argv: Sequence[str]) -> str:
        self._bucket = self._bucket.take(cost(argv), self.calls.elapsed_s())
        return self.calls.run(argv, CallKind.LOOK, _TIMEOUT_S)


def _checksum_of(what: list[object]) -> int:
    return zlib.crc32(repr(what).encode())


def _is_shown(job: Job, since_s: float) -> bool:
    """Whether pilots need a job: one of pilots, one that waits, or one that has started since."""
    if bool(job["%j"]) or job_list.waits(job):
        return True
    return job["%T"] in STARTED and is_number(job["%S"]) and float(job["%S"]) >= since_s


def _is_lasting(job: Job) -> bool:
    return JOB_PHASES.get(job["%T"]) is not JobPhase.OVER


def _job_state(job: Job) -> tuple[str, str, str]:
    return job["%A"], job["%T"], job["%D"]


@click.command()
@click.argument("folder", type=DIR)
@click.option(
    "--partition",
    "partitions",
    multiple=True,
    help="Partition of the nodes that users share.  [default: all]",
)
@click.option(
    "--calls",
    type=NumberRange(30),
    default=240.0,
    show_default=True,
    help="Calls to slurmctld a minute.",
)
@click.option(
    "--enforce",
    "account",
    default="",
    metavar="ACCOUNT",
    help="End holders of this account above a part.",
)
@click.option(
    "--weights",
    default="",
    metavar="ACCOUNT",
    help="Publish users' shares in this account, the weights of the split.",
)
@click.option(
    "--cluster",
    default="",
    envvar=VARIABLE,
    show_envvar=True,
    help="Cluster to ask.  [default: that of slurm.conf]",
)
def broker(
    folder: Path,
    partitions: tuple[str, ...],
    calls: float,
    account: str,
    weights: str,
    cluster: str,
) -> None:
    """Publish Slurm's answers in FOLDER for the pilots of all users, so that they need not ask.

    Runs as an ordinary user, best one of its own, who alone can write FOLDER. Pilots find it by
    slurm.broker. It tells who keeps nodes that others lack. With --enforce, its user is a
    coordinator of the holders' account.

    \b
    Example:
      bftrainer broker /shared/bftrainer --partition scavenge
    """
    os.umask(0o022)
    check_folder(folder)
    own = SlurmCalls(cluster=chosen_cluster({VARIABLE: cluster}))
    guard = Guard(own, frozenset(partitions), account, _print_line)
    shares = Weights(own, lambda: weights or account, _TIMEOUT_S) if weights or account else None
    service, problem = Broker(folder, own, guard, calls, shares), ""
    while True:
        was, problem, wait_s = problem, "", EVERY_S
        try:
            service.check_hidden()
            wait_s = service.step()
        except (CommandError, SchedulerError, OSError) as error:
            problem = str(error)
        if problem != was:
            _print_line(problem or "Slurm responds again")
        time.sleep(wait_s)


def _print_line(text: str) -> None:
    click.echo(f"{time.strftime('%F %T')} {printable(text)}")
