"""The site ``oar``: ``holder = "oar"`` and the table ``[oar]``. OAR in five verbs.

A holder is a job of the type besteffort: OAR ends it when another job needs its node. Without
``--checkpoint`` that is a SIGKILL without a notice; with it, SIGUSR2 comes first (2.5.9).
"""

from __future__ import annotations

import shlex
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from bftrainer.cluster.model import Observation
from bftrainer.config.trainer_file import Count, Positive
from bftrainer.system.command import failure, outcome, parsed, run
from bftrainer.system.users import own_name
from bftrainer_clusters.oar import text
from bftrainer_clusters.simple import (
    HolderSettings,
    JobRecord,
    JobRequest,
    SimpleCluster,
    SimpleSite,
)

NAME = "oar"
ENDED_S = 600.0
"""How long jobs that are over are listed."""
PLANS_S = 366 * 86_400.0
"""How far into the future plans are asked for."""
_NOT_FOR_WORKERS = ("OAR_", "OARDO_", "OARUSER", "OARDIR", "OARCONFFILE", "BASH_ENV")

Answer = TypeVar("Answer")


class OarSettings(HolderSettings):
    """How nodes are held on an OAR cluster."""

    # OAR needs 10 to 23 s for a decision with its default values (measured with 2.5.9).
    start_within_s: Positive = 90.0
    """A holder that has not started within this time after its submission is canceled. OAR's
    scheduler itself needs up to half a minute."""
    ready_within_s: Positive = 60.0
    """A holder whose payload has not reported within this time after its start is canceled."""
    checkpoint_s: Count = 20
    """Seconds between the notice (SIGUSR2) and SIGKILL when OAR ends a holder. A main job does not
    wait for them: a holder leaves at the notice."""


class OarCluster(SimpleCluster[OarSettings]):
    """OAR by the commands of its users. ``environment`` is added to that of each command."""

    name = "OAR"
    job_variable = "OAR_JOB_ID"
    states = text.JOB_STATES

    def __init__(self, settings: OarSettings, environment: Mapping[str, str] | None = None) -> None:
        super().__init__(settings)
        self.environment = dict(environment or {})

    def observe(self) -> Observation:
        # Nodes last: a job that starts meanwhile is in one of the answers.
        now_s = time.time()
        jobs = self._ask(("oarstat", "-J"), text.parse_jobs)
        plan = self._ask(plan_argv(now_s), text.parse_plan)
        nodes = self._ask(("oarnodes", "-J"), lambda answer: text.parse_nodes(answer, plan))
        pending, reservations = text.pending_jobs(jobs, plan), text.reservations(jobs, plan)
        return Observation(now_s, nodes, pending, reservations)

    def submit(self, job: JobRequest) -> str:
        hours, minutes = divmod(job.minutes, 60)
        # OAR's shell reads ~/.bashrc because of BASH_ENV; the scripts of workers need not.
        command = f"exec env -u BASH_ENV {shlex.join(job.argv)}"
        argv = (
            *("oarsub", "-n", job.label, "-t", text.BESTEFFORT),
            *("--checkpoint", str(self.settings.checkpoint_s)),
            *("-d", "/", "-O", "/dev/null", "-E", "/dev/null"),
            *("-p", f"network_address='{job.node}'"),
            *("-l", f"/network_address=1,walltime={hours}:{minutes}:0"),
            *self.settings.options,
            command,
        )
        return self._ask(argv, text.parse_id)

    def list(self) -> tuple[JobRecord, ...]:
        owner = own_name()
        argv = own_argv(owner, time.time())
        return self._ask(argv, lambda answer: text.parse_own(answer, owner))

    def cancel(self, ids: Sequence[str]) -> None:
        self._delete(("oardel", *ids), len(ids))

    def signal(self, ids: Sequence[str], number: signal.Signals) -> None:
        self._delete(("oardel", "-s", number.name, *ids), len(ids))

    @property
    def holder_queues(self) -> frozenset[str]:
        return frozenset({text.BESTEFFORT})

    def why_no_holder(self) -> str:
        if "idempotent" in " ".join(self.settings.options):
            return "oar.options has the type idempotent: OAR would start holders again; remove it"
        for option in self.settings.options:
            if option.startswith(("-n", "--name")):
                return f"oar.options has {option!r}: a holder is known by its name; remove it"
        return ""

    def _delete(self, argv: Sequence[str], jobs: int) -> None:
        """Run oardel, which connects to the node of each job in turn where it sends a signal."""
        timeout_s = self.settings.timeout_s + jobs
        output = outcome(argv, timeout_s=timeout_s, env=self.environment)
        if output.status and not text.is_only_over(output.err):
            raise failure(argv, output)

    def _ask(self, argv: Sequence[str], parse: Callable[[str], Answer]) -> Answer:
        answer = run(argv, timeout_s=self.settings.timeout_s, env=self.environment)
        return parsed(argv, answer, parse)


def plan_argv(now_s: float) -> tuple[str, ...]:
    """Build the question for all plans; oarstat reads local time. An hour of a year occurs twice
    there, and oarstat may take the first for the second, so the question begins an hour before.
    """
    times = (time.localtime(at_s) for at_s in (now_s - 3600.0, now_s + PLANS_S))
    period = ", ".join(time.strftime("%Y-%m-%d %H:%M:%S", local) for local in times)
    return ("oarstat", "-J", "--gantt", period)


def own_argv(owner: str, now_s: float) -> tuple[str, ...]:
    """Build the question for the jobs of a user that are not over, or not for long."""
    quoted = owner.replace("'", "''")
    active = "state NOT IN ('Terminated', 'Error')"
    condition = f"job_user = '{quoted}' AND ({active} OR stop_time >= {now_s - ENDED_S:.0f})"
    return ("oarstat", "-J", "-f", "--sql", condition)


SITE = SimpleSite(
    NAME, OarSettings, lambda settings: OarCluster(settings), dropped_variables=_NOT_FOR_WORKERS
)
