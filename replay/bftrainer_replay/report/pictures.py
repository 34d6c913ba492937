"""Pictures that several pages show, with their data."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bftrainer_replay.analysis.fragments import fragments_of
from bftrainer_replay.figures.fragments import fragments_figure
from bftrainer_replay.figures.replays import nodes_figure
from bftrainer_replay.logs.event_log import format_time
from bftrainer_replay.logs.model import LogWindow
from bftrainer_replay.report.page import Picture, step_series
from bftrainer_replay.sweep.detail import Detail


def fragments_picture(window: LogWindow) -> Picture:
    """The lengths of the fragments."""
    lengths_s, counts = np.unique(np.rint(fragments_of(window).length_s).astype(np.int64), return_counts=True)
    rows = list(zip(lengths_s.tolist(), counts.tolist(), strict=True))
    return Picture("fragments", fragments_figure(window), ("length_s", "fragments"), rows)


def nodes_picture(detail: Detail, policy: str, window: LogWindow, shown: str = "") -> Picture:
    """Idle nodes and nodes in training under one policy; ``shown`` names the part of the log, if it is not all of it."""
    edges_s, idle, used = detail.edges_s.tolist(), detail.idle.tolist(), detail.used.tolist()
    rows = list(zip(_times(edges_s), idle, used, strict=True))
    series = step_series(edges_s, {"idle": idle, "in training": used}, "nodes", "nodes", area=True, window=window)
    figure = nodes_figure(detail, policy, window, shown)
    return Picture("timeline", figure, ("time", "idle", "in_training"), rows, series)


def _times(edges_s: Sequence[float]) -> list[str]:
    """The beginning of each step or bin."""
    return [format_time(round(at)) for at in edges_s[:-1]]
