"""The facts on which the checks of a Slurm site rest: answers of scontrol and sacctmgr, read once
for doctor and for the pilot.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from bftrainer.errors import CommandError
from bftrainer.system import command
from bftrainer_clusters.slurm.associations import Accounting, RunCommand, read_accounting
from bftrainer_clusters.slurm.config import SlurmSettings
from bftrainer_clusters.slurm.preempt import qos_that_keep_waiting
from bftrainer_clusters.slurm.setup import (
    Partition,
    parse_config,
    parse_partitions,
    partitions_argv,
)
from bftrainer_clusters.slurm.site_limits import Holders, holders_of
from bftrainer_clusters.slurm.text import hides_jobs

MayHold = Callable[[str], bool]
"""Whether the pilot's configuration allows a node (nodes.hosts, nodes.exclude)."""
_SINCE = ("now-1hours", "now-1days", "now-7days")
_CHANGES_BY_ITSELF = ("NEXT_JOB_ID",)


@dataclass(frozen=True, slots=True)
class SiteSetup:
    """A site as it was read. ``unused_qos`` are QOSes that no job has used for a week, of those
    whose jobs holders would keep waiting.
    """

    config_text: str
    partitions: Mapping[str, Partition]
    accounting: Accounting = field(default_factory=Accounting)
    unused_qos: frozenset[str] = frozenset()

    @property
    def config(self) -> dict[str, str]:
        return parse_config(self.config_text)

    def holders(self, settings: SlurmSettings) -> Holders:
        """Return which limits apply to the holders of these settings."""
        accounting = self.accounting
        return holders_of(
            settings, self.config, self.partitions, accounting.qos or {}, accounting.associations
        )


def holder_kinds(settings: SlurmSettings, by_gpu: bool) -> tuple[SlurmSettings, ...]:
    """Return the settings of each kind of holder: of whole nodes, and with ``nodes.unit = "gpu"``
    (``by_gpu``) of parts of nodes.
    """
    if not by_gpu or not settings.holds_parts:
        return (settings,)
    # Settings under which the checks see the partition and the QOS of parts as those of holders.
    parts_keys = {
        "partition": settings.parts_partition or settings.partition,
        "parts_partition": settings.partition,
        "qos": settings.parts_qos or settings.qos,
        "parts_qos": settings.qos,
    }
    return settings, settings.model_copy(update=parts_keys)


def read_site(
    settings: SlurmSettings,
    config_text: str,
    user: str,
    ask: RunCommand,
    may_hold: MayHold = lambda node: True,
    by_gpu: bool = False,
) -> SiteSetup:
    """Read how the site is set up: partitions, accounting, and which QOSes are unused. Raises
    ``CommandError`` or ``SchedulerError``; an accounting that does not answer is a fact
    (``Accounting.silence``).

    ``ask`` runs a command. ``user`` is the user who asks; ``may_hold`` and ``by_gpu`` are the
    pilot's (nodes.hosts, nodes.unit).
    """
    partitions = command.parsed(partitions_argv(), ask(partitions_argv()), parse_partitions)
    facts = SiteSetup(config_text, partitions, read_accounting(settings, config_text, user, ask))
    waiting_qos = frozenset[str]().union(
        *(
            qos_that_keep_waiting(kind, facts.config, partitions, facts.accounting, may_hold)
            for kind in holder_kinds(settings, by_gpu)
        )
    )
    # Where other users' jobs are hidden, every QOS counts as used.
    if not waiting_qos or hides_jobs(config_text, user):
        return facts
    return replace(facts, unused_qos=unused(waiting_qos, user, ask))


def unused(names: frozenset[str], user: str, ask: RunCommand) -> frozenset[str]:
    """Return those of the named QOSes that no job has used for a week; none if sacct does not
    answer.

    A short time is asked for first: a busy QOS is found there, and a week of its jobs may be a
    million lines. slurmdbd can hide the jobs of others than ``user`` (PrivateData in slurmdbd.conf)
    and says so nowhere, so where no job of others is seen, all QOSes count as used.
    """
    other_users: set[str] = set()
    unused_names = names
    for since in _SINCE:
        # Until a job of others is seen, jobs of all QOSes are asked for.
        asked_qos = unused_names if other_users else frozenset[str]()
        try:
            text = ask(jobs_argv(since, asked_qos))
        except CommandError:
            return frozenset()
        rows = [line.split("|") for line in text.splitlines()]
        other_users |= {row[1] for row in rows if len(row) > 1} - {user}
        unused_names -= {row[0] for row in rows}
        if not unused_names:
            break
    return unused_names if other_users else frozenset()


def jobs_argv(since: str, qos: frozenset[str]) -> list[str]:
    """Build the query for the QOS and the user of each job since ``since`` (a time of sacct); with
    ``qos``, of jobs of these QOSes only.
    """
    options = [f"--qos={','.join(sorted(qos))}"] if qos else []
    return ["sacct", "-a", "-X", "-n", "-P", "-S", since, *options, "-o", "QOS,User"]


def fingerprint(config_text: str) -> tuple[tuple[str, str], ...]:
    """Return the configuration in a form that changes when slurmctld is restarted (BOOT_TIME) or
    reconfigured.
    """
    config = parse_config(config_text)
    return tuple(
        sorted((key, value) for key, value in config.items() if key not in _CHANGES_BY_ITSELF)
    )
