"""The pilot's configuration: TOML in, :class:`PilotConfig` out. :mod:`bftrainer.config.config_text`
writes the file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, ConfigDict, Field, field_validator, model_validator

from bftrainer.config.host_lists import host_patterns
from bftrainer.config.trainer_file import Count, NotNegative, Positive
from bftrainer.config.validation import ConfigTable, as_toml, read_toml
from bftrainer.errors import InvalidValueError, UnknownNameError
from bftrainer.plugin_traits import SITE_GROUP, all_sites, default_site, site_traits
from bftrainer.slots import Grain

_QUIET = re.compile(
    r"(?:(mon|tue|wed|thu|fri|sat|sun)-(mon|tue|wed|thu|fri|sat|sun) )?(\d\d):(\d\d)-(\d\d):(\d\d)"
)
_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


def _checked_hosts(patterns: tuple[str, ...]) -> tuple[str, ...]:
    host_patterns(patterns)
    return patterns


Hosts = Annotated[tuple[str, ...], AfterValidator(_checked_hosts)]
"""A list of nodes (:mod:`bftrainer.config.host_lists`)."""


class DecisionsConfig(ConfigTable):
    """How many nodes each trainer gets."""

    policy: str = "bftrainer"
    """bftrainer, equal-share, another installed policy, or module:function."""
    solver: str = "auto"
    """auto (which is exact), exact, highs, gurobi, or milp: gurobi, then highs, then exact."""
    solve_s: Positive = 0.2
    """Time limit of each MILP solver, in seconds. The exact solver takes milliseconds."""
    audit_share: Annotated[float, Field(ge=0, le=1)] = 0.02
    """Share of one core for the audit, which solves decisions again as a MILP, in a process of low
    priority. 0: none.
    """
    restricted_license: bool = False
    """Use Gurobi with the license in its package as well, which forbids production."""
    objective: str | None = None
    """fair, soon or most (which decide how many trainers train), relative-speed, throughput,
    priority or another.
    """
    forward_s: NotNegative | None = None
    """How far ahead a decision looks, in seconds (the paper's T_fwd). Default: 240 for fair and
    most, else 120.
    """
    gather_s: Annotated[float, Field(ge=0, le=60)] = 1.0
    """When nodes join, move running trainers only after this many seconds, once for all nodes that
    came. 0: at once.
    """
    max_parallel: Count | Literal["auto"] = "auto"
    """Maximum number of trainers admitted at once (the paper's P_jmax). auto: the objective
    decides.
    """
    seed: int = 0
    """Random seed for policies that break ties at random."""


class NodesConfig(ConfigTable):
    """Which nodes the pilot may hold, and how."""

    holder: str = Field(default_factory=default_site)
    """slurm, lsf, pbs, allocation (nodes of the pilot's own job) or trace (nodes of a recorded log,
    workers on this host).
    """
    unit: Grain = Grain.NODE
    """What trainers get: whole nodes, or single GPUs with one worker each (Slurm only; trainer
    files with max_gpus).
    """
    slots: Count = 1
    """Workers per node, usually one per GPU."""
    max_nodes: Count = 1_000_000
    """Maximum number of nodes held at once."""
    site_max_nodes: Count | None = None
    """Maximum number of nodes held at once by all pilots of the site (Slurm only). Set the same
    number in every pilot.
    """
    share: bool = True
    """Hold no more than an equal part of the nodes while other users' pilots want theirs (Slurm
    only).
    """
    partitions: tuple[str, ...] = ()
    """Use only nodes of these partitions. Empty: any partition."""
    hosts: Hosts = ()
    """Use only these nodes, such as "node[001-128]" or "gpu*". Empty: any node. Two pilots must not
    list the same node.
    """
    exclude: Hosts = ()
    """Never use these nodes."""
    quiet_hours: tuple[str, ...] = ()
    """Times without new requests, local time: "08:00-18:00" or "mon-fri 08:00-18:00". Held nodes
    are kept.
    """
    node_class: str | None = None
    """Use only nodes of this class: a table [classes.NAME], or a hardware class such as "4 a100" or
    "32 cpus".
    """
    confirm_s: Annotated[float, Field(ge=0, le=60)] = 1.0
    """When a node becomes idle while main-queue jobs wait: request it if it still is after this
    many seconds. 0: at once.
    """
    min_window_s: NotNegative = 60.0
    """Shortest backfill window worth a request, in seconds."""
    leave_before_s: NotNegative = 15.0
    """Release a held node this many seconds before its backfill window ends, if the end is
    known.
    """
    max_pending: Count = 64
    """Maximum number of holder jobs that may be pending at once."""
    flap_back_off_s: NotNegative = 60.0
    """Back off from a node that was preempted within this many seconds of being taken: as long at
    first, then twice as long.
    """
    leave_for_power_saving: Annotated[int, Field(ge=0)] = 0
    """Number of nodes that are left idle, so that the site can power them down; nodes that are
    powered down count.
    """
    wake: bool = False
    """Hold nodes that are powered down: the scheduler powers them up for that."""
    cloud: bool = False
    """Hold nodes of a cloud (Slurm's state CLOUD), which are paid for while they are up."""
    unused_after_s: NotNegative = 30.0
    """Release a held node that no trainer has used for this many seconds."""
    give_way: Literal["auto", "site", "yield", "blind"] = "auto"
    """Who frees nodes for main jobs: the scheduler (site), or the pilot, which watches the queue
    (yield) or only its counters (blind). auto: site where the scheduler preempts holders.
    """
    yield_poll_s: Annotated[float, Field(ge=0.5, le=60)] = 1.0
    """With yield and blind, look for new main jobs at this interval, in seconds."""
    yield_notice_s: Annotated[float, Field(ge=0, le=60)] = 5.0
    """With yield, how long trainers may take to leave nodes that a main job waits for."""
    worst_wait_s: Annotated[float, Field(ge=120)] = 1800.0
    """With yield, time limit of a holder, and so the longest wait of a main job whatever happens.
    While jobs wait, at most 600.
    """
    settled_s: NotNegative | None = None
    """Hold no more nodes than were idle or held at all times in the last so many seconds. Default:
    0 for site, 300 for yield, 3600 for blind.
    """

    @field_validator("quiet_hours")
    @classmethod
    def _quiet(cls, spans: tuple[str, ...]) -> tuple[str, ...]:
        """Reject a time span of another form."""
        for span in spans:
            if not _QUIET.fullmatch(span):
                raise InvalidValueError(
                    f'expected a span like "08:00-18:00" or "mon-fri 08:00-18:00", got {span!r}'
                )
        return spans


class NodeClassConfig(ConfigTable):
    """Nodes that are alike for a trainer, by partition, name or GPU type. A node belongs to the
    first class that it matches.
    """

    partitions: tuple[str, ...] = ()
    """Nodes of these partitions. Empty: any partition."""
    hosts: Hosts = ()
    """These nodes, such as "node[001-128]" or "gpu*". Empty: any node."""
    gpu: str | None = None
    """Nodes with a GPU of this type, such as "a100"."""
    interface: str | None = None
    """Network interface of these nodes; overrides workers.interface."""
    slots: Count | None = None
    """Workers per node; overrides nodes.slots."""


class TimesConfig(ConfigTable):
    """Polling intervals and timeouts, in seconds."""

    poll_s: Positive = 10.0
    """Interval between two polls of the scheduler."""
    file_poll_s: Positive = 0.2
    """Interval between two polls of the spool, the drivers and the holders."""
    stale_after_s: Positive = 60.0
    """Release every node when the scheduler has not answered for this long."""
    lease_s: Positive = 60.0
    """Lease of the holders, renewed by the pilot. Holders end on their own if no pilot renews it in
    time.
    """
    shutdown_s: Positive = 60.0
    """Time from SIGTERM to the release of the last node. Trainers write checkpoints in this
    time.
    """
    move_s: Positive = 60.0
    """How long a trainer may take to leave a node; after that the node's holder is released."""
    hand_over_s: Positive = 300.0
    """Submit the successor job this long before the pilot's own job ends."""


class WorkersConfig(ConfigTable):
    """How drivers start workers."""

    interface: str = "lo"
    """Network interface for training traffic, on the nodes and on the pilot's host."""
    allow_from: tuple[str, ...] = ("127.0.0.0/8",)
    """Networks that nodes may connect from."""
    hang_s: Positive = 120.0
    """Seconds without output after which a worker counts as hung."""
    first_step_s: Positive = 900.0
    """Seconds from a worker's start to the first report, for scripts that report; then it counts as
    hung.
    """
    notice_s: Annotated[float, Field(ge=0, le=60)] = 0.0
    """Seconds that workers on a preempted node may take to save; main jobs wait that long. Unset:
    0, or 5 for "trace".
    """
    warm: bool = True
    """Start the worker on a joining node before the running workers are notified of the node."""
    log_bytes: Count = 1_000_000
    """Maximum size of the log of one worker, in bytes."""
    allow_root: bool = False
    """Let root run a pilot: trainers would then run as root. Not needed with holder = "trace"."""
    allow_stock_horovodrun: bool = False
    """Allow stock horovodrun. It opens ports through which anyone on the network can run code; see
    the security page.
    """
    private_interface: bool = False
    """No other user can reach the interface's network. Without it, gloo's connections are checked,
    and NCCL over several nodes is refused, unless the interface is the loopback.
    """
    require_rehearsal: bool = False
    """Reject submissions whose script has not passed bftrainer rehearse with this state
    directory.
    """


class LearningConfig(ConfigTable):
    """Measurement of throughput curves and rescaling costs while trainers run."""

    measure: bool = True
    """Replace submitted curves and costs by measured ones. A trainer without a curve is always
    measured.
    """
    share: Annotated[float, Field(gt=0, le=1)] = 0.25
    """Largest share of the pool for a trainer without a curve, until it is measured."""
    window_s: Positive = 20.0
    """Length of one measurement, in seconds."""
    explore_after_s: NotNegative = 120.0
    """Try another size after this many seconds at the smallest one (ten times as many at larger
    ones). 0: never.
    """


class NoticesConfig(ConfigTable):
    """A command to run when a trainer is done, has failed, or has had no nodes for long."""

    on_event: tuple[str, ...] = ()
    """The command, as a list (no shell). It reads one JSON object from standard input."""
    timeout_s: Positive = 10.0
    """Kill the command after this many seconds."""
    starved_after_s: NotNegative = 3600.0
    """Report a trainer that has had no nodes for this many seconds, and repeat at the same
    interval. 0: never.
    """


class MetricsConfig(ConfigTable):
    """Metrics for Prometheus, at GET /metrics."""

    socket: bool = True
    """Serve on the Unix socket metrics.sock in the state directory, which only its owner can
    use.
    """
    port: Annotated[int, Field(ge=0, le=65535)] | None = None
    """TCP port to serve on, in addition to the socket. It needs token_file."""
    address: str = "127.0.0.1"
    """Address of the port."""
    token_file: Path | None = None
    """File (mode 0600) with the token that a scrape must send as Authorization: Bearer ..."""

    @model_validator(mode="after")
    def _check(self) -> MetricsConfig:
        """Reject an address that is no IP address, and a port without a token."""
        try:
            is_loopback = ip_address(self.address).is_loopback
        except ValueError:
            raise InvalidValueError(
                f"expected an IP address to listen on, got {self.address!r}"
            ) from None
        if self.port is not None and self.token_file is None:
            readers = "every user of this host" if is_loopback else "other hosts"
            raise InvalidValueError(
                f"port {self.port} of {self.address} can be reached by {readers}: set token_file, "
                "or remove port and use the "
                "socket"
            )
        return self


class HintsConfig(ConfigTable):
    """Hints to poll the scheduler at once: datagrams that Epilogs send (docs/hints.md). Any host
    may send them.
    """

    port: Annotated[int, Field(ge=0, le=65535)] | None = None
    """UDP port to listen on. Without it, there are no hints."""
    address: str = ""
    """Address to listen on. Empty: that of workers.interface. Only workers.allow_from may send."""
    looks_per_minute: Annotated[float, Field(gt=0, le=600)] = 30.0
    """Maximum number of additional polls per minute because of hints. Each is charged to the budget
    of calls.
    """
    poll_s: Positive = 30.0
    """Interval between two polls while hints have announced the latest changes. At least
    times.poll_s is used.
    """

    @field_validator("address")
    @classmethod
    def _address(cls, text: str) -> str:
        try:
            return str(ip_address(text)) if text else text
        except ValueError:
            raise InvalidValueError(f"expected an IP address to listen on, got {text!r}") from None


class LogConfig(ConfigTable):
    """What the pilot prints: one line per decision and per other event."""

    format: Literal["text", "json", "none"] = "text"
    """text for people, json for programs, or none."""


class PilotConfig(ConfigTable):
    """The keys of bftrainer.toml."""

    decisions: DecisionsConfig = DecisionsConfig()
    nodes: NodesConfig = NodesConfig()
    times: TimesConfig = TimesConfig()
    workers: WorkersConfig = WorkersConfig()
    learning: LearningConfig = LearningConfig()
    notices: NoticesConfig = NoticesConfig()
    metrics: MetricsConfig = MetricsConfig()
    hints: HintsConfig = HintsConfig()
    log: LogConfig = LogConfig()
    classes: dict[str, NodeClassConfig] = Field(default_factory=dict)

    model_config = ConfigDict(extra="allow")

    def site_table(self, site: str) -> dict[str, Any]:
        """Return the site's own table, which its plug-in validates; empty if the file has none."""
        table: dict[str, Any] = self.site_tables().get(site, {})
        return table

    def site_tables(self) -> Mapping[str, Any]:
        """Return the tables of sites, by their names."""
        return self.model_extra or {}

    @model_validator(mode="after")
    def _check(self) -> PilotConfig:
        """Reject tables of sites that are not installed, and keys that contradict one another."""
        for key, value in sorted(self.site_tables().items()):
            from bftrainer.plugins import installed_names  # which loads the policies' modules

            if key not in (sites := installed_names(SITE_GROUP)):
                raise InvalidValueError(
                    str(UnknownNameError("key", key, (*type(self).model_fields, *sites)))
                )
            if not isinstance(value, dict):
                raise InvalidValueError(f"{key}: expected a table, got {value!r:.60}")
        if self.nodes.unit.divides_nodes:
            if not site_traits(self.nodes.holder).holds_gpus:
                able = [name for name, traits in all_sites().items() if traits.holds_gpus]
                raise InvalidValueError(
                    f'nodes.unit = "gpu" needs holder = {" or ".join(map(as_toml, able))}, '
                    f"got {self.nodes.holder!r}"
                )
            has_slots = any(node_class.slots for node_class in self.classes.values())
            if self.nodes.slots != 1 or has_slots:
                raise InvalidValueError(
                    'nodes.unit = "gpu" starts one worker for each GPU; remove slots'
                )
        if self.times.file_poll_s > self.times.poll_s:
            raise InvalidValueError(
                f"times.file_poll_s {self.times.file_poll_s:g} is larger than times.poll_s "
                f"{self.times.poll_s:g}"
            )
        return self


def read_config(path: Path) -> PilotConfig:
    """Read and validate a configuration file. Relative paths in it are relative to the file."""
    config = read_toml(path, PilotConfig)
    metrics = config.metrics
    home = path.parent.absolute()
    if metrics.token_file is not None:
        metrics = metrics.model_copy(update={"token_file": home / metrics.token_file})
    sites = {site: _with_paths(site, table, home) for site, table in config.site_tables().items()}
    return config.model_copy(update={"metrics": metrics, **sites})


def _with_paths(site: str, table: Mapping[str, Any], home: Path) -> dict[str, Any]:
    """Return a site's table with its relative paths resolved below ``home``. A value that is no
    text stays as it is, for the plug-in to judge.
    """
    keys = [key for key in site_traits(site).paths if isinstance(table.get(key), str)]
    return {**table, **{key: str(home / table[key]) for key in keys}}


def is_quiet(spans: tuple[str, ...], now: datetime) -> bool:
    """Whether a local time is within quiet hours. A span past midnight belongs to the day on which
    it begins.
    """
    for span in spans:
        match = _QUIET.fullmatch(span)
        assert match, "validated"
        first_day, last_day, begin_h, begin_min, end_h, end_min = match.groups()
        begin = 60 * int(begin_h) + int(begin_min)  # minutes of the day
        end = 60 * int(end_h) + int(end_min)
        minute = 60 * now.hour + now.minute
        day = now.weekday()
        if begin <= end:
            is_inside = begin <= minute < end
        else:  # past midnight
            is_inside = minute >= begin or minute < end
            if minute < begin:
                day = (day - 1) % 7
        if is_inside and (first_day is None or _is_day_between(day, first_day, last_day)):
            return True
    return False


def _is_day_between(day: int, first: str, last: str) -> bool:
    """Whether a weekday is among those from ``first`` to ``last``, over the weekend if need be."""
    first_day = _DAYS.index(first)
    return (day - first_day) % 7 <= (_DAYS.index(last) - first_day) % 7
