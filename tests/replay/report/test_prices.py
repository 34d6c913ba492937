"""Money and energy at the top of a report: what the words claim, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import bftrainer, complaint

from bftrainer_replay.report.prices import NO_PRICES, SitePrices


def test_nothing_is_said_without_prices() -> None:
    assert NO_PRICES.idle_words(1000) + NO_PRICES.training_words(900, 800) == ""


def test_money_is_what_idle_nodes_cost_anyway_and_what_the_work_would_cost_on_dedicated_nodes() -> None:
    prices = SitePrices(node_hour=2.5, currency="EUR")
    assert prices.idle_words(4000) == " At 2.5 EUR a node-hour, they cost 10,000 EUR a month, used or not."
    # 900 node-hours were used; the work is that of 800 dedicated ones.
    assert prices.training_words(900, 800) == " On dedicated nodes, the same training would cost 2,000 EUR a month."


def test_training_takes_only_what_the_nodes_do_not_draw_idle() -> None:
    both = SitePrices(idle_w=300, busy_w=1500)
    assert "1.2 MWh a month (300 W each)" in both.idle_words(4000)
    assert "4.8 MWh a month on top of the idle nodes' power (1,500 W a node" in both.training_words(4000, 1)
    busy = SitePrices(busy_w=1500)
    assert busy.idle_words(4000) == ""
    assert "6 MWh a month while they train" in busy.training_words(4000, 1)
    assert "is part of that" in busy.training_words(4000, 1)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--watts", "1500,300"), "an idle node draws more than a busy one"),
        (("--watts", "many"), "expected watts of a busy node"),
        (("--watts", "nan"), "expected watts of a busy node"),
        (("--node-hour-price", "0"), "expected a price above 0"),
        (("--node-hour-price", "inf"), "expected a price above 0"),
        (("--currency", "<b>"), "expected a code or a sign"),
    ],
)
def test_what_is_no_price_is_refused_before_the_log_is_read(
    tmp_path: Path, options: tuple[str, str], expected: str
) -> None:
    ended = bftrainer("replay", "report", tmp_path / "missing", "--out", tmp_path / "out", *options)
    assert ended.status == 2
    assert expected in complaint(ended)
