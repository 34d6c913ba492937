"""The parts of a pilot, and the reload of its configuration."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from bftrainer.cluster.site_plugin import Site
from bftrainer.config.in_effect import ConfigCell
from bftrainer.config.pilot import PilotConfig
from bftrainer.decide.domain.state import State
from bftrainer.errors import BFTrainerError, UserError
from bftrainer.pilot.audit.auditor import NOTE as AUDIT_NOTE
from bftrainer.pilot.audit.auditor import Audit, NoAudit
from bftrainer.pilot.decision_maker import DecisionMaker
from bftrainer.pilot.facts import PilotFact
from bftrainer.pilot.heartbeat import Heartbeat
from bftrainer.pilot.hints import Hints
from bftrainer.pilot.job_chaining import JobChain
from bftrainer.pilot.live_world import LiveWorld
from bftrainer.pilot.nodes.classifier import NodeClassifier
from bftrainer.pilot.nodes.manager import NodeManager
from bftrainer.pilot.notices import NOTE, Notices
from bftrainer.pilot.own_site import BatchJob, reconfigure
from bftrainer.pilot.persistence.journal import last_state
from bftrainer.pilot.persistence.spool import Spool
from bftrainer.pilot.recorder import Recorder
from bftrainer.pilot.reload import changed, described, merged
from bftrainer.pilot.steady_clock import SteadyClock
from bftrainer.pilot.trainers.launcher import Launcher
from bftrainer.pilot.trainers.manager import TrainerManager
from bftrainer.sharing.peers import claim_hosts
from bftrainer.system.background import AtOnce, Background
from bftrainer.system.clock import Clock
from bftrainer.system.signals import Signals
from bftrainer.system.users import own_name

_MAX_SMALL_STEP_S = 2.0
"""A clock that is set by less is being kept in step."""


@dataclass(frozen=True, slots=True)
class PilotDependencies:
    """A pilot's site, its job and its state directory.

    ``log`` prints a fact in one of the formats of the configuration. ``background`` runs polls of
    the scheduler beside the loop. ``audit`` solves its decisions again.
    """

    state_dir: Path
    site: Site
    clock: Clock
    job: BatchJob = field(default_factory=BatchJob)
    at_step: Callable[[str], None] = lambda _: None
    log: Callable[[PilotFact, str], None] = lambda _fact, _format: None
    background: Background = field(default_factory=AtOnce)
    audit: Audit = field(default_factory=NoAudit)


class PilotRuntime:
    """A running pilot: nodes, trainers, decisions and the world of the loop. It is the world's
    ``Control``.

    ``state`` is the state after the last decision of the previous pilot, from which the loop goes
    on. ``reread`` reads the configuration again at a reload; it returns None if there is no file.
    """

    def __init__(
        self,
        parts: PilotDependencies,
        config: ConfigCell,
        recorder: Recorder,
        clock: SteadyClock,
        notices: Notices,
        launcher: Launcher,
        signals: Signals,
        reread: Callable[[], PilotConfig | None] = lambda: None,
        hints: Hints | None = None,
    ) -> None:
        """Build the parts of a pilot and connect them. ``parts`` are its site, job and state
        directory; ``config`` is the configuration in effect. Raises ``UserError`` if the host list
        overlaps another pilot's.
        """
        self._clock = clock
        self._noted_step_s = 0.0  # how far the host's clock had been set, by the latest note
        self._parts = parts
        self._config = config
        self._recorder = recorder
        self._notices = notices
        self._signals = signals
        self._reread = reread
        self._is_draining = False
        self.decisions = DecisionMaker(config.now, recorder, parts.audit)
        max_parallel = self.decisions.max_parallel
        store = recorder.registry.store
        self.state = replace(last_state(store) or State(max_parallel), max_parallel=max_parallel)
        site = parts.site
        if unseen := claim_hosts(
            site.peers, site.scheduler, config.now.nodes.hosts, refused_by=own_name()
        ):
            recorder.note("pilot", "", unseen)
        classes = NodeClassifier(config, self.state)
        self.nodes = NodeManager(
            config,
            recorder,
            site,
            clock,
            classes,
            parts.background,
            hints,
        )
        self.heartbeat = Heartbeat(self.nodes.renew, parts.clock, config.now.times.lease_s)
        self.trainers = TrainerManager(config, recorder, launcher, classes, clock)
        self._job_chain = (
            None
            if parts.job.own is None
            else JobChain(
                parts.job.own,
                config,
                parts.clock,
                lambda text: recorder.note("hand-over", "", text),
            )
        )
        self.world = LiveWorld(
            config,
            recorder,
            Spool(parts.state_dir),
            self.nodes,
            self.trainers,
            classes,
            clock,
            self.state,
            self,
            self.heartbeat,
            self.decisions,
        )

    @property
    def must_end(self) -> bool:
        return self._signals.ends or self._is_draining

    def tick(self) -> None:
        """Attend to all that reaches the pilot from outside of its nodes and trainers: signals, the
        end of the pilot's job, commands of notices, the audit, and steps of the host's clock.
        Called in every round of the loop.
        """
        self._attend_to_job()
        if self._signals.take_reload():
            self.reload()
        self._note_all(self._notices.look())
        for text in self._parts.audit.tick(self._config.now.decisions):
            self._recorder.note(AUDIT_NOTE, "", text)
        self._note_clock_step()

    def _attend_to_job(self) -> None:
        """Begin to drain (to stop trainers and release nodes) when the end of the pilot's own job
        is near.

        With job chaining, a successor job is submitted before that; a pilot that was told to end
        needs none.
        """
        if self._job_chain is None:
            self._is_draining = self._is_draining or self._signals.take_job_ends_soon()
        elif self._signals.ends:
            self._job_chain.cancel_successor()
        else:
            if self._signals.take_job_ends_soon():
                self._job_chain.mark_end_announced()
            self._is_draining = self._job_chain.attend() or self._is_draining

    def _note_clock_step(self) -> None:
        """Record if the host's clock was set by more than ``_MAX_SMALL_STEP_S`` since this was
        noted last.
        """
        step_s = self._clock.step_s
        change_s = step_s - self._noted_step_s
        if abs(change_s) > _MAX_SMALL_STEP_S:
            self._recorder.note(
                "clock",
                "",
                f"this host's clock was set by {change_s:+.0f} s; no time was booked for it, and "
                "decisions keep the pilot's own time until it is restarted",
            )
            self._noted_step_s = step_s

    def close(self) -> None:
        """Wait for notices that are on their way."""
        self._note_all(self._notices.close())

    def _note_all(self, notes: Iterable[tuple[str, str]]) -> None:
        for trainer, text in notes:
            self._recorder.note(NOTE, trainer, text)

    def reload(self) -> None:
        """Read the configuration again. Apply it, or nothing of it if it has an error; the event
        log says which.
        """
        try:
            text = self._apply_configuration(self._reread())
        except BFTrainerError as error:
            if error.exit_status != 2:
                raise  # not a mistake in the configuration
            text = f"rejected, the old configuration remains in effect: {error}"
        self._recorder.note("reload", "", text)

    def _apply_configuration(self, read: PilotConfig | None) -> str:
        """Apply a configuration that was ``read`` again, or raise and change nothing. Returns the
        line of the event log. None: there is no file.
        """
        if read is None:
            return "there is no configuration file to reread"
        old = self._config.now
        fresh, kept = merged(old, read)
        trainers = [
            trainer.spec.trainer()
            for trainer in self._recorder.registry.trainers()
            if not trainer.status.is_final
        ]
        prepared = self.decisions.prepare(fresh, trainers)
        kept += self._reload_site(old, fresh)
        # Nothing above changes anything if it fails; nothing below fails, except for the disk.
        self._config.now = fresh
        self.decisions.use(prepared)
        self.nodes.apply_config()
        return described(tuple(key for key in changed(old, fresh) if key not in kept), kept)

    def _reload_site(self, old: PilotConfig, fresh: PilotConfig) -> tuple[str, ...]:
        """Apply the site's table and the host list of the ``fresh`` configuration: both, or neither
        if the list overlaps another pilot's.

        Returns the keys of the site's table whose change waits for the next start. Raises
        ``UserError`` for an overlap.
        """
        site = self._parts.site
        kept = reconfigure(site, fresh)
        if fresh.nodes.hosts == old.nodes.hosts:
            return kept
        try:
            if unseen := claim_hosts(site.peers, site.scheduler, fresh.nodes.hosts):
                self._recorder.note("reload", "", unseen)
        except UserError:
            # The host list overlaps a peer pilot's: return to the old table and the old list.
            reconfigure(site, old)
            if site.peers is not None:
                site.peers.announce(old.nodes.hosts)
            raise
        return kept
