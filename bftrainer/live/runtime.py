"""What a pilot is made of, and how it reloads its configuration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from bftrainer.config.pilot import PilotConfig
from bftrainer.core.windows import PilotJobs
from bftrainer.domain.events import Event
from bftrainer.domain.ports import Clock, NodeHolder, PeerPilots, Scheduler
from bftrainer.domain.state import Plan, State
from bftrainer.errors import BFTrainerError, UserError
from bftrainer.live.decision_maker import DecisionMaker
from bftrainer.live.facts import Fact, Listener
from bftrainer.live.heartbeat import Heartbeat
from bftrainer.live.hints import Hints
from bftrainer.live.job_chaining import JobChain, OwnJob
from bftrainer.live.nodes.classifier import NodeClassifier
from bftrainer.live.nodes.manager import NodeManager
from bftrainer.live.nodes.sharing import Sharing, claim_hosts
from bftrainer.live.notices import Notices
from bftrainer.live.reload import changed, described, merged
from bftrainer.live.short_horizon import ShortHorizon
from bftrainer.live.signals import Signals
from bftrainer.live.steady_clock import SteadyClock
from bftrainer.live.ticks import TickTimer
from bftrainer.live.trainers.manager import TrainerManager
from bftrainer.live.trainers.ports import Launcher
from bftrainer.live.world import LiveWorld
from bftrainer.persistence.journal import last_state
from bftrainer.persistence.registry import Registry
from bftrainer.persistence.spool import Spool
from bftrainer.system.background import AtOnce, Background
from bftrainer.system.users import own_name

_STEP_S = 2.0
"""A clock that is set by less is being kept in step."""


@dataclass(frozen=True, slots=True)
class PilotDependencies:
    """A pilot's site and state directory.

    ``reconfigure`` applies the site's own table and returns the keys that it cannot apply. ``log`` prints a fact in one of the
    formats of the configuration. ``background`` runs polls of the scheduler beside the loop.
    """

    state_dir: Path
    scheduler: Scheduler
    holder: NodeHolder
    clock: Clock
    pilot_jobs: PilotJobs = field(default_factory=PilotJobs)
    driver: dict[str, object] = field(default_factory=dict)
    job_id: str = ""
    job_is_gone: Callable[[str], bool | None] = lambda _: None
    own_job: OwnJob | None = None
    at_step: Callable[[str], None] = lambda _: None
    peers: PeerPilots | None = None
    reconfigure: Callable[[PilotConfig], tuple[str, ...]] | None = None
    log: Callable[[Fact, str], None] = lambda _fact, _format: None
    background: Background = field(default_factory=AtOnce)


class PilotRuntime:
    """A running pilot: nodes, trainers, decisions and the world of the loop, under one configuration.

    It is the world's ``Control`` and the loop's ``Journal``.
    """

    def __init__(
        self,
        parts: PilotDependencies,
        config: PilotConfig,
        registry: Registry,
        listeners: list[Listener],
        launcher: Launcher,
        signals: Signals,
        reread: Callable[[], PilotConfig | None] = lambda: None,
        steady: SteadyClock | None = None,
        hints: Hints | None = None,
    ) -> None:
        self._clock = clock = steady or SteadyClock(parts.clock)
        self._step_s = 0.0
        self._parts = parts
        self._config = config
        self._registry = registry
        self._launcher = launcher
        self._signals = signals
        self._reread = reread
        self._drains = False
        self._listeners = listeners
        self._kept = ""
        self.decisions = DecisionMaker(config, registry.store, listeners)
        max_parallel = config.decisions.max_parallel
        self.state = replace(last_state(registry.store) or State(max_parallel), max_parallel=max_parallel)
        if unseen := claim_hosts(parts.peers, parts.scheduler, config.nodes.hosts, refused_by=own_name()):
            registry.note(clock.now_s(), "pilot", "", unseen)
        classes = NodeClassifier(config.classes, self.state)
        self.nodes = NodeManager(
            config, registry, parts.scheduler, parts.holder, clock, parts.pilot_jobs, classes, Sharing(parts.peers),
            parts.background, parts.clock.now_s, hints,
        )  # fmt: skip
        self.heartbeat = Heartbeat(self.nodes.renew, clock, config.times.lease_s)
        self.trainers = TrainerManager(
            registry, launcher, classes, config.nodes.slots, config.learning.window_s, clock.now_s(), clock.to_wall
        )
        self._job_chain = (
            None if parts.own_job is None else JobChain(parts.own_job, config.times, parts.clock, self._note)
        )
        self._notices = Notices(config.notices, registry, parts.state_dir, parts.clock.now_s(), clock.elapsed_s)
        listeners.append(self._notices.hear)
        short = ShortHorizon(lambda: self._config.decisions.forward_s, self._note_cost)
        listeners.append(short.hear)
        spool = Spool(parts.state_dir)
        self.world = LiveWorld(
            registry, spool, self.nodes, self.trainers, classes, clock, self.state, self, self.heartbeat,
            TickTimer(clock, self._tell, lambda text: registry.note(clock.now_s(), "slow tick", "", text)),
            self.decisions.refusal,
        )  # fmt: skip

    @property
    def config(self) -> PilotConfig:
        return self._config

    @property
    def must_end(self) -> bool:
        return self._signals.ends or self._drains

    def tick(self) -> None:
        """Attend to signals, to the end of the pilot's job and to notices."""
        if self._job_chain is None:
            self._drains = self._drains or self._signals.take_job_ends_soon()
        elif self._signals.ends:
            self._job_chain.call_off()
        else:
            if self._signals.take_job_ends_soon():
                self._job_chain.warn()
            self._drains = self._job_chain.is_time_to_end() or self._drains
        if self._signals.take_reload():
            self.reload()
        self._notices.look(self._parts.clock.now_s())
        if abs((step_s := self._clock.step_s) - self._step_s) > _STEP_S:
            self._registry.note(
                self._clock.now_s(), "clock", "", f"this host's clock was set by {step_s - self._step_s:+.0f} s; no time was "
                "booked for it, and decisions keep the pilot's own time until it is restarted",
            )  # fmt: skip
            self._step_s = step_s

    def record(self, event: Event, state: State, plan: Plan) -> None:
        """Write a decision to the journal, then note the trainers that it admitted."""
        self.decisions.journal.record(event, state, plan)
        self.world.decided(state)
        if plan.decision.kept != self._kept and plan.decision.kept:
            self._registry.note(event.at_s, "decision failed", "", f"trainers keep their sizes: {plan.decision.kept}")
        self._kept = plan.decision.kept
        for name in plan.decision.blamed:
            self.trainers.quarantine(name, plan.decision.kept, event.at_s)

    def close(self) -> None:
        """Wait for notices that are on their way."""
        self._notices.close(self._parts.clock.now_s())

    def reload(self) -> None:
        """Read the configuration again. Apply it, or nothing of it if it has an error; the event log says which."""
        now_s = self._clock.now_s()
        try:
            text = self._reload(self._reread(), now_s)
        except BFTrainerError as error:
            if error.exit_status != 2:
                raise
            text = f"rejected, the old configuration remains in effect: {error}"
        self._registry.note(now_s, "reload", "", text)

    def _reload(self, read: PilotConfig | None, now_s: float) -> str:
        if read is None:
            return "there is no configuration file to reread"
        fresh, kept = merged(self._config, read)
        trainers = [r.spec.trainer() for r in self._registry.trainers() if not r.status.is_final]
        prepared = self.decisions.prepare(fresh, trainers)
        kept += self._reload_site(fresh, now_s)
        # Nothing above changes anything if it fails; nothing below fails, except for the disk.
        self.decisions.use(prepared, now_s)
        self.nodes.reconfigure(fresh)
        self.trainers.reconfigure(fresh.learning.window_s)
        self._launcher.reconfigure(self._parts.driver)
        self._notices.reconfigure(fresh.notices)
        if self._job_chain is not None:
            self._job_chain.reconfigure(fresh.times)
        applied = tuple(key for key in changed(self._config, fresh) if key not in kept)
        self._config = fresh
        return described(applied, kept)

    def _reload_site(self, fresh: PilotConfig, now_s: float) -> tuple[str, ...]:
        """Apply the site's table and the host list: both, or neither if the list overlaps a peer pilot's."""
        parts = self._parts
        if parts.reconfigure is None:
            return tuple(
                key for key in changed(self._config, fresh) if key.partition(".")[0] not in PilotConfig.model_fields
            )
        kept = parts.reconfigure(fresh)
        if fresh.nodes.hosts == self._config.nodes.hosts:
            return kept
        try:
            if unseen := claim_hosts(parts.peers, parts.scheduler, fresh.nodes.hosts):
                self._registry.note(now_s, "reload", "", unseen)
        except UserError:
            parts.reconfigure(self._config)
            if parts.peers is not None:
                parts.peers.announce(self._config.nodes.hosts)
            raise
        return kept

    def _tell(self, fact: Fact) -> None:
        for listener in self._listeners:
            listener(fact)

    def _note(self, text: str) -> None:
        self._registry.note(self._clock.now_s(), "hand-over", "", text)

    def _note_cost(self, trainer: str, text: str) -> None:
        self._registry.note(self._clock.now_s(), "cost", trainer, text)
