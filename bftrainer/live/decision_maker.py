"""Policy, solver and journal of a running pilot: exchanged together when the configuration is reloaded."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from bftrainer.allocation.chain import build_allocator
from bftrainer.config.pilot import PilotConfig
from bftrainer.domain.model import Curve, Trainer
from bftrainer.domain.ports import Allocator, Policy
from bftrainer.domain.problem import Problem, TrainerDemand
from bftrainer.live.facts import Listener, TellingJournal
from bftrainer.persistence import codec
from bftrainer.persistence.journal import LiveJournal, RecordingAllocator, Settings, TimedPolicy
from bftrainer.persistence.store import Store
from bftrainer.plugins import build_policy, find_objective
from bftrainer.policies.gather import unwrapped
from bftrainer.policies.keeping import Keeping
from bftrainer.policies.needs import check_needs_of_all, refusal
from bftrainer.policies.settings import PolicySettings

_TRIAL = Problem(1, 1.0, (TrainerDemand("trial", Curve((1,), (1.0,)), 1, 1, 0.0, 0.0),))


def settings_of(config: PilotConfig) -> Settings:
    """The settings of decisions, as the journal records them."""
    d = config.decisions
    policy = d.policy
    if d.gather_s and "gather_s=" not in policy:
        policy += f"{'&' if '?' in policy else '?'}gather_s={d.gather_s:g}"
    return Settings(policy, d.solver, d.objective, d.forward_s, d.seed, d.max_parallel)


def shown_policy(policy: str) -> str:
    """A policy of the journal's settings for people: without the parameter that :func:`settings_of` has added."""
    name, _, parameters = policy.partition("?")
    others = [one for one in parameters.split("&") if one and not one.startswith("gather_s=")]
    return f"{name}?{'&'.join(others)}" if others else name


def policy_of(settings: Settings, allocator: RecordingAllocator) -> Policy:
    """The policy of these settings, on this allocator. From now on its memories can be journaled."""
    objective = find_objective(settings.objective)
    policy = build_policy(settings.policy, PolicySettings(allocator, objective, settings.forward_s, settings.seed))
    codec.allow(type(unwrapped(policy)).__module__)
    return policy


@dataclass(frozen=True, slots=True)
class Prepared:
    """What a configuration asks for, built and not yet in use."""

    settings: Settings
    allocator: Allocator
    policy: Policy


class DecisionMaker:
    """The policy with its journal. Listeners hear of each decision once it is on disk."""

    def __init__(self, config: PilotConfig, store: Store, listeners: list[Listener]) -> None:
        settings = settings_of(config)
        self._recorder = RecordingAllocator(build_allocator(settings.solver, config.decisions.solve_s))
        self._chosen = policy_of(settings, self._recorder)
        self.policy = TimedPolicy(_keeping(self._chosen))
        self._journal = LiveJournal(store, self._recorder, self.policy, settings)
        self.journal = TellingJournal(self._journal, self.policy, listeners)

    def prepare(self, config: PilotConfig, trainers: Iterable[Trainer]) -> Prepared:
        """Build what a new configuration asks for, for these trainers. Raises ``UserError``, and changes nothing."""
        return _prepared(config, trainers, self._recorder)

    def use(self, prepared: Prepared, now_s: float) -> None:
        """Decide by this from now on."""
        self._journal.begin(prepared.settings, now_s)
        self._recorder.exchange(prepared.allocator)
        self._chosen = prepared.policy
        self.policy.exchange(_keeping(prepared.policy))

    def refusal(self, trainer: Trainer) -> str | None:
        """Why the present policy cannot serve a trainer."""
        return refusal(self._chosen, trainer)


def check_decisions(config: PilotConfig, trainers: Iterable[Trainer]) -> None:
    """Raise ``UserError`` unless a pilot could decide by this configuration for all these trainers: before it takes over."""
    _prepared(config, trainers, RecordingAllocator(build_allocator("exact", 1.0)))


def _prepared(config: PilotConfig, trainers: Iterable[Trainer], recorder: RecordingAllocator) -> Prepared:
    settings = settings_of(config)
    allocator = build_allocator(settings.solver, config.decisions.solve_s)
    allocator.solve(_TRIAL)  # a missing package or license shows here, not at the first decision
    policy = policy_of(settings, recorder)
    check_needs_of_all(policy, trainers)
    return Prepared(settings, allocator, policy)


def _keeping(policy: Policy) -> Policy:
    return Keeping(policy, codec.dumps)
