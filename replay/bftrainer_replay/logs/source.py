"""A job log during import: where it comes from, the user's options, and what has been collected
from it.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from bftrainer.counted import counted
from bftrainer.errors import UserError
from bftrainer_replay.limited_file import MOST_BYTES, OnBytes
from bftrainer_replay.logs.clock import LogClock, zone_of
from bftrainer_replay.logs.dialect import GENERIC, Dialect
from bftrainer_replay.logs.job_needs import JobFact
from bftrainer_replay.logs.jobs import JobRows, Tally
from bftrainer_replay.logs.lines import Lines
from bftrainer_replay.logs.partial import LEAST_JOBS

FORMAT_NAMES = (
    "events",
    "sacct",
    "sacct-json",
    "jobcomp",
    "lsb.acct",
    "bhist",
    "pbs",
    "alcf",
    "swf",
)
"""The values of ``--format``; :mod:`bftrainer_replay.logs.open` has a reader for each."""
KEEP = "keep"
"""The value of ``--outliers`` and ``--runaways`` that takes such records as they are."""
DEBOUNCE_S = 10.0
"""The paper removes idle nodes between two jobs, which "usually appears only in one bslots record"
of 10 s (section 2.1).
"""

_MAX_VALUES = 2
"""Number of different users or states that are kept: two show that a log is not of a single one."""


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """The user's options for a job log; None means that the importer guesses and reports its
    guess.
    """

    format: str | None = None
    timezone: str | None = None
    skip_bad: bool = False
    most_bad: float = 0.01
    cluster: str | None = None
    columns: str | None = None
    machine_nodes: int | None = None
    processors_per_node: int | None = None
    debounce_s: float = DEBOUNCE_S
    warm_up_h: float | None = None
    cool_down_h: float | None = None
    outages: tuple[str, ...] = ("auto",)
    max_bytes: int | None = None
    node_events: Path | None = None
    reservations: Path | None = None
    outliers: str = "drop"
    runaways: str = "limit"
    node_info: Path | None = None
    more_files: tuple[Path, ...] = ()
    unit: str | None = None
    gpus_per_node: int | None = None
    part_cpus: float = 4.0
    back_s: float = 20.0


@dataclass
class Source:
    """The argument of an importer, which reads ``lines``, fills ``rows`` and counts records in
    ``tally``.

    ``machine_nodes`` and ``machine_why``: the size of the cluster as the log states it, and where
    the log does. ``cores_per_node``: as the log states it (0: it does not); ``counts_processors``:
    sizes are in processors, and the number of processors of a node is a guess. ``remarks``: notes
    for the user, such as guesses. ``facts``: the columns that the log has for each job besides
    times, size and nodes. ``dialect``: the format's names for these. ``clusters``: the number of
    jobs of each cluster. ``users`` and ``states``: those of the jobs, at most two of each, where
    the log has them. ``only_user``: the user of all jobs, if there is only one. ``missing_ids``:
    the share of job ids that the log lacks. ``warnings``: remarks that go with every result.
    ``on_bytes`` is called with the numbers of bytes that are read.
    """

    path: Path
    options: ImportOptions
    dialect: Dialect = GENERIC
    on_bytes: OnBytes | None = None
    lines: Lines = field(init=False)
    clock: LogClock = field(init=False)
    tally: Tally = field(init=False)
    rows: JobRows = field(init=False)
    machine_nodes: int | None = None
    machine_why: str = ""
    cores_per_node: float = 0.0
    counts_processors: bool = False
    remarks: list[str] = field(init=False, default_factory=list)
    facts: set[JobFact] = field(init=False, default_factory=set)
    clusters: Counter[str] = field(init=False, default_factory=Counter)
    users: set[str] = field(init=False, default_factory=set)
    states: set[str] = field(init=False, default_factory=set)
    missing_ids: float = 0.0
    warnings: list[str] = field(init=False, default_factory=list)
    only_user: str = field(init=False, default="")

    def __post_init__(self) -> None:
        self.lines = Lines(
            self.path, self.options.max_bytes, self.options.more_files, self.on_bytes
        )
        self.read_again()

    @property
    def name(self) -> str:
        """The name of the first file, and the number of others that are read as the same log."""
        n_others = len(self.options.more_files)
        return f"{self.path} and {n_others} more" if n_others else str(self.path)

    def is_of_another(self, cluster: str, user: str) -> bool:
        """Return whether a job is of another cluster than that of --cluster.

        The cluster and the user of a job that is not are noted; an empty text stands for an unknown
        one.
        """
        if cluster and self.options.cluster not in (None, cluster):
            return True
        if cluster:
            self.clusters[cluster[:64]] += 1
        self.belongs_to(user)
        return False

    def belongs_to(self, user: str) -> None:
        """Record the user of a job; empty: not known."""
        if len(self.users) < _MAX_VALUES:
            self.users.add(user)

    def has_state(self, state: str) -> None:
        """Record the state of a job."""
        if len(self.states) < _MAX_VALUES:
            self.states.add(state)

    def check_whose(self) -> None:
        """Raise :class:`UserError` if the jobs are of several clusters; warn if all are of one
        user.

        With one user's jobs only, the nodes of all others look idle.
        """
        if self.options.cluster is not None and not self.clusters:
            raise UserError(
                f"{self.path}: has no jobs of a cluster {self.options.cluster!r:.60} (sacct's "
                "column Cluster)"
            )
        if len(self.clusters) > 1:
            clusters = ", ".join(
                f"{name} ({jobs:,})" for name, jobs in self.clusters.most_common(5)
            )
            raise UserError(
                f"{self.path}: has jobs of {counted(len(self.clusters), 'cluster')}: {clusters}; "
                "choose one with --cluster"
            )
        user = min(self.users, default="")  # empty where the log has no users
        if user and len(self.users) == 1 and len(self.rows) >= LEAST_JOBS:
            self.only_user = user[:32]
            self.warnings.append(
                f"all jobs belong to user {user[:32]}: nodes with jobs of others count as "
                "idle; as an ordinary user, run "
                "sacct with -a, if the site shows you all jobs"
            )

    def release(self) -> None:
        """Free the memory that was needed only to read the log: 300 MB with millions of jobs.

        Most of it is free space between small objects, which only ``malloc_trim`` returns to the
        system.
        """
        if self.tally.record_hashes is not None:
            self.tally.record_hashes.clear()
        self.clock.forget()
        with contextlib.suppress(AttributeError, OSError):  # another C library than glibc
            ctypes.CDLL(None).malloc_trim(0)

    def read_again(self) -> None:
        """Drop all rows, counts and times: a reader begins with the first line again."""
        self.rows = JobRows(str(self.path), self.options.max_bytes or MOST_BYTES)
        self.clock = LogClock(zone_of(self.options.timezone))
        self.tally = Tally(lambda: self.lines.path, self.options.skip_bad)
