"""The top of a report: four sentences that a reader without the rest of the page can trust, and one bar.

Every share is of something that the sentence names, and all figures are of the same period. The share of the idle node-hours
that training uses stands first. The efficiency U is further down: it compares with as many dedicated nodes under the same limit
of concurrent trainers, so it can be high while most idle nodes stay unused.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from bftrainer_replay.analysis.characterize import Characteristics
from bftrainer_replay.analysis.idle_causes import IdleCause
from bftrainer_replay.logs.needs import Fact
from bftrainer_replay.report.page import BarMark, BarPart
from bftrainer_replay.report.plan import ReportPlan
from bftrainer_replay.report.prices import NO_PRICES, SitePrices
from bftrainer_replay.report.used_nodes import UsedNodes, one_node_hours, spread_text
from bftrainer_replay.simulation.bins import Bins
from bftrainer_replay.sweep.cell import Cell
from bftrainer_replay.sweep.detail import read_detail
from bftrainer_replay.sweep.results import SweepRow
from bftrainer_replay.sweep.sample import LogSample

MONTH_H = 30 * 24.0
_ALIKE = 0.003  # outcomes that differ by less are called equal


def sentences(
    found: Characteristics,
    plan: ReportPlan,
    sample: LogSample,
    rows: Mapping[Cell, SweepRow],
    prices: SitePrices = NO_PRICES,
) -> tuple[str, str, str, str]:
    """What was idle, what a waiting job could have used, what training used, and which settings to use."""
    return (
        _idle_sentence(found, prices),
        _queue_sentence(found),
        _training_sentence(found, sample, rows[plan.base], prices),
        _settings_sentence(plan, rows),
    )


def bar(found: Characteristics, row: SweepRow) -> tuple[BarPart, ...]:
    """The node-hours of the whole cluster, as shares. A log without nodes that are down cannot tell them from busy ones."""
    used = UsedNodes.of(row)
    trained, idle = found.idle_share * used.share, found.idle_share
    out = found.down_node_h / found.span_h / found.machine_nodes
    return (
        BarPart("busy" if out else "busy or out of service", 1 - idle - out, "soft"),
        *((BarPart("out of service or reserved", out, "c6"),) if out else ()),
        BarPart("idle, used for training", trained, "c3"),
        BarPart("idle, left over", idle - trained, "c5"),
    )


def fillable(found: Characteristics) -> BarMark | None:
    """What of the idle part a waiting job could have used. Training may have used it as well: it is no part of its own."""
    if found.idle_while is None:
        return None
    share = found.idle_share * found.idle_while.fillable_share
    return BarMark("idle, usable by a waiting job, at most", 1 - found.idle_share, share)


def _out(found: Characteristics) -> str:
    """Nodes without a job that are not idle."""
    share = found.down_node_h / found.span_h / found.machine_nodes
    return f"; another {_share(share)} is out of service or reserved" if share else ""


def _idle_sentence(found: Characteristics, prices: SitePrices) -> str:
    month_h = found.eq_nodes * MONTH_H
    return (
        f"{month_h:,.0f} node-hours a month are idle: on average {found.eq_nodes:,.0f} of "
        f"{found.machine_nodes:,} nodes ({found.idle_share:.1%}), measured over {span_text(found.span_h)}{_out(found)}."
        f"{prices.idle_words(month_h)}"
    )


def _queue_sentence(found: Characteristics) -> str:
    if found.idle_while is None:
        return "The log does not tell which part of this a waiting job could have used."
    shares = found.idle_while.shares()
    fits = found.idle_while.fillable_share
    other = {cause: share for cause, share in shares.items() if cause is not IdleCause.FITS}
    cause = max(other, key=lambda each: other[each])
    most = f"; the most frequent cause of the rest: {cause.value} ({_share(other[cause])})" if other[cause] else ""
    could = f"Waiting jobs could have used at most {_share(fits)} of this"
    if Fact.TIME_LIMIT.value in found.idle_while.not_judged:
        return f"{could} by their size{_by(found)}; the log does not have their time limits{most}."
    return f"{could}: as many nodes as they asked for{_by(found)}, for as long as they asked{most}."


def _by(found: Characteristics) -> str:
    """What else was judged of a waiting job."""
    assert found.idle_while is not None
    judged = {Fact.PARTITION: "partition", Fact.RESOURCES: "devices", Fact.CONSTRAINT: "features"}
    words = [word for fact, word in judged.items() if fact.value not in found.idle_while.not_judged]
    return f" with the right {' and '.join(words)}" if words else ""


def _training_sentence(found: Characteristics, sample: LogSample, base: SweepRow, prices: SitePrices) -> str:
    used = UsedNodes.of(base)
    count = base.cell.max_parallel
    spread = "" if sample.is_whole else f" ({spread_text(base)}: only parts of the log were replayed)"
    work = found.eq_nodes * one_node_hours(base) / used.idle_node_h if used.idle_node_h else 0.0
    return (
        f"In a simulation on this log, training with at most {count} trainers at once would have used "
        f"{_share(used.share)} of the idle node-hours{spread} "
        f"and left {_share(1 - used.share)} over; the result is the work of {work:,.0f} nodes that train one model each "
        "without interruption. Training leaves a node as soon as a job wants it, in the simulation as on the cluster."
        f"{prices.training_words(found.eq_nodes * MONTH_H * used.share, work * MONTH_H)}"
    )


def _settings_sentence(plan: ReportPlan, rows: Mapping[Cell, SweepRow]) -> str:
    """The best settings of this report, compared with the base and with equal shares, in one-node hours."""
    base = rows[plan.base]
    tried = [
        rows[c]
        for c in dict.fromkeys((plan.base, *plan.objectives, *plan.forward, *plan.parallel))
        if c.policy == plan.base.policy
    ]
    best = max(tried, key=one_node_hours)
    words = []
    if best.cell != plan.base and one_node_hours(best) > (1 + _ALIKE) * one_node_hours(base):
        used = _share(UsedNodes.of(best).share)
        words.append(
            f"The best of the settings tried is {_difference(best.cell, plan.base)}: it trains "
            f"{_compared(one_node_hours(best), one_node_hours(base))} than the settings above, on {used} of the idle node-hours"
        )
    else:
        words.append("None of the other settings tried trains more")
    equal = next((rows[c] for c in plan.policies if c.policy == "equal-share"), None)
    if equal is not None and one_node_hours(equal):
        ratio = one_node_hours(base) / one_node_hours(equal) - 1
        compared = "as much as" if abs(ratio) < _ALIKE else f"{_signed(ratio)} than"
        words.append(f"with the settings above, bftrainer trains {compared} equal shares{_range_of_gains(base, equal)}")
    return "; ".join(words) + "."


def _range_of_gains(base: SweepRow, equal: SweepRow) -> str:
    """The least and the largest gain over equal shares in a piece of the log, or in a week (day) of a log replayed as a whole.

    Weeks compare samples: only the sum of a replay is known in one-node hours.
    """
    if base.parts:
        hours = float(base.parts[0].result["span_h"])
        unit = "week" if hours > 24 else "day" if hours > 6 else "piece"
        pairs = [(one_node_hours(a), one_node_hours(b)) for a, b in zip(base.parts, equal.parts, strict=True)]
    else:
        unit, pairs = _by_time(base, equal)
    gains = [a / b - 1 for a, b in pairs if b > 0]
    if len(gains) < 2:
        return ""
    return f" (from {_signed(min(gains))} to {_signed(max(gains))} in a single {unit})"


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


def _difference(cell: Cell, base: Cell) -> str:
    changed = [n for n in ("objective", "forward_s", "max_parallel") if getattr(cell, n) != getattr(base, n)]
    words = {"max_parallel": f"at most {cell.max_parallel} trainers at once (max_parallel = {cell.max_parallel})"}
    return " and ".join(words.get(name, f"{name} = {getattr(cell, name)}") for name in changed)


def _compared(value: float, base: float) -> str:
    return _signed(value / base - 1) if base else "more"


def _signed(share: float) -> str:
    return f"{share:.1%} more" if share >= 0 else f"{-share:.1%} less"


def _share(share: float) -> str:
    """Whole percent; a rounded figure must not claim all or nothing."""
    if 0.0 < share < 0.005:
        return "under 1%"
    return "over 99%" if 0.995 < share < 1.0 else f"{share:.0%}"


def span_text(hours: float) -> str:
    """A span in words."""
    return f"{hours:.3g} hours" if hours < 48 else f"{hours / 24:.3g} days"
