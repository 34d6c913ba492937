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

MOST_NODES, MOST_LETTERS = 12, 12
_ROOM = 1.5
"""Times the longest bar: the legend is beside the bars."""
Known = tuple[TimeLine, dict[NodeStage, float]]
# Hues say who works: blue the pilot's looks, orange the scheduler, gray the pilot's decisions,
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
    """Each node's seconds by stage, as text for a CSV file."""
    found = []
    for line in lines:
        seconds = stage_seconds(line.instants, TO_TRAINING)
        if seconds:
            found.append((line.fragment, *(_text(seconds.get(stage)) for stage in TO_TRAINING[1:])))
    return found


def node_stages_figure(name: str, lines: Sequence[TimeLine]) -> Figure:
    """Of nodes whose first step is known: one bar with the medians of the stages, one with their
    95th percentiles, and the latest nodes one by one.
    """
    known = [
        (line, seconds) for line in lines if (seconds := stage_seconds(line.instants, TO_TRAINING))
    ]
    rows: list[tuple[str, dict[NodeStage, float]]] = []
    for label, of in SUMMARIES:
        rows.append((label, {stage: _summary(known, stage, of) for stage in TO_TRAINING[1:]}))
    rows += [(line.node[:MOST_LETTERS], seconds) for line, seconds in known[-MOST_NODES:]]
    figure, (axes,) = sheet(f"{name}: from an idle node to its first step", _caption(known))
    for place, (_, seconds) in enumerate(rows):
        left, y = 0.0, -place - (0.6 if place >= len(SUMMARIES) else 0.0)
        for stage, (color, _) in _COLORS.items():
            if width := seconds.get(stage, 0.0):
                axes.barh(
                    y, width, left=left, height=0.72, color=color, edgecolor="white", linewidth=0.4
                )
                left += width
        axes.text(left, y, f"  {left:.1f}", va="center", fontsize=8, color=INK)
    axes.set_yticks(
        [-i - (0.6 if i >= len(SUMMARIES) else 0.0) for i in range(len(rows))],
        [label for label, _ in rows],
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


def _summary(
    known: Sequence[Known], stage: NodeStage, of: Callable[[Sequence[float]], float]
) -> float:
    values = [seconds[stage] for _, seconds in known if stage in seconds]
    return of(values) if values else 0.0


def _caption(known: Sequence[Known]) -> str:
    medians = {stage: _summary(known, stage, median) for stage in TO_TRAINING[1:]}
    longest = max(medians, key=medians.__getitem__)
    wholes = [
        whole
        for line, _ in known
        if (whole := whole_seconds(line.instants, TO_TRAINING)) is not None
    ]
    took = ""
    if wholes:
        took = (
            f" {median(wholes):.1f} s in the median, and 95 % of them at most {p95(wholes):.1f} s,"
        )
    first = (
        f"{counted(len(known), 'node')} took{took} from idle to the first step."
        if took
        else f"{counted(len(known), 'node')}."
    )
    return (
        f'Read: {first} The longest stage ends with "{_COLORS[longest][1]}" '
        f"({medians[longest]:.1f} s). The two "
        "upper bars stack medians and 95th percentiles of the single stages; these do not add "
        "up to those of the whole."
    )


def _text(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"
