"""The Scheduler port on LSF's commands: bjobs, brsvs, bslots and bhosts, a batch of short calls;
and bqueues for a pilot that makes way for main jobs itself.

LSF plans slots and hosts, and shows its plan as backfill windows (bslots -l). A host that is idle
by bhosts but in no window with all its slots is not free: it is PLANNED without a known end, which
:mod:`bftrainer.cluster.windows` skips. A host of one of our own holders is in no window either: it
is held until the holder's run limit, which was cut to the window at submission.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from bftrainer.cluster.model import Availability, NodeView, Observation, PendingJob
from bftrainer.errors import SchedulerError
from bftrainer.system import command
from bftrainer.system.clock import Clock
from bftrainer.system.command import Parsed
from bftrainer.system.users import own_name
from bftrainer_clusters.lsf import preempt as lsf_preempt
from bftrainer_clusters.lsf import queue as lsf_queue
from bftrainer_clusters.lsf import text as lsf_text
from bftrainer_clusters.lsf import windows as lsf_windows
from bftrainer_clusters.lsf.config import LsfSettings
from bftrainer_clusters.lsf.jobs import list_argv, parse_list
from bftrainer_clusters.lsf.node_waits import (
    ListedHolders,
    UnfinishedJobs,
    holders_argv,
    jobs_argv,
    parse_holder_ids,
    parse_jobs,
)


def hosts_argv(settings: LsfSettings) -> list[str]:
    """Build the query for all hosts one by one (-X: including members of condensed groups)."""
    return [
        "bhosts",
        "-o",
        lsf_text.HOST_FIELDS,
        "-json",
        "-X",
        *_selected_hosts(settings),
        *settings.hosts,
    ]


def pending_argv() -> list[str]:
    """Build the query for all pending jobs of all users."""
    return ["bjobs", "-u", "all", "-p", "-o", lsf_text.PENDING_FIELDS, "-json"]


def windows_argv(settings: LsfSettings) -> list[str]:
    """Build the query for all backfill windows with their hosts."""
    return ["bslots", "-l", *_selected_hosts(settings)]


def reservations_argv() -> list[str]:
    """Build the query for all advance reservations, not truncated."""
    return ["brsvs", "-w"]


def _selected_hosts(settings: LsfSettings) -> list[str]:
    return ["-R", settings.select] if settings.select else []


def ask(
    argv: Sequence[str], parse: Callable[[str], Parsed], timeout_s: float, env: Mapping[str, str]
) -> Parsed:
    """Run a command and parse its answer. "None found" is an answer; any other failure raises."""
    output = command.outcome(argv, timeout_s=timeout_s, env=env)
    text = lsf_text.answer_of(output)
    if text is None:
        raise command.failure(argv, output)
    return command.parsed(argv, text, parse)


@dataclass
class LsfScheduler:
    """Observes LSF by its commands. ``env`` is added to the environment of each."""

    settings: LsfSettings
    clock: Clock
    env: Mapping[str, str] = field(default_factory=dict)
    makes_way: bool = False
    """Whether the pilot ends holders for main jobs itself, so that all jobs have to be read."""

    def observe(self) -> Observation:
        """Observe hosts, windows, reservations and pending jobs.

        LSF does not show its time, so ``at_s`` is the pilot's, taken before bslots runs: windows
        are lengths, and may look shorter than they are, but never longer. Windows are read before
        hosts: a job that starts in between shows on its hosts.
        """
        lists_pending = self.settings.pending != "none"
        jobs = self._read_unfinished_jobs() if self.makes_way else None
        if jobs is not None:
            pending = jobs.pending(self.settings.slots_per_node)
        else:
            pending = self._ask(pending_argv(), self._parse_pending) if lists_pending else ()
        at_s = self.clock.now_s()
        reservations = (
            self._ask(reservations_argv(), lambda text: lsf_windows.parse_reservations(text, at_s))
            if self.settings.reservations
            else ()
        )
        windows = self._ask(windows_argv(self.settings), lsf_windows.parse_windows)
        gpus = self.settings.gpus_per_node
        nodes = self._ask(hosts_argv(self.settings), lambda text: lsf_text.parse_hosts(text, gpus))
        slots = {node.name: node.cpus or self.settings.slots_per_node for node in nodes}
        lengths = lsf_windows.longest_by_host(
            windows, lambda host: max(slots.get(host, 0), self.settings.slots_per_node)
        )
        return Observation(
            at_s,
            tuple(with_window(node, lengths, at_s) for node in nodes),
            pending,
            reservations,
            planned_s=None,
            lists_pending=lists_pending,
            node_waits=None if jobs is None else jobs.node_waits(nodes, slots, at_s),
        )

    def _read_unfinished_jobs(self) -> UnfinishedJobs:
        """Read the unfinished jobs of all users, the priorities of their queues, and then which of
        the jobs are holders. This user's are listed for a while after their end: none of them that
        ends meanwhile looks like a main job.

        Raises ``SchedulerError`` where other users' jobs are hidden: a pilot that saw no main job
        would hold nodes that they wait for.
        """
        queues = self._ask(lsf_queue.counts_argv(), lsf_queue.parse_counts)
        priorities = {queue.name: queue.priority for queue in queues}
        jobs = self._ask(jobs_argv(), lambda text: parse_jobs(text, priorities))
        user, now_s = own_name(), self.clock.now_s()
        hidden = jobs.hidden_queues({queue.name: queue.slots[0] for queue in queues}, user)
        # A job that has ended between the two commands is not hidden: count again.
        if hidden:
            queues = self._ask(lsf_queue.counts_argv(), lsf_queue.parse_counts)
            counts = {queue.name: queue.slots[0] for queue in queues if queue.name in hidden}
            hidden = jobs.hidden_queues(counts, user)
        if hidden:
            raise SchedulerError(
                f"bqueues counts jobs in {min(hidden)}, and bjobs -u all lists none: LSF hides "
                "other users' jobs (SECURE_JOB_INFO_LEVEL), so the pilot cannot make way for them; "
                'set nodes.give_way = "site"'
            )
        own = self._ask(list_argv(user), lambda text: parse_list(text, now_s))
        ids = self._ask(holders_argv(), parse_holder_ids)
        labels = {holder.id: holder.label for holder in own}
        return jobs.with_holders(ListedHolders(ids, user, labels))

    def _parse_pending(self, text: str) -> tuple[PendingJob, ...]:
        return (
            ()
            if lsf_text.says_nothing(text)
            else lsf_text.parse_pending(text, self.settings.slots_per_node)
        )

    def _ask(self, argv: list[str], parse: Callable[[str], Parsed]) -> Parsed:
        return ask(argv, parse, self.settings.timeout_s, self.env)


def with_window(node: NodeView, lengths: Mapping[str, float], at_s: float) -> NodeView:
    """Return a host with the end of its backfill window. An idle host counts as planned for a job,
    unless its window is endless.
    """
    length_s = lengths.get(node.name)
    ends_s = at_s + length_s if length_s is not None and length_s < math.inf else None
    is_planned = node.availability is Availability.FREE and length_s != math.inf
    return replace(
        node,
        window_end_s=ends_s,
        availability=Availability.PLANNED if is_planned else node.availability,
    )


def queue_problems(
    settings: LsfSettings, env: Mapping[str, str], ends_holders: bool = False
) -> list[str]:
    """Return why holders must not run in the configured queue; empty if they may. Raises if LSF
    does not say. ``ends_holders``: the pilot ends holders for main jobs itself.
    """

    def answer_of(argv: list[str], parse: Callable[[str], Parsed]) -> Parsed:
        """Ask twice, and raise if the answers differ: one of them was truncated then. LSF prints
        settings last, and only if they are set, so an answer that was cut at the end of a line may
        lack the reason against holders, and nothing in it shows that.
        """
        first, second = (ask(argv, parse, settings.timeout_s, env) for _ in range(2))
        if first != second:
            raise SchedulerError(
                f"two answers of {' '.join(argv)} differ: one of them was truncated"
            )
        return first

    queue = answer_of(
        lsf_queue.queue_argv(settings.queue),
        lambda text: lsf_queue.parse_queue(text, settings.queue),
    )
    params = answer_of(lsf_queue.params_argv(), lsf_queue.parse_params)
    app = lsf_queue.AppFacts()
    if settings.app:
        app = answer_of(
            lsf_queue.app_argv(settings.app), lambda text: lsf_queue.parse_app(text, settings.app)
        )
    return lsf_preempt.reasons_against(
        queue, app, params, settings.place == "exclusive", bool(settings.gpu), ends_holders
    )
