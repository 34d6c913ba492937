"""Effects of each decision of a replay: preemptions, and the return on its rescales until the next
decision.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bftrainer_replay.simulation.ledger import LedgerRow
from bftrainer_replay.simulation.replay_world import ReplayTotals

SPANS_S = (10.0, 30.0, 60.0, 90.0, 120.0, 170.0, 240.0, 300.0, 600.0, 900.0, 1200.0)
_QUANTILES = (10, 25, 50, 75, 90)


@dataclass(frozen=True, slots=True)
class RescaleReturns:
    """Samples trained until the next event per sample invested, over the decisions that invested
    (the paper's Fig. 8).

    ``quantiles`` are the 10th, 25th, 50th, 75th and 90th percentiles, ``mean`` is the mean ratio;
    None if no decision invested.
    """

    decisions: int
    mean: float | None
    quantiles: tuple[float, float, float, float, float] | None


def taken_within(
    entries: Sequence[LedgerRow], spans_s: Sequence[float] = SPANS_S
) -> tuple[tuple[float, float], ...]:
    """Return (span, share of decisions after which a trainer loses a node within the span), per
    span.

    This is the paper's Fig. 7a. Without decisions, every share is 0.
    """
    at_s = np.array([entry.at_s for entry in entries])
    # The infinity at the end stands for "never again".
    losses_s = np.array([*(entry.at_s for entry in entries if entry.taken_nodes), np.inf])
    until_loss_s = losses_s[np.searchsorted(losses_s[:-1], at_s, side="right")] - at_s
    if not len(at_s):
        return tuple((float(span), 0.0) for span in spans_s)
    return tuple((float(span), float(np.mean(until_loss_s <= span))) for span in spans_s)


def returns(entries: Sequence[LedgerRow], final: ReplayTotals) -> RescaleReturns:
    """Return how many samples are trained until the next event per sample spent on rescaling.

    The paper's Fig. 8: the rescale cost at a decision is the investment, and what is trained until
    the next decision is the return. Decisions without a cost are left out.
    """
    samples = np.diff([*(entry.totals.samples for entry in entries), final.samples])
    invested = np.array([entry.invested_samples for entry in entries])
    paid = invested > 0
    if not paid.any():
        return RescaleReturns(0, None, None)
    ratios = samples[paid] / invested[paid]
    low, first, median, third, high = (float(q) for q in np.percentile(ratios, _QUANTILES))
    return RescaleReturns(int(paid.sum()), float(ratios.mean()), (low, first, median, third, high))
