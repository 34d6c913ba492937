"""Whether a checkpoint holds the weights of its own step. Pure.

In a rehearsal every step is reported with a digest of the weights, and every process with the
digest that it began with. So the step whose weights a process has loaded is known.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping

from bftrainer.console.rehearsal.record import Record
from bftrainer.console.rehearsal.scenario import ActKind
from bftrainer.wires.rank_line import RankLine

_REMEDY = (
    "save weights, optimizer and step of the same moment: after optimizer.step(), with "
    "the step that was reported"
)


def _may_be_loaded(step: int, saved_steps: list[int]) -> bool:
    """Whether the checkpoint that is loaded after a kill may be one of this step.

    The kill may have come between a save and its report, or an earlier checkpoint may be the last
    whole one.
    """
    return step > saved_steps[-1] or step in saved_steps


def of_another_step(record: Record) -> tuple[str, str] | None:
    """Return an observation and a remedy, if a start loaded weights that are known to be another
    step's; else None.
    """
    lines = [
        line
        for line in record.ranks
        if line.rank == 0 and line.weights is not None and line.begun is not None
    ]
    if not lines:
        return None
    initial_digest = lines[0].begun
    digests = {lines[0].step: lines[0].weights}  # the weights after each step
    for old, new in itertools.pairwise(lines):
        if new.incarnation != old.incarnation:
            observation = _load_problem(record, old, new, initial_digest, digests)
            if observation is not None:
                return observation, _REMEDY
        digests[new.step] = new.weights
    return None


def _load_problem(
    record: Record,
    old: RankLine,
    new: RankLine,
    initial_digest: str | None,
    digests: Mapping[int, str | None],
) -> str | None:
    """Say which weights a restart has loaded instead of those of the last checkpoint; None if it
    has loaded these, or it is not known.

    ``old`` is the last line before the restart, ``new`` the first one after it. ``digests`` are
    those of the weights after each step.
    """
    act = record.act_at(new.at_s)
    saved_steps = record.saved_steps(new.at_s)
    if not saved_steps or saved_steps[-1] not in digests:
        return None
    last_saved = saved_steps[-1]
    if new.begun == digests[last_saved]:
        return None
    # Only after a stop on request must the last checkpoint be the one that is loaded.
    is_planned = act is not None and act.kind is ActKind.START
    if is_planned and new.begun == initial_digest:
        return (
            f"after {act}: the weights are the initial ones, not the weights of step {last_saved}"
        )
    steps = [step for step, digest in digests.items() if digest == new.begun]
    if not steps:
        return None
    if not is_planned:
        may_be_right = any(_may_be_loaded(step, saved_steps) for step in steps)
        if new.begun == old.begun or may_be_right:
            return None
    return f"after {act}: the checkpoint of step {last_saved} holds the weights of step {steps[-1]}"
