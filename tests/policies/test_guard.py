"""The starvation guard: who could have run for H hours has run, under any policy; and the
objectives growth and ageing.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from replay.windows import window
from support.policy_states import active, decide, fresh, trainer

from bftrainer.decide.allocation.exact import Exact
from bftrainer.decide.allocation.objectives import OBJECTIVES
from bftrainer.decide.core.loop import run
from bftrainer.decide.domain.events import Event
from bftrainer.decide.domain.state import Decision, Losses, Plan, State
from bftrainer.decide.policies.bftrainer import BFTrainer
from bftrainer.decide.policies.guard import Guarded
from bftrainer.decide.policies.requirements import needs_of
from bftrainer.decide.policies.settings import PolicySettings
from bftrainer.errors import InvalidValueError, UserError
from bftrainer.plugins import build_policy
from bftrainer_replay.logs.model import LogWindow
from bftrainer_replay.simulation.replay_world import Arrival, ReplayWorld

PATIENCE_S = 600.0


@dataclass(frozen=True)
class Unfair:
    """The first trainer that fits gets as much as it can, nobody else anything."""

    name: str = "unfair"

    def decide(self, state: State, event: Event) -> tuple[Decision, object]:
        counts = [0] * len(state.active)
        for j, a in enumerate(state.active):
            if a.trainer.min_nodes <= len(state.pool):
                counts[j] = min(a.trainer.max_nodes, len(state.pool))
                break
        return Decision(tuple(counts)), None


@dataclass
class Hunger:
    """A journal that follows, event by event, how long each trainer could have run and did not."""

    since: dict[str, float] = field(default_factory=dict)
    worst_s: float = 0.0
    last: State | None = None

    def record(self, event: Event, state: State, plan: Plan) -> None:
        fits = {a.trainer.id for a in state.active if a.trainer.min_nodes <= len(state.pool)}
        for name in list(self.since):
            self.worst_s = max(self.worst_s, event.at_s - self.since[name])
            if name not in fits:
                del self.since[name]
        for a, nodes in zip(state.active, plan.nodes, strict=True):
            if nodes:
                self.since.pop(a.trainer.id, None)
            elif a.trainer.id in fits:
                self.since.setdefault(a.trainer.id, event.at_s)


def hunger(log: LogWindow, arrivals: tuple[Arrival, ...], *, guarded: bool) -> float:
    world, journal = ReplayWorld(log, arrivals), Hunger()
    policy = Guarded(Unfair(), PATIENCE_S, turn_s=100.0) if guarded else Unfair()
    run(world, State(max_parallel=len(arrivals)), policy, journal)
    for since_s in journal.since.values():
        journal.worst_s = max(journal.worst_s, log.end_s - since_s)
    return journal.worst_s


@st.composite
def logs(draw: st.DrawFn) -> LogWindow:
    times = sorted(draw(st.sets(st.integers(1, 7199), max_size=8)))
    flips = (
        (float(at_s), draw(st.sets(st.sampled_from("efghij"), min_size=1, max_size=4)))
        for at_s in times
    )
    return window(7200.0, "abcd", *flips, nodes=10)


@settings(max_examples=60, deadline=None)
@given(logs(), st.lists(st.integers(1, 2), min_size=2, max_size=2))
def test_whose_minimum_fitted_for_h_hours_has_run(log: LogWindow, minima: list[int]) -> None:
    """The minima of all fit the pool together (4 nodes never leave), so nobody has to wait for
    another's turn.
    """
    arrivals = tuple(
        Arrival(0.0, trainer(f"t{i}", low, 10, samples=1e9)) for i, low in enumerate(minima)
    )
    assert hunger(log, arrivals, guarded=True) <= PATIENCE_S + 1e-6
    assert hunger(log, arrivals, guarded=False) > PATIENCE_S, (
        "without the guard the second one starves"
    )


def test_a_minimum_that_only_fits_at_times_is_promised_nothing() -> None:
    blinking = window(6000.0, "abc", *((300.0 * k, "z") for k in range(1, 20)), nodes=4)
    arrivals = (
        Arrival(0.0, trainer("a", 1, 4, samples=1e9)),
        Arrival(0.0, trainer("big", 4, 4, samples=1e9)),
    )
    world, journal = ReplayWorld(blinking, arrivals), Hunger()
    run(world, State(max_parallel=2), Guarded(Unfair(), PATIENCE_S), journal)
    assert world.runs["big"].started_s is None


def test_the_largest_gives_first_and_keeps_its_minimum() -> None:
    guard = Guarded(Unfair(), PATIENCE_S)
    first = fresh([active("a"), active("b", min_nodes=3)], 8)
    decision, memory = guard.decide(first, decide.event(0.0))
    assert (decision.counts, decision.wake_at_s) == ((8, 0), PATIENCE_S)
    later = fresh([active("a", 8), active("b", min_nodes=3)], 8, at_s=PATIENCE_S, memory=memory)
    decision, memory = guard.decide(later, decide.event(PATIENCE_S))
    assert (decision.counts, decision.wake_at_s) == ((5, 3), PATIENCE_S + 900.0)
    during = fresh(
        [active("a", 5), active("b", 3, min_nodes=3)], 8, at_s=PATIENCE_S + 10, memory=memory
    )
    assert guard.decide(during, decide.event(PATIENCE_S + 10))[0].counts == (5, 3), (
        "for its whole turn"
    )
    after = fresh(
        [active("a", 5), active("b", 3, min_nodes=3)], 8, at_s=PATIENCE_S + 900, memory=memory
    )
    assert guard.decide(after, decide.event(PATIENCE_S + 900))[0].counts == (8, 0)


def test_the_guard_comes_with_the_settings() -> None:
    settings = PolicySettings(Exact(), OBJECTIVES["throughput"], guard_h=2.0)
    guarded = build_policy("afs-l", settings)
    assert isinstance(guarded, Guarded)
    assert (guarded.patience_s, guarded.name) == (7200.0, "afs-l")
    assert needs_of(guarded)


def counts(
    objective: str, trainers: list[object], nodes: int, at_s: float = 0.0
) -> tuple[int, ...]:
    policy = BFTrainer(Exact(), OBJECTIVES[objective], 3600.0)
    return decide(policy, fresh(trainers, nodes, at_s=at_s)).counts  # type: ignore[arg-type]


def test_growth_gives_nodes_to_the_falling_evaluation_function() -> None:
    falling, still = (
        Losses(2.0, 1.0, 100.0, per_sample=1e-3),
        Losses(2.0, 0.5, 100.0, per_sample=1e-6),
    )
    assert counts(
        "growth", [active("still", losses=still), active("falling", losses=falling)], 16
    ) == (0, 16)
    assert counts("growth", [active("a", losses=falling), active("b", losses=falling)], 16) == (
        8,
        8,
    )
    new = active("new", samples=1000.0)  # 5 / 1000 per sample, ten times what "falling" does
    assert counts("growth", [active("falling", losses=falling), new], 16) == (0, 16)
    with pytest.raises(InvalidValueError, match="'growth' objective requires samples_total"):
        counts("growth", [active("a", samples=None)], 4)


def test_ageing_turns_the_balance_after_a_wait() -> None:
    flat = active("poor", min_nodes=8, max_nodes=8)
    rich = active("rich", 8, min_nodes=8, max_nodes=8, run_s=36_000.0)
    assert counts("scaling-efficiency", [flat, rich], 8, at_s=36_000.0) == (0, 8)
    assert counts("ageing", [flat, rich], 8, at_s=0.0) == (0, 8)
    assert counts("ageing", [flat, rich], 8, at_s=36_000.0) == (8, 0), (
        "ten hours waited weigh eleven times"
    )


def test_slopes_come_from_the_last_two_reports() -> None:
    losses = Losses(1.0, 1.0, 0.0).after_report(100.0, 0.8).after_report(300.0, 0.7)
    assert (losses.first, losses.latest, losses.per_sample) == (1.0, 0.7, pytest.approx(0.0005))
    assert losses.after_report(300.0, 0.6) == Losses(1.0, 0.6, 300.0, losses.per_sample)


def test_parameters_behind_the_name() -> None:
    settings = PolicySettings(Exact(), OBJECTIVES["throughput"])
    guarded = build_policy("modelarts-greedy?cap=4&guard_hours=0.5", settings)
    assert isinstance(guarded, Guarded)
    assert guarded.patience_s == 1800.0
    assert decide(guarded, fresh([active("a")], 16)).counts == (4,)
    for text, complaint in (
        ("afs-l?guard_hours", "expected NAME=NUMBER"),
        ("afs-l?guard_hours=-1", "above 0"),
        ("afs-l?=1", "expected NAME=NUMBER"),
        ("flowcon?alhpa=1", "did you mean 'alpha'"),
    ):
        with pytest.raises(UserError, match=complaint):
            build_policy(text, settings)
