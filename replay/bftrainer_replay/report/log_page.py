"""The page of ``replay report``: one log, from the replays of its plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bftrainer_replay.analysis.characterize import Characteristics
from bftrainer_replay.logs.event_log import format_time
from bftrainer_replay.logs.model import LogWindow
from bftrainer_replay.report.assumptions import assumptions_chapter
from bftrainer_replay.report.headline import INTRODUCTION, title_of, top
from bftrainer_replay.report.log_facts import queue_chapter, shared_chapter
from bftrainer_replay.report.page import Chapter, Page, PageTable
from bftrainer_replay.report.pictures import (
    WHAT_U_IS,
    efficiency_picture,
    idle_pictures,
    nodes_picture,
)
from bftrainer_replay.report.pieces import pieces_chapter
from bftrainer_replay.report.plan import ReportPlan
from bftrainer_replay.report.prices import SitePrices
from bftrainer_replay.report.simulated import MONTH_H, Trainings
from bftrainer_replay.report.used_nodes import UsedNodes, times_larger
from bftrainer_replay.sweep.cell import Cell
from bftrainer_replay.sweep.detail import read_detail
from bftrainer_replay.sweep.results import SweepRow
from bftrainer_replay.sweep.sample import LogSample
from bftrainer_replay.workload.workload import SAMPLES_TOTAL


def log_page(
    window: LogWindow,
    found: Characteristics,
    plan: ReportPlan,
    sample: LogSample,
    rows: Mapping[Cell, SweepRow],
    static_bins: Sequence[float],
    trainings: Trainings,
    log: str,
    title: str | None,
    commands: tuple[str, ...],
    prices: SitePrices,
    guesses: Mapping[str, str],
) -> Page:
    """The page; ``rows`` has every cell of the plan, ``static_bins`` is A_s in samples of each bin of the piece shown.

    ``log`` is the name of the log's file; ``guesses`` has the idle share under other options of the importer.
    """
    base = rows[plan.base]
    months = MONTH_H / found.span_h
    chapters = (
        assumptions_chapter(window, plan, sample, rows, trainings, guesses),
        _idle(window),
        queue_chapter(found, window),
        *shared_chapter(window),
        _training(plan, sample, rows, static_bins),
        _month(base, found, months),
        _replays(plan, rows),
        *pieces_chapter(plan, sample, rows),
    )
    parts = top(log, window, found, plan, sample, rows, trainings, prices)
    lead = "\n".join(text for part in parts for text in (part.warning, *part.sentences) if text)
    return Page(title or title_of(window), lead, (), (), chapters, commands, parts, INTRODUCTION)


def _idle(window: LogWindow) -> Chapter:
    return Chapter(
        "Idle nodes",
        f"From {format_time(window.start_s, window.zone)} to {format_time(window.end_s, window.zone)} ({window.clock_name}).",
        idle_pictures(window),
    )


def _training(
    plan: ReportPlan, sample: LogSample, rows: Mapping[Cell, SweepRow], static_bins: Sequence[float]
) -> Chapter:
    """The base in pictures, with equal share for comparison."""
    piece = sample.windows[sample.shown]
    begin, end = next((first, last) for name, first, last in sample.spans() if name == sample.shown)
    shown = "" if sample.is_whole else "this piece of the log"
    pictured = "" if sample.is_whole else f" The pictures show one piece of the log, from {begin} to {end}."
    base = rows[plan.base]
    details = {
        cell.policy: read_detail(rows[cell].result["detail"]) for cell in plan.policies if "detail" in rows[cell].result
    }
    policy = plan.base.policy
    return Chapter(
        "Training on the idle nodes",
        f"T_fwd {plan.base.forward_s:g} s, {plan.base.max_parallel} concurrent trainers, objective {plan.base.objective}, "
        f"policy {policy}; {int(base.result['completed']):,} trainers completed. Efficiency U is {base.efficiency or 0.0:.1%}: "
        "it compares with as many dedicated nodes under the same limit of concurrent trainers, so it is not the share of the "
        f"idle node-hours that is used ({UsedNodes.of(base).share:.1%}).{pictured}",
        (
            nodes_picture(details[policy], policy, base.efficiency if sample.is_whole else None, piece, shown),
            efficiency_picture(details, static_bins, piece),
        ),
        note=WHAT_U_IS,
    )


def _month(base: SweepRow, found: Characteristics, months: float) -> Chapter:
    """A sample of the log is scaled to the idle node-hours of all of it."""
    result = base.result
    nodes = UsedNodes.of(base)
    whole = times_larger(base, found.node_hours)

    def both(value: float, scale: float = whole * nodes.correction) -> tuple[str, str]:
        return f"{value * scale * months:,.0f}", f"{value * scale:,.0f}"

    table = PageTable(
        "per-month",
        "This log, and 30 days like it",
        "Read: one-node hours are the time that one dedicated node would need for the same samples. This measure does not "
        "favor models with cheap samples.",
        ("", "a month", "this log", "origin"),
        (
            ("idle node-hours", *both(nodes.idle_node_h, whole), "log"),
            ("node-hours in training", *both(nodes.used_node_h, whole), "simulation"),
            ("one-node hours of training", *both(float(result["outcome_one_node_h"])), "simulation"),
            ("million samples", *both(base.samples / 1e6), "simulation"),
            ("trainings of 100 epochs of ImageNet", *both(base.samples / SAMPLES_TOTAL), "simulation"),
            ("nodes taken from training by jobs", *both(float(result["preemptions"])), "simulation"),
        ),
        main=1,
    )
    pieces = (
        " Pieces of the log were replayed; their sums are scaled to the node-hours in training estimated for all of it."
    )
    text = (
        f"The idle node-hours are the log's; all training is simulated.{pieces if base.parts else ''} Node-hours depend on how "
        "well the trainings scale; samples, and trainings of ImageNet, also on how fast the nodes are, and hold only for nodes "
        "like those on which the rates were measured (Assumptions). A month is 30 days."
    )
    return Chapter("Per month", text, (table,))


def _replays(plan: ReportPlan, rows: Mapping[Cell, SweepRow]) -> Chapter:
    base = rows[plan.base]

    def row(each: SweepRow) -> tuple[str, ...]:
        cell, result = each.cell, each.result
        mean = result["mean_runtime_h"]
        return (
            cell.policy, cell.objective, f"{cell.forward_s:g} s", f"{cell.max_parallel}", f"{cell.cost_factor:g}",
            f"{UsedNodes.of(each).share:.1%}", f"{float(result['outcome_one_node_h']):,.0f}",
            f"{each.samples / base.samples - 1:+.1%}" if base.samples else "",
            "–" if each.efficiency is None else f"{each.efficiency:.1%}", f"{int(result['completed']):,}",  # noqa: RUF001  # a dash
            "" if mean is None else f"{mean:.1f}", f"{int(result['preemptions']):,}", f"{int(result['rescales']):,}",
        )  # fmt: skip

    every = tuple(row(rows[cell]) for cell in plan.cells)
    ranked = sorted((rows[c] for c in plan.policies), key=lambda r: -r.samples)
    words = ", ".join(f"{r.cell.policy} {r.samples / 1e6:,.0f}" for r in ranked)
    table = PageTable(
        "replays",
        "All replays of this report",
        "Read: the first row is the replay shown above; each other row changes one setting. Costs: factor on the rescale "
        "costs R_up and R_dw (stalls in seconds when a training gains and loses nodes). Million samples by policy: "
        f"{words}.",
        (
            "policy", "objective", "T_fwd", "P_jmax", "costs", "used", "one-node h", "samples", "U", "done", "mean h",
            "preempted", "rescales",
        ),
        every,
        main=0,
    )  # fmt: skip
    where = " All columns but used are of the pieces of the log that were replayed." if base.parts else ""
    text = (
        "Used is the share of the idle node-hours, as at the top; one-node hours measure the work. The samples are relative to "
        f"the first row. Efficiency U compares with as many dedicated nodes and concurrent trainers.{where}"
    )
    return Chapter("All replays", text, (table,))
