"""Event by event: what the MILP made of the time to the next event, over what equal share made of it (paper 5.1.2).

As the authors' replayer writes it down: samples trained from one event to the next, less the lump of the rescaling that
the event brought and the lump of the preemption that ended the span.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bftrainer_replay.simulation.play import ReplayOutcome

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Speedups:
    """Shares of the events in percent; ``of_trained_N`` and ``mean`` where equal share trained anything; ``ratios`` sorted."""

    worse: float
    better_2: float
    better_5: float
    of_trained_2: float
    of_trained_5: float
    mean: float
    ratios: tuple[float, ...]


def outcomes_per_event(outcome: ReplayOutcome) -> Array:
    """Samples from each decision to the next, lumps taken off; the last span ends with the window."""
    samples = [entry.totals.samples for entry in outcome.entries]
    return np.diff(np.array([*samples, outcome.totals.samples]))


def compare(milp: Array, equal: Array) -> Speedups:
    """A span in which equal share loses samples and the MILP trains some counts as more than 5 times better."""
    assert len(milp) == len(equal), "both decide at the same events"
    some = (milp != 0) | (equal != 0)
    milp, equal = milp[some], equal[some]
    if not len(milp):
        nan = float("nan")
        return Speedups(nan, nan, nan, nan, nan, nan, ())
    trained = equal > 0
    ratios = np.sort(milp[trained] / equal[trained])

    def times(factor: float) -> float:
        return 100 * float(np.mean((milp > 0) & (milp >= factor * equal)))

    return Speedups(
        worse=100 * float(np.mean(milp < equal - 1e-6 * np.abs(equal))),
        better_2=times(2.0),
        better_5=times(5.0),
        of_trained_2=100 * float(np.mean(ratios >= 2.0)) if len(ratios) else float("nan"),
        of_trained_5=100 * float(np.mean(ratios >= 5.0)) if len(ratios) else float("nan"),
        mean=float(ratios.mean()) if len(ratios) else float("nan"),
        ratios=tuple(float(x) for x in np.quantile(ratios, np.linspace(0, 1, 201))) if len(ratios) else (),
    )
