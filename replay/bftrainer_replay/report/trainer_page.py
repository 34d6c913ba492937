"""The page of ``bftrainer plot``: one trainer's course in pictures, and what is known of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bftrainer.console.client.history import History
from bftrainer.decide.domain.node_stages import TO_TRAINING
from bftrainer.pilot.persistence.time_lines import TimeLine
from bftrainer_replay.figures.node_stages import node_stages_figure, stage_table
from bftrainer_replay.figures.trainer import (
    over_samples_figure,
    over_time_figure,
    rescale_times,
    speeds,
)
from bftrainer_replay.report.page import Chapter, Page, PageTable, Picture


def trainer_page(
    name: str,
    history: History,
    facts: Mapping[str, str],
    metric: str | None,
    nodes: Sequence[TimeLine] = (),
) -> Page:
    """Build the page of ``bftrainer plot``: a trainer's history of two points or more, in pictures
    and tables.

    ``facts`` are those of ``bftrainer show`` as text. ``nodes`` made their first step in this
    trainer.
    """
    edges, speed, reached = speeds(history.points)
    points = [
        (
            f"{point.at_s:.3f}",
            f"{point.samples:.10g}",
            "" if point.step is None else str(point.step),
            "" if point.loss is None else f"{point.loss:.6g}",
        )
        for point in history.points
    ]
    speed_rows = [
        (f"{at:.3f}", f"{n:.10g}", f"{rate:.6g}")
        for at, n, rate in zip(edges[1:], reached, speed, strict=True)
    ]
    pictures = (
        Picture(
            "over-time",
            over_time_figure(name, history, metric),
            ("time", "samples", "step", "loss"),
            points,
        ),
        Picture(
            "over-samples",
            over_samples_figure(name, history, metric),
            ("time", "samples", "samples_per_s"),
            speed_rows,
        ),
    )
    last = history.points[-1]
    tiles = (
        ("samples", f"{last.samples:,.0f}"),
        ("loss", "-" if last.loss is None else f"{last.loss:.4g}"),
        ("changes of size", f"{len(rescale_times(history)):,}"),
        ("nodes at most", str(max((line.nodes for line in history.nodes), default=0))),
    )
    table = PageTable(
        "facts",
        "Facts",
        "As bftrainer show prints it.",
        ("", name),
        tuple(facts.items()),
        prose=True,
    )
    return Page(
        title=f"The course of {name}",
        lead=(
            "Loss, nodes and speed as the trainer reported them. Thin lines mark changes of "
            "its number of nodes."
        ),
        warnings=(),
        tiles=tiles,
        chapters=(
            Chapter(
                "Course",
                "Over time, waiting shows; over samples, only the training does.",
                pictures,
            ),
            *_node_chapter(name, nodes),
            Chapter("Facts", "", (table,)),
        ),
        commands=(f"bftrainer plot {name}",),
    )


def _node_chapter(name: str, nodes: Sequence[TimeLine]) -> tuple[Chapter, ...]:
    """Return the chapter on how long nodes took from idle to their first step; none if that is not
    known.
    """
    if not (rows := stage_table(nodes)):
        return ()
    columns = ("fragment", *(f"{stage.value}_s" for stage in TO_TRAINING[1:]))
    picture = Picture("from-idle-to-training", node_stages_figure(name, nodes), columns, rows)
    text = (
        "The seconds between an idle node and its first step in this trainer, as bftrainer "
        "nodes --timeline shows them."
    )
    return (Chapter("Nodes", text, (picture,)),)
