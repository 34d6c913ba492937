"""The words of a log's format, for sentences on what the log records: a PBS log has queues, and no column Reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from bftrainer_replay.logs.job_needs import Fact


@dataclass(frozen=True, slots=True)
class Dialect:
    """``partition`` is the format's word for a partition; ``places`` has the fields of the facts that are read.

    ``absent`` is said of all others. ``slurm``: commands of Slurm apply.
    """

    partition: str = "partition"
    places: Mapping[Fact, str] = field(default_factory=dict)
    absent: str = ""
    slurm: bool = False
    account: str = "account"

    def name(self, fact: Fact) -> str:
        """The fact in the format's words, and where the format has it."""
        plain = f"{self.partition}s" if fact is Fact.PARTITION else fact.value
        place = self.places.get(fact, self.absent)
        return f"{plain} ({place})" if place else plain

    def translated(self, text: str) -> str:
        """A sentence on partitions in the format's words."""
        return text.replace("partition", self.partition)


GENERIC = Dialect()
SACCT = Dialect(
    places={
        Fact.TIME_LIMIT: "TimelimitRaw",
        Fact.PARTITION: "Partition",
        Fact.REASON: "Reason",
        Fact.RESOURCES: "ReqTRES",
        Fact.CONSTRAINT: "Constraints",
        Fact.USE: "AllocTRES",
    },
    slurm=True,
)
JOBCOMP = Dialect(
    places={Fact.TIME_LIMIT: "TimeLimit", Fact.PARTITION: "Partition", Fact.RESOURCES: "Tres"},
    absent="not in job completion logs",
    slurm=True,
)
PBS = Dialect(
    "queue",
    {
        Fact.TIME_LIMIT: "Resource_List.walltime",
        Fact.PARTITION: "queue",
        Fact.RESOURCES: "Resource_List.ncpus and ngpus",
        Fact.USE: "Resource_List.ncpus and ngpus",
    },
    "not read from PBS accounting records",
)
LSF = Dialect("queue", absent="not read from LSF logs", account="project")
ALCF = Dialect(
    "queue",
    {Fact.TIME_LIMIT: "walltime_seconds or wall_time", Fact.PARTITION: "queue_name"},
    "not in this CSV format",
    account="project",
)
SWF = Dialect(
    places={
        Fact.TIME_LIMIT: "field 9",
        Fact.PARTITION: "field 16 or, for the queue, 15",
        Fact.RESOURCES: "fields 5 and 8, without devices",
        Fact.USE: "field 5, without devices",
    },
    absent="not in SWF",
    account="group",
)
