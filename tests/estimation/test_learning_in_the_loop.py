"""The invariants of the loop for every policy while it learns: estimates may be wrong, decisions must be legal."""

from __future__ import annotations

from dataclasses import replace

import pytest
from core.test_loop_properties import POOL_POLICIES, SETTINGS, Watching, scenarios
from hypothesis import given, settings
from hypothesis import strategies as st

from bftrainer.core.loop import run
from bftrainer.domain.model import Learning
from bftrainer.domain.state import State
from bftrainer.plugins import build_policy
from bftrainer_replay.simulation.learned_curves import without_curves
from bftrainer_replay.simulation.meter import Meter
from bftrainer_replay.simulation.play import Scenario
from bftrainer_replay.simulation.world import ReplayWorld

QUICK = Learning(share=0.5, window_s=5.0, explore_after_s=10.0)


@pytest.mark.parametrize("policy", POOL_POLICIES)
@settings(max_examples=40, deadline=None)
@given(scenarios(), st.booleans(), st.booleans(), st.sampled_from((0.0, 0.5)))
def test_invariants_hold_while_learning(
    policy: str, scenario: Scenario, learns: bool, by_model: bool, noise: float
) -> None:
    named = tuple(replace(a, trainer=replace(a.trainer, model="m")) for a in scenario.arrivals)
    arrivals = without_curves(named, by_model=by_model, learning=QUICK) if learns else named
    world = ReplayWorld(scenario.window, arrivals, scenario.cost_model, scenario.decide_on, meter=Meter(noise, 1))
    journal = Watching(scenario.max_parallel, world)
    state = run(world, State(scenario.max_parallel), build_policy(policy, SETTINGS), journal)
    assert journal.plans
    for active in state.active:
        if active.submitted is not None:
            assert active.trainer.max_nodes == active.submitted.max_nodes
            assert all(active.submitted.is_legal(n) for n in active.trainer.sizes or ())
    if not learns:
        assert state.measurements == ()
