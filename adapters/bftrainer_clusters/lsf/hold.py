"""LSF as a scheduler in five verbs: holders run in a queue that *ends* preempted jobs, or preempts
none where the pilot ends them itself.

No holder is submitted before ``bqueues -l`` has shown that: a suspended job keeps memory and GPUs
of the node that a main job gets.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Mapping, Sequence

from bftrainer.cluster.model import GiveWay, Observation
from bftrainer.decide.yielding.facts import JobCounters
from bftrainer.errors import CommandError, UserError
from bftrainer.system import command
from bftrainer.system.clock import Clock
from bftrainer.system.command import Parsed
from bftrainer.system.users import own_name
from bftrainer_clusters.lsf import jobs
from bftrainer_clusters.lsf import queue as lsf_queue
from bftrainer_clusters.lsf.config import LsfSettings
from bftrainer_clusters.lsf.observe import LsfScheduler, ask, queue_problems
from bftrainer_clusters.lsf.text import answer_of, unknown_jobs
from bftrainer_clusters.simple import JobRecord, JobRequest, SimpleCluster

_SHORTEN_S = 2.0
"""A tick of the pilot waits for these commands, each of which lowers the limit of one holder."""
_PLAIN = re.compile(r"[\w@%+=:,./{}-]+")


class LsfCluster(SimpleCluster[LsfSettings]):
    """LSF by its commands. ``env`` is added to the environment of each."""

    name = "LSF"
    job_variable = "LSB_JOBID"
    kept_variables = ("LSB_", "LSF_", "LS_", "CSM_", "JSM_")
    """blaunch and jsrun need those of the holder's job."""
    states = jobs.PHASES

    def __init__(
        self, settings: LsfSettings, clock: Clock, env: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(settings)
        self.clock = clock
        self.env = env or {}
        self.user = own_name()

    @property
    def ways(self) -> frozenset[GiveWay]:
        """The scheduler's preemption, and yielding where all jobs may be read. No counters tell a
        blind pilot that a job has started.
        """
        if self.settings.pending == "none":
            return frozenset({GiveWay.SITE})
        return frozenset({GiveWay.SITE, GiveWay.YIELD})

    def observe(self) -> Observation:
        makes_way = self.way is GiveWay.YIELD
        return LsfScheduler(self.settings, self.clock, self.env, makes_way).observe()

    def glance(self) -> JobCounters:
        """Run bqueues once: one line a queue. Two changes of the same size in one queue, such as a
        job that is canceled and one that is submitted, cancel out; the next observation shows them.
        """
        queues = self._ask(lsf_queue.counts_argv(), lsf_queue.parse_counts)
        state = " ".join(f"{queue.name}={queue.slots}" for queue in queues)
        return JobCounters(self.clock.now_s(), 0, 0, 0, state=state)

    def shorten(self, ids: Sequence[str], seconds: float) -> None:
        """Run bmod for each job that runs, as many as fit into :data:`_SHORTEN_S`. A job that ends
        meanwhile keeps no other from being shortened.
        """
        began_s = self.clock.elapsed_s()
        running = self._ask(jobs.running_argv(ids), jobs.parse_running)
        failures: dict[str, CommandError] = {}
        for job, (ran_s, host) in sorted(running.items()):
            if self.clock.elapsed_s() - began_s > _SHORTEN_S:
                break
            try:
                self._ask(jobs.shorten_argv(job, ran_s, host, seconds), str)
            except CommandError as error:
                failures[job] = error
        if failures:
            still_running = self._ask(jobs.running_argv(failures), jobs.parse_running)
            for job in sorted(still_running.keys() & failures.keys()):
                raise failures[job]

    def submit(self, job: JobRequest) -> str:
        """Run bsub once. Raises ``UserError`` for a word that is not plain: LSF passes the command
        to a shell.
        """
        for word in job.argv:
            if not _PLAIN.fullmatch(word):
                raise UserError(f"holders cannot be submitted: a shell would interpret {word!r}")
        return self._ask(jobs.submit_argv(self.settings, job), jobs.parse_submitted)

    def list(self) -> tuple[JobRecord, ...]:
        now_s = self.clock.now_s()
        return self._ask(jobs.list_argv(self.user), lambda text: jobs.parse_list(text, now_s))

    def cancel(self, ids: Sequence[str]) -> None:
        """Run bkill once for all."""
        self._ask(jobs.cancel_argv(ids), str)

    def signal(self, ids: Sequence[str], number: signal.Signals) -> None:
        """Run bkill -s once for all."""
        self._ask(jobs.signal_argv(ids, number), str)

    def leave(self, ids: Sequence[str]) -> None:
        """Run bkill once for all: LSF then knows that the jobs end, whatever their payloads do."""
        self.cancel(ids)

    def unknown(self, ids: Sequence[str]) -> frozenset[str]:
        """Ask bjobs for these jobs, once; it names every job that it does not find."""
        argv = jobs.known_argv(ids)
        output = command.outcome(argv, timeout_s=self.settings.timeout_s, env=self.env)
        if answer_of(output) is None:
            raise command.failure(argv, output)
        named = (command.parsed(argv, text, unknown_jobs) for text in (output.out, output.err))
        return frozenset(ids).intersection(frozenset().union(*named))

    def why_no_holder(self) -> str:
        """Return why holders must not run in the configured queue, in one line; empty if
        they may.
        """
        ends_holders = self.way is GiveWay.YIELD
        return "; ".join(queue_problems(self.settings, self.env, ends_holders))

    @property
    def holder_queues(self) -> frozenset[str]:
        return frozenset({self.settings.queue} - {""})

    @property
    def worker_prefix(self) -> tuple[str, ...]:
        return self.settings.worker_prefix

    def _ask(self, argv: Sequence[str], parse: Callable[[str], Parsed]) -> Parsed:
        return ask(argv, parse, self.settings.timeout_s, self.env)
