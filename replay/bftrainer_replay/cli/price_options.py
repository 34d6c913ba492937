"""The options for money and energy: --node-hour-price, --currency, --watts."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable
from typing import Any

import click

from bftrainer.errors import UserError
from bftrainer_replay.report.prices import SitePrices

_CURRENCY = re.compile(r"[^\W\d_]{1,12}|[$€£¥]")
_OPTIONS = (
    click.option(
        "--node-hour-price", type=float, metavar="PRICE", help="Price of a node-hour, for the costs at the top of the page."
    ),
    click.option("--currency", default="USD", show_default=True, metavar="CODE", help="Currency of that price."),
    click.option(
        "--watts", metavar="[IDLE,]BUSY",
        help="Watts that a node draws when it trains, or when it is idle and when it trains. Example: 300,1500.",
    ),
)  # fmt: skip


def price_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command these options; the function gets them as ``prices``, a SitePrices."""

    @functools.wraps(function)
    def with_prices(*, node_hour_price: float | None, currency: str, watts: str | None, **others: Any) -> Any:
        if node_hour_price is not None and not 0 < node_hour_price < 1e9:
            raise UserError(f"--node-hour-price {node_hour_price:g}: expected a price above 0")
        if not _CURRENCY.fullmatch(currency):
            raise UserError(f"--currency {currency!r:.20}: expected a code or a sign, like EUR")
        return function(prices=SitePrices(node_hour_price, currency, *_watts(watts)), **others)

    decorated: Callable[..., Any] = with_prices
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated


def _watts(text: str | None) -> tuple[float | None, float | None]:
    """Idle and busy watts."""
    if text is None:
        return None, None
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        values = []
    if not 1 <= len(values) <= 2 or not all(0 <= value < 1e6 and math.isfinite(value) for value in values):
        raise UserError(
            f"--watts {text!r:.40}: expected watts of a busy node, or of an idle and a busy one, like 300,1500"
        )
    if len(values) == 2 and values[0] > values[1]:
        raise UserError(f"--watts {text}: an idle node draws more than a busy one; expected IDLE,BUSY")
    return (None, values[0]) if len(values) == 1 else (values[0], values[1])
