"""The chapter on the pieces of a long log that were replayed."""

from __future__ import annotations

from collections.abc import Mapping

from bftrainer_replay.report.page import Chapter, PageTable
from bftrainer_replay.report.plan import ReportPlan
from bftrainer_replay.report.used_nodes import UsedNodes, usable_shares
from bftrainer_replay.sweep.cell import Cell
from bftrainer_replay.sweep.results import SweepRow
from bftrainer_replay.sweep.sample import LogSample


def pieces_chapter(plan: ReportPlan, sample: LogSample, rows: Mapping[Cell, SweepRow]) -> tuple[Chapter, ...]:
    """The pieces of the log that were replayed, if not all of it was."""
    if sample.is_whole:
        return ()
    base = rows[plan.base]
    parts = []
    for (_, begin, end), row, usable in zip(sample.spans(), base.parts, usable_shares(base), strict=True):
        nodes = UsedNodes.of(row)
        idle = nodes.idle_node_h / (float(row.result["span_h"]) or 1.0)
        used = (f"{nodes.share:.1%}", f"{usable:.1%}") if nodes.idle_node_h else ("", "")  # nothing to use
        parts.append((begin, end, f"{idle:,.0f}", *used))
    shares = [UsedNodes.of(row).share for row in base.parts if UsedNodes.of(row).idle_node_h] or [0.0]
    whole = UsedNodes.of(base)
    table = PageTable(
        "pieces",
        "Pieces of the log that were replayed",
        f"Read: training uses between {min(shares):.0%} and {max(shares):.0%} of the idle node-hours of a piece, and "
        f"{whole.replayed_share:.0%} of those of all pieces. For the whole log, {whole.share:.0%} is estimated: so "
        'many trainings can use only so many nodes at a time, and column "used of usable" leaves out nodes beyond that. The '
        "figures at the top multiply what is used of usable nodes, in all pieces, by the usable part of the whole log. "
        "A piece without idle nodes has empty cells.",
        ("from", "to", "mean idle nodes", "used", "used of usable"),
        tuple(parts),
    )
    text = (
        f"To save time, the replays cover {sample.text} (--full: all of it); all figures on idle nodes cover the whole log. "
        "Every piece begins without running trainers, so effects that take longer than a piece are missing."
    )
    return (Chapter("Replayed pieces", text, (table,)),)
