"""The page of ``bftrainer demo``: a generated log, equal share and BFTrainer replayed on it, and a minute of a live pilot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bftrainer_replay.analysis.characterize import Characteristics
from bftrainer_replay.figures.live import live_figure
from bftrainer_replay.logs.model import LogWindow
from bftrainer_replay.report.page import Chapter, Page, PageTable, Picture
from bftrainer_replay.report.pictures import efficiency_picture, idle_pictures, lost_picture, nodes_picture
from bftrainer_replay.simulation.summary import Summary
from bftrainer_replay.sweep.detail import Detail


@dataclass(frozen=True, slots=True)
class DemoRun:
    """A minute of the live pilot; times are seconds since its start.

    ``idle`` has (time, idle nodes of the log), ``decisions`` has (time, nodes held, nodes in training) after each decision,
    ``steps`` has (time, training step) per trainer. ``differ`` counts decisions that the replayed journal does not confirm.
    """

    run_s: float
    nodes: int
    speedup: float
    idle: Sequence[tuple[float, int]]
    decisions: Sequence[tuple[float, int, int]]
    steps: Mapping[str, Sequence[tuple[float, int]]]
    fragments: int
    lost: int
    rescales: int
    held_node_s: float
    trained_node_s: float
    differ: int


@dataclass(frozen=True, slots=True)
class DemoReplay:
    """One policy's replay."""

    summary: Summary
    detail: Detail


def demo_page(
    window: LogWindow,
    found: Characteristics,
    equal: DemoReplay,
    best: DemoReplay,
    static_bins: Sequence[float],
    live: DemoRun,
    commands: tuple[str, ...],
) -> Page:
    """The page; ``static_bins`` is A_s of each bin in samples."""
    gain = best.summary.outcome_samples / equal.summary.outcome_samples - 1
    lengths = found.fragment_lengths
    tiles = (
        ("idle node-hours", f"{found.node_hours:,.0f}"),
        (f"idle share of {found.machine_nodes:,} nodes", f"{found.idle_share:.1%}"),
        ("pool events per hour", f"{found.per_hour(found.events):,.0f}"),
        ("fragments under 10 min", "–" if lengths is None else f"{lengths.short_share:.1%}"),  # noqa: RUF001  # a dash
    )
    details = {each.summary.policy: each.detail for each in (best, equal)}
    idle = Chapter(
        "Idle nodes",
        "The nodes that the batch scheduler could not fill. Many fragments are short, but most node-time is in long ones.",
        idle_pictures(window),
    )
    training = Chapter(
        f"Training under {best.summary.policy}",
        f"{best.summary.completed:,} of {best.summary.submitted:,} trainers completed; efficiency U "
        f"{best.summary.efficiency or 0.0:.1%}.",
        (
            nodes_picture(best.detail, best.summary.policy, best.summary.efficiency, window),
            efficiency_picture(details, static_bins, window),
            lost_picture(details, window),
        ),
    )
    return Page(
        title=f"What {found.node_hours:,.0f} idle node-hours could train",
        lead=(
            f"The log is a generated week of a {found.machine_nodes:,}-node machine, fitted to the idle statistics that the "
            f"paper reports for Summit. On the nodes that the scheduler could not fill, BFTrainer did "
            f"{best.summary.efficiency or 0.0:.1%} of the training that {found.eq_nodes:,.0f} dedicated nodes would have done, "
            f"{gain:.1%} more than equal sharing."
        ),
        warnings=(),
        tiles=tiles,
        chapters=(_policies(equal.summary, best.summary), idle, training, _pilot(live)),
        commands=commands,
    )


def _policies(*summaries: Summary) -> Chapter:
    bound, start = summaries[0].no_cost_bound, summaries[0].start_bound
    rows = {
        "efficiency U": [_percent(s.efficiency) for s in summaries],
        "outcome, million samples": [_millions(s.outcome_samples) for s in summaries],
        "trainers completed of submitted": [f"{s.completed:,} of {s.submitted:,}" for s in summaries],
        "lost to preemption, million samples": [_millions(s.preemption_cost_samples) for s in summaries],
        "lost to planned rescales, million samples": [_millions(s.rescale_cost_samples) for s in summaries],
        "preemptions": [f"{s.preemptions:,}" for s in summaries],
        "planned rescales": [f"{s.rescales:,}" for s in summaries],
        "idle node-hours left unused": [f"{s.unused_node_h:,.0f}" for s in summaries],
        "decision time, median and p99, ms": [
            f"{1000 * s.decision_s.p50:.2f} and {1000 * s.decision_s.p99:.2f}" for s in summaries
        ],
    }
    table = PageTable(
        "policies",
        "Equal share and BFTrainer on the same log",
        "Read: efficiency U is the outcome as a share of what the same number of dedicated nodes would have trained (paper "
        f"4.1.2). Without any rescale cost, at most {_percent(bound)} was possible on this log; with the time that a new node "
        f"takes to start, at most {_percent(start)}.",
        ("policy", *(s.policy for s in summaries)),
        tuple((name, *cells) for name, cells in rows.items()),
        main=0,
    )
    return Chapter("The policies side by side", "", (table,))


def _pilot(live: DemoRun) -> Chapter:
    """What the live pilot and its trainers did."""
    steps = {name: points for name, points in live.steps.items() if points}
    done = ", ".join(f"{name} {points[-1][1]:,} steps" for name, points in steps.items())
    trained = live.trained_node_s / max(live.held_node_s, 1e-9)
    text = (
        f"During the replay, a real pilot ran for {live.run_s:.0f} s on {live.nodes} nodes of the same log, at "
        f"{live.speedup:.0f} times the log's speed, with three data-parallel trainers (numpy, on this machine). It held "
        f"{live.fragments} fragments, lost {live.lost} of them without warning, and made {len(live.decisions)} decisions. The "
        f"trainers started or changed size {live.rescales} times and resumed from their checkpoints: {done}. Of "
        f"{live.held_node_s / 60:.1f} node-minutes, {trained:.0%} were training; the rest was starting and stopping. The "
        f"pilot's journal, replayed, gives the same decisions ({len(live.decisions)} of them, {live.differ} differ)."
    )
    caption = (
        "Read: nodes become idle and busy as in the log (the pilot holds at most six). Every trainer resumes from its "
        "checkpoint."
    )
    rows: list[tuple[str, float, int]] = [("idle", at_s, nodes) for at_s, nodes in live.idle]
    rows += [("held", at_s, held) for at_s, held, _ in live.decisions]
    rows += [("in training", at_s, used) for at_s, _, used in live.decisions]
    rows += [(f"{name} step", at_s, step) for name, points in steps.items() for at_s, step in points]
    figure = live_figure(live.idle, live.decisions, steps, caption)
    return Chapter("A live pilot", text, (Picture("pilot", figure, ("line", "time_s", "value"), rows),))


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}"


def _millions(samples: float) -> str:
    return f"{samples / 1e6:,.0f}"
