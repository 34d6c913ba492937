"""What the replays of a report say at its top: the training on the idle nodes, and the settings that do more or less."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bftrainer.domain.model import Trainer
from bftrainer_replay.analysis.characterize import Characteristics
from bftrainer_replay.logs.model import LogWindow
from bftrainer_replay.report.plan import ReportPlan
from bftrainer_replay.report.prices import SitePrices
from bftrainer_replay.report.used_nodes import UsedNodes, one_node_hours
from bftrainer_replay.report.words import about, compared, more_or_less, share_text, span_text
from bftrainer_replay.simulation.bins import Bins
from bftrainer_replay.simulation.play import MOST, enough_trainers
from bftrainer_replay.sweep.cell import Cell
from bftrainer_replay.sweep.detail import read_detail
from bftrainer_replay.sweep.results import SweepRow
from bftrainer_replay.sweep.sample import LogSample

MONTH_H = 30 * 24.0
_ALIKE = 0.003  # outcomes that differ by less are called equal
_MATTERS = 0.03  # of the idle node-hours, between numbers of trainings


@dataclass(frozen=True, slots=True)
class Trainings:
    """The simulated trainers. ``rates`` says where their curves come from, ``doubt`` is a warning about them.

    ``table`` is the name of the user's own trainer table, if any.
    """

    trainers: Sequence[Trainer]
    rates: str
    doubt: str = ""
    table: str = ""

    @property
    def warning(self) -> str:
        """What a reader must know before the first simulated figure."""
        models = sorted({trainer.model for trainer in self.trainers})
        few = f"{len(models)} sample models" if len(models) > 1 else f"one sample model, {models[0]},"
        whose = (
            f"The trainings are those of {self.table}."
            if self.table
            else f"Copies of {few} stand for your users' trainings."
        )
        return f"This part is a simulation, not a measurement on this cluster. {whose} {self.doubt or f'Rates: {self.rates}'}."


def training_sentence(found: Characteristics, sample: LogSample, base: SweepRow, prices: SitePrices) -> str:
    """The share of the idle node-hours in training, how many nodes these are, and what that is worth."""
    used = UsedNodes.of(base)
    work = found.eq_nodes * one_node_hours(base) / used.idle_node_h if used.idle_node_h else 0.0
    nodes, left = about(found.eq_nodes * used.share), 1 - used.share
    month_h = found.eq_nodes * MONTH_H * used.share
    over = f"the other {share_text(left)} would have stayed idle" if left > 1e-9 else "none would have stayed idle"
    if base.log_usable_share is not None and 1 - base.log_usable_share > left / 2 > 0.005:
        over += ", mostly when more nodes were idle than these trainings can use at most"
    spread = "" if sample.is_whole else f" {_estimated_from(base, sample)}"
    return (
        f"With at most {base.cell.max_parallel} trainings at once, training would have used {share_text(used.share)} of the "
        f"idle node-hours, about {about(month_h)} node-hours in 30 days (simulated); {over}.{spread} On average {nodes} nodes "
        f"would have trained, and done as much as {about(work)} nodes that train one model each without interruption: "
        "interruptions, and spreading a model over several nodes, cost the rest."
        f"{prices.training_words(month_h, work * MONTH_H)}"
    )


def _estimated_from(base: SweepRow, sample: LogSample) -> str:
    """What the estimate of the share stands on: so many hours, and how different they are from each other and the rest."""
    hours = f"{span_text(sample.replayed_h)} of the log's {span_text(sample.log.span_s / 3600)} were simulated"
    whole = UsedNodes.of(base)
    if share_text(whole.replayed_share) != share_text(whole.share):
        rare = "more frequent" if whole.correction > 1 else "rarer"
        return (
            f"This is an estimate for the whole log: {hours}. It allows for times with more idle nodes than the trainings can "
            f"use, which are {rare} in these hours than in the rest."
        )
    shares = [UsedNodes.of(part).share for part in base.parts]
    if len(shares) < 2:
        return f"This is an estimate: {hours}."
    unit = _unit(float(base.parts[0].result["span_h"]))
    return f"This is an estimate: {hours} ({share_text(min(shares))} to {share_text(max(shares))} in a single {unit})."


def settings_sentence(
    window: LogWindow, plan: ReportPlan, rows: Mapping[Cell, SweepRow], trainers: Sequence[Trainer]
) -> str:
    """The base compared with equal shares and with the best settings of this report, in one-node hours."""
    base = rows[plan.base]
    equal = next((rows[c] for c in plan.policies if c.policy == "equal-share"), None)
    words = []
    if equal is not None and one_node_hours(equal):
        ratio = one_node_hours(base) / one_node_hours(equal) - 1
        gain = (
            "as much work as"
            if abs(ratio) < _ALIKE
            else f"{more_or_less(ratio)} {'more' if ratio > 0 else 'less'} work than"
        )
        words.append(
            f"bftrainer's choice of nodes for each training does {gain} giving each an equal number of "
            f"nodes{_range_of_gains(base, equal)}."
        )
    words = [_numbers(plan, rows), _why_so_many(window, base, trainers), *words, _best(plan, rows)]
    return " ".join(word for word in words if word)


def _by_number(plan: ReportPlan, rows: Mapping[Cell, SweepRow]) -> list[SweepRow]:
    """The rows of other numbers of trainings at once, ascending; none if the number does not matter."""
    tried = [rows[cell] for cell in sorted(plan.parallel, key=lambda cell: cell.max_parallel)]
    shares = [UsedNodes.of(row).share for row in tried]
    return tried if len(tried) > 1 and max(shares) - min(shares) >= _MATTERS else []


def _numbers(plan: ReportPlan, rows: Mapping[Cell, SweepRow]) -> str:
    """What other numbers of trainings at once use, and what the largest does more."""
    base, tried = rows[plan.base], _by_number(plan, rows)
    if not tried:
        return ""
    told = [f"{row.cell.max_parallel} use {share_text(UsedNodes.of(row).share)}" for row in tried]
    listed = f"{', '.join(told[:-1])} and {told[-1]} of the idle node-hours"
    gain = one_node_hours(tried[-1]) / one_node_hours(base) - 1 if one_node_hours(base) else 0.0
    more = ""
    if tried[-1] is not base and gain > _ALIKE:
        largest, number = tried[-1].cell.max_parallel, base.cell.max_parallel
        more = f"; {largest} do {compared(gain)} work in total than {number}, and each takes longer"
    return f"How much is used depends above all on how many trainings there are at once: {listed}{more}."


def _best(plan: ReportPlan, rows: Mapping[Cell, SweepRow]) -> str:
    """The best of the other settings tried, and whether better ones may lie beyond."""
    base = rows[plan.base]
    numbers = () if _by_number(plan, rows) else plan.parallel  # what `_numbers` has told is not told again
    tried = [
        rows[c]
        for c in dict.fromkeys((plan.base, *plan.objectives, *plan.forward, *numbers))
        if c.policy == plan.base.policy
    ]
    best = max(tried, key=one_node_hours)
    gain = one_node_hours(best) / one_node_hours(base) - 1 if one_node_hours(base) else 0.0
    if best.cell == plan.base or gain <= _ALIKE:
        return "None of the other settings tried does more work."
    used = share_text(UsedNodes.of(best).share)
    changed = [n for n in ("objective", "forward_s", "max_parallel") if getattr(best.cell, n) != getattr(plan.base, n)]
    largest = max(cell.max_parallel for cell in plan.parallel)
    if changed == ["max_parallel"] and best.cell.max_parallel > plan.base.max_parallel:
        edge = ", the largest number tried," if best.cell.max_parallel == largest else ""
        return (
            f"More trainings at once do more work in total, but each takes longer: with up to {best.cell.max_parallel}{edge} "
            f"they do {compared(gain)}, on {used} of the idle node-hours."
        )
    names = " and ".join(f"{name} = {getattr(best.cell, name)}" for name in changed)
    return f"The best settings tried are {names}: {compared(gain)} work, on {used} of the idle node-hours."


def _why_so_many(window: LogWindow, base: SweepRow, trainers: Sequence[Trainer]) -> str:
    """Where the number of trainings at once comes from."""
    count, largest = base.cell.max_parallel, max(trainer.max_nodes for trainer in trainers)
    if count != enough_trainers(window, trainers):
        return f"The number {count} was given (--max-parallel)."
    if count == MOST:
        return (
            f"The number to look at is how many your users have; {count} is only the largest default (--max-parallel)."
        )
    return (
        f"The number to look at is how many your users have; {count} is only a default: with up to {largest} nodes each, "
        "enough for twice the mean number of idle nodes (--max-parallel)."
    )


def _range_of_gains(base: SweepRow, equal: SweepRow) -> str:
    """The least and the largest gain over equal shares in a part of the log, or in a week (day) of a log replayed as a whole.

    Weeks compare samples: only the sum of a replay is known in one-node hours.
    """
    if base.parts:
        unit = _unit(float(base.parts[0].result["span_h"]))
        pairs = [(one_node_hours(a), one_node_hours(b)) for a, b in zip(base.parts, equal.parts, strict=True)]
    else:
        unit, pairs = _by_time(base, equal)
    gains = [a / b - 1 for a, b in pairs if b > 0]
    if len(gains) < 2:
        return ""
    return f" (from {compared(min(gains))} to {compared(max(gains))} in a single {unit})"


def _unit(hours: float) -> str:
    """What a part of a log of this length is called."""
    return "week" if hours > 24 else "day" if hours > 6 else "part of the log"


def _by_time(base: SweepRow, equal: SweepRow) -> tuple[str, list[tuple[float, float]]]:
    """Samples of both in each whole week, or each day if the log is shorter than two weeks."""
    if "detail" not in base.result or "detail" not in equal.result:
        return "", []
    one, two = (read_detail(row.result["detail"]).bins for row in (base, equal))
    weeks = float(base.result["span_h"]) >= 2 * 168.0
    step_s = 3600 * (168.0 if weeks else 24.0)
    edges_s = np.arange(one.edges_s[0], one.edges_s[-1] + 1, step_s)

    def samples(bins: Bins) -> list[float]:
        done = np.concatenate(([0.0], np.cumsum(bins.samples)))
        return np.diff(np.interp(edges_s, bins.edges_s, done)).tolist()  # type: ignore[no-any-return]

    return "week" if weeks else "day", list(zip(samples(one), samples(two), strict=True))
