"""When a queue is done: the distribution of the times that it took from past moments, calibrated on
those moments.

*Weights.* A past moment counts half after 14 days, and more the closer its pool of the last hour is
to the present one.

*Times that are not known*, as the log ended first, count as at least that long (the product-limit
estimator of Kaplan and Meier).

*Widening.* The same forecast is made at every past moment from those before it. Its error there is
log(true / median) in units of the distance from the median to the end of its 80 % interval on that
side. All distances are multiplied by the 80 % quantile of these errors (split conformal prediction
with a normalized score), at least by 1, and then by 1 + 1.16 / n: what Student's distribution adds
to an 80 % interval from n times. n is the number of days of these errors, which are fewer than all
past days, and still less if the queue takes longer than a day: of two weeks, three to five days
have errors.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
LEVEL = 0.8
FEWEST = 10
"""Past moments with a known end of the queue below which nothing is forecast."""
_DAY_S = 86_400.0
_HALF_LIFE_S = 14 * _DAY_S
_POOL_BANDWIDTH = 0.7  # of the logarithm of the pool, relative to its mean
_POOL_OFFSET = 0.05  # added to the pool: an empty one has a logarithm
_OTHER_POOL_WEIGHT = 0.02  # the weight of a moment with another pool
_STUDENT = 1.16
_NARROWEST = 0.03
_WIDEST = 4.0
_WARM_UP_SHARE = 0.4  # the part of the past moments without errors: too few are before them


@dataclass(frozen=True, slots=True, eq=False)
class PastRuns:
    """When one queue, or one trainer of it, would have been done from past moments, in order of
    time.

    ``took_s``: seconds until it was done (infinite: the log ended first, ``log_s`` after the
    moment). ``pool``: the mean of the pool over the hour before it, relative to that over the log.
    """

    start_s: Floats
    took_s: Floats
    log_s: Floats
    pool: Floats

    def known_at(self, at_s: float, count: int) -> PastRuns:
        """Return the first ``count`` runs as they were known at ``at_s``: the log ends there."""
        log_s = np.minimum(self.log_s[:count], at_s - self.start_s[:count])
        return PastRuns(self.start_s[:count], self.took_s[:count], log_s, self.pool[:count])


@dataclass(frozen=True, slots=True, eq=False)
class Forecast:
    """The distribution of the seconds until the queue is done: ``share[k]`` is done after
    ``seconds[k]``.

    ``widened``: the factor of the widening; ``errors``: the past forecasts behind it.
    """

    seconds: Floats
    share: Floats
    widened: float = 1.0
    errors: int = 0

    @property
    def median_s(self) -> float:
        """Seconds until the queue is done with probability 1/2."""
        return self._quantile_s(0.5)

    def after_s(self, share: float) -> float:
        """Seconds until the queue is done with this probability; infinite where the log does not
        tell.
        """
        median_s = self.median_s
        return float(median_s * (self._quantile_s(share) / median_s) ** self.widened)

    def probability(self, seconds: float) -> float:
        """The probability that the queue is done within so many seconds."""
        median_s = self.median_s
        plain_s = median_s * (max(seconds, 1e-9) / median_s) ** (1 / self.widened)
        count = np.searchsorted(self.seconds, plain_s, side="right")
        return float(self.share[count - 1]) if count else 0.0

    def _quantile_s(self, share: float) -> float:
        """Return the seconds until this share is done, before widening; infinite where the log does
        not tell.
        """
        index = int(np.searchsorted(self.share, share - 1e-9))
        return float(self.seconds[index]) if index < len(self.seconds) else np.inf


def forecast(runs: PastRuns, now_s: float, pool: float | None) -> Forecast | None:
    """Return the distribution of the time until the queue is done; None if the past tells too
    little.

    ``now_s`` is when the forecast is made, and ``pool`` is that of the last hour relative to its
    mean (None: unknown). The distribution of the past runs is widened by how wrong it would have
    been in the past.
    """
    run_count = len(runs.start_s)
    present = _forecast_distribution(runs.known_at(now_s, run_count), now_s, pool)
    if present is None or not np.isfinite(present.median_s):
        return None
    errors, moments_s = [], []
    for index in range(int(_WARM_UP_SHARE * run_count), run_count):
        at_s = float(runs.start_s[index])
        past_forecast = _forecast_distribution(
            runs.known_at(at_s, index), at_s, float(runs.pool[index])
        )
        # Only ends that are known by now can be compared with their forecast.
        if past_forecast is not None and at_s + runs.took_s[index] <= now_s:
            errors.append(_scaled_error(past_forecast, float(runs.took_s[index])))
            moments_s.append(at_s)
    finite = np.isfinite(errors)
    if finite.sum() >= FEWEST:
        quantile = float(np.quantile(np.array(errors)[finite], LEVEL))
        evidence_s = np.array(moments_s)[finite]
    else:
        quantile = 1.0  # too few errors to widen by
        evidence_s = runs.start_s
    # A queue that takes longer than a day leaves fewer days (module docstring).
    days = len(np.unique(evidence_s // _DAY_S)) / max(1.0, present.median_s / _DAY_S)
    few_days_factor = 1 + _STUDENT / max(days, 1.0)
    return Forecast(
        present.seconds,
        present.share,
        widened=few_days_factor * min(max(quantile, 1.0), _WIDEST),
        errors=int(finite.sum()),
    )


def _forecast_distribution(runs: PastRuns, now_s: float, pool: float | None) -> Forecast | None:
    """Return the distribution of the past runs by their weights; None if too few have ended.

    A run weighs more the more recent it is, and the more alike its pool was to ``pool``. Of a run
    that the log cut off, only a least length is known: it counts until then (censored, as in the
    estimator of Kaplan and Meier).
    """
    has_ended = runs.took_s <= runs.log_s
    if has_ended.sum() < FEWEST:
        return None
    weights = 0.5 ** ((now_s - runs.start_s) / _HALF_LIFE_S)
    if pool is not None:
        distance = np.log(runs.pool + _POOL_OFFSET) - np.log(pool + _POOL_OFFSET)
        weights = weights * (np.exp(-0.5 * (distance / _POOL_BANDWIDTH) ** 2) + _OTHER_POOL_WEIGHT)
    seconds = np.maximum(np.where(has_ended, runs.took_s, runs.log_s), 1.0)
    # By time; at equal times, ends come before runs that were cut off.
    order = np.lexsort((~has_ended, seconds))
    seconds, has_ended, weights = seconds[order], has_ended[order], weights[order]
    at_risk = np.cumsum(weights[::-1])[::-1]
    unfinished_share = np.cumprod(1 - np.where(has_ended, weights / at_risk, 0.0))
    return Forecast(seconds[has_ended], 1 - unfinished_share[has_ended])


def _scaled_error(past: Forecast, true_s: float) -> float:
    """Return how far a past forecast was from the true time; NaN without a median.

    It is the distance of the true time from the median, in units of the distance from the median to
    the end of the forecast's interval on that side, both of logarithms.
    """
    median_s = past.median_s
    if not np.isfinite(median_s):
        return np.nan
    end_s = past.after_s((1 + LEVEL) / 2 if true_s > median_s else (1 - LEVEL) / 2)
    half_width = abs(np.log(end_s / median_s))
    return float(abs(np.log(true_s / median_s)) / max(half_width, _NARROWEST))
