"""The worth of nodes to a trainer while their cohorts last: the model behind the policy ``cohort``.
Pure arithmetic.

A cohort is the set of nodes that joined the pool together. A *hit* takes nodes of it, usually all
that are left. The mean time to the next hit grows with the age of the cohort: a job that has left
nodes idle for an hour is likely to be followed by another such hour. All times are in seconds;
arrays have one element per trainer, or per trainer and count.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from bftrainer.errors import InvalidValueError

Array = npt.NDArray[np.float64]
_PAPER_SCALE_UP_S = 18.0
"""R_up of the paper's trainers, at which ``horizon_s`` is the horizon."""


@dataclass(frozen=True, slots=True)
class CohortModel:
    """The constants of the policy ``cohort``, fitted to the first Summit week. Its options have the
    same names.

    A cohort of age a, at least ``youngest_s``, is hit after ``first_s`` + a seconds in the mean;
    beyond ``knee_s``, only ``late`` of the further age counts. Single nodes stay ``outlast`` times
    as long as their cohort. A trainer on one cohort of k nodes is hit, but rarely by the loss of
    some of its nodes: the larger the cohort, by ``at_once`` * ln k, the more often all of it goes
    and no worker is left to stall. ``horizon_s`` is how far the policy looks ahead, ``successor_s``
    how far ahead a completion costs the start of the next trainer. Nodes that join within
    ``together_s`` are one cohort.
    """

    first_s: float = 140.0
    knee_s: float = 1200.0
    late: float = 0.35
    youngest_s: float = 60.0
    outlast: float = 1.3
    at_once: float = 0.8
    horizon_s: float = 300.0
    successor_s: float = 300.0
    together_s: float = 5.0

    def __post_init__(self) -> None:
        """Raise :class:`InvalidValueError` for an option that is out of its range."""
        for field in fields(self):
            value = getattr(self, field.name)
            may_be_0 = field.name in ("late", "at_once", "knee_s", "youngest_s", "together_s")
            if not (math.isfinite(value) and (value > 0 or (may_be_0 and value == 0))):
                bound = "at least 0" if may_be_0 else "above 0"
                raise InvalidValueError(
                    f"policy cohort: {field.name} must be finite and {bound}, got {value:g}"
                )

    def scaled_horizon_s(self, scale_up_s: float) -> float:
        """Return the horizon in seconds: how far to look ahead if the most expensive growth takes
        ``scale_up_s``. This is not the T_fwd of Eqn 16.
        """
        return self.horizon_s * math.pow(max(scale_up_s / _PAPER_SCALE_UP_S, 0.1), 0.9)

    def mean_to_hit_s(self, age_s: float) -> float:
        """Return the mean time to the next hit on a cohort of this age; below ``youngest_s`` it is
        that of ``youngest_s``.
        """
        age_s = max(age_s, self.youngest_s)
        return self.first_s + min(age_s, self.knee_s) + self.late * max(age_s - self.knee_s, 0.0)

    def useful_s(self, age_s: float, within_s: float) -> float:
        """Return the expected seconds within ``within_s`` that a node stays whose cohort (the nodes
        that joined with it) is ``age_s`` old.
        """
        lasts_s = self.outlast * self.mean_to_hit_s(age_s)
        # The integral, over the horizon, of the probability to stay for t seconds: lasts_s /
        # (lasts_s + t).
        return lasts_s * math.log1p(within_s / lasts_s)

    def hit_probability(self, age_s: float, within_s: float) -> float:
        """Return the probability that a preemption takes nodes of a cohort of this age within
        ``within_s`` seconds.
        """
        return within_s / (self.mean_to_hit_s(age_s) + within_s)

    def partial_hit_share(self, nodes: Array) -> Array:
        """Return the share of the hits that leave some nodes of a trainer on a single cohort, by
        its number of ``nodes``; 0 for one node.
        """
        return 1.0 - 1.0 / (1.0 + self.at_once * np.log(np.maximum(nodes, 1.0)))


@dataclass(frozen=True, slots=True)
class CohortCosts:
    """What the worth of a trainer depends on besides its nodes.

    Per trainer, shape (J, 1): R_up (``up_s``), R_dw (``down_s``) and the ``remaining`` samples
    (infinite if unknown). For all: the horizon ``within_s``, and the model.
    """

    up_s: Array
    down_s: Array
    remaining: Array
    within_s: float
    model: CohortModel

    def worth(
        self, value: Array, rate: Array, share_s: Array, hits: Array, stall_s: Array
    ) -> Array:
        """Return what each trainer is expected to do within the horizon, in the objective's unit; 0
        where ``value`` is 0.

        ``value`` and ``rate`` are O_j(n) under the objective and in samples per second, ``share_s``
        the mean useful seconds of its nodes (until they are expected to be lost), ``hits`` the
        expected number of preemptions, ``stall_s`` the stall that is left. The nearer its end, the
        more of the start of its successor, the next trainer on these nodes, counts as a cost.
        """
        # In how many seconds it is done at this size; never without progress or a known length.
        end_s = stall_s + np.divide(
            self.remaining, rate, out=np.full(rate.shape, np.inf), where=rate > 0
        )
        successor_s = self.up_s / (1.0 + end_s / self.model.successor_s)
        # The stall after each expected preemption takes its share of the horizon.
        lasting_s = share_s * np.exp(-self.down_s * hits / self.within_s)
        worth: Array = value * (lasting_s - stall_s - successor_s)
        return worth
