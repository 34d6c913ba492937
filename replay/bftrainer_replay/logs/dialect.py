"""The words of a log's format, for sentences on what the log records: a PBS log has queues, and no
column Reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from bftrainer_replay.logs.job_needs import JobFact


@dataclass(frozen=True, slots=True)
class Dialect:
    """The words of a log format, and the fields that hold facts on jobs.

    ``partition`` and ``account`` are the format's words for these. ``places`` names the field of
    each fact that the importer reads; ``absent`` describes where all other facts are missing.
    ``slurm``: the log is one of Slurm, so that messages may name its commands. ``setup`` are the
    pages that say how the scheduler is set up for a pilot. ``preemption`` is what holds for the
    delay of main jobs there; empty where nothing special does.
    """

    partition: str = "partition"
    places: Mapping[JobFact, str] = field(default_factory=dict)
    absent: str = ""
    slurm: bool = False
    account: str = "account"
    setup: str = "docs/site-setup.md, docs/lsf.md"
    preemption: str = ""

    def name(self, fact: JobFact) -> str:
        """Return the fact in the format's words, with the field that holds it or why none does."""
        plain = f"{self.partition}s" if fact is JobFact.PARTITION else fact.value
        place = self.places.get(fact, self.absent)
        return f"{plain} ({place})" if place else plain

    def translated(self, text: str) -> str:
        """Return a sentence on partitions in the format's words."""
        return text.replace("partition", self.partition)


GENERIC = Dialect()
SACCT = Dialect(
    places={
        JobFact.TIME_LIMIT: "TimelimitRaw",
        JobFact.PARTITION: "Partition",
        JobFact.REASON: "Reason",
        JobFact.RESOURCES: "ReqTRES",
        JobFact.CONSTRAINT: "Constraints",
        JobFact.USE: "AllocTRES",
    },
    slurm=True,
)
JOBCOMP = Dialect(
    places={
        JobFact.TIME_LIMIT: "TimeLimit",
        JobFact.PARTITION: "Partition",
        JobFact.RESOURCES: "Tres",
    },
    absent="not in job completion logs",
    slurm=True,
)
PBS = Dialect(
    "queue",
    {
        JobFact.TIME_LIMIT: "Resource_List.walltime",
        JobFact.PARTITION: "queue",
        JobFact.RESOURCES: "Resource_List.ncpus and ngpus",
        JobFact.USE: "Resource_List.ncpus and ngpus",
    },
    "not read from PBS accounting records",
    setup="docs/pbs.md",
    preemption="PBS suspends preempted jobs by default; a pilot holds nodes only where PBS deletes "
    "them instead (preempt_order D)",
)
LSF = Dialect("queue", absent="not read from LSF logs", account="project")
ALCF = Dialect(
    "queue",
    {JobFact.TIME_LIMIT: "walltime_seconds or wall_time", JobFact.PARTITION: "queue_name"},
    "not in this CSV format",
    account="project",
)
SWF = Dialect(
    places={
        JobFact.TIME_LIMIT: "field 9",
        JobFact.PARTITION: "field 16 or, for the queue, 15",
        JobFact.RESOURCES: "fields 5 and 8, without devices",
        JobFact.USE: "field 5, without devices",
    },
    absent="not in SWF",
    account="group",
)
