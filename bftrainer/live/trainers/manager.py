"""The pilot's trainers: between registry (what was submitted), core (who gets nodes) and drivers (what happens).

The registry says what is wanted of a trainer; whatever a driver does is led back to that. So a pilot that starts and one that
comes back do the same: read the registry, look at the drivers, take the next step.
"""

from __future__ import annotations

import errno
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from operator import is_
from typing import Protocol

from bftrainer.config.pilot import NodeClassConfig
from bftrainer.config.trainer_file import TrainerSpec
from bftrainer.domain.events import RateSeen, StallSeen
from bftrainer.domain.fragments import id_of, node_of
from bftrainer.domain.state import Nodes
from bftrainer.live.trainers.meter import MeterBook
from bftrainer.live.trainers.steps import (
    AskToStop,
    ChangeHosts,
    Kill,
    StartDriver,
    TargetState,
    TrainerState,
    carried_out,
    has_nothing_to_do,
    holds,
    next_step,
    rest,
)
from bftrainer.live.trainers.usage import UsageBook
from bftrainer.persistence.registry import Registry, TrainerRecord, TrainerStatus
from bftrainer.protocol.hosts import HostSlots
from bftrainer.protocol.reports import DriverView, Ending

MAX_FAILURES = 4
NO_DISK = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EFBIG})
RETRY_S = 5.0


class Launcher(Protocol):
    """Starts, rescales and stops trainers, and says what their drivers report."""

    def start(self, spec: TrainerSpec, hosts: Iterable[HostSlots], interface: str | None = None) -> None:
        """Start a driver on these hosts. ``interface``: of their node class, where it has its own."""

    def order(self, name: str, hosts: Iterable[HostSlots]) -> None:
        """Tell a running driver its new hosts."""

    def ask_to_stop(self, name: str) -> None:
        """Checkpoint and leave."""

    def kill(self, name: str) -> None:
        """End it at once."""

    def look(self, name: str) -> DriverView:
        """Its driver as of now, adopted if it runs already."""


@dataclass(slots=True)
class Union:
    """The union of sets, worked out again only when one of them is another one. ``apart``: no two have anything in common."""

    whole: Nodes = frozenset()
    apart: bool = True
    _parts: tuple[Nodes, ...] = ()

    def of(self, sets: Iterable[Nodes]) -> Union:
        """The union of these."""
        parts = tuple(sets)
        if len(parts) != len(self._parts) or not all(map(is_, parts, self._parts)):
            self._parts, self.whole = parts, frozenset().union(*parts)
            self.apart = len(self.whole) == sum(map(len, parts))
        return self


class TrainerManager:
    """All trainers that are not final, and final ones whose driver is still there."""

    def __init__(self, registry: Registry, launcher: Launcher, slots: int, now_s: float) -> None:
        self._registry = registry
        self._launcher = launcher
        self._slots = slots
        self._records: dict[str, TrainerRecord] = {}
        self._standings: dict[str, TrainerState] = {}
        self._usage = UsageBook(now_s)
        self._held, self._desired, self._used = Union(), Union(), Union()
        self._kinds: dict[str, tuple[Nodes, str | None]] = {}
        self._for_core: dict[str, TrainerRecord] = {}
        self._for_core_until_s = -math.inf
        self._wants: tuple[tuple[int, str | None], ...] = ()
        self._wants_of: tuple[object, ...] = ()
        self.meters = MeterBook()
        self.draining = False
        self.kind_of: Callable[[str], str | None] = lambda _: None
        self.class_named: Callable[[str | None], NodeClassConfig | None] = lambda _: None
        self.reload_registry(now_s)

    def reload_registry(self, now_s: float) -> None:
        """Take in what is new in the registry, and adopt drivers that run."""
        for record in self._registry.trainers():
            if record.name in self._records or (record.status.is_final and record.finished_s is not None):
                continue
            standing = TrainerState(record.spec.min_nodes, record.spec.stop_s, not_before_s=record.not_before_s)
            standing.view = self._launcher.look(record.name)
            standing.desired_s = standing.ordered_s = now_s
            self._records[record.name], self._standings[record.name] = record, standing
            self._set_wish(record.name)
            self._for_core_until_s = -math.inf

    def record(self, name: str) -> TrainerRecord | None:
        """One trainer, if it is here."""
        return self._records.get(name)

    def for_core(self, now_s: float) -> dict[str, TrainerRecord]:
        """Those that the core shall know, in the order of submission: neither final nor paused nor waiting to be retried.

        The very same value until one of them changes, or need not wait any more.
        """
        if now_s >= self._for_core_until_s:
            records = self._records.items()
            wanted = {n: r for n, r in records if not r.status.is_final and r.status is not TrainerStatus.PAUSED}
            self._for_core = {name: record for name, record in wanted.items() if record.not_before_s <= now_s}
            waits = (record.not_before_s for record in wanted.values() if record.not_before_s > now_s)
            self._for_core_until_s = min(waits, default=math.inf)
        return self._for_core

    def wants(self, now_s: float, most: int) -> tuple[tuple[int, str | None], ...]:
        """(``max_nodes``, its class; None: any) of the first ``most`` for the core: how many nodes it could use, and which."""
        core = self.for_core(now_s)
        parts = (core, most, *(self._standings[name].desired for name in core))
        if len(parts) != len(self._wants_of) or not all(map(is_, parts, self._wants_of)):
            first = list(core.values())[:most]
            self._wants = tuple((r.spec.max_nodes, r.spec.node_class or self.kind(r.name)) for r in first)
            # Classes of nodes may become known later.
            self._wants_of = () if None in (kind for _, kind in self._wants) else parts
        return self._wants

    def samples_done(self) -> tuple[tuple[str, float], ...]:
        """(name, samples) of those that run or have run."""
        return tuple((name, done) for name in self._records if (done := self._samples(name)) > 0)

    def losses(self) -> tuple[tuple[str, float], ...]:
        """(name, loss) of those that report it."""
        return tuple((name, it.view.loss) for name, it in self._standings.items() if it.view.loss is not None)

    def measured(self, of: Callable[[str], bool]) -> tuple[RateSeen | StallSeen, ...]:
        """What was measured since the last call of the trainers that ``of`` picks."""
        return self.meters.taken(of)

    def desire(self, name: str, nodes: Nodes, now_s: float) -> None:
        """The core's word: these are its nodes."""
        if (it := self._standings.get(name)) is not None and it.desired != nodes:
            it.desired, it.desired_s, it.within = nodes, now_s, None

    def adopt_orders(self, name: str, nodes: Nodes, pool: Nodes, now_s: float) -> None:
        """What a driver that runs was, or should have been, told by the pilot before this one."""
        if (it := self._standings.get(name)) is not None:
            it.desired, it.desired_s, it.within = nodes, now_s, None
            if it.view.alive:
                # Its hosts file may be older than the plan: an empty memory of orders makes the next step write it anew,
                # and what it still uses is not free before it says so.
                it.ordered, it.ordered_s, it.kind = frozenset(), now_s, self._kind(nodes)
                it.leaving = nodes | {name for name in pool if id_of(name) in it.view.occupied}

    def admitted(self, names: Iterable[str], now_s: float) -> None:
        """The core has given them places."""
        for name in names:
            record = self._records.get(name)
            if record is not None and record.status is TrainerStatus.QUEUED:
                self.change(name, status=TrainerStatus.WAITING, admitted_s=record.admitted_s or now_s)

    def change(self, name: str, **columns: object) -> None:
        """Change the registry and what is known of it here."""
        self._registry.change(name, **columns)
        self._records[name] = replace(self._records[name], **columns)  # type: ignore[arg-type]  # checked by change()
        self._for_core_until_s = -math.inf
        self._set_wish(name)

    def look(self, now_s: float) -> frozenset[str]:
        """Hear all drivers. Returns ids of fragments that drivers will not use any more: workers there were taken."""
        lost: set[str] = set()
        for name in list(self._standings):
            it = self._standings[name]
            was = it.view
            it.view = self._launcher.look(name)
            if it.view is not was and it.view != was:
                self.meters.hear(name, it.view)
                lost |= it.view.withheld - was.withheld
            record = self._records[name]
            if it.view.alive:
                if it.view.on and record.status is TrainerStatus.WAITING:
                    self.change(name, status=TrainerStatus.RUNNING, started_s=record.started_s or now_s, reason="")
            elif it.view.ending is not None and (was.alive or it.view.incarnation > record.ended_incarnation):
                self._ended(name, now_s, found_dead=not was.alive)
            elif record.status.is_final:
                self._close(name, now_s)
            elif record.status is TrainerStatus.RUNNING:
                self.change(name, status=TrainerStatus.WAITING)
        return frozenset(lost)

    def step(self, now_s: float, pool: Nodes | None = None) -> None:
        """Take every trainer's next step; those that let go of nodes first. Nobody is sent to what is not in the pool."""
        if pool is not None:
            for it in self._standings.values():
                if it.within is not pool:
                    it.desired, it.within = it.desired if it.desired <= pool else it.desired & pool, pool
        holding = dict(zip(self._standings, self._holding(now_s), strict=True))
        apart = self._held.of(holding.values()).apart
        growing = {n: len(it.desired) > len(it.ordered) for n, it in self._standings.items()}
        for name in sorted(self._standings, key=growing.__getitem__):
            it = self._standings[name]
            if (apart and has_nothing_to_do(it)) or not (it.view.alive or it.desired):
                continue
            wanted = self._kind(it.desired)
            it.moves = None not in (wanted, it.kind) and wanted != it.kind
            others = (nodes for n, nodes in holding.items() if n != name and not it.desired.isdisjoint(nodes))
            step = next_step(it, frozenset().union(*others), now_s)
            match step:
                case StartDriver(nodes):
                    it.kind = self._kind(nodes)
                    try:
                        self._launcher.start(self._records[name].spec, self._hosts(name, nodes), self._interface(nodes))
                    except OSError as error:
                        if error.errno in NO_DISK:
                            raise  # not this trainer's fault
                        self._failed(name, now_s, f"the driver cannot be started: {error}", ())
                        continue
                    it.view = replace(it.view, alive=True, ending=None, on=frozenset(), with_workers=frozenset())
                case ChangeHosts(nodes):
                    self._launcher.order(name, self._hosts(name, nodes))
                case AskToStop():
                    self._launcher.ask_to_stop(name)
                case Kill():
                    self._launcher.kill(name)
            if step is not None:
                carried_out(it, step, now_s)
                holding[name] = holds(it, now_s)
            elif wanted is not None and not it.moves:
                rest(it)

    def held(self, now_s: float) -> Nodes:
        """Fragments on which trainers have processes."""
        return self._held.of(self._holding(now_s)).whole

    def _holding(self, now_s: float) -> list[Nodes]:
        every = self._standings.values()
        return [it.ordered if it.view.alive and not it.leaving else holds(it, now_s) for it in every]  # mostly no call

    def kind(self, name: str) -> str | None:
        """The class of the nodes that the core has given to a trainer; None while it has none."""
        it = self._standings[name]
        known = self._kinds.get(name)
        if known is None or known[0] is not it.desired or known[1] is None:
            known = self._kinds[name] = it.desired, self._kind(it.desired)
        return known[1]

    def desired(self) -> Nodes:
        """Fragments that the core has given to somebody."""
        return self._desired.of(it.desired for it in self._standings.values()).whole

    def used(self, now_s: float) -> Nodes:
        """Fragments that are given to somebody, or held by somebody."""
        return self._used.of((self.desired(), self.held(now_s))).whole

    def anybody_alive(self) -> bool:
        """Whether any driver runs."""
        return any(it.view.alive for it in self._standings.values())

    def drain(self) -> None:
        """From now on everybody shall checkpoint and leave; the registry stays as it is."""
        self.draining = True
        for name in self._standings:
            self._set_wish(name)

    def kill_all(self) -> None:
        """End every driver that is still there."""
        for name, it in self._standings.items():
            if it.view.alive:
                self._launcher.kill(name)

    def account(self, now_s: float) -> None:
        """Book the node-seconds since the last call."""
        self._usage.account(self._standings, now_s)

    def write_usage(self, now_s: float) -> None:
        """Put what was booked into the registry, with the heartbeat."""
        samples = {name: self._samples(name) for name in self._standings}
        self._registry.add_usage(self._usage.taken(list(samples), samples), now_s)

    def _samples(self, name: str) -> float:
        samples = self._standings[name].view.samples
        return self._records[name].samples_done if samples is None else samples

    def _hosts(self, name: str, nodes: Nodes) -> list[HostSlots]:
        kind = self.class_named(self._kind(nodes))
        slots = self._records[name].spec.slots or (kind and kind.slots) or self._slots
        return [HostSlots(node_of(f), slots, id_of(f)) for f in sorted(nodes)]

    def _interface(self, nodes: Nodes) -> str | None:
        kind = self.class_named(self._kind(nodes))
        return kind.interface if kind else None

    def _kind(self, nodes: Nodes) -> str | None:
        """The class of nodes that are all of one."""
        return self.kind_of(min(nodes)) if nodes else None

    def _set_wish(self, name: str) -> None:
        status = self._records[name].status
        runs = not status.is_final and status is not TrainerStatus.PAUSED and not self.draining
        it = self._standings[name]
        it.wish = TargetState.RUN if runs else TargetState.STOP
        it.not_before_s = self._records[name].not_before_s

    def _ended(self, name: str, now_s: float, found_dead: bool) -> None:
        """A driver's end, dealt with once (the incarnation is remembered in the same commit).

        One that was dead when this pilot came, without a last word, died with the job of the pilot before it. That is no
        failure of the trainer's: it starts again, at once and from its last checkpoint.
        """
        it, record = self._standings[name], self._records[name]
        dealt: dict[str, object] = {"ended_incarnation": it.view.incarnation, "samples_done": self._samples(name)}
        it.ordered = it.leaving = frozenset()
        self._book(name)  # first: whoever is told of the end is told of all that was used
        match it.view.ending:
            case Ending.DONE:
                self.change(name, status=TrainerStatus.DONE, reason="", finished_s=now_s, **dealt)
                self._forget(name)
            case _ if record.status.is_final:
                self.change(name, finished_s=now_s, **dealt)
                self._forget(name)
            case Ending.FAILED | Ending.KILLED as how if it.wish is TargetState.RUN and (
                how is Ending.FAILED or not found_dead
            ):
                self._failed(name, now_s, it.view.reason or "the driver was killed", it.view.tail, **dealt)
            case how:
                if how is Ending.KILLED and found_dead:
                    self._registry.note(
                        now_s, "driver", name, "was dead when this pilot came; its last checkpoint counts"
                    )
                status = record.status if record.status is not TrainerStatus.RUNNING else TrainerStatus.WAITING
                self.change(name, status=status, **dealt)

    def _failed(self, name: str, now_s: float, reason: str, tail: tuple[str, ...], **dealt: object) -> None:
        """Try again later, and after some times without any progress give up; the last lines of its log say why."""
        record = self._records[name]
        samples = self._samples(name)
        # In the registry, and not here: a pilot that comes back must not take work done again for progress.
        furthest = record.samples_at_failure
        failures = 1 if furthest is None or samples > furthest else record.failures + 1
        dealt |= {"failures": failures, "samples_at_failure": max(samples, furthest or 0.0)}
        text = f"{reason}: {' | '.join(tail[-5:])}" if tail else reason
        self._registry.note(now_s, "failure", name, text)
        if failures >= MAX_FAILURES:
            self.change(name, status=TrainerStatus.FAILED, reason=text, finished_s=now_s, **dealt)
            self._forget(name)
            return
        self.change(
            name, status=TrainerStatus.QUEUED, reason=f"failed {failures} times, tries again: {text}",
            not_before_s=now_s + RETRY_S * 2 ** (failures - 1), **dealt,
        )  # fmt: skip

    def _close(self, name: str, now_s: float) -> None:
        """Final, and no driver is left."""
        if self._records[name].finished_s is None:
            self.change(name, finished_s=now_s)
        self._forget(name)

    def _book(self, name: str) -> None:
        """Put what it has used since the last heartbeat into the registry."""
        if usage := self._usage.taken([name], {name: self._samples(name)}):
            self._registry.add_usage(usage, self._usage.accounted_s)

    def _forget(self, name: str) -> None:
        self._book(name)
        del self._records[name], self._standings[name]
        self._for_core_until_s = -math.inf
        self._kinds.pop(name, None)
        self.meters.forget(name)
