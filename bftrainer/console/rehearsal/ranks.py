"""Whether all ranks have the same weights and learning rate, at every step that two of them have
reported. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable

from bftrainer.console.rehearsal.finding import RehearsalCheck, RehearsalFinding
from bftrainer.console.rehearsal.record import Record
from bftrainer.counted import counted
from bftrainer.wires.rank_line import RankLine, disagreement

_CHECK = RehearsalCheck("ranks", "all ranks have the same weights")
WATCH = (
    "progress.track, or report.watch(model, optimizer, sampler=sampler, rate=rate) on every rank"
)


def judge(record: Record) -> RehearsalFinding:
    """Compare the weights and rates of all ranks of a group, step by step."""
    if not any(line.weights is not None or line.rate is not None for line in record.ranks):
        return _CHECK.undecided("the ranks do not report their weights", WATCH)
    steps = [lines for lines in _lines_by_step(record.ranks) if len(lines) > 1]
    if not steps:
        return _CHECK.undecided("no two ranks have reported the same step", WATCH)
    for lines in steps:
        difference = disagreement(lines)
        if difference is None:
            continue
        observation = f"after {record.act_at(difference.line.at_s) or 'the start'}: {difference}"
        if difference.quantity == "rate":
            return _CHECK.failed(
                observation,
                "compute the rate on every rank before each step (progress.LearningRate in "
                "keep, rate.apply): a reset callback does not run on workers that join",
            )
        return _CHECK.failed(
            observation,
            "synchronize all that a step depends on, and use the same on every rank: "
            "weights, optimizer, rate",
        )
    sizes = sorted({lines[0].world_size for lines in steps})
    has_rates = any(line.rate is not None for line in record.ranks)
    values = "weights and learning rates" if has_rates else "weights"
    return _CHECK.passed(
        f"equal {values} at {counted(len(steps), 'step')} with {', '.join(map(str, sizes))} workers"
    )


def _lines_by_step(lines: Iterable[RankLine]) -> list[list[RankLine]]:
    """Group the lines by group of workers and step, in order of time; of each rank the last line
    counts.
    """
    by_step: dict[tuple[object, int], dict[int, RankLine]] = {}
    for line in lines:
        by_step.setdefault((line.group, line.step), {})[line.rank] = line
    return [list(by_rank.values()) for by_rank in by_step.values()]
