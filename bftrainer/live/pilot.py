"""The pilot process: lease, signals, one loop. Starting and recovering are the same."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import FrameType

from bftrainer.allocation.chain import build_allocator
from bftrainer.config.pilot import PilotConfig
from bftrainer.core.loop import run
from bftrainer.domain.events import Event
from bftrainer.domain.state import Plan, State
from bftrainer.live.facts import Listener, TellingJournal, TellingRegistry
from bftrainer.live.job_chaining import JobChain
from bftrainer.live.metrics import Metrics, serve
from bftrainer.live.nodes.manager import NodeManager
from bftrainer.live.nodes.sharing import Sharing
from bftrainer.live.notices import Notices
from bftrainer.live.runtime import PilotDependencies, PilotRuntime, claim_hosts, policy_of, settings_of
from bftrainer.live.trainers.launcher import DirectoryLauncher
from bftrainer.live.trainers.manager import TrainerManager
from bftrainer.live.world import LiveWorld
from bftrainer.persistence.journal import LiveJournal, RecordingAllocator, TimedPolicy, last_state
from bftrainer.persistence.spool import Spool
from bftrainer.persistence.store import open_store
from bftrainer.policies.needs import refusal
from bftrainer.protocol.paths import TRAINERS
from bftrainer.system.processes import this_process


@dataclass(slots=True)
class Signals:
    """What the process has been told.

    SIGTERM and SIGINT end it, SIGUSR1 says that its job's time is nearly over, SIGHUP reloads the configuration.
    """

    ends: bool = False
    reloads: bool = False
    hands_over: bool = False

    @contextmanager
    def caught(self) -> Iterator[Signals]:
        """Handlers in place; the old ones come back."""

        def end(signum: int, frame: FrameType | None) -> None:
            self.ends = True

        def reload(signum: int, frame: FrameType | None) -> None:
            self.reloads = True

        def hand_over(signum: int, frame: FrameType | None) -> None:
            self.hands_over = True

        wanted = {signal.SIGTERM: end, signal.SIGINT: end, signal.SIGHUP: reload, signal.SIGUSR1: hand_over}
        before = {signum: signal.signal(signum, handler) for signum, handler in wanted.items()}
        try:
            yield self
        finally:
            for signum, handler in before.items():
                signal.signal(signum, handler)


class _Watched:
    """A journal that tells the world of each decision once it is on disk."""

    def __init__(self, journal: TellingJournal, world: LiveWorld) -> None:
        self._journal = journal
        self._world = world

    def record(self, event: Event, state: State, plan: Plan) -> None:
        self._journal.record(event, state, plan)
        self._world.decided(state)


def run_pilot(
    parts: PilotDependencies,
    config: PilotConfig,
    signals: Signals,
    reread: Callable[[], PilotConfig | None] = lambda: None,
) -> None:
    """Hold the lease, run the loop until told to end, let everything go.

    Raises :class:`~bftrainer.errors.StateDirError` where another pilot is there, and ``StoreError`` when the disk fails:
    then drivers train on, and a pilot that comes back adopts them.
    """
    store = open_store(parts.state_dir, create=True, at_step=parts.at_step)
    try:
        clock = parts.clock
        store.take_lease(this_process(), parts.job_id, clock.now_s(), config.times.lease_s, parts.job_is_gone)
        running: PilotRuntime | None = None
        listeners: list[Listener] = [
            lambda fact: parts.log(fact, (config if running is None else running.config).log.format)
        ]
        registry = TellingRegistry(store, clock.now_s, listeners)
        registry.note(clock.now_s(), "pilot", "", f"begins with pid {os.getpid()}")
        settings = settings_of(config)
        recorder = RecordingAllocator(build_allocator(settings.solver, config.decisions.solve_s))
        policy = TimedPolicy(policy_of(settings, recorder))
        journal = LiveJournal(store, recorder, policy, settings)
        state = last_state(store) or State(settings.max_parallel)
        state = replace(state, max_parallel=settings.max_parallel)
        launcher = DirectoryLauncher(parts.state_dir / TRAINERS, parts.driver)
        if unseen := claim_hosts(parts, config):
            registry.note(clock.now_s(), "pilot", "", unseen)
        sharing = Sharing(parts.neighbours)
        nodes = NodeManager(config, registry, parts.scheduler, parts.holder, clock, parts.ours, sharing)
        trainers = TrainerManager(registry, launcher, config.nodes.slots, clock.now_s())

        def note(text: str) -> None:
            registry.note(clock.now_s(), "hand-over", "", text)

        hand_over = None if parts.own_job is None else JobChain(parts.own_job, config.times, clock, note)
        notices = Notices(config.notices, registry, parts.state_dir, clock.now_s(), clock.elapsed_s)
        listeners.append(notices.hear)
        end_metrics = None
        if config.metrics.port is not None:
            metrics = Metrics(registry)
            listeners.append(metrics.hear)
            port, end_metrics = serve(metrics, config.metrics)
            registry.note(clock.now_s(), "metrics", "", f"http://{config.metrics.address}:{port}/metrics")

        drains = False
        spool = Spool(parts.state_dir)
        world = LiveWorld(
            registry, spool, nodes, trainers, clock, state, lambda: signals.ends or drains, lambda: at_tick(),
            lambda trainer: refusal(policy.policy, trainer),
        )  # fmt: skip
        running = PilotRuntime(
            config, parts, registry, recorder, policy, journal, nodes, launcher, world, hand_over, notices
        )

        def at_tick() -> None:
            nonlocal drains
            if hand_over is None:
                drains = drains or signals.hands_over
            elif signals.ends:
                hand_over.call_off()
            else:
                if signals.hands_over:
                    signals.hands_over = False
                    hand_over.warn()
                drains = hand_over.is_time_to_end() or drains
            if signals.reloads and running is not None:
                signals.reloads = False
                running.reload(reread)
            notices.look(clock.now_s())

        run(world, state, policy, _Watched(TellingJournal(journal, policy, listeners), world))
        notices.close(clock.now_s())
        registry.note(clock.now_s(), "pilot", "", "has ended")
        if end_metrics is not None:
            end_metrics()
        store.drop_lease()
    finally:
        store.close()
