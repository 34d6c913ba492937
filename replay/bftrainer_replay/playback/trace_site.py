"""``holder = "trace"``: a recorded or generated log says which nodes are idle; workers are
processes on this host.

This is the default, for a laptop and for trying out a configuration: nodes come and go as on the
recorded cluster, and workers may save before they are killed, as at a site that sets
``workers.notice_s``.
"""

from __future__ import annotations

import json
import math
import os
import secrets
import time
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field

from bftrainer.cluster.model import (
    Acquired,
    Availability,
    Fragment,
    FragmentPhase,
    NodeRequest,
    NodeView,
    Observation,
    Refusal,
)
from bftrainer.cluster.site_plugin import Site, SitePlugin
from bftrainer.config.pilot import PilotConfig
from bftrainer.config.trainer_file import Count, NotNegative, Positive
from bftrainer.config.validation import ConfigTable, check_table
from bftrainer.decide.domain.checks import Check
from bftrainer.errors import StateDirError
from bftrainer.fragment_names import fragment_name, id_of, node_of
from bftrainer.system.clock import Clock
from bftrainer.system.files import remove_folder, remove_leftovers, write_atomically
from bftrainer_replay.playback.trace_machine import (
    ensure_running,
    fragment_folders,
    make_mark,
    sweep,
)

NAME = "trace"
_PHASES = (
    ("ready", FragmentPhase.READY),
    ("leaving", FragmentPhase.LEAVING),
    ("gone", FragmentPhase.GONE),
)
"""The marks in a fragment's folder, in the order in which they are made, and their phases."""
NOTICE_S = 5.0
"""Seconds to save, enough for a first training: a step of most scripts, and a checkpoint."""


class TraceConfig(ConfigTable):
    """For holder = "trace": nodes join and leave as a recorded log says; workers are processes on
    this host.
    """

    log: Path | None = None
    """Event log: a CSV file with the columns time,joined,left (format: docs/pilot.md). Without it,
    a log is generated.
    """
    nodes: Count = 48
    """Number of nodes in the generated log, or number of nodes to use from the given log."""
    days: Annotated[float, Field(gt=0, le=3660)] = 1.0
    """Length of the generated log, in days."""
    seed: int = 4
    """Random seed of the generated log. With the default, some nodes are idle at its start."""
    start_h: NotNegative = 0.0
    """Skip this many hours at the start of the log."""
    speedup: Positive = 1.0
    """Playback speed: seconds of the log per second of real time."""


@dataclass(frozen=True, slots=True)
class Timeline:
    """When each node is idle, as (start, end) in seconds since the playback began; the log, of
    ``span_s`` seconds, is repeated from its start when it ends.
    """

    idle: dict[str, tuple[tuple[float, float], ...]]
    span_s: float

    def until_s(self, node: str, at_s: float) -> float | None:
        """Return when the scheduler wants the node back, if it is idle at ``at_s``; else None."""
        repetitions, log_s = divmod(at_s, self.span_s)
        spans = self.idle.get(node, ())
        index = bisect_right(spans, (log_s, math.inf)) - 1  # the last span that has begun
        if index < 0:
            return None
        _, end_s = spans[index]
        return repetitions * self.span_s + end_s if log_s < end_s else None


def read_timeline(config: TraceConfig) -> Timeline:
    """Return when each node is idle in the configured log, or in a generated one, sped up.

    Times begin with the playback. Raises :class:`~bftrainer.errors.InputFileError`.
    """
    from bftrainer_replay.generation.generate import generate
    from bftrainer_replay.logs.event_log import read_event_log
    from bftrainer_replay.logs.model import restricted_log

    if config.log is None:
        log = generate(config.nodes, config.days, config.seed)
    else:
        log = read_event_log(config.log)
    start_s = log.events[0].at_s + 3600 * config.start_h
    window = restricted_log(log, start_s=start_s, nodes=log.nodes()[: config.nodes])
    idle_since_s = dict.fromkeys(sorted(window.initial), 0.0)
    spans: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for event in window.events:
        at_s = (event.at_s - start_s) / config.speedup
        for node in sorted(event.change.left):
            spans[node].append((idle_since_s.pop(node), at_s))
        idle_since_s.update(dict.fromkeys(sorted(event.change.joined), at_s))
    span_s = max(window.span_s / config.speedup, 1.0)
    for node, since_s in idle_since_s.items():  # still idle at the end of the log
        spans[node].append((since_s, span_s))
    idle = {node: tuple(node_spans) for node, node_spans in sorted(spans.items())}
    return Timeline(idle, span_s)


class TraceCluster:
    """A played-back log as scheduler and holder of nodes. The start time is kept on disk, so a
    restarted pilot finds the same nodes.
    """

    def __init__(self, state_dir: Path, timeline: Timeline, lease_s: float, clock: Clock) -> None:
        """Begin the playback, or go on with one that began before a restart.

        Raises :class:`StateDirError` if its beginning cannot be written or read.
        """
        self._holders = state_dir / "holders"
        self._timeline = timeline
        self._lease_s = lease_s
        self._clock = clock
        beginning = self._holders / "beginning.json"
        try:
            self._holders.mkdir(mode=0o700, exist_ok=True)
            if not beginning.exists():
                # The tag tells two state directories on one host apart: processes are found by
                # fragment id.
                value = {"at_s": clock.now_s(), "tag": secrets.token_hex(3)}
                write_atomically(beginning, json.dumps(value).encode())
            content = json.loads(beginning.read_bytes())
        except OSError as error:
            raise StateDirError(f"{beginning}: cannot be used: {error.strerror}") from error
        remove_leftovers(self._holders)
        # Fragments that have ended, but whose folders cannot be removed.
        self._unremovable: set[str] = set()
        self._beginning_s = float(content["at_s"])
        self._tag = str(content["tag"])
        numbers = [int(folder.name.rpartition("-")[2]) for folder in self._fragment_folders()]
        # By the time, so that fragments without folders are not numbered again.
        self._next_number = max([int(clock.now_s() - self._beginning_s) * 1000, *numbers]) + 1

    def observe(self) -> Observation:
        """Return the log's nodes as of now; a node that the pilot holds is busy."""
        at_s = self._clock.now_s()
        held_nodes = {node_of(folder.name) for folder in self._fragment_folders()}
        nodes = []
        for node in self._timeline.idle:
            until_s = self._timeline.until_s(node, at_s - self._beginning_s)
            is_idle = node not in held_nodes and until_s is not None
            nodes.append(NodeView(node, Availability.FREE if is_idle else Availability.BUSY))
        return Observation(at_s, tuple(nodes))

    def acquire(self, requests: tuple[NodeRequest, ...]) -> Acquired:
        """Take the nodes that are still idle; return their fragments, and the refusals of others.

        A fragment is a folder, which :mod:`.trace_machine` then plays. It ends when its idle time
        in the log is over, or its window.
        """
        now_s = self._clock.now_s()
        fragments, refusals = [], []
        for request in requests:
            until_s = self._timeline.until_s(request.node, now_s - self._beginning_s)
            is_held = any(
                node_of(folder.name) == request.node for folder in self._fragment_folders()
            )
            if until_s is None or is_held:
                refusals.append(Refusal(request.node, "no longer idle"))
                continue
            name = fragment_name(request.node, f"{self._tag}-{self._next_number}")
            self._next_number += 1
            part = self._holders / f".{name}"
            part.mkdir(mode=0o700)
            (part / "lease").touch()
            ends_s = min(self._beginning_s + until_s, now_s + request.window_s)
            (part / "fragment.json").write_text(json.dumps({"ends_s": ends_s}), encoding="utf-8")
            part.rename(self._holders / name)
            fragments.append(Fragment(name, FragmentPhase.PENDING))
        ensure_running(self._holders, self._lease_s)
        return Acquired(tuple(fragments), tuple(refusals))

    def poll(self) -> tuple[Fragment, ...]:
        """Return the fragments with the phases that :mod:`.trace_machine` has marked in their
        folders.

        Folders of fragments that are gone are removed.
        """
        fragments = []
        for folder in self._fragment_folders():
            phase, why = FragmentPhase.PENDING, ""
            for mark, marked_phase in _PHASES:  # the last mark counts
                if (folder / mark).exists():
                    phase = marked_phase
                    why = (folder / mark).read_text(encoding="utf-8")
            fragments.append(Fragment(folder.name, phase, why=why))
            if phase is FragmentPhase.GONE and not remove_folder(folder):
                self._unremovable.add(folder.name)
        if fragments:
            ensure_running(self._holders, self._lease_s)
        return tuple(fragments)

    def observed(self, without_a_job: frozenset[str]) -> None: ...

    def release(self, names: frozenset[str]) -> None:
        for name in sorted(names):
            make_mark(self._holders / name, "release")

    def clear(self, names: frozenset[str]) -> None:
        for name in sorted(names):
            sweep(id_of(name))

    def renew(self) -> None:
        now = time.time()
        for folder in self._fragment_folders():
            with suppress(FileNotFoundError):  # renewed by a thread of its own, and just removed
                os.utime(folder / "lease", (now, now))

    def _fragment_folders(self) -> list[Path]:
        return [
            folder
            for folder in fragment_folders(self._holders)
            if folder.name not in self._unremovable
        ]


class TraceSite:
    """``holder = "trace"``, the default."""

    table: type[ConfigTable] = TraceConfig
    batch = None
    # A log at 60 times its speed is observed more often than a cluster.
    init_values: Mapping[str, object] = {"times_poll_s": 1.0, "workers_notice_s": NOTICE_S}
    runs_here = True

    def build(self, config: PilotConfig, state_dir: Path, clock: Clock) -> Site:
        """Return the site: a log that is played back, as scheduler and as holder of nodes."""
        table = _trace_table(config)
        cluster = TraceCluster(state_dir, read_timeline(table), config.times.lease_s, clock)

        def reconfigure(fresh: PilotConfig) -> tuple[str, ...]:
            """The log is being played: all keys wait for the next start."""
            changed = _trace_table(fresh)
            keys = (key for key, value in table if value != getattr(changed, key))
            return tuple(f"{NAME}.{key}" for key in sorted(keys))

        return Site(cluster, cluster, reconfigure=reconfigure, notice_s=NOTICE_S)

    def check(self, config: PilotConfig | None, where: str, keep: Path) -> list[Check]:
        return []


def _trace_table(config: PilotConfig) -> TraceConfig:
    return check_table(config.site_table(NAME), TraceConfig, f"configuration: {NAME}")


SITE: SitePlugin = TraceSite()
