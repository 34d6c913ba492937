"""The objective for old nodes that train on while new ones start, against simulated samples of
every choice.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, replace

import pytest

from bftrainer.decide.allocation.exact import Exact
from bftrainer.decide.allocation.gains import gain
from bftrainer.decide.allocation.objectives import OBJECTIVES
from bftrainer.decide.allocation.two_costs import is_limited, with_two_costs
from bftrainer.decide.domain.events import Event
from bftrainer.decide.domain.model import Curve, Trainer
from bftrainer.decide.domain.problem import TrainerDemand
from bftrainer.decide.domain.rescaling import Rescaling, rescaled
from bftrainer.decide.domain.state import Active, Nodes, State
from bftrainer.decide.policies.bftrainer import BFTrainer
from bftrainer.errors import InvalidValueError
from bftrainer_replay.logs.model import LogWindow
from bftrainer_replay.simulation.play import Scenario, play
from bftrainer_replay.simulation.progress import CostModel, ReplayedTrainer
from bftrainer_replay.simulation.replay_world import Arrival

NOW_S = 1000.0


def nodes(n: int) -> Nodes:
    return frozenset(f"n{i}" for i in range(n))


@dataclass(frozen=True)
class Case:
    """A trainer with what has happened to it: (time, nodes after it, whether by the scheduler)."""

    trainer: Trainer
    history: tuple[tuple[float, Nodes, bool], ...]

    @property
    def held(self) -> Nodes:
        return self.history[-1][1] if self.history else frozenset()

    def left(self) -> Rescaling | None:
        """What the core expects to be left of its rescales."""
        left, held = None, nodes(0)
        for at_s, after, _ in self.history:
            left, held = rescaled(self.trainer, left, held, after, at_s), after
        return None if left is None else left.at(NOW_S)

    def samples(self, count: int, forward_s: float) -> float:
        """Simulated samples within T_fwd if the count is decided now; nodes that start are the
        first to go.
        """
        run = ReplayedTrainer(self.trainer, CostModel.OVERLAP, since_s=0.0)
        for at_s, after, is_loss in self.history:
            if is_loss:
                run.lose_nodes(run.node_names - after, at_s)
            else:
                run.rescale(after, at_s)
        before = run.samples_at(NOW_S)
        if count != len(self.held):
            run.rescale(nodes(count), NOW_S)
        return run.samples_at(NOW_S + forward_s) - before

    def demand(self, forward_s: float) -> TrainerDemand:
        t = self.trainer
        plain = TrainerDemand(
            "t", t.curve, 1, t.max_nodes, t.scale_up_s, t.scale_down_s, len(self.held)
        )
        return with_two_costs(plain, t.start_s or 0.0, self.left(), NOW_S, forward_s)


def case(rng: random.Random, start_s: float, switch_s: float, down_s: float, largest: int) -> Case:
    """At rest, growing from some or no nodes, or after a loss; a third of those that grow have lost
    a node meanwhile.
    """
    power, unit = rng.uniform(0.3, 1.0), rng.uniform(5, 20)
    curve = Curve(
        tuple(range(1, largest + 1)), tuple(unit * n**power for n in range(1, largest + 1))
    )
    trainer = Trainer("t", curve, 1, largest, switch_s, down_s, start_s=start_s)
    old = rng.randint(0, 3)
    history = [(0.0, nodes(old), False)] if old else []
    kind = rng.choice(("rest", "grow", "grow", "grow and lose", "lose"))
    if kind.startswith("grow"):
        grown_s = NOW_S - rng.uniform(0.0, start_s + switch_s)
        history.append((grown_s, nodes(old + rng.randint(1, 3)), False))
        if kind == "grow and lose" and old > 1:
            history.append((rng.uniform(grown_s, NOW_S), history[-1][1] - {f"n{old - 1}"}, True))
            return renamed(Case(trainer, tuple(history)))
    elif kind == "lose" and old > 1:
        history.append((NOW_S - rng.uniform(0.0, down_s), nodes(old - 1), True))
    return Case(trainer, tuple(history))


def renamed(it: Case) -> Case:
    """The nodes that are left are the first ones, so that a smaller count is the old nodes
    first.
    """
    order = sorted(it.held) + sorted(it.history[-2][1] - it.held)
    names = {node: f"n{i}" for i, node in enumerate(order)}
    return replace(
        it, history=tuple((at, frozenset(names[n] for n in on), by) for at, on, by in it.history)
    )


@pytest.mark.parametrize(
    ("start_s", "switch_s", "down_s", "forward_s"),
    [
        (17.0, 1.0, 1.0, 120.0),
        (15.0, 5.0, 5.0, 60.0),
        (5.0, 1.0, 10.0, 120.0),
        (20.0, 5.0, 20.0, 120.0),
        (20.0, 10.0, 2.0, 120.0),
    ],
)
def test_gains_are_the_simulated_samples_but_for_a_constant(
    start_s: float, switch_s: float, down_s: float, forward_s: float
) -> None:
    """Of every count, also after losses while a start is pending. So the best choice by gains is
    the best one.
    """
    rng, seen = random.Random(7), Counter[tuple[bool, bool]]()
    for _ in range(300):
        it = case(rng, start_s, switch_s, down_s, 8)
        demand = it.demand(forward_s)
        off = [gain(demand, n, forward_s) - it.samples(n, forward_s) for n in range(9)]
        assert off == pytest.approx([off[0]] * 9, abs=1e-6 * forward_s * it.trainer.curve.at(8)), it
        seen[demand.pending is not None, len(it.history) == 3 and it.history[2][2]] += 1
    assert min(seen[True, False], seen[True, True], seen[False, False]) > 10


@pytest.mark.parametrize(("switch_s", "at_s"), [(1.0, NOW_S), (5.0, NOW_S), (5.0, NOW_S + 1 / 3)])
def test_a_switch_learned_to_be_shorter_during_a_start_is_no_gain_of_growth(
    switch_s: float, at_s: float
) -> None:
    left = Rescaling(nodes(2), NOW_S, NOW_S + 15.0 + 5.0 / 3, NOW_S + 15.0 - 10.0 / 3)
    plain = TrainerDemand("t", Curve((1, 8), (10.0, 80.0)), 1, 8, switch_s, 5.0, 4)
    demand = with_two_costs(plain, 5.0, left, at_s, 120.0)
    assert 0 <= demand.ramp_s < 1e-9
    assert gain(demand, 8, 120.0) == pytest.approx(2 * gain(demand, 4, 120.0))


def test_a_horizon_within_which_growth_never_pays_is_refused() -> None:
    window = LogWindow(0.0, 300.0, nodes(4), (), 4, "by hand")
    trainer = Trainer("t", Curve((1, 4), (10.0, 40.0)), 1, 4, 5.0, 5.0, start_s=25.0)
    policy = BFTrainer(Exact(), OBJECTIVES["throughput"], 30.0)
    with pytest.raises(
        InvalidValueError, match=r"trainer t: a rescale takes 30 s .* set forward_s above 30"
    ):
        play(Scenario(window, (Arrival(0.0, trainer),), 1, CostModel.OVERLAP), policy)
    served = play(
        Scenario(window, (Arrival(0.0, trainer),), 1, CostModel.OVERLAP),
        replace(policy, forward_s=31.0),
    )
    assert served.totals.samples == 270 * 40
    # Under another cost model all nodes stall for both, and Eqn 16 applies.
    assert play(Scenario(window, (Arrival(0.0, trainer),), 1), policy).totals.samples == 270 * 40


def test_costs_learned_beyond_the_horizon_count_as_less() -> None:
    """A running pilot goes on: a start from 0 nodes still pays."""
    trainer = Trainer("t", Curve((1, 4), (10.0, 40.0)), 1, 4, 40.0, 5.0, start_s=200.0)
    state = State(1, pool=nodes(4), active=(Active(trainer),))
    decision, _ = BFTrainer(Exact(), OBJECTIVES["throughput"], 120.0).decide(state, Event(0.0, ()))
    assert is_limited(trainer, 120.0)
    assert decision.counts == (4,)
