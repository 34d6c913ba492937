"""The page of ``replay compare``: policies side by side on one log and workload."""

from __future__ import annotations

import math
from collections.abc import Sequence

from matplotlib.figure import Figure

from bftrainer.counted import counted
from bftrainer_replay.comparison.compare import RankedPolicy, columns, lost_share
from bftrainer_replay.figures.style import BLUE, FAINT, INK, ORANGE, sheet
from bftrainer_replay.report.page import Chapter, Page, PageTable, Picture
from bftrainer_replay.simulation.play import Scenario


def compare_page(
    ranking: Sequence[RankedPolicy],
    scenario: Scenario,
    name: str,
    left_out: Sequence[str],
    command: str,
) -> Page:
    """Build the page that compares policies; ``left_out`` are those that cannot run on a pool of
    whole nodes.
    """
    best = ranking[0]
    chapters = (
        Chapter(
            "Ranking",
            _settings_text(scenario),
            (_ranking_table(ranking), _frontier_picture(ranking)),
        ),
    )
    summary = best.summary
    lost = [lost_share(ranked, ranked.summary.preemption_cost_samples) or 0.0 for ranked in ranking]
    tiles = (
        ("most one-node hours", best.name),
        (
            "shortest mean completion time",
            _name_of_least(ranking, [ranked.user_view.mean_s for ranked in ranking]),
        ),
        (
            "fairest by Jain's index",
            _name_of_least(ranking, [-ranked.user_view.jain for ranked in ranking]),
        ),
        ("least lost to preemption", _name_of_least(ranking, lost)),
    )
    hours = (scenario.window.end_s - scenario.window.start_s) / 3600
    lead = (
        f"On {summary.resource_integral_node_h:,.0f} idle node-hours in {hours:,.3g} h, "
        f"{best.name} trains most: "
        f"{summary.outcome_one_node_h:,.0f} one-node hours, {summary.work_share or 0:.0%} of them"
    )
    equal_share = next((ranked for ranked in ranking if ranked.name == "equal-share"), None)
    if (
        equal_share is not None
        and equal_share is not best
        and equal_share.summary.outcome_one_node_h
    ):
        lead += (
            f", {summary.outcome_one_node_h / equal_share.summary.outcome_one_node_h - 1:.1%} "
            "more than equal-share"
        )
    warnings = _limits_of_comparison(ranking, scenario, left_out)
    return Page(
        f"{name}: {len(ranking)} policies side by side",
        f"{lead}.",
        warnings,
        tiles,
        chapters,
        (command,),
    )


def _settings_text(scenario: Scenario) -> str:
    """Return a text on the trainers and settings that all replays of the comparison share."""
    return (
        f"{counted(len(scenario.arrivals), 'trainer')}, {_at_once(scenario)}, cost model "
        f"{scenario.cost_model.value}. Requested sizes and loss curves that the trainer table "
        "does not contain are generated; "
        "they are the same for all policies."
    )


def _at_once(scenario: Scenario) -> str:
    if scenario.max_parallel is None:
        return "as many at once as the policy decides"
    return f"{scenario.max_parallel} at once (P_jmax)"


def _limits_of_comparison(
    ranking: Sequence[RankedPolicy], scenario: Scenario, left_out: Sequence[str]
) -> tuple[str, ...]:
    """Return what limits the comparison: notes on the log, work that ran out, policies left out."""
    warnings = [scenario.window.note] if scenario.window.note else []
    ran_out = [ranked.name for ranked in ranking if ranked.summary.work_ran_out_at is not None]
    if ran_out:
        warnings.append(
            f"The work ran out before the end of the log under {', '.join(ran_out)}, which "
            "makes their outcomes alike. Add "
            "trainers to compare these policies"
        )
    if left_out:
        warnings.append(
            f"Left out, because they cannot run on a pool of whole nodes: {', '.join(left_out)}"
        )
    return tuple(warnings)


def _ranking_table(ranking: Sequence[RankedPolicy]) -> PageTable:
    """Return the table of all policies, best first, with a sentence on how to read its columns."""
    return PageTable(
        "ranking",
        "All policies, best first",
        "Read: ranked by one-node hours, then by mean completion time. Work is in one-node "
        "hours per idle node-hour; mean, p95 "
        "and last are hours from submission until done (≥: some trainers are not done); the "
        "longest wait is without nodes. "
        "U is the training done over that of equal shares on as many constant nodes, without "
        "costs. "
        "Queueing and fairness cover the trainers that completed. Losses are shares of the "
        "training that was possible. p50 and "
        "p99 are times of one decision.",
        ("policy", *(heading for heading, _ in columns(ranking))),
        tuple((ranked.name, *(cell(ranked) for _, cell in columns(ranking))) for ranked in ranking),
        main=0,
    )


def _frontier_picture(ranking: Sequence[RankedPolicy]) -> Picture:
    """Return the picture of :func:`frontier_figure`, with its data."""
    done = [ranked.summary.done for ranked in ranking]
    rows = [
        (ranked.name, times.mean_h, times.last_h, times.unfinished)
        for ranked, times in zip(ranking, done, strict=True)
    ]
    return Picture(
        "frontier", frontier_figure(ranking), ("policy", "mean_h", "last_h", "unfinished"), rows
    )


def _name_of_least(ranking: Sequence[RankedPolicy], values: Sequence[float]) -> str:
    """Return the name of the policy with the smallest value that is a number."""
    pairs = [
        (value, ranked.name)
        for value, ranked in zip(values, ranking, strict=True)
        if not math.isnan(value)
    ]
    return min(pairs, key=lambda pair: pair[0])[1] if pairs else "none completed"


def frontier_figure(ranking: Sequence[RankedPolicy]) -> Figure:
    """Draw a point per policy: the mean hours until a trainer is done, and the hours until all are.

    A line joins the policies that no other beats in both.
    """
    points = [
        (ranked.summary.done.mean_h or 0.0, ranked.summary.done.last_h or 0.0, ranked)
        for ranked in ranking
    ]
    unbeaten = [
        at
        for at in points
        if not any(m <= at[0] and n <= at[1] and (m, n) != at[:2] for m, n, _ in points)
    ]
    unbeaten.sort(key=lambda at: at[:2])
    hollow_marks = (
        " A hollow mark: some trainers are not done, so both are later."
        if any(ranked.summary.done.unfinished for ranked in ranking)
        else ""
    )
    figure, (axes,) = sheet(
        "Each result soon, or all of them",
        f"Read: no policy is earlier in both than {'; '.join(row.name for _, _, row in unbeaten)} "
        "(line). Hours from submission until "
        f"a trainer is done, on average, and until all are done.{hollow_marks}",
    )
    axes.plot([m for m, _, _ in unbeaten], [n for _, n, _ in unbeaten], color=FAINT, linewidth=1.2)
    for mean_h, last_h, row in points:
        color = BLUE if row.name.startswith("bftrainer") else ORANGE
        axes.plot(
            mean_h,
            last_h,
            "o",
            color=color,
            fillstyle="none" if row.summary.done.unfinished else "full",
        )
        axes.annotate(
            row.name, (mean_h, last_h), (6, 4), textcoords="offset points", fontsize=8, color=INK
        )
    axes.margins(0.15)
    axes.set_xlabel("mean, h")
    axes.set_ylabel("last, h")
    return figure
