"""How an evaluation function falls during training: families with the shapes of [thesis Fig. 3.1].

"Within the first 20 % of the total training time, 65 %, 98 %, and 90 % of the maximum reduction has
been achieved for VAE, Bi-RNN and GRU" ([thesis 3.1]). Values are normalized: 1 at the start, 0 when
trained, exponential in between, which is the simplest shape with one parameter to fit. MNIST and
LSTM are not in that figure; their curves are assumptions, and generated workloads say so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

EARLY = 0.2


@dataclass(frozen=True, slots=True)
class LossCurve:
    """The loss E of a training as a function of its completed share; ``early`` is the reduction
    reached at 20 %.
    """

    early: float

    def at(self, done: float) -> float:
        """Return E at the completed share ``done``: 1 at 0, 0 at 1."""
        rate = _decay_rate(self.early)
        total_reduction = -math.expm1(-rate)
        return 1.0 + math.expm1(-rate * done) / total_reduction


@lru_cache
def _decay_rate(early: float) -> float:
    """Return the k with (1 - e^(-0.2 k)) / (1 - e^(-k)) = early, by bisection."""
    low, high = 1e-6, 200.0
    for _ in range(200):
        middle = (low + high) / 2
        if math.expm1(-EARLY * middle) / math.expm1(-middle) < early:
            low = middle
        else:
            high = middle
    return (low + high) / 2


FAMILIES = {
    "vae": LossCurve(0.65),
    "birnn": LossCurve(0.98),
    "gru": LossCurve(0.90),
    "mnist": LossCurve(0.95),  # assumed
    "lstm": LossCurve(0.80),  # assumed
}
