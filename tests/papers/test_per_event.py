"""What each decision led to, by hand: nodes taken in training, rescales as investments, A_s of
every bin.
"""

from __future__ import annotations

import pytest
from replay.windows import window

from bftrainer.decide.allocation.exact import Exact
from bftrainer.decide.allocation.objectives import OBJECTIVES
from bftrainer.decide.domain.model import Curve, Trainer
from bftrainer.decide.policies.bftrainer import BFTrainer
from bftrainer.decide.policies.equal_share import EqualShare
from bftrainer_papers.bftrainer.cells import static_outcomes
from bftrainer_papers.bftrainer.per_event import RescaleReturns, returns, taken_within
from bftrainer_papers.fixed_pool import fixed_window
from bftrainer_replay.simulation.ledger import LedgerRow
from bftrainer_replay.simulation.play import Scenario, play, static_outcome
from bftrainer_replay.simulation.replay_world import Arrival, ReplayTotals

LINEAR = Curve((1, 8), (10.0, 80.0))


def arrivals(count: int, total: float) -> tuple[Arrival, ...]:
    return tuple(
        Arrival(0.0, Trainer(f"t{i}", LINEAR, 1, 8, 20.0, 10.0, total)) for i in range(count)
    )


def entry(at_s: float, *, taken: int = 0, samples: float = 0.0, invested: float = 0.0) -> LedgerRow:
    return LedgerRow(at_s, 0, 0, 0, 0, 0, (), None, ReplayTotals(samples), taken, invested)


def test_a_decision_is_followed_by_the_next_loss_not_by_its_own() -> None:
    entries = [entry(0.0), entry(100.0), entry(130.0, taken=2), entry(200.0)]
    spans = (10.0, 30.0, 130.0, 1e9)
    assert taken_within(entries, spans) == ((10.0, 0.0), (30.0, 0.25), (130.0, 0.5), (1e9, 0.5))
    assert taken_within([], spans) == tuple((span, 0.0) for span in spans)


def test_the_outcome_until_the_next_event_is_the_return() -> None:
    entries = [
        entry(0.0, invested=100.0),
        entry(1.0, samples=500.0),
        entry(2.0, samples=800.0, invested=50.0),
    ]
    found = returns(entries, ReplayTotals(1000.0))
    assert (found.decisions, found.mean) == (2, 4.5)
    assert found.quantiles == pytest.approx((4.1, 4.25, 4.5, 4.75, 4.9))
    assert returns(entries[1:2], ReplayTotals(1000.0)) == RescaleReturns(0, None, None)


def test_the_ledger_knows_what_was_taken_and_what_rescales_cost() -> None:
    """Two nodes; two more at 100 s: worth 20 s of 20 samples/s. At 200 s one leaves; at 300 s one
    that nobody held.
    """
    log = window(500.0, "ab", (100.0, "cd"), (200.0, "d"), (300.0, "efghij"), (400.0, "j"))
    outcome = play(
        Scenario(log, arrivals(1, 1e9)), BFTrainer(Exact(), OBJECTIVES["throughput"], 120.0)
    )
    assert [e.used_nodes for e in outcome.entries] == [2, 4, 3, 8, 8]
    assert [e.taken_nodes for e in outcome.entries] == [0, 0, 1, 0, 0]
    assert [e.invested_samples for e in outcome.entries] == [0.0, 20.0 * 20, 0.0, 30.0 * 20, 0.0]


@pytest.mark.parametrize(
    "total", [1e9, 1e5], ids=["one trainer outlasts the window", "trainers come and go"]
)
def test_on_constant_nodes_the_bins_add_up_to_the_whole(total: float) -> None:
    scenario = Scenario(fixed_window(7, 0.0, 7200.0), arrivals(40, total), 3)
    bins = static_outcomes(scenario, [0.0, 1800.0, 3600.0, 7200.0])
    assert sum(bins) == pytest.approx(static_outcome(scenario))
    assert bins[2] == pytest.approx(2 * bins[0])
    free = tuple(Arrival(0.0, Trainer(f"t{i}", LINEAR, 1, 8, 0.0, 0.0, total)) for i in range(40))
    done = play(Scenario(scenario.window, free, 3), EqualShare()).totals.samples
    assert done == pytest.approx(sum(bins))  # U is 100 % by its definition


def test_each_bin_has_its_own_nodes_and_those_submitted_by_then() -> None:
    log = window(7200.0, "abcd", (3600.0, "cd"))
    first, second = static_outcomes(Scenario(log, arrivals(1, 1e9)), [0.0, 3600.0, 7200.0])
    assert (first, second) == pytest.approx((3600 * 40.0, 3600 * 20.0))
    late = (Arrival(5400.0, Trainer("late", LINEAR, 1, 8, 20.0, 10.0, 1e9)),)
    assert static_outcomes(Scenario(log, late), [0.0, 3600.0, 7200.0]) == pytest.approx(
        (0.0, 1800 * 20.0)
    )


def test_u_is_above_one_where_equal_sharing_wastes_nodes() -> None:
    """Five nodes, ten trainers alike: equal share gives all five to the first, which makes 4 nodes'
    samples of them.
    """
    curve = Curve((1, 5), (10.0, 40.0))
    ten = tuple(Arrival(0.0, Trainer(f"t{i}", curve, 1, 5, 0.0, 0.0, 1e9)) for i in range(10))
    scenario = Scenario(fixed_window(5, 0.0, 3600.0), ten, 10)
    done = play(scenario, BFTrainer(Exact(), OBJECTIVES["throughput"], 120.0)).totals.samples
    assert done / static_outcome(scenario) == pytest.approx(50 / 40)
