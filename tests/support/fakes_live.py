"""A cluster in memory for the pilot: clock, scheduler, holder, drivers. Time moves only when
somebody sleeps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from bftrainer.cluster.model import (
    Acquired,
    Availability,
    Fragment,
    FragmentPhase,
    NodeRequest,
    NodeView,
    Observation,
    PeerPilot,
    PendingJob,
    Refusal,
)
from bftrainer.config.trainer_file import TrainerSpec
from bftrainer.errors import PostponedError, SchedulerError, UnknownNameError
from bftrainer.fragment_names import fragment_name
from bftrainer.system.users import own_name
from bftrainer.wires.driver_events import (
    AnyDriverEvent,
    EventLine,
    Running,
    Started,
    Withheld,
    WorkerExited,
)
from bftrainer.wires.hosts_file import HostSlots
from bftrainer.wires.reports import DriverView, Ending, after_event, after_progress, after_start

START_S = 1_700_000_000.0


@dataclass
class FakeClock:
    """``at`` holds what happens when its time has come, in order."""

    now: float = START_S
    at: list[tuple[float, Callable[[], object]]] = field(default_factory=list)
    set_by: float = 0.0
    """By how much the host's clock was set."""

    def now_s(self) -> float:
        return self.now + self.set_by

    def elapsed_s(self) -> float:
        return self.now - START_S

    def sleep(self, seconds: float) -> None:
        self.now += max(seconds, 1e-3)
        self.at.sort(key=lambda entry: entry[0])
        while self.at and START_S + self.at[0][0] <= self.now:
            self.at.pop(0)[1]()

    def after(self, seconds: float, action: Callable[[], object]) -> None:
        self.at.append((self.elapsed_s() + seconds, action))


@dataclass
class FakeCluster:
    """Scheduler and NodeHolder in one. ``idle`` are nodes that nobody else wants; a holder is ready
    after ``start_s``.
    """

    clock: FakeClock
    idle: set[str] = field(default_factory=set)
    busy: set[str] = field(default_factory=set)
    fragments: dict[str, Fragment] = field(default_factory=dict)
    start_s: float = 0.3
    down: bool = False
    looks_every_s: float = 0.0
    """What a budget of calls allows."""
    asleep: set[str] = field(default_factory=set)
    _next_look_s: float = 0.0
    refuses: set[str] = field(default_factory=set)
    observations: int = 0
    acquired: list[str] = field(default_factory=list)
    without_a_job: frozenset[str] = frozenset()
    renewals: int = 0
    cleared: set[str] = field(default_factory=set)
    cannot_clear: bool = False
    released: list[str] = field(default_factory=list)
    number: int = 0
    hardware: dict[str, NodeView] = field(default_factory=dict)
    pending: list[PendingJob] = field(default_factory=list)
    claims: list[NodeRequest] = field(default_factory=list)
    release_s: float = 0.0
    limit_s: float | None = None
    """Time limit of a holder. Its scheduler ends it there."""

    def observe(self) -> Observation:
        self.observations += 1
        if self.down:
            raise SchedulerError("the scheduler does not answer")
        if (wait_s := self._next_look_s - self.clock.elapsed_s()) > 0:
            raise PostponedError(f"the next look in {wait_s:.0f} s", wait_s)
        self._next_look_s = self.clock.elapsed_s() + self.looks_every_s
        held = self.held()
        names = sorted(self.idle | self.busy)
        states = {
            n: Availability.FREE if n in self.idle and n not in held else Availability.BUSY
            for n in names
        }
        states |= dict.fromkeys(sorted(self.asleep - held), Availability.ASLEEP)
        nodes = (
            replace(self.hardware.get(n, NodeView(n, state)), availability=state)
            for n, state in states.items()
        )
        return Observation(self.clock.now_s(), tuple(nodes), tuple(self.pending))

    def acquire(self, claims: tuple[NodeRequest, ...]) -> Acquired:
        fragments, refusals = [], []
        self.claims += claims
        for claim in claims:
            if claim.node not in self.idle - self.held() or claim.node in self.refuses:
                refusals.append(Refusal(claim.node, "no", 30.0))
                continue
            self.number += 1
            name = fragment_name(claim.node, str(self.number))
            gpus, is_part = tuple(range(claim.gpus)), claim.cpus > 0
            fragment = Fragment(
                name, FragmentPhase.PENDING, release_s=self.release_s, gpus=gpus, is_part=is_part
            )
            self.fragments[fragment.name] = fragment
            self.acquired.append(fragment.name)
            self.clock.after(self.start_s, lambda name=fragment.name: self._ready(name))
            fragments.append(fragment)
        return Acquired(tuple(fragments), tuple(refusals))

    def held(self) -> set[str]:
        return {f.node for f in self.fragments.values() if f.phase is not FragmentPhase.GONE}

    def poll(self) -> tuple[Fragment, ...]:
        found = tuple(self.fragments[name] for name in sorted(self.fragments))
        for fragment in found:
            if fragment.phase is FragmentPhase.GONE:
                del self.fragments[fragment.name]
        return found

    def observed(self, without_a_job: frozenset[str]) -> None:
        self.without_a_job = without_a_job

    def release(self, names: frozenset[str]) -> None:
        for name in sorted(names):
            if name in self.fragments:
                self.released.append(name)
                self._move(name, FragmentPhase.GONE, "released")

    def renew(self) -> None:
        self.renewals += 1

    def clear(self, names: frozenset[str]) -> None:
        if self.cannot_clear:
            raise SchedulerError("no answer")
        self.cleared |= names

    def take(self, node: str) -> None:
        """The main queue wants a node: whatever is there dies at once."""
        self.idle.discard(node)
        self.busy.add(node)
        for name in [n for n, f in self.fragments.items() if f.node == node]:
            self._move(name, FragmentPhase.GONE, "preempted")

    def give(self, *nodes: str) -> None:
        """Nodes become idle."""
        self.idle |= set(nodes)
        self.busy -= set(nodes)

    def _ready(self, name: str) -> None:
        self._move(name, FragmentPhase.READY)
        if self.limit_s is not None and name in self.fragments:
            self.fragments[name] = replace(
                self.fragments[name], ends_s=self.clock.now_s() + self.limit_s
            )
            self.clock.after(self.limit_s, lambda: self._move(name, FragmentPhase.GONE, "TIMEOUT"))

    def _move(self, name: str, phase: FragmentPhase, why: str = "") -> None:
        if name in self.fragments and self.fragments[name].phase is not FragmentPhase.GONE:
            self.fragments[name] = replace(self.fragments[name], phase=phase, why=why)


@dataclass
class FakeNeighbours:
    """What other pilots show, and what they are shown."""

    others: tuple[PeerPilot, ...] = ()
    announced: list[tuple[str, ...]] = field(default_factory=list)
    wanted: list[tuple[int, bool]] = field(default_factory=list)
    silent: bool = False
    looks: int = 0
    own: PeerPilot = field(default_factory=lambda: PeerPilot("mine", own_name()))

    def has_news(self) -> bool:
        return False

    def announce(
        self,
        hosts: tuple[str, ...],
        wants: int | None = None,
        is_short: bool = False,
        least: int = 1,
    ) -> None:
        if self.silent:
            raise SchedulerError("made up: no answer")
        if wants is None:
            self.announced.append(hosts)
        else:
            self.wanted.append((wants, is_short))

    def look(self) -> tuple[PeerPilot, ...]:
        self.looks += 1
        if self.silent:
            raise SchedulerError("made up: no answer")
        return self.others


@dataclass
class FakeDriver:
    """``behaviour``: "trains", "fails" (at once), "deaf" (does not obey a stop), "is killed" (all
    workers, by SIGKILL).
    """

    spec: TrainerSpec
    hosts: tuple[HostSlots, ...]
    view: DriverView
    interface: str | None = None


@dataclass
class FakeLauncher:
    """Drivers that do as they are told after ``takes_s``; every order is kept for the test to
    see.
    """

    clock: FakeClock
    takes_s: float = 0.5
    slow: dict[str, float] = field(default_factory=dict)
    behaviour: dict[str, str] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    """What the driver says of a trainer that fails, by name."""
    drivers: dict[str, FakeDriver] = field(default_factory=dict)
    orders: list[tuple[str, str, frozenset[str]]] = field(default_factory=list)
    overlaps: list[str] = field(default_factory=list)
    fits: dict[str, int] = field(default_factory=dict)
    """The largest number of nodes on which a trainer's memory suffices."""
    urgent: list[str] = field(default_factory=list)
    """Fragments that trainers were told to leave within seconds."""

    def start(
        self, spec: TrainerSpec, hosts: Iterable[HostSlots], interface: str | None = None
    ) -> None:
        name, there = spec.name, tuple(hosts)
        if self.behaviour.get(name) == "has no launcher":
            raise UnknownNameError("launcher", spec.launcher, ())
        old = self.drivers.get(name)
        assert old is None or not old.view.alive, "two drivers of one trainer"
        incarnation = 1 + (old.view.incarnation if old else 0)
        view = replace(after_start(old.view if old else DriverView()), incarnation=incarnation)
        self.drivers[name] = FakeDriver(spec, there, view, interface)
        self._note("start", name, there)
        self._say(name, Started())
        if self.behaviour.get(name) == "fails":
            how = {"reason": self.reasons.get(name, "status 1"), "tail": ("boom",)}
            self.clock.after(self.takes_s, lambda: self._end(name, Ending.FAILED, **how))  # type: ignore[arg-type]
        else:
            self.clock.after(self.slow.get(name, self.takes_s), lambda: self._run(name))

    def order(self, name: str, hosts: Iterable[HostSlots], urgent: Iterable[str] = ()) -> None:
        self.urgent += urgent
        self.drivers[name].hosts = tuple(hosts)
        self._note("order", name, self.drivers[name].hosts)
        self.clock.after(self.slow.get(name, self.takes_s), lambda: self._run(name))

    def ask_to_stop(self, name: str) -> None:
        self._note("stop", name, ())
        if self.behaviour.get(name) != "deaf":
            self.clock.after(
                self.slow.get(name, self.takes_s), lambda: self._end(name, Ending.STOPPED)
            )

    def kill(self, name: str) -> None:
        self._note("kill", name, ())
        self._end(name, Ending.KILLED)

    def look(self, name: str) -> DriverView:
        return self.drivers[name].view if name in self.drivers else DriverView()

    def progress(
        self,
        name: str,
        samples: float,
        *,
        step: int | None = None,
        loss: float | None = None,
        samples_total: float | None = None,
        **metrics: float,
    ) -> None:
        """Rank 0 reports."""
        driver = self.drivers[name]
        line = {
            "time": self.clock.now_s(),
            "samples": samples,
            "metrics": metrics,
            "loss": loss,
            "step": step,
        }
        line["samples_total"] = samples_total
        driver.view = after_progress(driver.view, [line])

    def finish(self, name: str) -> None:
        """Training is complete."""
        self._end(name, Ending.DONE)

    def _run(self, name: str) -> None:
        driver = self.drivers[name]
        if not driver.view.alive:
            return
        if len(driver.hosts) < driver.spec.min_nodes:
            self._end(name, Ending.STOPPED)
            return
        if len(driver.hosts) > self.fits.get(name, len(driver.hosts)):
            tail = (
                "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB. GPU "
                "0 has a total capacity of",
            )
            self._end(name, Ending.FAILED, f"status 1, node {driver.hosts[0].node}, slot 0", tail)
            return
        if self.behaviour.get(name) == "is killed":
            self.lose_workers(name)
            return
        fragments = tuple(it.fragment for it in driver.hosts)
        for other, it in self.drivers.items():
            if other != name and it.view.alive and it.view.on & set(fragments):
                self.overlaps.append(f"{name} and {other} on {sorted(it.view.on & set(fragments))}")
        self._say(name, Running(len(fragments), fragments))

    def lose_workers(self, name: str) -> None:
        """All workers are killed, and the driver ends as when their nodes are lost."""
        for host in self.drivers[name].hosts:
            self._say(name, WorkerExited(host.node, host.fragment, 0, 1, -9, False))
            self._say(name, Withheld(host.node, host.fragment, "a worker ended by SIGKILL"))
        self._end(name, Ending.STOPPED, "0 nodes, but min_nodes is 1")

    def _end(self, name: str, ending: Ending, reason: str = "", tail: tuple[str, ...] = ()) -> None:
        driver = self.drivers[name]
        if driver.view.alive:
            nothing: frozenset[Any] = frozenset()
            driver.view = replace(
                driver.view,
                alive=False,
                ending=ending,
                reason=reason,
                tail=tail,
                on=nothing,
                with_workers=nothing,
            )

    def _say(self, name: str, event: AnyDriverEvent) -> None:
        driver = self.drivers[name]
        line = EventLine(self.clock.now_s(), driver.view.incarnation, event)
        driver.view = replace(after_event(driver.view, line), alive=True)

    def _note(self, what: str, name: str, hosts: tuple[HostSlots, ...]) -> None:
        self.orders.append(
            (what, name, frozenset(fragment_name(it.node, it.fragment) for it in hosts))
        )
