"""The chapter on the pieces of a long log that were replayed."""

from __future__ import annotations

from collections.abc import Mapping

from bftrainer_replay.report.page import Chapter, PageTable
from bftrainer_replay.report.plan import ReportPlan
from bftrainer_replay.report.used_nodes import UsedNodes, one_node_hours
from bftrainer_replay.sweep.cell import Cell
from bftrainer_replay.sweep.results import SweepRow
from bftrainer_replay.sweep.sample import LogSample


def pieces_chapter(plan: ReportPlan, sample: LogSample, rows: Mapping[Cell, SweepRow]) -> tuple[Chapter, ...]:
    """The pieces of the log that were replayed, if not all of it was."""
    if sample.is_whole:
        return ()
    base, equal = rows[plan.base], rows.get(next((c for c in plan.policies if c.policy == "equal-share"), plan.base))
    assert equal is not None, "the plan has equal shares, or the base stands for them"
    parts = []
    for (_, begin, end), row, other in zip(sample.spans(), base.parts, equal.parts, strict=True):
        nodes, gain = UsedNodes.of(row), one_node_hours(row) / (one_node_hours(other) or 1.0) - 1
        idle = nodes.idle_node_h / float(row.result["span_h"])
        parts.append((begin, end, f"{idle:,.0f}", f"{nodes.share:.1%}", f"{row.efficiency or 0.0:.1%}", f"{gain:+.1%}"))
    shares = [UsedNodes.of(row).share for row in base.parts]
    table = PageTable(
        "pieces",
        "Pieces of the log that were replayed",
        f"Read: training uses between {min(shares):.0%} and {max(shares):.0%} of the idle node-hours of a piece. For the "
        "figures at the top, what it uses of the nodes that so many trainers can use at most comes from all pieces together, "
        "and how many nodes these are from the whole log. Efficiency U of a piece compares with constant nodes of its own.",
        ("from", "to", "mean idle nodes", "used", "efficiency U", "work over equal shares"),
        tuple(parts),
    )
    text = (
        f"The log is long. The replays cover {sample.text}; all figures on idle nodes cover the whole log. "
        "Every piece begins without running trainers, so effects that take longer than a piece are missing. Samples and "
        "one-node hours in the chapters on settings are sums over the pieces, not over the log."
    )
    return (Chapter("Replayed pieces", text, (table,)),)
