"""A pilot over fakes, in one value: build it, let things happen, run it to its end, look."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fakes_live import FakeClock, FakeCluster, FakeLauncher, FakeNeighbours

from bftrainer.config.pilot import PilotConfig
from bftrainer.config.trainer_file import TrainerSpec
from bftrainer.config.validation import check_table
from bftrainer.core.loop import run
from bftrainer.core.windows import Ours
from bftrainer.domain.state import State
from bftrainer.live.nodes.manager import NodeManager
from bftrainer.live.nodes.sharing import Sharing
from bftrainer.live.notices import Notices
from bftrainer.live.runtime import PilotDependencies, PilotRuntime, policy_of, settings_of
from bftrainer.live.trainers.manager import TrainerManager
from bftrainer.live.world import LiveWorld
from bftrainer.persistence.journal import LiveJournal, RecordingAllocator, TimedPolicy, last_state
from bftrainer.persistence.registry import Registry
from bftrainer.persistence.spool import Request, RequestKind, Spool
from bftrainer.persistence.store import Store, open_store
from bftrainer.policies.needs import refusal
from bftrainer.system.processes import this_process

TABLES: dict[str, dict[str, Any]] = {
    "decisions": {"solver": "exact"},
    "times": {"poll_s": 1.0, "shutdown_s": 30.0, "stale_after_s": 20.0},
    "nodes": {"unused_after_s": 5.0, "flap_back_off_s": 5.0, "min_window_s": 0.0},
}


def spec(name: str, max_nodes: int = 4, **keys: Any) -> TrainerSpec:
    table = {"name": name, "command": ["true"], "max_nodes": max_nodes, "samples_per_s": 10.0, "scale_up_s": 1.0}
    return check_table(table | {"scale_down_s": 0.5, "stop_s": 3.0} | keys, TrainerSpec, "test")


def configuration(tables: dict[str, dict[str, Any]]) -> PilotConfig:
    merged = {name: TABLES.get(name, {}) | tables.get(name, {}) for name in {*TABLES, *tables}}
    return check_table(merged, PilotConfig, "test")


@dataclass
class House:
    """``pilot(seconds)`` runs a pilot for so long, then asks it to end; it may be called again: a pilot that comes back."""

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
        self.ends_s: float | None = None
        self.reconfigures = False
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
        try:
            registry, clock = Registry(store), self.clock
            settings = settings_of(self.config)
            from bftrainer.allocation.chain import build_allocator

            recorder = RecordingAllocator(build_allocator(settings.solver, 1.0))
            policy = TimedPolicy(policy_of(settings, recorder))
            journal = LiveJournal(store, recorder, policy, settings)
            state = replace(last_state(store) or State(settings.max_parallel), max_parallel=settings.max_parallel)
            sharing = Sharing(self.neighbours)
            nodes = NodeManager(self.config, registry, self.cluster, self.cluster, clock, Ours(), sharing)
            trainers = TrainerManager(registry, self.launcher, 1, clock.now_s())
            until = clock.now_s() + seconds
            world = LiveWorld(
                registry, self.spool, nodes, trainers, clock, state,
                lambda: clock.now_s() >= until, lambda: self.after_tick(), lambda trainer: refusal(policy.policy, trainer),
            )  # fmt: skip
            self.world, self.nodes, self.trainers = world, nodes, trainers
            parts = PilotDependencies(
                self.path, self.cluster, self.cluster, clock, neighbours=self.neighbours,
                reconfigure=(lambda _: ()) if self.reconfigures else None,
            )  # fmt: skip
            launcher: Any = self.launcher
            notices = Notices(self.config.notices, registry, self.path, clock.now_s(), clock.elapsed_s)
            self.running = PilotRuntime(
                self.config, parts, registry, recorder, policy, journal, nodes, launcher, world, None, notices
            )

            class Watched:
                def record(self, event: Any, state: State, plan: Any) -> None:
                    journal.record(event, state, plan)
                    world.decided(state)

            return run(world, state, policy, Watched())
        finally:
            store.close()

    def reload(self, **tables: dict[str, Any]) -> None:
        """SIGHUP, after these keys have changed."""
        both = {name: self.tables.get(name, {}) | tables.get(name, {}) for name in {*self.tables, *tables}}
        self.running.reload(lambda: configuration(both))

    def store(self, *, writes: bool = False) -> Store:
        store = open_store(self.path, create=True, at_step=self.at_step)
        if writes:
            store.take_lease(this_process(), "", self.clock.now_s(), 60.0, lambda _: None)
        return store

    def status(self, name: str) -> str:
        store = self.store()
        try:
            return Registry(store).trainer(name).status.value
        finally:
            store.close()


def house(path: Path, **tables: dict[str, Any]) -> House:
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.chmod(path, 0o700)  # noqa: PTH101
    return House(path, tables)
