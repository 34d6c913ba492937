"""Whether weights and optimizer come back with a checkpoint: a run that was stopped, against one that was not. Pure.

The signature of a lost optimizer state: the first step after the start has the same loss (weights and data came back), the
following ones have not (the same gradients made other updates). It can be read off only where two runs give the same losses
before the stop. Where they do not, or where the data come in another order, only a loss that falls back is seen.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bftrainer.rehearsal.finding import CheckVerdict
from bftrainer.rehearsal.record import Line

EXACT = 1e-9
"""Relative difference of two losses that are the same number."""
ROUNDING = 1e-5
"""Weights that were saved with less precision than they are computed with change the loss by less."""
DRIFT = 1e-3
"""What rounding may have grown to within the rehearsal."""
ENOUGH = 3
"""Steps with a loss that are needed."""
_STANDARD = frozenset({"time", "phase", "incarnation", "world_size", "step", "samples", "loss", "formed"})


@dataclass(frozen=True, slots=True)
class Comparison:
    """The verdict, what it rests on, what to do."""

    verdict: CheckVerdict
    seen: str
    remedy: str = ""


def compare(reference: Sequence[Line], before: Sequence[Line], after: Sequence[Line]) -> Comparison:
    """``reference``: a run without a stop; ``before`` and ``after``: the same work on the same size, stopped in between."""
    plain = {int(line["step"]): line for line in reversed(reference) if _loss(line) is not None}
    ahead = [(plain[line["step"]], line) for line in before if line["step"] in plain and _loss(line) is not None]
    pairs = [(plain[line["step"]], line) for line in after if line["step"] in plain and _loss(line) is not None]
    if not plain or not any(_loss(line) is not None for line in (*before, *after)):
        return Comparison(
            CheckVerdict.CANNOT_TELL,
            "no loss is reported",
            "report the loss, and a checksum of the weights if that is cheap",
        )
    if len(pairs) < ENOUGH or not ahead:
        return Comparison(
            CheckVerdict.CANNOT_TELL,
            f"only {len(pairs)} steps after the stop can be compared",
            "give the rehearsal more steps",
        )
    noise = max(_difference(*pair) for pair in ahead)
    first, later = _difference(*pairs[0], ("loss",)), [_difference(*pair) for pair in pairs]
    since = f"{len(pairs)} steps after the stop against a run without one"
    if noise > EXACT:
        return _by_level(
            plain, pairs, f"two runs differ by {noise:.1g} before any stop, so single steps say nothing ({since})"
        )
    if first > ROUNDING:
        return _by_level(
            plain,
            pairs,
            f"the first loss after the stop differs by {first:.1g}: other data, or other weights ({since})",
        )
    if max(later) <= EXACT:
        return Comparison(CheckVerdict.PASS, f"the same numbers at each of {since}")
    if first > EXACT and max(later) <= DRIFT:
        return Comparison(CheckVerdict.PASS, f"the same to {max(later):.1g}, as rounding makes it, at each of {since}")
    seen = f"the first loss after the stop is the same, the next ones differ by up to {max(later):.1g} ({since})"
    return Comparison(
        CheckVerdict.FAIL,
        seen,
        "save the optimizer's state (momentum, moments, learning-rate schedule) with the weights; load it",
    )


def _by_level(plain: Mapping[int, Line], pairs: Sequence[tuple[Line, Line]], seen: str) -> Comparison:
    """Only a loss that is back near its beginning, far beyond its scatter, is told from chance."""
    losses = [_loss(plain[step]) or 0.0 for step in sorted(plain)]
    wanted = [_loss(old) or 0.0 for old, _ in pairs]
    found = [_loss(new) or 0.0 for _, new in pairs]
    start = statistics.fmean(losses[:ENOUGH])
    gained = start - statistics.fmean(wanted)
    scatter = statistics.fmean(abs(b - a) for a, b in itertools.pairwise(losses))
    if gained > 4 * scatter and start - statistics.fmean(found[:ENOUGH]) < 0.5 * (
        start - statistics.fmean(wanted[:ENOUGH])
    ):
        return Comparison(
            CheckVerdict.FAIL,
            f"the loss falls back from {wanted[0]:.4g} to {found[0]:.4g}, it began at {losses[0]:.4g}; {seen}",
            "save the weights and load them",
        )
    return Comparison(
        CheckVerdict.CANNOT_TELL,
        f"the loss goes on without a jump; {seen}",
        "make runs repeatable (seeds; save the sampler's and the generators' state), then this can be told",
    )


def _loss(line: Mapping[str, Any]) -> float | None:
    value = line.get("loss")
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _difference(old: Line, new: Line, keys: Sequence[str] | None = None) -> float:
    """The largest relative difference of the loss and of the script's own numbers."""
    own = keys or [key for key in old if key not in _STANDARD or key == "loss"]
    worst = 0.0
    for key in own:
        a, b = old.get(key), new.get(key)
        if isinstance(a, (int, float)) and isinstance(b, (int, float)) and a != b:
            worst = max(worst, abs(a - b) / max(abs(a), abs(b)))
    return worst
