"""The page of ``replay report``: its top, and what stands behind it as an appendix."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from bftrainer.counted import counted
from bftrainer_replay.analysis.characterize import Characteristics
from bftrainer_replay.analysis.doubts import doubts_of
from bftrainer_replay.analysis.plain_jobs import plain_curve
from bftrainer_replay.analysis.window_fragments import fragments_of, pool_sizes_of
from bftrainer_replay.figures.fragment_lengths import fragments_figure
from bftrainer_replay.figures.replays import nodes_figure
from bftrainer_replay.logs.event_log import format_time
from bftrainer_replay.logs.model import LogWindow
from bftrainer_replay.report.assumptions import assumptions_chapter
from bftrainer_replay.report.costs import NO_RATES, CostRates, costs_text, monthly_costs
from bftrainer_replay.report.figures import Origin, ReportFigures, figures_of
from bftrainer_replay.report.log_facts import queue_chapter, shared_chapter
from bftrainer_replay.report.main_jobs import MainJobsEffect, main_jobs_chapter
from bftrainer_replay.report.page import Chapter, Page, PageTable, Picture, step_series
from bftrainer_replay.report.plan import ReportPlan
from bftrainer_replay.report.top import Trainings, as_text, top_of
from bftrainer_replay.report.top_pictures import idle_picture, number_picture
from bftrainer_replay.report.used_nodes import UsedNodes, one_node_hours, usable_shares, work_share
from bftrainer_replay.report.words import dates
from bftrainer_replay.sweep.cell import Cell
from bftrainer_replay.sweep.detail import Detail, read_detail
from bftrainer_replay.sweep.results import SweepRow
from bftrainer_replay.sweep.sample import LogSample


@dataclass(frozen=True, slots=True)
class Replays:
    """The replays of a report: their plan, the parts of the log that they cover, and the row of
    every cell of the plan. ``effect``: what a pilot does to main jobs, if that was simulated.
    """

    plan: ReportPlan
    sample: LogSample
    rows: Mapping[Cell, SweepRow]
    effect: MainJobsEffect | None = None


def log_page(
    window: LogWindow,
    characteristics: Characteristics,
    replays: Replays,
    trainings: Trainings,
    origin: Origin,
    title: str | None,
    guesses: Mapping[str, str],
    last: ReportFigures | None = None,
    gpus: tuple[Chapter, str] | None = None,
    rates: CostRates = NO_RATES,
) -> tuple[Page, ReportFigures]:
    """Build the report's page, and the figures at its top.

    ``guesses`` has the idle share under other options of the importer, ``last`` the figures of an
    earlier report, ``gpus`` the chapter and the sentence of a log in GPUs, ``rates`` the prices of
    the site.
    """
    plan, sample, rows, effect = replays.plan, replays.sample, replays.rows, replays.effect
    base = rows[plan.base]
    detail = read_detail(base.result["detail"])
    plain = plain_curve(window, plan.base.max_parallel, trainings.start_s)
    models = {cell.workload.partition("-")[2]: rows[cell] for cell in plan.models}
    figures = figures_of(
        characteristics,
        base,
        trainings.nodes_each,
        plain,
        dates(window),
        origin,
        models,
        doubts_of(window, characteristics),
    )
    sizes = pool_sizes_of(window)

    def usable(number: int) -> float:
        """Return the share of the idle node-time that so many trainings can hold at most."""
        return sizes.node_s(number * trainings.nodes_each) / (sizes.node_s() or 1.0)

    pictures = (
        idle_picture(window, figures, detail if sample.is_whole else None),
        number_picture(figures, [rows[cell] for cell in plan.parallel], usable),
    )
    top = top_of(figures, window, characteristics, sample, trainings, pictures, title, last, effect)
    costs = costs_text(monthly_costs(figures, rates), rates)
    if costs:
        top = replace(top, rows=(("Costs", costs), *top.rows))
    if gpus is not None:
        top = replace(top, rows=(("GPUs", gpus[1]), *top.rows))
    piece = sample.windows[sample.shown]
    chapters = (
        *(() if gpus is None else gpus[:1]),
        *(() if effect is None else (main_jobs_chapter(effect),)),
        queue_chapter(characteristics, window),
        *shared_chapter(window),
        Chapter(
            "Idle nodes",
            f"From {format_time(window.start_s, window.zone)} to "
            f"{format_time(window.end_s, window.zone)} "
            f"({window.clock_name}).",
            (fragments_picture(window),),
        ),
        _settings_chapter(plan, rows),
        Chapter(
            "Nodes in training",
            "" if sample.is_whole else "One of the pieces of the log that were replayed.",
            (
                nodes_picture(
                    detail,
                    plan.base.policy,
                    piece,
                    "" if sample.is_whole else "this piece of the log",
                ),
            ),
        ),
        *pieces_chapter(plan, sample, rows),
        assumptions_chapter(window, plan, sample, rows, trainings, guesses),
    )
    commands = (
        f"$ {origin.command}",
        f"bftrainer {origin.version}, {origin.day}",
        f"SHA-256 of {origin.log}: {origin.sha256}",
    )
    appendix = "Appendix: why nodes were idle, settings tried, assumptions, how this page was made"
    name = (
        title
        or f"Idle nodes of a cluster of {counted(window.machine_nodes, 'node')}, {figures.dates}"
    )
    return Page(name, as_text(top), (), (), chapters, commands, top, appendix), figures


def _settings_chapter(plan: ReportPlan, rows: Mapping[Cell, SweepRow]) -> Chapter:
    """Return the chapter with a row for every replay of the report: its setting and its results."""
    base = rows[plan.base]

    def row(replay: SweepRow) -> tuple[str, ...]:
        """Return the row of one replay: its settings, and its results beside those of the base."""
        cell, work = replay.cell, one_node_hours(replay) / (one_node_hours(base) or 1.0)
        mean = replay.result["mean_runtime_h"]
        return (
            cell.policy,
            cell.objective,
            f"{cell.forward_s:g} s",
            f"{cell.max_parallel}",
            f"{cell.cost_factor:g}",
            f"{UsedNodes.of(replay).share:.1%}",
            f"{work_share(replay):.1%}",
            f"{work - 1:+.1%}" if one_node_hours(base) else "",
            f"{int(replay.result['completed']):,}",
            "" if mean is None else f"{mean:.1f}",
            f"{int(replay.result['preemptions']):,}",
            f"{int(replay.result['rescales']):,}",
        )

    where = (
        " Completed, mean, preempted and rescales are of the pieces of the log that were replayed."
        if base.parts
        else ""
    )
    table = PageTable(
        "replays",
        "All replays of this report",
        "Read: the first row is the replay of the figures at the top; each other row changes "
        "one setting. Held and work are "
        "shares of the idle node-hours, work in one-node hours, the time that one node would "
        "need for the same samples. At "
        f"once: trainings (P_jmax). Costs: factor on the stalls of a rescale.{where}",
        (
            "policy",
            "objective",
            "T_fwd",
            "at once",
            "costs",
            "held",
            "work",
            "work, other than first",
            "completed",
            "mean hours",
            "preempted",
            "rescales",
        ),
        tuple(row(rows[cell]) for cell in plan.cells if cell not in plan.models),
        main=0,
    )
    return Chapter("Settings tried", "", (table,))


def fragments_picture(window: LogWindow) -> Picture:
    """The lengths of the fragments."""
    fragments = fragments_of(window)
    lengths_s, index = np.unique(np.rint(fragments.length_s).astype(np.int64), return_inverse=True)
    counts = np.bincount(index, fragments.weights, minlength=len(lengths_s)).astype(np.int64)
    rows = list(zip(lengths_s.tolist(), counts.tolist(), strict=True))
    return Picture("fragments", fragments_figure(window), ("length_s", "fragments"), rows)


def nodes_picture(detail: Detail, policy: str, window: LogWindow, shown: str) -> Picture:
    """Draw idle nodes and nodes in training under one policy; ``shown`` names the part of the log,
    if it is not all of it.
    """
    edges_s, idle, used = detail.edges_s.tolist(), detail.idle.tolist(), detail.used.tolist()
    rows = list(zip((format_time(round(at_s)) for at_s in edges_s[:-1]), idle, used, strict=True))
    series = step_series(edges_s, {"idle": idle, "in training": used}, window)
    figure = nodes_figure(detail, policy, window, shown)
    return Picture("timeline", figure, ("time", "idle", "in_training"), rows, series)


def pieces_chapter(
    plan: ReportPlan, sample: LogSample, rows: Mapping[Cell, SweepRow]
) -> tuple[Chapter, ...]:
    """Return the chapter on the pieces of the log that were replayed; empty if all of it was."""
    if sample.is_whole:
        return ()
    base = rows[plan.base]
    parts = []
    for piece, row, usable in zip(sample.pieces, base.parts, usable_shares(base), strict=True):
        nodes = UsedNodes.of(row)
        idle = nodes.idle_node_h / (float(row.result["span_h"]) or 1.0)
        used = (
            (f"{nodes.share:.1%}", f"{usable:.1%}") if nodes.idle_node_h else ("", "")
        )  # nothing to use
        begin, end = (format_time(at_s, piece.zone) for at_s in (piece.start_s, piece.end_s))
        parts.append((begin, end, f"{idle:,.0f}", *used))
    shares = [UsedNodes.of(row).share for row in base.parts if UsedNodes.of(row).idle_node_h] or [
        0.0
    ]
    whole = UsedNodes.of(base)
    table = PageTable(
        "pieces",
        "Pieces of the log that were replayed",
        f"Read: training uses between {min(shares):.0%} and {max(shares):.0%} of the idle "
        "node-hours of a piece, and "
        f"{whole.replayed_share:.0%} of those of all pieces. For the whole log, "
        f"{whole.share:.0%} is estimated: so "
        'many trainings can use only so many nodes at a time, and column "used of usable" '
        "leaves out nodes beyond that. The "
        "figures at the top multiply what is used of usable nodes, in all pieces, by the "
        "usable part of the whole log. "
        "A piece without idle nodes has empty cells.",
        ("from", "to", "mean idle nodes", "used", "used of usable"),
        tuple(parts),
    )
    text = (
        f"To save time, the replays cover {sample.text} (--full: all of it); all figures on "
        "idle nodes cover the whole log. "
        "Every piece begins without running trainers, so effects that take longer than a piece "
        "are missing."
    )
    return (Chapter("Replayed pieces", text, (table,)),)
