"""From idle to training: the seconds of each stage as stacked spans, in the middle and at the 95th
percentile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median

from matplotlib.figure import Figure

from bftrainer.counted import counted
from bftrainer.decide.domain.node_stages import (
    SUMMARIES,
    TO_TRAINING,
    NodeStage,
    p95,
    stage_seconds,
    whole_seconds,
)
from bftrainer.pilot.persistence.time_lines import TimeLine
from bftrainer_replay.figures.style import (
    BLUE,
    FAINT,
    GREEN,
    INK,
    ORANGE,
    PURPLE,
    SHADE,
    SKY,
    YELLOW,
    sheet,
)

MAX_NODES, MAX_LETTERS = 12, 12
_ROOM = 1.5
"""Width of the axis as a multiple of the longest bar: the legend is beside the bars."""
CompleteLine = tuple[TimeLine, dict[NodeStage, float]]
# Hues say who works: blue the pilot's polls, orange the scheduler, gray the pilot's decisions,
# green and purple the trainer.
_COLORS: dict[NodeStage, tuple[str, str]] = {
    NodeStage.SEEN: (SKY, "a poll shows it idle"),
    NodeStage.DECIDED: (BLUE, "decision to hold it"),
    NodeStage.SUBMITTED: ("#003F66", "submission begins"),
    NodeStage.JOB_STARTED: (YELLOW, "holder job starts"),
    NodeStage.PAYLOAD_READY: (ORANGE, "payload ready"),
    NodeStage.OFFERED: (SHADE, "offered to the policy"),
    NodeStage.GIVEN: (FAINT, "given to a trainer"),
    NodeStage.WORKER_STARTED: ("#7FD1B9", "worker starts"),
    NodeStage.IMPORTS_DONE: (GREEN, "imports done"),
    NodeStage.GROUP_SWITCHED: (PURPLE, "group includes it"),
    NodeStage.FIRST_STEP: ("#7A2E5A", "first step"),
}


def stage_table(lines: Sequence[TimeLine]) -> list[tuple[str, ...]]:
    """Return a row for every node that has reached its first step: its fragment, then seconds by
    stage.

    A stage is a part of the way from idle to training, such as the start of the holder job. Texts
    are for a CSV file.
    """
    rows = []
    for line in lines:
        seconds = stage_seconds(line.instants, TO_TRAINING)
        if seconds:
            cells = [_seconds_text(seconds.get(stage)) for stage in TO_TRAINING[1:]]
            rows.append((line.fragment, *cells))
    return rows


def node_stages_figure(name: str, lines: Sequence[TimeLine]) -> Figure:
    """Draw how long nodes took from idle to their first step, stage by stage, as stacked bars.

    One bar has the medians of the stages, one their 95th percentiles, and the latest nodes have one
    each. Only nodes whose first step is known are counted.
    """
    by_line = [(line, stage_seconds(line.instants, TO_TRAINING)) for line in lines]
    complete = [(line, seconds) for line, seconds in by_line if seconds]
    rows: list[tuple[str, dict[NodeStage, float]]] = []
    for label, statistic in SUMMARIES:
        bar = {stage: _stage_statistic(complete, stage, statistic) for stage in TO_TRAINING[1:]}
        rows.append((label, bar))
    rows += [(line.node[:MAX_LETTERS], seconds) for line, seconds in complete[-MAX_NODES:]]
    figure, (axes,) = sheet(f"{name}: from an idle node to its first step", _caption_text(complete))
    for place, (_, seconds) in enumerate(rows):
        left, y = 0.0, _bar_height(place)
        for stage, (color, _) in _COLORS.items():
            if width := seconds.get(stage, 0.0):
                axes.barh(
                    y, width, left=left, height=0.72, color=color, edgecolor="white", linewidth=0.4
                )
                left += width
        axes.text(left, y, f"  {left:.1f}", va="center", fontsize=8, color=INK)
    axes.set_yticks(
        [_bar_height(place) for place in range(len(rows))], [label for label, _ in rows]
    )
    axes.tick_params(axis="y", labelsize=8)
    axes.grid(visible=False, axis="y")
    axes.set_xlim(0, _ROOM * max(sum(seconds.values()) for _, seconds in rows))
    axes.set_xlabel("seconds; the legend names the end of each span")
    used = {stage for _, seconds in rows for stage, value in seconds.items() if value}
    handles = [
        axes.barh(0, 0, color=color, label=text)
        for stage, (color, text) in _COLORS.items()
        if stage in used
    ]
    axes.legend(
        handles=handles, loc="center right", bbox_to_anchor=(1.02, 0.5), frameon=False, fontsize=8
    )
    return figure


def _bar_height(place: int) -> float:
    """Return where a bar stands; there is a gap below those that sum up all nodes."""
    return -place - (0.6 if place >= len(SUMMARIES) else 0.0)


def _stage_statistic(
    lines: Sequence[CompleteLine],
    stage: NodeStage,
    statistic: Callable[[Sequence[float]], float],
) -> float:
    """Return one statistic (such as the median) of the seconds of a stage over all nodes; 0 if no
    node has it.
    """
    values = [seconds[stage] for _, seconds in lines if stage in seconds]
    return statistic(values) if values else 0.0


def _caption_text(lines: Sequence[CompleteLine]) -> str:
    """Return the caption: how to read the figure, with its main numbers."""
    medians = {stage: _stage_statistic(lines, stage, median) for stage in TO_TRAINING[1:]}
    longest = max(medians, key=medians.__getitem__)
    wholes = []
    for line, _ in lines:
        whole_s = whole_seconds(line.instants, TO_TRAINING)
        if whole_s is not None:
            wholes.append(whole_s)
    first = f"{counted(len(lines), 'node')}."
    if wholes:
        first = (
            f"{counted(len(lines), 'node')} took {median(wholes):.1f} s in the median, and 95 % "
            f"of them at most {p95(wholes):.1f} s, from idle to the first step."
        )
    return (
        f'Read: {first} The longest stage ends with "{_COLORS[longest][1]}" '
        f"({medians[longest]:.1f} s). The two "
        "upper bars stack medians and 95th percentiles of the single stages; these do not add "
        "up to those of the whole."
    )


def _seconds_text(value: float | None) -> str:
    """Seconds in a CSV file; empty without a value."""
    return "" if value is None else f"{value:.4f}"
