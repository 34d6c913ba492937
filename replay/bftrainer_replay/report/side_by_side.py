"""The page of ``replay compare``: policies side by side on one log and workload, in the frame of the report."""

from __future__ import annotations

import math
from collections.abc import Sequence

from bftrainer_replay.analysis.compare import COLUMNS, RankedPolicy, lost_share
from bftrainer_replay.figures.over_time import efficiency_over_time_figure
from bftrainer_replay.figures.policies import (
    completion_figure,
    costs_by_policy_figure,
    decision_time_figure,
    efficiency_figure,
    fairness_figure,
    nodes_by_policy_figure,
    outcome_figure,
)
from bftrainer_replay.logs.event_log import format_time
from bftrainer_replay.report.items import Chapter, Picture, Table, picture, stepped
from bftrainer_replay.report.outcome import WHAT_U_IS
from bftrainer_replay.report.page import Report
from bftrainer_replay.simulation.play import Scenario, static_outcomes


def page_of(
    places: Sequence[RankedPolicy], scenario: Scenario, name: str, left_out: Sequence[str], command: str
) -> Report:
    """The page; ``places`` are ranked, ``left_out`` are policies that have no place on a pool of whole nodes."""
    best = places[0]
    chapters = (
        Chapter("The ranking", _settings(scenario), (_ranking(places), _outcome(places))),
        Chapter(
            "How well the nodes are used", "", (_efficiency(places), *_over_time(places, scenario)), note=WHAT_U_IS
        ),
        Chapter("What users feel", "", (_completion(places), _fairness(places))),
        Chapter("What it costs", "", (_costs(places), _decisions(places))),
    )
    summary = best.summary
    taken = [lost_share(p, p.summary.preemption_cost_samples) or 0.0 for p in places]
    tiles = (
        ("most one-node hours", best.name),
        ("quickest on average", _name_of_least(places, [p.felt.mean_s for p in places])),
        ("fairest by Jain's index", _name_of_least(places, [-p.felt.jain for p in places])),
        ("least lost to preemption", _name_of_least(places, taken)),
    )
    hours = (scenario.window.end_s - scenario.window.start_s) / 3600
    lead = (
        f"On {summary.resource_integral_node_h:,.0f} idle node-hours in {hours:,.3g} h, {best.name} trains most: "
        f"{summary.outcome_one_node_h:,.0f} one-node hours, U {summary.efficiency or 0:.0%}"
    )
    equal = next((p for p in places if p.name == "equal-share"), None)
    if equal is not None and equal is not best and equal.summary.outcome_one_node_h:
        lead += f", {summary.outcome_one_node_h / equal.summary.outcome_one_node_h - 1:.1%} more than equal-share"
    return Report(
        f"{name}: {len(places)} policies side by side", f"{lead}.", _warnings(places, scenario, left_out), tiles, chapters,
        (command,),
    )  # fmt: skip


def _settings(scenario: Scenario) -> str:
    return (
        f"{len(scenario.arrivals):,} trainers, {scenario.max_parallel} at once (P_jmax), costs as {scenario.cost_model.value}. "
        "Requested sizes and loss curves that the trainer table does not know are made up, the same for all."
    )


def _warnings(places: Sequence[RankedPolicy], scenario: Scenario, left_out: Sequence[str]) -> tuple[str, ...]:
    found = [scenario.window.note] if scenario.window.note else []
    ran_out = [p.name for p in places if p.summary.work_ran_out_at is not None]
    if ran_out:
        found.append(
            f"The work ran out before the log did under {', '.join(ran_out)}: their outcomes are alike whatever they do. Give "
            "more trainers to tell them apart"
        )
    if left_out:
        found.append(f"Left out, as they have no place on a pool of whole nodes: {', '.join(left_out)}")
    return tuple(found)


def _ranking(places: Sequence[RankedPolicy]) -> Table:
    return Table(
        "ranking",
        "Every policy, the best first",
        "Read: by one-node hours, then by mean completion. Completion, queueing and fairness are of the trainers that were "
        "done; losses are shares of what could have been trained; the times are of one decision.",
        ("policy", *(heading for heading, _ in COLUMNS)),
        tuple((p.name, *(cell(p) for _, cell in COLUMNS)) for p in places),
        main=0,
    )


def _outcome(places: Sequence[RankedPolicy]) -> Picture:
    rows = [(p.name, p.summary.outcome_one_node_h, p.summary.outcome_samples) for p in places]
    return picture("outcome", outcome_figure(places), ("policy", "one_node_h", "samples"), rows)


def _efficiency(places: Sequence[RankedPolicy]) -> Picture:
    rows = [(p.name, p.summary.efficiency, p.summary.static_outcome_samples) for p in places]
    return picture("efficiency", efficiency_figure(places), ("policy", "efficiency", "static_outcome_samples"), rows)


def _over_time(places: Sequence[RankedPolicy], scenario: Scenario) -> tuple[Picture, Picture]:
    """U of each bin, and nodes in training; the page's script shows all policies, the pictures the first four."""
    first = places[0].detail
    bins_s = first.bin_edges_s.tolist()
    most = static_outcomes(scenario, bins_s)
    efficiency = {
        p.name: [done / whole if whole else 0.0 for done, whole in zip(p.detail.samples.tolist(), most, strict=True)]
        for p in places
    }
    rows = [
        (name, format_time(round(at)), f"{u:.4f}")
        for name, each in efficiency.items()
        for at, u in zip(bins_s[:-1], each, strict=True)
    ]
    edges_s = first.edges_s.tolist()
    used = {"idle": first.idle.tolist()} | {p.name: p.detail.used.tolist() for p in places}
    table = zip((format_time(round(at)) for at in edges_s[:-1]), *used.values(), strict=True)
    return (
        picture(
            "efficiency-over-time",
            efficiency_over_time_figure(bins_s, efficiency),
            ("policy", "time", "efficiency"),
            rows,
            stepped(bins_s, efficiency, "%", "efficiency U"),
        ),
        picture(
            "nodes", nodes_by_policy_figure(places), ("time", *used), list(table),
            stepped(edges_s, used, "nodes", "nodes", area=True, shown=5),
        ),
    )  # fmt: skip


def _completion(places: Sequence[RankedPolicy]) -> Picture:
    rows = [(p.name, p.felt.completed, p.felt.mean_s, p.felt.p95_s, p.felt.queueing_s) for p in places]
    return picture("completion", completion_figure(places), ("policy", "done", "mean_s", "p95_s", "queueing_s"), rows)


def _fairness(places: Sequence[RankedPolicy]) -> Picture:
    rows = [(p.name, p.felt.jain, p.felt.worst_slowdown) for p in places]
    return picture("fairness", fairness_figure(places), ("policy", "jain", "worst_slowdown"), rows)


def _costs(places: Sequence[RankedPolicy]) -> Picture:
    rows = [
        (p.name, lost_share(p, p.summary.preemption_cost_samples), lost_share(p, p.summary.rescale_cost_samples))
        for p in places
    ]
    return picture("costs", costs_by_policy_figure(places), ("policy", "lost_to_preemption", "lost_to_rescale"), rows)


def _decisions(places: Sequence[RankedPolicy]) -> Picture:
    rows = [(p.name, p.summary.decision_s.p50, p.summary.decision_s.p99, p.summary.decision_s.max) for p in places]
    return picture("decision-time", decision_time_figure(places), ("policy", "p50_s", "p99_s", "max_s"), rows)


def _name_of_least(places: Sequence[RankedPolicy], values: Sequence[float]) -> str:
    known = [(value, p.name) for value, p in zip(values, places, strict=True) if not math.isnan(value)]
    return min(known, key=lambda pair: pair[0])[1] if known else "none done"
