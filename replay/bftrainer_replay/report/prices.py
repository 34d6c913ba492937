"""What idle nodes and the training on them amount to in money and energy, if the site says what a node-hour costs and draws."""

from __future__ import annotations

from dataclasses import dataclass

_MWH = 1e6  # watt-hours


@dataclass(frozen=True, slots=True)
class SitePrices:
    """The price of a node-hour, and what a node draws when it is idle and when it trains; None: not given."""

    node_hour: float | None = None
    currency: str = "USD"
    idle_w: float | None = None
    busy_w: float | None = None

    def idle_words(self, node_hours: float) -> str:
        """Sentences on the idle node-hours of a month; empty without prices."""
        words = []
        if self.node_hour is not None:
            cost = self._money(node_hours * self.node_hour)
            words.append(f" At {self.node_hour:g} {self.currency} a node-hour, they cost {cost} a month, used or not.")
        if self.idle_w is not None:
            words.append(f" Idle nodes draw {_energy(node_hours * self.idle_w)} a month ({self.idle_w:,g} W each).")
        return "".join(words)

    def training_words(self, used_node_hours: float, dedicated_node_hours: float) -> str:
        """Sentences on the training of a month: what the same work would cost on dedicated nodes, and its energy."""
        words = []
        if self.node_hour is not None:
            cost = self._money(dedicated_node_hours * self.node_hour)
            words.append(f" On dedicated nodes, the same training would cost {cost} a month.")
        if self.busy_w is not None and self.idle_w is not None:
            more = _energy(used_node_hours * max(self.busy_w - self.idle_w, 0.0))
            words.append(
                f" It takes {more} a month on top of the idle nodes' power ({self.busy_w:,g} W a node in training)."
            )
        elif self.busy_w is not None:
            words.append(
                f" The nodes draw {_energy(used_node_hours * self.busy_w)} a month while they train ({self.busy_w:,g} W each); "
                "their idle power is part of that."
            )
        return "".join(words)

    def _money(self, amount: float) -> str:
        return f"{_rounded(amount)} {self.currency}"


NO_PRICES = SitePrices()


def _energy(watt_hours: float) -> str:
    return f"{_rounded(watt_hours / _MWH)} MWh"


def _rounded(value: float) -> str:
    """Three digits: the price of a node-hour is hardly known better."""
    if value >= 1000:
        digits = len(str(int(value))) - 3
        return f"{round(value, -digits):,.0f}"
    return f"{value:.3g}"
