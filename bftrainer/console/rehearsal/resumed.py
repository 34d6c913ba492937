"""Whether a checkpoint restores weights and optimizer: compares a run that was stopped with one
that was not. Pure.

A lost optimizer state has a signature: the first step after the restart has the same loss (weights
and data were restored), the following steps do not (equal gradients made different updates). This
is visible only if two runs give equal losses before the stop. If they do not, or if the data arrive
in another order, only a loss that falls back is detected.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bftrainer.console.rehearsal.finding import RehearsalCheck, RehearsalFinding
from bftrainer.console.rehearsal.record import Line
from bftrainer.counted import counted
from bftrainer.wires.bounds import shown

CHECK = RehearsalCheck("state", "weights and optimizer are restored")

EXACT = 1e-9
"""Largest relative difference of two losses that count as equal."""
ROUNDING = 1e-5
"""Saving weights with less precision than they are computed with changes the loss by less than
this.
"""
DRIFT = 1e-3
"""Largest difference that rounding may have grown to by the end of the rehearsal."""
ENOUGH = 3
"""Required number of steps with a loss."""
_STANDARD = frozenset(
    {"time", "phase", "incarnation", "world_size", "step", "samples", "loss", "formed"}
)


def not_finite(lines: Iterable[Line]) -> str:
    """Say which loss is no finite number, the first one; empty if there is none."""
    line = next(
        (line for line in lines if (loss := _loss(line)) is not None and not math.isfinite(loss)),
        None,
    )
    return "" if line is None else f"the loss is {shown(line['loss'])} at step {line.get('step')}"


def compare(
    reference: Sequence[Line], before: Sequence[Line], after: Sequence[Line]
) -> RehearsalFinding:
    """Compare a run with a stop with ``reference``, the same work on the same size without a stop.

    ``before`` and ``after`` are the lines of the run before and after its stop.
    """
    plain = {int(line["step"]): line for line in reversed(reference) if _loss(line) is not None}
    ahead = [
        (plain[line["step"]], line)
        for line in before
        if line["step"] in plain and _loss(line) is not None
    ]
    pairs = [
        (plain[line["step"]], line)
        for line in after
        if line["step"] in plain and _loss(line) is not None
    ]
    if not plain or not any(_loss(line) is not None for line in (*before, *after)):
        return CHECK.undecided(
            "no loss is reported",
            "report the loss, and a checksum of the weights if that is cheap",
        )
    if len(pairs) < ENOUGH or not ahead:
        return CHECK.undecided(
            f"only {counted(len(pairs), 'step')} after the stop can be compared",
            "give the rehearsal more steps",
        )
    noise = max(_difference(*pair) for pair in ahead)
    first, later = _difference(*pairs[0], ("loss",)), [_difference(*pair) for pair in pairs]
    since = f"{counted(len(pairs), 'step')} after the stop, compared with a run without one"
    if noise > EXACT:
        return _by_level(
            plain,
            pairs,
            f"two runs differ by {noise:.1g} before any stop, so single steps are inconclusive "
            f"({since})",
        )
    if first > ROUNDING:
        return _by_level(
            plain,
            pairs,
            f"the first loss after the stop differs by {first:.1g}: other data, or other "
            f"weights ({since})",
        )
    if max(later) <= EXACT:
        return CHECK.passed(f"equal numbers at each of {since}")
    if first > EXACT and max(later) <= DRIFT:
        return CHECK.passed(f"equal to {max(later):.1g}, within rounding, at each of {since}")
    seen = (
        "the first loss after the stop is equal, the next ones differ by up to "
        f"{max(later):.1g} ({since})"
    )
    return CHECK.failed(
        seen,
        "save the optimizer state (momentum, moments, learning-rate schedule) with the "
        "weights, and load it",
    )


def _by_level(
    plain: Mapping[int, Line], pairs: Sequence[tuple[Line, Line]], seen: str
) -> RehearsalFinding:
    """Judge runs of which single steps cannot be compared, by the level of the loss alone.

    Only a loss that returns to near its initial value, far beyond its scatter, is a failure.
    ``seen`` says why the steps are no evidence.
    """
    losses = [_loss(plain[step]) or 0.0 for step in sorted(plain)]
    wanted = [_loss(old) or 0.0 for old, _ in pairs]
    reached = [_loss(new) or 0.0 for _, new in pairs]
    start = statistics.fmean(losses[:ENOUGH])
    gained = start - statistics.fmean(wanted)
    scatter = statistics.fmean(abs(b - a) for a, b in itertools.pairwise(losses))
    if gained > 4 * scatter and start - statistics.fmean(reached[:ENOUGH]) < 0.5 * (
        start - statistics.fmean(wanted[:ENOUGH])
    ):
        return CHECK.failed(
            f"the loss falls back from {wanted[0]:.4g} to {reached[0]:.4g}; its initial value "
            f"was {losses[0]:.4g}; {seen}",
            "save the weights and load them",
        )
    return CHECK.undecided(
        f"the loss continues without a jump; {seen}",
        "for a conclusive check, make runs repeatable (seeds; save the state of the sampler "
        "and the random generators)",
    )


def _loss(line: Mapping[str, Any]) -> float | None:
    value = line.get("loss")
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _difference(old: Line, new: Line, keys: Sequence[str] | None = None) -> float:
    """Return the largest relative difference of two lines of one step, in the loss and the script's
    other numbers.

    ``keys``: compare these numbers only.
    """
    own = keys or [key for key in old if key not in _STANDARD or key == "loss"]
    worst = 0.0
    for key in own:
        a, b = old.get(key), new.get(key)
        if (
            isinstance(a, (int, float))
            and isinstance(b, (int, float))
            and a != b
            and str(a) != str(b)
        ):
            apart = abs(a - b) / max(abs(a), abs(b))
            worst = max(worst, apart if math.isfinite(apart) else math.inf)
    return worst
