"""A pilot over fakes, in one value: build it, let things happen, run it to its end, look."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from bftrainer.cluster.model import HoldingPermit
from bftrainer.cluster.ports import YieldPort
from bftrainer.cluster.site_plugin import Site
from bftrainer.config.in_effect import ConfigCell
from bftrainer.config.pilot import PilotConfig
from bftrainer.config.trainer_file import TrainerSpec
from bftrainer.config.validation import check_table
from bftrainer.decide.core.loop import run
from bftrainer.decide.domain.state import State
from bftrainer.errors import StoreError
from bftrainer.pilot.audit.auditor import Audit, NoAudit
from bftrainer.pilot.explain import Explanation, explain
from bftrainer.pilot.hints import HintListener, Hints
from bftrainer.pilot.nodes.manager import NodeManager
from bftrainer.pilot.notices import Notices
from bftrainer.pilot.persistence.journal import JournalEntry, entries, last_state
from bftrainer.pilot.persistence.registry import FragmentRecord, Registry, TrainerRecord
from bftrainer.pilot.persistence.spool import Request, RequestKind, Spool
from bftrainer.pilot.persistence.store import Store, open_store
from bftrainer.pilot.pilot_process import run_pilot
from bftrainer.pilot.recorder import Recorder
from bftrainer.pilot.rerun import decide_again
from bftrainer.pilot.runtime import PilotDependencies, PilotRuntime
from bftrainer.pilot.steady_clock import SteadyClock
from bftrainer.pilot.trainers.manager import TrainerManager
from bftrainer.system.background import AtOnce, Background
from bftrainer.system.processes import this_process
from bftrainer.system.signals import Signals
from support.fakes_live import FakeClock, FakeCluster, FakeLauncher, FakeNeighbours

TABLES: dict[str, dict[str, Any]] = {
    "decisions": {"solver": "exact"},
    "times": {"poll_s": 1.0, "shutdown_s": 30.0, "stale_after_s": 20.0},
    "nodes": {"unused_after_s": 5.0, "flap_back_off_s": 5.0, "min_window_s": 0.0},
}


def spec(name: str, max_nodes: int = 4, **keys: Any) -> TrainerSpec:
    table = {
        "name": name,
        "command": ["true"],
        "max_nodes": max_nodes,
        "samples_per_s": 10.0,
        "scale_up_s": 1.0,
    }
    return check_table(table | {"scale_down_s": 0.5, "stop_s": 3.0} | keys, TrainerSpec, "test")


def configuration(tables: dict[str, dict[str, Any]]) -> PilotConfig:
    merged = {name: TABLES.get(name, {}) | tables.get(name, {}) for name in {*TABLES, *tables}}
    return check_table(merged, PilotConfig, "test")


@dataclass
class House:
    """``pilot(seconds)`` runs a pilot for so long, then asks it to end; it may be called again: a
    pilot that comes back.
    """

    path: Path
    tables: dict[str, dict[str, Any]] = field(default_factory=dict)
    at_step: Callable[[str], None] = lambda _: None

    def __post_init__(self) -> None:
        self.clock = FakeClock()
        self.cluster = FakeCluster(self.clock)
        self.launcher = FakeLauncher(self.clock)
        self.neighbours = FakeNeighbours()
        self.config = configuration(self.tables)
        self.spool = Spool(self.path)
        self.fresh: dict[str, dict[str, Any]] = {}
        self.site_keeps: tuple[str, ...] = ()
        self.permit = HoldingPermit()
        self.yielding: YieldPort | None = None
        self.background: Background = AtOnce()
        self.audit: Audit = NoAudit()
        self.after_tick: Callable[[], None] = lambda: None

    def submit(self, *specs: TrainerSpec) -> None:
        for one in specs:
            self.spool.put(Request(kind=RequestKind.SUBMIT, trainer=one.name, spec=one, owner="me"))

    def ask(self, kind: RequestKind, name: str) -> None:
        self.spool.put(Request(kind=kind, trainer=name))

    def at(self, seconds: float, action: Callable[[], object]) -> None:
        self.clock.after(seconds, action)

    def pilot(self, seconds: float) -> State:
        store = self.store(writes=True)
        listens = self.config.hints.port is not None
        hints = (
            HintListener(self.config.hints, self.config.workers, self.path, self.clock)
            if listens
            else None
        )
        try:
            until_s = self.clock.elapsed_s() + seconds
            self.running = pilot = HousePilot(self, self.dependencies(), store, until_s, hints)
            return run(pilot.world, pilot.state, pilot.decisions.policy, pilot.decisions)
        finally:
            store.close()
            if hints is not None:
                hints.close()

    def dependencies(self) -> PilotDependencies:
        """What a pilot of this house stands on."""
        site = Site(
            self.cluster,
            self.cluster,
            peers=self.neighbours,
            reconfigure=lambda _: self.site_keeps,
            permit=lambda: self.permit,
            yielding=self.yielding,
        )
        return PilotDependencies(
            self.path, site, self.clock, background=self.background, audit=self.audit
        )

    def start_and_end(self, **tables: dict[str, Any]) -> None:
        """The whole start of a pilot with these keys changed, which is told to end at once."""
        run_pilot(self.dependencies(), configuration(self.tables | tables), Signals(ends=True))

    def reload(self, **tables: dict[str, Any]) -> None:
        """SIGHUP, after these keys have changed."""
        self.fresh = {
            name: self.tables.get(name, {}) | tables.get(name, {})
            for name in {*self.tables, *tables}
        }
        self.running.reload()

    @property
    def nodes(self) -> NodeManager:
        return self.running.nodes

    @property
    def trainers(self) -> TrainerManager:
        return self.running.trainers

    def store(self, *, writes: bool = False) -> Store:
        store = open_store(self.path, create=True, at_step=self.at_step)
        if writes:
            store.take_lease(this_process(), "", self.clock.now_s(), 60.0, lambda _: None)
        return store

    def killed(self, after_s: float = 8.0, at: str = "") -> None:
        """Run a pilot until it dies, as by SIGKILL, at a write whose name begins with ``at``."""

        def die(step: str) -> None:
            if self.clock.elapsed_s() > after_s and step.startswith(at):
                raise StoreError("killed")

        self.at_step = die
        with pytest.raises(StoreError):
            self.pilot(60)
        self.at_step = lambda _: None

    def fragments(self, node: str = "") -> list[FragmentRecord]:
        """Of a node, or all."""
        with closing(self.store()) as store:
            return [it for it in Registry(store).fragments() if node in ("", it.node)]

    def reasons(self) -> list[str]:
        """Why each fragment was released."""
        return [it.reason for it in self.fragments()]

    def trainer(self, name: str) -> TrainerRecord:
        with closing(self.store()) as store:
            return Registry(store).trainer(name)

    def status(self, name: str) -> str:
        return self.trainer(name).status.value

    def statuses(self) -> dict[str, str]:
        """Of all trainers, in the order of submission."""
        with closing(self.store()) as store:
            return {it.name: it.status.value for it in Registry(store).trainers()}

    def notes(self) -> list[str]:
        with closing(self.store()) as store:
            return [f"{n.kind} {n.subject} {n.text}" for n in Registry(store).notes(1000)]

    def noted(self, kind: str) -> list[str]:
        """The texts of the notes of a kind."""
        with closing(self.store()) as store:
            return [n.text for n in Registry(store).notes(1000) if n.kind == kind]

    def entries(self) -> list[JournalEntry]:
        with closing(self.store()) as store:
            return list(entries(store))

    def last_state(self) -> State:
        with closing(self.store()) as store:
            return last_state(store) or State(1)

    def explain(
        self, name: str, at_s: float = float("inf"), own: tuple[str, ...] = ()
    ) -> Explanation:
        with closing(self.store()) as store:
            return explain(store, name, at_s, own)

    def assert_in_order(self, *names: str) -> None:
        """What is promised after everything that may happen, once the pilot has ended."""
        assert not self.launcher.overlaps
        assert all(not d.view.alive for d in self.launcher.drivers.values()), "an orphan"
        assert self.spool.pending() == ()
        assert set(self.statuses()) == set(names), "a submission is lost"
        assert all(f.released_s is not None for f in self.fragments()), "a node is held"
        assert self.differences() == []

    def differences(self, own: tuple[str, ...] = ()) -> list[str]:
        """What the journal would decide otherwise today."""
        with closing(self.store()) as store:
            return [v.differs for v in decide_again(store, own) if v.differs]


class HousePilot(PilotRuntime):
    """The real one, but for its drivers. It ends at a time, and lets the test look on."""

    def __init__(
        self,
        home: House,
        parts: PilotDependencies,
        store: Store,
        until_s: float,
        hints: Hints | None = None,
    ) -> None:
        self._home, self._until_s = home, until_s
        cell, clock = ConfigCell(home.config), SteadyClock(parts.clock)
        notices = Notices(cell, Registry(store), parts.state_dir, parts.clock)
        recorder = Recorder(store, clock, [notices.hear])
        super().__init__(
            parts,
            cell,
            recorder,
            clock,
            notices,
            home.launcher,
            Signals(),
            lambda: configuration(home.fresh),
            hints,
        )

    @property
    def must_end(self) -> bool:
        return self._home.clock.elapsed_s() >= self._until_s

    def tick(self) -> None:
        self._home.after_tick()
        super().tick()


def house(path: Path, **tables: dict[str, Any]) -> House:
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.chmod(path, 0o700)  # noqa: PTH101
    return House(path, tables)
