"""Event by event: the MILP's outcome until the next event over that of equal share (paper 5.1.2).

As in the authors' replayer: samples trained from one event to the next, minus the lump of the
rescaling at the first event and the lump of the preemption at the second.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bftrainer_replay.simulation.play import ReplayOutcome

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Speedups:
    """How MILP compares with equal share from event to event: shares of the events in percent;
    ``of_trained_N``, ``mean`` and ``ratios`` cover events in which equal share trained.
    """

    worse: float
    better_2: float
    better_5: float
    of_trained_2: float
    of_trained_5: float
    mean: float
    ratios: tuple[float, ...]


def outcomes_per_event(outcome: ReplayOutcome) -> Array:
    """Return the samples from each decision to the next, minus those that rescales cost at once;
    the last span ends with the window.
    """
    samples = [entry.totals.samples for entry in outcome.entries]
    return np.diff(np.array([*samples, outcome.totals.samples]))


def compare(milp: Array, equal: Array) -> Speedups:
    """Compare the samples trained from event to event under the MILP and under equal share.

    Events in which both trained nothing are left out. If equal share loses samples and the MILP
    trains some, no ratio exists, and the event counts as more than 5 times better. All values are
    NaN if nothing was trained at all.
    """
    assert len(milp) == len(equal), "both decide at the same events"
    is_active = (milp != 0) | (equal != 0)
    milp, equal = milp[is_active], equal[is_active]
    if not len(milp):
        nan = float("nan")
        return Speedups(nan, nan, nan, nan, nan, nan, ())
    equal_trained = equal > 0
    ratios = np.sort(milp[equal_trained] / equal[equal_trained])

    def times(factor: float) -> float:
        return 100 * float(np.mean((milp > 0) & (milp >= factor * equal)))

    return Speedups(
        # The margin of a millionth keeps rounding errors from counting as worse.
        worse=100 * float(np.mean(milp < equal - 1e-6 * np.abs(equal))),
        better_2=times(2.0),
        better_5=times(5.0),
        of_trained_2=100 * float(np.mean(ratios >= 2.0)) if len(ratios) else float("nan"),
        of_trained_5=100 * float(np.mean(ratios >= 5.0)) if len(ratios) else float("nan"),
        mean=float(ratios.mean()) if len(ratios) else float("nan"),
        ratios=_quantiles(ratios) if len(ratios) else (),
    )


def _quantiles(ratios: Array) -> tuple[float, ...]:
    """The ratios at every half percent of their distribution."""
    return tuple(float(ratio) for ratio in np.quantile(ratios, np.linspace(0, 1, 201)))
