"""Whether a checkpoint holds the weights of its own step. Pure.

In a rehearsal every step is reported with a digest of the weights, and every process with the
digest that it began with. So the step whose weights a process has loaded is known.
"""

from __future__ import annotations

import itertools

from bftrainer.console.rehearsal.record import Record
from bftrainer.console.rehearsal.scenario import ActKind

_REMEDY = (
    "save weights, optimizer and step of the same moment: after optimizer.step(), with "
    "the step that was reported"
)


def _may_hold(step: int, saved: list[int]) -> bool:
    """Whether the checkpoint that is loaded after a kill may be one of this step.

    The kill may have come between a save and its report, or an earlier checkpoint may be the last
    whole one.
    """
    return step > saved[-1] or step in saved


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
    initial, digests = lines[0].begun, {lines[0].step: lines[0].weights}
    for old, new in itertools.pairwise(lines):
        if new.incarnation != old.incarnation:
            act = record.act_at(new.at_s)
            saved = record.saved_by(new.at_s)
            planned = act is not None and act.kind is ActKind.START
            if saved and saved[-1] in digests and new.begun != digests[saved[-1]]:
                if planned and new.begun == initial:
                    return (
                        f"after {act}: the weights are the initial ones, not the weights of "
                        f"step {saved[-1]}",
                        _REMEDY,
                    )
                steps = [step for step, digest in digests.items() if digest == new.begun]
                if steps and (
                    planned
                    or (
                        new.begun != old.begun and not any(_may_hold(step, saved) for step in steps)
                    )
                ):
                    return (
                        f"after {act}: the checkpoint of step {saved[-1]} holds the weights of "
                        f"step {steps[-1]}",
                        _REMEDY,
                    )
        digests[new.step] = new.weights
    return None
