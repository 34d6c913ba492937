"""What idle nodes cost in a month, and the energy and CO2 of the trainings that would use them: the
node-hours of a report times a price and a power that the user gives.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from bftrainer.errors import UserError
from bftrainer_replay.report.figures import ReportFigures
from bftrainer_replay.report.words import three_digits


@dataclass(frozen=True, slots=True)
class CostRates:
    """The rates of a site; None: not given.

    ``node_h_price`` is the price of a node-hour in ``currency``, ``extra_kw`` the power in kW that
    a node draws in training beyond an idle one, and ``co2_g_per_kwh`` the CO2 of its electricity.
    Raises :class:`UserError` for a rate that is not above 0, and for CO2 without a power.
    """

    node_h_price: float | None = None
    currency: str = "EUR"
    extra_kw: float | None = None
    co2_g_per_kwh: float | None = None

    def __post_init__(self) -> None:
        """Check the rates; raises :class:`UserError`, which names the option."""
        rates = {
            "--node-hour-price": self.node_h_price,
            "--extra-kw": self.extra_kw,
            "--co2-g-per-kwh": self.co2_g_per_kwh,
        }
        for option, rate in rates.items():
            if rate is not None and not 0 < rate < math.inf:
                raise UserError(f"{option} {rate:g}: expected a number above 0")
        if self.co2_g_per_kwh is not None and self.extra_kw is None:
            raise UserError("--co2-g-per-kwh needs the power of a node; specify --extra-kw")


NO_RATES = CostRates()


@dataclass(frozen=True, slots=True)
class MonthlyCosts:
    """Amounts of a month of 30 days; None where a rate was not given.

    ``idle`` is the price of the idle node-hours and ``work`` that of the part which trainings turn
    into work. ``kwh`` and ``co2_kg`` are what nodes in training use beyond idle nodes.
    """

    idle: float | None = None
    work: float | None = None
    kwh: float | None = None
    co2_kg: float | None = None


def monthly_costs(figures: ReportFigures, rates: CostRates) -> MonthlyCosts:
    """Return the costs of a month, from the node-hours of a report and the site's rates.

    An amount is None where its rate was not given.
    """
    idle_h = figures.idle_node_h_a_month
    idle = work = kwh = co2_kg = None
    if rates.node_h_price is not None:
        idle = idle_h * rates.node_h_price
        work = idle * figures.work_share
    if rates.extra_kw is not None:
        kwh = idle_h * figures.held_share * rates.extra_kw
        if rates.co2_g_per_kwh is not None:
            co2_kg = kwh * rates.co2_g_per_kwh / 1000
    return MonthlyCosts(idle, work, kwh, co2_kg)


def costs_text(costs: MonthlyCosts, rates: CostRates) -> str:
    """Return the amounts in sentences; empty without rates."""
    return " ".join(_cost_sentences(costs, rates))


def _cost_sentences(costs: MonthlyCosts, rates: CostRates) -> Iterator[str]:
    """Yield a sentence on each of the amounts that the rates allow."""
    if costs.idle is not None and costs.work is not None:
        yield (
            f"At {rates.node_h_price:g} {rates.currency} a node-hour, the idle nodes cost "
            f"{three_digits(costs.idle)} {rates.currency} a month; trainings would turn "
            f"{three_digits(costs.work)} {rates.currency} of it into work."
        )
    if costs.kwh is not None:
        co2 = ""
        if costs.co2_kg is not None:
            co2 = f", which are {three_digits(costs.co2_kg)} kg of CO2 "
            co2 += f"({rates.co2_g_per_kwh:g} g per kWh)"
        yield (
            f"Nodes in training would use {three_digits(costs.kwh)} kWh a month "
            "more than idle ones "
            f"({rates.extra_kw:g} kW a node){co2}."
        )
