"""The pilot's configuration: TOML in, :class:`PilotConfig` out. ``bftrainer init`` writes it with every key and its default."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from ipaddress import ip_address
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from bftrainer.config.trainer_file import Count, NotNegative, Positive
from bftrainer.config.validation import ConfigTable, read_toml
from bftrainer.errors import InvalidValueError, UnknownNameError

_QUIET = re.compile(r"(?:(mon|tue|wed|thu|fri|sat|sun)-(mon|tue|wed|thu|fri|sat|sun) )?(\d\d):(\d\d)-(\d\d):(\d\d)")
_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


class DecisionsConfig(ConfigTable):
    """Who gets how many nodes."""

    policy: str = "bftrainer"
    """bftrainer, equal-share, another installed policy, or module:function."""
    solver: str = "auto"
    """auto, exact, highs or gurobi."""
    solve_s: Positive = 0.2
    """Time for each MILP solver; the exact one needs milliseconds."""
    objective: str = "throughput"
    """throughput, scaling-efficiency, priority, progress or module:function."""
    forward_s: NotNegative = 120.0
    """How far ahead a decision looks (the paper's T_fwd)."""
    max_parallel: Count = 10
    """Trainers admitted at once (the paper's P_jmax)."""
    seed: int = 0
    """For policies that break ties by lot."""


class NodesConfig(ConfigTable):
    """Which nodes may be held, and how."""

    holder: str = "trace"
    """slurm, lsf, allocation (the nodes of the pilot's own job) or trace (nodes of a recorded log, workers on this machine)."""
    slots: Count = 1
    """Workers per node: one per GPU."""
    max_nodes: Count = 1_000_000
    """Nodes held at once."""
    site_max_nodes: Count | None = None
    """Nodes held at once by all pilots of the site together, whoever runs them (Slurm); the same number for each of them."""
    partitions: tuple[str, ...] = ()
    """Only nodes of these partitions; none means any."""
    hosts: tuple[str, ...] = ()
    """Only these nodes, such as "node[001-128]"; none means any. No two pilots may list the same node."""
    exclude: tuple[str, ...] = ()
    """Never these nodes."""
    quiet_hours: tuple[str, ...] = ()
    """When no new node is taken, local time: "08:00-18:00" or "mon-fri 08:00-18:00"."""
    node_class: str | None = None
    """Only nodes of this class: a table [classes.NAME], or nodes of the same hardware, such as "4 a100" or "32 cpus"."""
    min_window_s: NotNegative = 60.0
    """A node that the scheduler wants sooner than this is not worth taking."""
    leave_before_s: NotNegative = 15.0
    """A held node is given back so long before the scheduler wants it, where that is known."""
    max_pending: Count = 64
    """Holders that were asked for and have not started."""
    flap_back_off_s: NotNegative = 60.0
    """A node that was asked back within this time of being taken is left alone that long, twice as long the next time."""
    unused_after_s: NotNegative = 30.0
    """A held node that no trainer has had for this long is released."""

    @field_validator("quiet_hours")
    @classmethod
    def _quiet(cls, spans: tuple[str, ...]) -> tuple[str, ...]:
        for span in spans:
            if not _QUIET.fullmatch(span):
                raise InvalidValueError(f'expected like "08:00-18:00" or "mon-fri 08:00-18:00", got {span!r}')
        return spans


class NodeClassConfig(ConfigTable):
    """Nodes that are alike for a trainer, by partition, names or GPU type; a node is of the first class that it fits."""

    partitions: tuple[str, ...] = ()
    """Nodes of one of these partitions; none means any."""
    hosts: tuple[str, ...] = ()
    """One of these nodes, such as "node[001-128]"; none means any."""
    gpu: str | None = None
    """Nodes with a GPU of this type, such as "a100"."""
    interface: str | None = None
    """Their network interface, instead of workers.interface."""
    slots: Count | None = None
    """Workers on each, instead of nodes.slots."""


class TimesConfig(ConfigTable):
    """How often the pilot looks, and how long it waits."""

    poll_s: Positive = 10.0
    """Between two looks at the scheduler."""
    file_poll_s: Positive = 0.2
    """Between two looks at spool, drivers and holders."""
    stale_after_s: Positive = 60.0
    """When the scheduler has not answered for this long, every node is released."""
    lease_s: Positive = 60.0
    """How long the pilot may be silent (stopped, or starting again) and keep its nodes; then holders end by themselves."""
    shutdown_s: Positive = 60.0
    """From SIGTERM to the last node released; trainers checkpoint in the meantime."""
    move_s: Positive = 60.0
    """How long a node that changes hands may take to be let go before its holder is released instead."""
    hand_over_s: Positive = 300.0
    """So long before the pilot's job ends, its successor is submitted."""


class TraceConfig(ConfigTable):
    """holder = "trace": nodes come and go as a log says, at a chosen speed; workers are processes on this machine."""

    log: Path | None = None
    """An event log (time,joined,left). Without one, a log is generated."""
    nodes: Count = 48
    """Nodes of the generated log, or the first ones of the log."""
    days: Positive = 1.0
    seed: int = 4
    """Of the generated log; in this one nodes are idle from its beginning."""
    start_h: NotNegative = 0.0
    """Hours of the log that are left out at its beginning."""
    speedup: Positive = 60.0
    """Seconds of the log per second."""


class WorkersConfig(ConfigTable):
    """How drivers start workers."""

    interface: str = "lo"
    """Network interface of the nodes and of the pilot's host."""
    allow_from: tuple[str, ...] = ("127.0.0.0/8",)
    """Networks that the nodes connect from."""
    hang_s: Positive = 120.0
    """Silence after which a worker is taken for hung."""
    warm: bool = True
    """Start a joining node's worker before it is announced."""
    log_bytes: Count = 1_000_000
    """Cap of one worker's log."""
    allow_root: bool = False
    """Trainers run with the pilot's rights; a pilot of root's is refused without this, except with holder = "trace"."""
    allow_stock_horovodrun: bool = False
    """Stock horovodrun opens ports that anybody on the network can run code through; see the security page."""
    require_rehearsal: bool = False
    """submit refuses scripts that have not passed bftrainer rehearse with this state directory."""


class LearningConfig(ConfigTable):
    """Curves and rescaling costs are measured while trainers run."""

    measure: bool = True
    """What was measured replaces what was submitted. A trainer without a curve is measured in any case."""
    share: Annotated[float, Field(gt=0, le=1)] = 0.25
    """Of the pool, for a trainer without a curve that was not measured yet."""
    window_s: Positive = 20.0
    """Length of one measurement."""
    explore_after_s: NotNegative = 120.0
    """So long on its smallest size, never on a very different one, it is tried on more; on larger ones 10 x later on fewer."""


class NoticesConfig(ConfigTable):
    """Who is told when a trainer is done, has failed, or has had no nodes for long."""

    on_event: tuple[str, ...] = ()
    """A command, as a list (no shell); it reads one JSON object from its standard input."""
    timeout_s: Positive = 10.0
    """It is killed after this time."""
    starved_after_s: NotNegative = 3600.0
    """Without nodes for so long is worth telling, and again after as long; 0: never."""


class MetricsConfig(ConfigTable):
    """GET /metrics for Prometheus."""

    port: Annotated[int, Field(ge=0, le=65535)] | None = None
    """Where to listen; without it nothing does."""
    address: str = "127.0.0.1"
    """Other than loopback only with a token."""
    token_file: Path | None = None
    """A file (mode 0600) with the token that a scrape has to bring: Authorization: Bearer ..."""

    @model_validator(mode="after")
    def _check(self) -> MetricsConfig:
        try:
            loopback = ip_address(self.address).is_loopback
        except ValueError:
            raise InvalidValueError(f"expected an IP address to listen on, got {self.address!r}") from None
        if not loopback and self.token_file is None:
            raise InvalidValueError(f"address {self.address} can be reached from elsewhere: set token_file too")
        return self


class LogConfig(ConfigTable):
    """What the pilot prints: one line per decision, and one per event besides."""

    format: Literal["text", "json", "none"] = "text"
    """text for people, json for programs, or none."""


class PilotConfig(ConfigTable):
    """The keys of bftrainer.toml."""

    decisions: DecisionsConfig = DecisionsConfig()
    nodes: NodesConfig = NodesConfig()
    times: TimesConfig = TimesConfig()
    workers: WorkersConfig = WorkersConfig()
    trace: TraceConfig = TraceConfig()
    learning: LearningConfig = LearningConfig()
    notices: NoticesConfig = NoticesConfig()
    metrics: MetricsConfig = MetricsConfig()
    log: LogConfig = LogConfig()
    classes: dict[str, NodeClassConfig] = Field(default_factory=dict)

    model_config = ConfigDict(extra="allow")

    def site_table(self, site: str) -> dict[str, Any]:
        """The table of a site's own, which its plug-in validates; empty where the file has none."""
        table: dict[str, Any] = (self.model_extra or {}).get(site, {})
        return table

    @model_validator(mode="after")
    def _check(self) -> PilotConfig:
        for key, value in sorted((self.model_extra or {}).items()):
            from bftrainer.plugins import site_names  # installed packages are searched

            if key not in site_names():
                raise InvalidValueError(str(UnknownNameError("key", key, (*type(self).model_fields, *site_names()))))
            if not isinstance(value, dict):
                raise InvalidValueError(f"{key}: expected a table, got {value!r:.60}")
        if self.times.file_poll_s > self.times.poll_s:
            raise InvalidValueError(
                f"times.file_poll_s {self.times.file_poll_s:g} is larger than times.poll_s {self.times.poll_s:g}"
            )
        return self


def read_config(path: Path) -> PilotConfig:
    """A configuration, checked; paths in it are relative to it."""
    config = read_toml(path, PilotConfig)
    paths = {("trace", "log"): config.trace.log, ("metrics", "token_file"): config.metrics.token_file}
    for (table, key), given in paths.items():
        if given is not None:
            own = getattr(config, table).model_copy(update={key: (path.parent / given).absolute()})
            config = config.model_copy(update={table: own})
    return config


def is_quiet(spans: tuple[str, ...], now: datetime) -> bool:
    """Whether a local time lies in one of the quiet hours. A span past midnight belongs to the day that it begins on."""
    for span in spans:
        found = _QUIET.fullmatch(span)
        assert found, "checked at the gate"
        first, last, *clock = found.groups()
        begin, end = (60 * int(h) + int(m) for h, m in (clock[:2], clock[2:]))
        minute, day = 60 * now.hour + now.minute, now.weekday()
        if begin <= end:
            inside = begin <= minute < end
        else:
            inside = minute >= begin or minute < end
            day = day if minute >= begin else (day - 1) % 7
        if inside and (first is None or (day - _DAYS.index(first)) % 7 <= (_DAYS.index(last) - _DAYS.index(first)) % 7):
            return True
    return False


def commented_default(site: Mapping[str, type[BaseModel]] = MappingProxyType({}), **chosen: object) -> str:
    """A configuration file with every key, its default and what it is for; ``chosen`` ones (table_key) are set.

    ``site`` are tables that only the site's adapter knows.
    """
    own = {
        name: type(field.default)
        for name, field in PilotConfig.model_fields.items()
        if isinstance(field.default, BaseModel)
    }
    lines = ["# The pilot's configuration. A line that is commented out shows the default."]
    for table, model in {**own, **site}.items():
        lines += ["", f"[{table}]  # {_first_line(model.__doc__)}"]
        for key, inner in model.model_fields.items():
            if inner.description:
                lines.append(f"# {inner.description}")
            name = f"{table}_{key}"
            value = chosen.get(name, None if inner.is_required() else inner.default)
            shown = "..." if value is None else _as_toml(value)
            lines.append(f"{key} = {shown}" if name in chosen else f"#{key} = {shown}")
    return "\n".join(lines) + "\n"


def _first_line(text: str | None) -> str:
    return (text or "").strip().splitlines()[0]


def _as_toml(value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case int() | float():
            return repr(value)
        case tuple() | list():
            return f"[{', '.join(_as_toml(item) for item in value)}]"
        case _:
            text = str(value).replace("\\", "\\\\").replace('"', '\\"')
            return f'"{text}"'
