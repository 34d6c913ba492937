"""What a pilot is made of, and how it takes over a configuration that is read again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from bftrainer.allocation.chain import build_allocator
from bftrainer.config.pilot import PilotConfig
from bftrainer.core.windows import Ours
from bftrainer.domain.cluster import Hidden
from bftrainer.domain.ports import Clock, NodeHolder, PeerPilots, Policy, Scheduler
from bftrainer.errors import BFTrainerError, CommandError, SchedulerError, UserError
from bftrainer.live.facts import Fact
from bftrainer.live.job_chaining import JobChain, OwnJob
from bftrainer.live.nodes.manager import NodeManager
from bftrainer.live.nodes.sharing import overlap
from bftrainer.live.notices import Notices
from bftrainer.live.reload import changed, merged, said
from bftrainer.live.trainers.launcher import DirectoryLauncher
from bftrainer.live.world import LiveWorld
from bftrainer.persistence import codec
from bftrainer.persistence.journal import LiveJournal, RecordingAllocator, Settings, TimedPolicy
from bftrainer.persistence.registry import Registry
from bftrainer.plugins import build_policy, find_objective
from bftrainer.policies.guard import unguarded
from bftrainer.policies.settings import PolicySettings


@dataclass(frozen=True, slots=True)
class PilotDependencies:
    """What the pilot is given: its site, and where it lives."""

    state_dir: Path
    scheduler: Scheduler
    holder: NodeHolder
    clock: Clock
    ours: Ours = field(default_factory=Ours)
    driver: dict[str, object] = field(default_factory=dict)
    job_id: str = ""
    job_is_gone: Callable[[str], bool | None] = lambda _: None
    own_job: OwnJob | None = None
    at_step: Callable[[str], None] = lambda _: None
    neighbours: PeerPilots | None = None
    reconfigure: Callable[[PilotConfig], tuple[str, ...]] | None = None
    """Takes over what it can of the site's own table; the keys that it cannot."""
    log: Callable[[Fact, str], None] = lambda _fact, _format: None
    """Prints a fact in one of the formats of the configuration."""


def settings_of(config: PilotConfig) -> Settings:
    """What the journal says that decisions were made with."""
    d = config.decisions
    return Settings(d.policy, d.solver, d.objective, d.forward_s, d.seed, d.max_parallel)


def policy_of(settings: Settings, allocator: RecordingAllocator) -> Policy:
    """The policy of these settings on this allocator. From now on its memories can be journaled."""
    objective = find_objective(settings.objective)
    policy = build_policy(settings.policy, PolicySettings(allocator, objective, settings.forward_s, settings.seed))
    codec.allow(type(unguarded(policy)).__module__)
    return policy


def claim_hosts(parts: PilotDependencies, config: PilotConfig) -> str:
    """Show others which hosts are ours, if there is a list, and see that none is theirs.

    First shown, then seen: of two pilots that start at once at least one sees the other. What cannot be seen now is said,
    and does not keep a pilot that comes back while the scheduler is down from its trainers. Raises ``UserError``.
    """
    if parts.neighbours is None:
        return ""
    try:
        parts.neighbours.announce(config.nodes.hosts)
        if not config.nodes.hosts:
            return ""
        others = parts.neighbours.look()
        seen = parts.scheduler.observe()
    except (CommandError, SchedulerError) as error:
        return f"whether other pilots claim the same hosts cannot be seen: {error}"
    if problem := overlap(config.nodes.hosts, others, (node.name for node in seen.nodes)):
        raise UserError(problem)
    return (
        "the site hides other users' jobs: whose hosts they claim cannot be seen" if Hidden.JOBS in seen.hidden else ""
    )


@dataclass(slots=True)
class PilotRuntime:
    """What a pilot runs with, exchanged when its configuration is read again."""

    config: PilotConfig
    parts: PilotDependencies
    registry: Registry
    recorder: RecordingAllocator
    policy: TimedPolicy
    journal: LiveJournal
    nodes: NodeManager
    launcher: DirectoryLauncher
    world: LiveWorld
    hand_over: JobChain | None
    notices: Notices

    def reload(self, reread: Callable[[], PilotConfig | None]) -> None:
        """All of the new configuration that can be had, or nothing where it has an error; the event log says which."""
        now_s = self.parts.clock.now_s()
        try:
            text = self._take_over(reread(), now_s)
        except BFTrainerError as error:
            if error.exit_status != 2:
                raise
            text = f"refused, the old configuration stays: {error}"
        self.registry.note(now_s, "reload", "", text)

    def _take_over(self, read: PilotConfig | None, now_s: float) -> str:
        if read is None:
            return "there is no configuration to read again"
        fresh, kept = merged(self.config, read)
        settings = settings_of(fresh)
        allocator = build_allocator(settings.solver, fresh.decisions.solve_s)
        policy = policy_of(settings, self.recorder)
        kept += self._take_over_site(fresh, now_s)
        # Nothing above changes anything where it fails; nothing below fails but for the disk.
        self.journal.begin(settings, now_s)
        self.recorder.allocator, self.policy.policy = allocator, policy
        self.world.max_parallel = settings.max_parallel
        self.nodes.reconfigure(fresh)
        self.launcher.settings = dict(self.parts.driver)
        self.notices.config = fresh.notices
        if self.hand_over is not None:
            self.hand_over.times = fresh.times
        taken = tuple(key for key in changed(self.config, fresh) if key not in kept)
        self.config = fresh
        return said(taken, kept)

    def _take_over_site(self, fresh: PilotConfig, now_s: float) -> tuple[str, ...]:
        """The site's table and the host list: both, or neither where the list is another pilot's."""
        parts = self.parts
        if parts.reconfigure is None:
            return tuple(
                key for key in changed(self.config, fresh) if key.partition(".")[0] not in PilotConfig.model_fields
            )
        kept = parts.reconfigure(fresh)
        if fresh.nodes.hosts == self.config.nodes.hosts:
            return kept
        try:
            if unseen := claim_hosts(parts, fresh):
                self.registry.note(now_s, "reload", "", unseen)
        except UserError:
            parts.reconfigure(self.config)
            if parts.neighbours is not None:
                parts.neighbours.announce(self.config.nodes.hosts)
            raise
        return kept
