"""PBS as a scheduler in five verbs: holders run in a queue whose jobs PBS *deletes* when it
preempts them.

While a preempted job lingers, the scheduler of the whole site stands still, and PBS notices about a
second late that a job has ended, unless it is asked something about the job then. So workers get no
time to save, payloads leave at once and end as the last process of their sessions, and every job
whose payload has left is deleted once more: a main job then starts after 0.2 s and not 1.1 s
(OpenPBS 23.06.06).
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from bftrainer.cluster.model import GiveWay, Observation
from bftrainer.decide.yielding.facts import JobCounters
from bftrainer.errors import CommandError
from bftrainer.system import command
from bftrainer.system.clock import Clock
from bftrainer.system.command import Parsed
from bftrainer.system.users import own_name
from bftrainer_clusters.pbs import jobs
from bftrainer_clusters.pbs.config import PbsSettings
from bftrainer_clusters.pbs.observe import (
    NODES_ARGV,
    PbsCommands,
    PbsScheduler,
    ask_about_queue,
    ask_server,
)
from bftrainer_clusters.pbs.queue import (
    PbsServer,
    parse_queues,
    queues_argv,
)
from bftrainer_clusters.pbs.text import PbsRecord, parse_nodes, parse_time, short_id
from bftrainer_clusters.simple import JobPhase, JobRecord, JobRequest, SimpleCluster

_SHORTEN_S = 2.0
"""A tick of the pilot waits for these commands, each of which lowers the limit of one holder."""
_CLOCKS_S = 2.0
"""A smaller difference between the clocks of this host and the server is none."""
_SERVER_S = 600.0
"""How long the server's attributes are taken for current."""


class PbsCluster(SimpleCluster[PbsSettings]):
    """PBS by its commands. ``env`` is added to the environment of each."""

    name = "PBS"
    job_variable = "PBS_JOBID"
    kept_variables = ("PBS_", "NCPUS")
    states = jobs.PHASES
    most_notice_s = 0.0
    cancels_ended = True

    def __init__(
        self, settings: PbsSettings, clock: Clock, env: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(settings)
        self.clock = clock
        self.env = env or {}
        self.user = own_name()
        self._cpus: dict[str, int] = {}
        self._server: PbsServer | None = None
        self._server_until_s = 0.0
        self._full_ids: dict[str, str] = {}  # of listed holders that are not over, by short id
        self._starts_s: dict[str, float] = {}
        self._places: dict[str, str] = {}  # the exec_vnode of each holder that runs, by short id
        self._refused: dict[str, str] = {}  # the owners of jobs that qdel would not end, by id
        self._folder = ""
        self._has_history = True
        self._warnings: tuple[str, ...] = ()
        self._sent_s: dict[str, tuple[float, float]] = {}  # before and after qsub, by short id
        self._ahead_s = 0.0  # of the server's clock, by this host's

    @property
    def commands(self) -> PbsCommands:
        return PbsCommands(self.settings.timeout_s, self.env)

    @property
    def ways(self) -> frozenset[GiveWay]:
        """The scheduler's preemption, and yielding. No counters tell a blind pilot that a job has
        started.
        """
        return frozenset({GiveWay.SITE, GiveWay.YIELD})

    def observe(self) -> Observation:
        makes_way = self.way is GiveWay.YIELD
        scheduler = PbsScheduler(
            self.settings,
            self.commands,
            self._server_facts(),
            makes_way,
            self.user,
            self._ahead_s,
        )
        observation = scheduler.observe()
        self._cpus = {node.name: node.cpus for node in observation.nodes}
        return observation

    def _server_facts(self) -> PbsServer:
        now_s = self.clock.elapsed_s()
        if self._server is None or now_s >= self._server_until_s:
            self._server = ask_server(self.commands)
            self._server_until_s = now_s + _SERVER_S
        return self._server

    def glance(self) -> JobCounters:
        """Run ``qstat -Q`` once: the numbers of jobs by queue and state. Two changes in one queue
        that cancel out are seen by the next observation.
        """
        queues = self._ask(queues_argv(), parse_queues)
        state = " ".join(f"{queue.name}={queue.counts}" for queue in queues)
        return JobCounters(self.clock.now_s() + self._ahead_s, 0, 0, 0, state=state)

    def submit(self, job: JobRequest) -> str:
        """Run qsub once, with all cores of the node: the cgroups hook confines a job to those that
        it has requested.
        """
        if job.node not in self._cpus:
            nodes = self._ask(NODES_ARGV, parse_nodes)
            self._cpus = {view.name: view.cpus for view in nodes.views}
        self._folder = job.output_folder
        argv = jobs.submit_argv(self.settings, job, self._cpus.get(job.node, 0))
        before_s = self.clock.now_s()
        full_id = self._ask(argv, jobs.parse_submitted)
        id_ = short_id(full_id)
        self._sent_s[id_] = before_s, self.clock.now_s()
        self._full_ids[id_] = full_id
        return id_

    def list(self) -> tuple[JobRecord, ...]:
        """Ask for the user's holders by their ids, in whatever queue: a hook or an operator may
        have moved one. Those of the last list that are missing now are asked for once more, with
        the history of jobs (-x), which has the reasons of their ends.
        """
        user = self.user
        ids = self._ask(jobs.own_argv(user), jobs.parse_ids)
        records = self.commands.jobs(ids)[0] if ids else ()
        vanished = {id_: full for id_, full in self._full_ids.items() if full not in ids}
        ended: tuple[PbsRecord, ...] = ()
        if vanished:
            ended, unknown = self._ended(tuple(vanished.values()))
            for id_ in unknown | {short_id(job.id) for job in ended if _is_over(job)}:
                self._forget(id_)
        own = [job for job in (*records, *ended) if job.is_whole and jobs.user_of(job) == user]
        for job in own:
            self._compare_clocks(job)
            if not _is_over(job):
                self._remember(job)
        return tuple(jobs.holder_record(job, self.settings.queue) for job in own)

    def _remember(self, job: PbsRecord) -> None:
        """Note what commands need of a job that is not over."""
        id_ = short_id(job.id)
        self._full_ids[id_] = job.id
        self._places[id_] = job.get("exec_vnode")
        if start := job.get("stime"):
            self._starts_s[id_] = parse_time(start)

    def _compare_clocks(self, job: PbsRecord) -> None:
        """Take the difference of clocks from a new holder: the server has noted when it came, in
        whole seconds. No command of PBS shows the server's time.
        """
        sent = self._sent_s.pop(short_id(job.id), None)
        if sent is None or not job.get("ctime"):
            return
        created_s = parse_time(job.get("ctime"))
        if sent[0] - _CLOCKS_S <= created_s <= sent[1] + _CLOCKS_S:
            self._ahead_s = 0.0
        else:
            self._ahead_s = created_s + 0.5 - sum(sent) / 2.0

    def _ended(self, ids: Sequence[str]) -> tuple[tuple[PbsRecord, ...], frozenset[str]]:
        """Ask for jobs that are over; without their reasons where PBS keeps no history."""
        if self._has_history:
            try:
                return self.commands.jobs(ids, "-x")
            except CommandError as error:
                if "history" not in str(error):
                    raise
                self._has_history = False
        return self.commands.jobs(ids)

    def _forget(self, id_: str) -> None:
        """Forget a job that is over, and delete the file that PBS has made for its output."""
        full_id = self._full_ids.pop(id_, "")
        self._starts_s.pop(id_, None)
        self._places.pop(id_, None)
        self._refused.pop(id_, None)
        self._sent_s.pop(id_, None)
        if self._folder and full_id:
            with suppress(OSError):
                (Path(self._folder) / f"{full_id}.OU").unlink(missing_ok=True)

    def cancel(self, ids: Sequence[str]) -> None:
        """Run qdel once for all. A job that PBS would not let this owner end is left to its lease
        and not tried again: a user on another host is another owner, unless the server has flatuid.
        """
        wanted = [id_ for id_ in ids if id_ not in self._refused]
        if not wanted:
            return
        argv = jobs.cancel_argv(wanted)
        output = self.commands.outcome(argv)
        for id_ in jobs.refused_jobs(output.err):
            self._refused[id_] = self._full_ids.get(id_, id_)
        if output.status and not jobs.says_only_harmless(output.err):
            raise command.failure(argv, output)

    def signal(self, ids: Sequence[str], number: signal.Signals) -> None:
        """Run qsig once for all."""
        argv = jobs.signal_argv(ids, number)
        output = self.commands.outcome(argv)
        if output.status and not jobs.says_only_harmless(output.err):
            raise command.failure(argv, output)

    def leave(self, ids: Sequence[str]) -> None:
        """Run qdel once for all: several nodes are free at the same time then, and not one a
        second.
        """
        self.cancel(ids)

    @property
    def nodes_per_job(self) -> int:
        """As configured."""
        return self.settings.nodes_per_holder

    def release_nodes(self, job: str, nodes: Sequence[str]) -> None:
        """Run pbs_release_nodes once for all. A job of another owner, which is the same user on
        another host, keeps its nodes until it ends.
        """
        if job in self._refused:
            return
        vnodes = jobs.vnodes_on(self._places.get(job, ""), nodes)
        argv = jobs.release_argv(self._full_ids.get(job, job), vnodes)
        output = self.commands.outcome(argv)
        if output.status and not jobs.says_only_harmless(output.err):
            raise command.failure(argv, output)

    def unknown(self, ids: Sequence[str]) -> frozenset[str]:
        """Ask for these jobs, once; PBS names each that it does not know."""
        _, unknown = self.commands.jobs(ids)
        return frozenset(ids) & unknown

    def shorten(self, ids: Sequence[str], seconds: float) -> None:
        """Run qalter for each job that runs, as many as fit into :data:`_SHORTEN_S`. A job that
        ends meanwhile keeps no other from being shortened.
        """
        began_s = self.clock.elapsed_s()
        failure: CommandError | None = None
        for id_ in sorted(set(ids) & self._starts_s.keys()):
            if self.clock.elapsed_s() - began_s > _SHORTEN_S:
                break
            ran_s = self.clock.now_s() + self._ahead_s - self._starts_s[id_]
            argv = jobs.shorten_argv(id_, max(ran_s, 0.0), seconds)
            output = self.commands.outcome(argv)
            if output.status and not jobs.says_only_harmless(output.err):
                failure = command.failure(argv, output)
        if failure is not None:
            raise failure

    def why_no_holder(self) -> str:
        """Return why holders must not run in the configured queue, in one line; empty if they may
        run.
        """
        if reason := _why_not_several(self.settings):
            return reason
        verdict = ask_about_queue(self.commands, self.settings, self.way is GiveWay.YIELD)
        self._warnings = verdict.warnings
        return "; ".join(verdict.reasons)

    @property
    def remarks(self) -> tuple[str, ...]:
        """Warnings of the queue, and holders of this user that cannot be ended from here."""
        if not self._refused:
            return self._warnings
        ids = ", ".join(sorted(self._refused)[:4])
        return (
            *self._warnings,
            f"PBS does not let this host end holders that were submitted on another one ({ids}): "
            "they end by their leases; set flatuid = True on the server, or keep the pilot on one "
            "host",
        )

    def is_limit(self, reason: str) -> bool:
        """Return whether PBS's words mean a limit on the jobs of a user, project or queue."""
        return any(word in reason for word in _LIMITS)

    @property
    def holder_queues(self) -> frozenset[str]:
        return frozenset({self.settings.queue} - {""})

    def _ask(self, argv: Sequence[str], parse: Callable[[str], Parsed]) -> Parsed:
        return self.commands.ask(argv, parse)


_STARTS_SEVERAL = "pbs_tmrsh"
"""What a script contains that starts a payload on each node."""
_SCRIPT_CHARACTERS = 1_000_000
_LIMITS = (
    "per-user limit",
    "per-project limit",
    "per-group limit",
    "overall limit",
    "running job limit",
    "limit reached",
    "would exceed",
    "Maximum number of jobs",
)


def _why_not_several(settings: PbsSettings) -> str:
    """Return why holders cannot have several nodes with the site's own job script, if they are to
    have them; else an empty text.
    """
    script = settings.holder_script
    if settings.nodes_per_holder == 1 or script is None or not script.is_file():
        return ""
    with script.open(errors="replace") as file:
        if _STARTS_SEVERAL in file.read(_SCRIPT_CHARACTERS):
            return ""
    return (
        f"pbs.nodes_per_holder is {settings.nodes_per_holder}, but {script} starts its payload on "
        "one node; compare it with the installed holder.sh"
    )


def _is_over(job: PbsRecord) -> bool:
    return job.is_whole and jobs.phase_of(job) is JobPhase.OVER
