"""Policy and solver of a running pilot, exchanged together when the configuration is reloaded; and
the record of decisions.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from bftrainer.config.pilot import PilotConfig
from bftrainer.decide.allocation.chain import build_allocator
from bftrainer.decide.allocation.objectives import usual_objective
from bftrainer.decide.allocation.recording import RecordingAllocator
from bftrainer.decide.allocation.two_costs import MOST, is_limited
from bftrainer.decide.domain.events import Event
from bftrainer.decide.domain.model import Curve, Trainer
from bftrainer.decide.domain.ports import Allocator, Policy
from bftrainer.decide.domain.problem import Problem, TrainerDemand
from bftrainer.decide.domain.state import Plan, State
from bftrainer.decide.policies.keeping import Keeping
from bftrainer.decide.policies.requirements import check_needs_of_all, refusal
from bftrainer.decide.policies.settings import PolicySettings
from bftrainer.decide.policies.timed import TimedPolicy
from bftrainer.decide.policies.wrapped import innermost
from bftrainer.pilot.audit.auditor import Audit
from bftrainer.pilot.persistence import codec
from bftrainer.pilot.persistence.journal import Settings
from bftrainer.pilot.recorder import Recorder
from bftrainer.plugins import build_policy, find_objective

PLACES = 10
"""P_jmax where the policy does not decide how many trainers train: the paper's."""
_TRIAL = Problem(1, 1.0, (TrainerDemand("trial", Curve((1,), (1.0,)), 1, 1, 0.0, 0.0),))


def settings_of(config: PilotConfig) -> Settings:
    """Return the settings of decisions that a configuration asks for, as the journal records them.

    Keys that are not set get defaults that depend on one another: the objective on whether the
    policy decides how many trainers train, T_fwd (``forward_s``) on the objective.
    """
    decisions = config.decisions
    policy_sets_count = (
        decisions.max_parallel == "auto" and decisions.policy.partition("?")[0] == "bftrainer"
    )
    objective_name = decisions.objective or usual_objective(None if policy_sets_count else PLACES)
    objective = find_objective(objective_name)
    places = decisions.max_parallel if isinstance(decisions.max_parallel, int) else PLACES
    forward_s = objective.forward_s if decisions.forward_s is None else decisions.forward_s
    # None: all trainers are admitted, and an objective with a priority order (kappa) decides which
    # of them train.
    max_parallel = None if policy_sets_count and objective.kappa is not None else places
    return Settings(
        decisions.policy,
        decisions.solver,
        objective_name,
        forward_s,
        decisions.seed,
        max_parallel,
        decisions.gather_s,
    )


def policy_of(settings: Settings, allocator: RecordingAllocator) -> Policy:
    """Return the policy of these settings, which solves its problems with ``allocator``. From now
    on the journal may contain the policy's memories (what it keeps between decisions).
    """
    objective = find_objective(settings.objective)
    built = PolicySettings(
        allocator, objective, settings.forward_s, settings.seed, gather_s=settings.gather_s
    )
    policy = build_policy(settings.policy, built)
    codec.allow(type(innermost(policy)).__module__)
    return policy


@dataclass(frozen=True, slots=True)
class Prepared:
    """A policy and settings as configured, built and not yet in use."""

    settings: Settings
    allocator: Allocator
    policy: Policy


class DecisionMaker:
    """Holds the policy and the solver in use. It is the ``Journal`` of the loop: it records each
    decision with the answers of the solvers behind it.
    """

    def __init__(self, config: PilotConfig, recorder: Recorder, audit: Audit) -> None:
        """Build the policy and the solver that ``config`` names, and record the settings. Decisions
        go to the journal by ``recorder``, and to ``audit``, which solves them again.
        """
        self._recorder = recorder
        self._audit = audit
        self._settings = settings_of(config)
        self._allocator = RecordingAllocator(_allocator_of(config))
        self._chosen = policy_of(self._settings, self._allocator)
        self.policy = TimedPolicy(_without_failures(self._chosen), time.perf_counter)
        # The error for which the last decision kept all sizes; empty: none.
        self._kept = ""
        # Trainers about which it was noted that decisions do not look far enough ahead.
        self._limited: set[str] = set()
        recorder.settings(self._settings)

    def prepare(self, config: PilotConfig, trainers: Iterable[Trainer]) -> Prepared:
        """Build what a new configuration asks for, for these trainers. Raises ``UserError``, and
        changes nothing.
        """
        return _prepared_policy(config, trainers, self._allocator)

    def use(self, prepared: Prepared) -> None:
        """Decide by a prepared policy, with its settings, from now on."""
        self._recorder.settings(prepared.settings)
        self._settings, self._chosen = prepared.settings, prepared.policy
        self._allocator.allocator = prepared.allocator
        self.policy.policy = _without_failures(prepared.policy)

    @property
    def max_parallel(self) -> int | None:
        """How many trainers are admitted at once; None: all."""
        return self._settings.max_parallel

    def refusal(self, trainer: Trainer) -> str | None:
        """Return why the policy in use cannot serve a trainer; None if it can."""
        return refusal(self._chosen, trainer)

    def record(self, event: Event, state: State, plan: Plan) -> None:
        """Write a decision to the journal and queue its answers for the audit. Note in the event
        log when the policy has failed, and trainers whose rescales take longer than decisions look
        ahead.
        """
        solved = self._allocator.take_solved()
        answers = tuple([answer for _, answer in solved])
        number = self._recorder.decision(event, state, plan, answers, self.policy.took_s)
        if not plan.decision.kept:  # else they are those of trials
            self._audit.decided(number, solved)
        before, self._kept = self._kept, plan.decision.kept
        # The same error at each decision is noted once.
        if self._kept and self._kept != before:
            self._recorder.note("decision failed", "", f"trainers keep their sizes: {self._kept}")
        for trainer, text in limited_costs(state, self._settings.forward_s, self._limited):
            self._limited.add(trainer)
            self._recorder.note("cost", trainer, text)


def limited_costs(
    state: State, forward_s: float, reported: Collection[str]
) -> Iterator[tuple[str, str]]:
    """Yield (trainer, note) for each trainer whose learned costs are longer than T_fwd, so that
    they count as less (allocation/two_costs.py). Those in ``reported`` are left out.
    """
    for active in state.active:
        trainer = active.trainer
        if (
            trainer.start_s is not None
            and trainer.id not in reported
            and is_limited(trainer, forward_s)
        ):
            yield (
                trainer.id,
                f"a rescale takes {trainer.growth_s:.0f} s (start {trainer.start_s:.0f} s, "
                f"switch {trainer.scale_up_s:.0f} s), "
                f"but decisions look {forward_s:g} s ahead: it counts as "
                f"{MOST * forward_s:.0f} s; set decisions.forward_s "
                "higher",
            )


def check_decisions(config: PilotConfig, trainers: Iterable[Trainer]) -> None:
    """Raise ``UserError`` unless a pilot could decide by this configuration for all these trainers.
    It is called before the pilot takes over the state directory.
    """
    _prepared_policy(config, trainers, RecordingAllocator(build_allocator("exact", 1.0)))


def _prepared_policy(
    config: PilotConfig, trainers: Iterable[Trainer], recorder: RecordingAllocator
) -> Prepared:
    """Build the allocator and the policy of a configuration, and check that they work for these
    trainers.

    The policy solves through ``recorder``, which keeps the answers. Raises ``UserError``, such as
    for a solver that is not installed or a trainer that the policy cannot serve.
    """
    settings = settings_of(config)
    allocator = _allocator_of(config)
    allocator.solve(_TRIAL)  # a missing package or license shows here, not at the first decision
    policy = policy_of(settings, recorder)
    check_needs_of_all(policy, trainers)
    return Prepared(settings, allocator, policy)


def _allocator_of(config: PilotConfig) -> Allocator:
    decisions = config.decisions
    return build_allocator(
        decisions.solver, decisions.solve_s, restricted_license=decisions.restricted_license
    )


def _without_failures(policy: Policy) -> Policy:
    return Keeping(policy, codec.dumps)
