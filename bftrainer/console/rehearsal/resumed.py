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
from bftrainer.wires.bounds import value_text

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
    """Name the first loss that is no finite number; empty if there is none."""
    for line in lines:
        loss = _loss_of_line(line)
        if loss is not None and not math.isfinite(loss):
            return f"the loss is {value_text(line['loss'])} at step {line.get('step')}"
    return ""


def compare(
    reference: Sequence[Line], before: Sequence[Line], after: Sequence[Line]
) -> RehearsalFinding:
    """Compare a run with a stop with ``reference``, the same work on the same size without a stop.

    ``before`` and ``after`` are the lines of the run before and after its stop. All lines have a
    step.
    """
    # Of several lines of one step, the first one counts.
    reference_by_step = {
        int(line["step"]): line for line in reversed(reference) if _loss_of_line(line) is not None
    }
    pairs_before = _lines_with_reference(reference_by_step, before)
    pairs = _lines_with_reference(reference_by_step, after)
    has_loss = any(_loss_of_line(line) is not None for line in (*before, *after))
    if not reference_by_step or not has_loss:
        return CHECK.undecided(
            "no loss is reported",
            "report the loss, and a checksum of the weights if that is cheap",
        )
    if len(pairs) < ENOUGH or not pairs_before:
        return CHECK.undecided(
            f"only {counted(len(pairs), 'step')} after the stop can be compared",
            "give the rehearsal more steps",
        )
    noise = max(_relative_difference(*pair) for pair in pairs_before)
    first_difference = _relative_difference(*pairs[0], ("loss",))
    largest_difference = max(_relative_difference(*pair) for pair in pairs)
    basis = f"{counted(len(pairs), 'step')} after the stop, compared with a run without one"
    if noise > EXACT:
        return _finding_by_level(
            reference_by_step,
            pairs,
            f"two runs differ by {noise:.1g} before any stop, so single steps are inconclusive "
            f"({basis})",
        )
    if first_difference > ROUNDING:
        return _finding_by_level(
            reference_by_step,
            pairs,
            f"the first loss after the stop differs by {first_difference:.1g}: other data, or "
            f"other weights ({basis})",
        )
    if largest_difference <= EXACT:
        return CHECK.passed(f"equal numbers at each of {basis}")
    if first_difference > EXACT and largest_difference <= DRIFT:
        return CHECK.passed(
            f"equal to {largest_difference:.1g}, within rounding, at each of {basis}"
        )
    # Equal weights and data, but other updates: see the signature above.
    return CHECK.failed(
        "the first loss after the stop is equal, the next ones differ by up to "
        f"{largest_difference:.1g} ({basis})",
        "save the optimizer state (momentum, moments, learning-rate schedule) with the "
        "weights, and load it",
    )


def _lines_with_reference(
    reference_by_step: Mapping[int, Line], lines: Sequence[Line]
) -> list[tuple[Line, Line]]:
    """Return each line that has a loss, with the line of the reference for its step, if any:
    (reference, line).
    """
    return [
        (reference_by_step[line["step"]], line)
        for line in lines
        if line["step"] in reference_by_step and _loss_of_line(line) is not None
    ]


def _finding_by_level(
    reference_by_step: Mapping[int, Line], pairs: Sequence[tuple[Line, Line]], reason: str
) -> RehearsalFinding:
    """Judge runs of which single steps cannot be compared, by the level of the loss alone.

    Only a loss that returns to near its initial value, far beyond its scatter, is a failure.
    ``reason`` says why the steps are no evidence.
    """
    losses = [_loss_of_line(reference_by_step[step]) or 0.0 for step in sorted(reference_by_step)]
    reference_losses = [_loss_of_line(old) or 0.0 for old, _ in pairs]
    resumed_losses = [_loss_of_line(new) or 0.0 for _, new in pairs]
    initial = statistics.fmean(losses[:ENOUGH])
    scatter = statistics.fmean(abs(b - a) for a, b in itertools.pairwise(losses))
    # How much the loss had fallen: in the reference after the stop, and just after it in both runs.
    drop = initial - statistics.fmean(reference_losses)
    reference_drop = initial - statistics.fmean(reference_losses[:ENOUGH])
    resumed_drop = initial - statistics.fmean(resumed_losses[:ENOUGH])
    if drop > 4 * scatter and resumed_drop < 0.5 * reference_drop:
        return CHECK.failed(
            f"the loss falls back from {reference_losses[0]:.4g} to {resumed_losses[0]:.4g}; "
            f"its initial value was {losses[0]:.4g}; {reason}",
            "save the weights and load them",
        )
    return CHECK.undecided(
        f"the loss continues without a jump; {reason}",
        "for a conclusive check, make runs repeatable (seeds; save the state of the sampler "
        "and the random generators)",
    )


def _loss_of_line(line: Mapping[str, Any]) -> float | None:
    """Return the loss of a line; None if the line has no number for it."""
    value = line.get("loss")
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _relative_difference(old: Line, new: Line, keys: Sequence[str] | None = None) -> float:
    """Return the largest relative difference of two lines of one step, in the loss and the script's
    other numbers, or only in those of ``keys``.

    A difference from infinity or NaN is infinite; two NaNs are equal.
    """
    compared_keys = keys or [key for key in old if key not in _STANDARD or key == "loss"]
    largest = 0.0
    for key in compared_keys:
        a, b = old.get(key), new.get(key)
        if not isinstance(a, (int, float)) or not isinstance(b, (int, float)):
            continue
        if a == b or str(a) == str(b):
            continue
        difference = abs(a - b) / max(abs(a), abs(b))
        largest = max(largest, difference if math.isfinite(difference) else math.inf)
    return largest
