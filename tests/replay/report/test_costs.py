"""Money, energy and CO2 of a month: products by hand."""

from __future__ import annotations

import pytest

from bftrainer.errors import UserError
from bftrainer_replay.analysis.plain_jobs import PlainJobs
from bftrainer_replay.report.costs import NO_RATES, CostRates, costs_text, monthly_costs
from bftrainer_replay.report.figures import Origin, ReportFigures

FIGURES = ReportFigures(
    origin=Origin("log", "", "", "2026-01-01", "0.1.0"),
    dates="January 2026",
    machine_nodes=100,
    idle_share=0.1,
    mean_idle_nodes=10.0,  # 7,200 node-hours in 30 days
    left_out="",
    trainings=10,
    nodes_each=8,
    held_share=0.75,
    work_share=0.5,
    spread=0.0,
    preemptions_a_month=0.0,
    plain=(PlainJobs(10, 0.4),),
    fillable_share=None,
    pool_share=None,
    by_model=(),
    idle_range=(0.1, 0.1),
    lacks_jobs="",
)


def test_node_hours_times_price_and_power() -> None:
    rates = CostRates(node_h_price=2.0, currency="CHF", extra_kw=0.5, co2_g_per_kwh=100.0)
    costs = monthly_costs(FIGURES, rates)
    assert costs.idle == pytest.approx(14_400)
    assert costs.work == pytest.approx(7_200)
    assert costs.kwh == pytest.approx(7_200 * 0.75 * 0.5)
    assert costs.co2_kg == pytest.approx(270)
    assert costs_text(costs, rates) == (
        "At 2 CHF a node-hour, the idle nodes cost 14,400 CHF a month; trainings would turn 7,200 "
        "CHF of it into work. Nodes in training would use 2,700 kWh a month more than idle ones "
        "(0.5 kW a node), which are 270 kg of CO2 (100 g per kWh)."
    )


def test_without_rates_there_is_no_text() -> None:
    assert costs_text(monthly_costs(FIGURES, NO_RATES), NO_RATES) == ""
    power = CostRates(extra_kw=1.0)
    text = costs_text(monthly_costs(FIGURES, power), power)
    assert text == (
        "Nodes in training would use 5,400 kWh a month more than idle ones (1 kW a node)."
    )


@pytest.mark.parametrize(
    ("rates", "complaint"),
    [
        ({"node_h_price": 0.0}, "--node-hour-price 0: expected a number above 0"),
        ({"extra_kw": float("inf")}, "--extra-kw inf: expected a number above 0"),
        ({"node_h_price": float("nan")}, "--node-hour-price nan: expected a number above 0"),
        ({"co2_g_per_kwh": 100.0}, "needs the power of a node; specify --extra-kw"),
    ],
)
def test_odd_rates_are_refused(rates: dict[str, float], complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        CostRates(**rates)  # type: ignore[arg-type]  # no text among them
