"""The configuration of a Slurm site: output of scontrol and sacctmgr -> values. Pure.

Tried with 22.05.8, 24.11.5 and 26.05.5 on real clusters with accounting.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from bftrainer.errors import SchedulerError
from bftrainer_clusters.slurm.hostlists import NOTHING, HostLists
from bftrainer_clusters.slurm.text import value_of, whole_lines


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition as scontrol shows it; ``max_s`` is infinite where there is no limit."""

    name: str
    tier: int
    preempt_mode: str
    grace_s: int
    nodes: frozenset[str]
    max_s: float
    state: str
    root_only: bool
    qos: str = ""
    """Its QOS, whose limits come before those of a job's own QOS."""
    allowed_qos: frozenset[str] = frozenset()
    """Empty: all but ``denied_qos``."""
    denied_qos: frozenset[str] = frozenset()
    allowed_accounts: frozenset[str] = frozenset()
    """Empty: all but ``denied_accounts``."""
    denied_accounts: frozenset[str] = frozenset()
    allowed_groups: frozenset[str] = frozenset()
    """Empty: users of all groups."""
    min_nodes: int = 0
    """Nodes that a job there must request."""
    is_default: bool = False
    over_min: str = ""
    """OverTimeLimit, where it differs from the cluster's."""
    tres: Mapping[str, float] = field(default_factory=dict)
    """What all its nodes have in sum, by the name of the TRES."""
    whole_blocks: bool = False
    """Whether its jobs share no block of the topology with another job."""
    whole_nodes: str = ""
    """What keeps its jobs from sharing a node with other users' jobs; empty: nothing."""
    spreads: bool = False
    """LLN: jobs go to the emptiest nodes."""
    jobs_a_core: int = 1
    """OverSubscribe=FORCE:4: so many of its jobs share each core, also with one that asked for
    --exclusive.
    """

    @property
    def starts_jobs(self) -> bool:
        """Whether jobs of ordinary users start there now: jobs in one that is DOWN or INACTIVE only
        wait.
        """
        return self.state not in ("DOWN", "INACTIVE") and not self.root_only

    def admits(self, qos: str) -> bool:
        """Whether jobs of a QOS may run there (AllowQos, DenyQos)."""
        return qos not in self.denied_qos and (not self.allowed_qos or qos in self.allowed_qos)

    def admits_account(self, account: str) -> bool:
        """Whether jobs of an account may run there (AllowAccounts, DenyAccounts)."""
        is_allowed = not self.allowed_accounts or account in self.allowed_accounts
        return is_allowed and account not in self.denied_accounts


@dataclass(frozen=True, slots=True)
class Qos:
    """A QOS as sacctmgr shows it: which QOSes it may preempt, how its own jobs are preempted, and
    what an hour costs.
    """

    name: str
    preempts: frozenset[str]
    preempt_mode: str
    usage_factor: float
    grace_s: int = 0
    exempt_s: float | None = None
    """PreemptExemptTime; None if unset: the cluster's counts."""
    max_s: float = float("inf")
    """MaxWall, of each job."""
    caps: Mapping[str, str] = field(default_factory=dict)
    """Limits on the number of jobs and nodes that are set, by sacctmgr's name."""
    hours: Mapping[str, str] = field(default_factory=dict)
    """Limits on usage, which is used up, by sacctmgr's name."""


_QOS_FIELDS = (
    "Name",
    "Preempt",
    "PreemptMode",
    "UsageFactor",
    "GraceTime",
    "PreemptExemptTime",
    "MaxWall",
)
_QOS_CAPS = (
    "MaxSubmitPU",
    "MaxJobsPU",
    "GrpSubmit",
    "GrpJobs",
    "MaxTRESPU",
    "GrpTRES",
    "MaxSubmitPA",
    "MaxJobsPA",
    "MaxTRESPA",
)
_QOS_HOURS = ("GrpTRESMins", "GrpWall")
_QOS = (*_QOS_FIELDS, *_QOS_CAPS, *_QOS_HOURS)


def config_argv() -> list[str]:
    """Build the query for the server's configuration."""
    return ["scontrol", "show", "config"]


def partitions_argv() -> list[str]:
    """Build the query for all partitions, including hidden ones."""
    return ["scontrol", "-a", "-o", "show", "partition"]


def qos_argv() -> list[str]:
    """Build the query for all QOSes; it needs accounting."""
    return ["sacctmgr", "-nP", "show", "qos", "format=" + ",".join(_QOS)]


def parse_config(text: str) -> dict[str, str]:
    """Parse ``scontrol show config``: lines ``Key = value``. Raises ``SchedulerError`` for output
    without a version.
    """
    lines = re.finditer(r"^([\w\[\]]+)\s+= ?(.*)$", text, re.MULTILINE)
    config = {line[1]: line[2].strip() for line in lines}
    if "SLURM_VERSION" not in config:
        raise SchedulerError(
            "scontrol show config does not show SLURM_VERSION: the output is truncated or from "
            "another program"
        )
    return config


def has_slurmdbd(config_text: str) -> bool:
    """Return whether accounting is slurmdbd's, by ``scontrol show config``; federations and several
    clusters need that.
    """
    return "slurmdbd" in parse_config(config_text).get("AccountingStorageType", "")


def parse_partitions(text: str) -> dict[str, Partition]:
    """Parse the answer to :func:`partitions_argv`, a line per partition."""
    lists = HostLists()
    partitions = [_parsed_partition(line, lists) for line in whole_lines(text, "partitions")]
    if any(not partition.name for partition in partitions):
        raise SchedulerError("a partition has no name")
    return {partition.name: partition for partition in partitions}


def parse_qos(text: str) -> dict[str, Qos]:
    """Parse the answer to :func:`qos_argv`: no header, one line per QOS."""
    all_qos = {}
    for row in sacctmgr_rows(whole_lines(text, "QOSes"), _QOS):
        all_qos[row["Name"]] = Qos(
            row["Name"],
            frozenset(row["Preempt"].split(",")) - {""},
            row["PreemptMode"].upper(),
            float(row["UsageFactor"] or 1.0),
            grace_s=int(limit_s(row["GraceTime"])) if row["GraceTime"] else 0,
            exempt_s=limit_s(row["PreemptExemptTime"]) if row["PreemptExemptTime"] else None,
            max_s=limit_s(row["MaxWall"]) if row["MaxWall"] else float("inf"),
            caps={key: row[key] for key in _QOS_CAPS if row[key]},
            hours={key: row[key] for key in _QOS_HOURS if row[key]},
        )
    return all_qos


def sacctmgr_rows(lines: Iterable[str], names: Sequence[str]) -> Iterator[dict[str, str]]:
    """Yield the fields of each line of ``sacctmgr -nP``, by name. Raises ``SchedulerError`` for a
    line with more or fewer fields.
    """
    for line in lines:
        fields = line.split("|")
        if len(fields) != len(names):
            raise SchedulerError(f"sacctmgr: line truncated or garbled: {line[:80]!r}")
        yield dict(zip(names, fields, strict=True))


def exempt_s(config: Mapping[str, str]) -> float:
    """Return PreemptExemptTime in seconds, for which a job runs before it may be preempted; 0 if
    unset.
    """
    text = config.get("PreemptExemptTime", "")
    return limit_s(text) if re.fullmatch(r"(\d+-)?\d+:\d+:\d+", text) else 0.0


def backfill_every_s(config: Mapping[str, str]) -> int | None:
    """Return the seconds between two cycles of backfill (bf_interval); None without backfill."""
    if config.get("SchedulerType") != "sched/backfill":
        return None
    match = re.search(r"\bbf_interval=(\d+)", config.get("SchedulerParameters", ""))
    return int(match[1]) if match else 30  # Slurm's default


def next_turn_s(config_text: str) -> float:
    """Return within how many seconds backfill looks at a job: its interval, and as long again for
    the cycle itself, ten minutes at most; 0 without backfill. ``config_text`` is the output of
    ``scontrol show config``.
    """
    return min(2.0 * (backfill_every_s(parse_config(config_text)) or 0), 600.0)


def parse_version(text: str) -> tuple[int, int]:
    """Return the release of a version: ``22.05.8`` -> (22, 5)."""
    match = re.search(r"(\d{1,4})\.(\d{1,4})", text)
    if match is None:
        raise SchedulerError(f"no version in {text[:80]!r}")
    return int(match[1]), int(match[2])


_FORCED = re.compile(r"\sOverSubscribe=FORCE:(\d+)\b")
_ALONE = re.compile(
    r"\s(OverSubscribe=EXCLUSIVE|Exclusive=(NODE|USER|TOPO)|Exclusive(User|Topo)=YES)\b"
)


def _parsed_partition(line: str, lists: HostLists) -> Partition:
    """Parse the line of one partition. Raises ``SchedulerError``."""
    value = partial(value_of, line)
    min_nodes = value("MinNodes", "0")
    qos = value("QoS", "")
    over_min = value("OverTimeLimit", "NONE")
    whole_nodes = _ALONE.search(line)
    forced_sharing = _FORCED.search(line)
    return Partition(
        name=value("PartitionName"),
        tier=int(value("PriorityTier")),
        preempt_mode=value("PreemptMode").upper(),
        grace_s=seconds(value("GraceTime")),
        nodes=lists.read(value("Nodes")),
        max_s=limit_s(value("MaxTime")),
        state=value("State"),
        root_only=value("RootOnly") == "YES",
        qos="" if qos in NOTHING else qos,
        allowed_qos=_unless_all(value("AllowQos", "ALL")),
        denied_qos=frozenset(value("DenyQos", "").split(",")) - {""},
        allowed_accounts=_unless_all(value("AllowAccounts", "ALL")),
        denied_accounts=frozenset(value("DenyAccounts", "").split(",")) - {""},
        allowed_groups=_unless_all(value("AllowGroups", "ALL")),
        min_nodes=int(min_nodes) if min_nodes.isdecimal() else 0,
        is_default=value("Default", "") == "YES",
        over_min="" if over_min == "NONE" else over_min,
        tres=parse_tres(value("TRES", "")),
        whole_nodes=whole_nodes[0].strip() if whole_nodes else "",
        spreads=value("LLN", "") == "YES",
        jobs_a_core=int(forced_sharing[1]) if forced_sharing else 1,
        whole_blocks=bool(re.search(r"\s(ExclusiveTopo=YES|Exclusive=TOPO)\b", line)),
    )


def _unless_all(text: str) -> frozenset[str]:
    """Return the names in a list such as AllowQos; none if it is ALL."""
    return frozenset() if text.upper() == "ALL" else frozenset(text.split(","))


def parse_tres(text: str) -> dict[str, float]:
    """Parse TRES: ``cpu=8,mem=8000M,node=4,gres/gpu=16``; memory becomes bytes. Text of another
    form is left out.
    """
    amounts = re.findall(r"(?:^|,)([^=,]+)=(\d+(?:\.\d+)?)([KMGTP]?)(?=,|$)", text)
    exponents = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5}
    return {name: float(number) * 1024 ** exponents[unit] for name, number, unit in amounts}


def seconds(text: str) -> int:
    """Return the number of seconds at the beginning of a text: ``30 sec`` -> 30. Raises
    ``SchedulerError`` if there is none.
    """
    match = re.match(r"\d+", text)
    if match is None:
        raise SchedulerError(f"{text[:40]!r} is not a number of seconds")
    return int(match[0])


def limit_s(text: str) -> float:
    """Parse a time limit into seconds: ``7-00:00:00``, ``01:00:00``, ``30:00`` (minutes and
    seconds), or UNLIMITED (infinite). Raises ``SchedulerError`` for another text.
    """
    if text.upper() in ("UNLIMITED", "INFINITE", "NONE"):
        return float("inf")
    match = re.fullmatch(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)", text)
    if match is None:
        raise SchedulerError(f"{text[:40]!r} is not a time limit")
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)
