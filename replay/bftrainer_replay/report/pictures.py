"""Pictures that several pages show, with their data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from bftrainer_replay.analysis.calendar import DAYS, hours_of_week, idle_by_month
from bftrainer_replay.analysis.fragments import fragments_of
from bftrainer_replay.figures.calendar import hours_figure, months_figure
from bftrainer_replay.figures.fragments import fragments_figure
from bftrainer_replay.figures.over_time import efficiency_over_time_figure
from bftrainer_replay.figures.replays import nodes_figure
from bftrainer_replay.logs.event_log import format_time
from bftrainer_replay.logs.model import LogWindow
from bftrainer_replay.report.page import Picture, step_series
from bftrainer_replay.sweep.detail import Detail

WHAT_U_IS = (
    "Efficiency U is A_e / A_s. A_e is the training done in the replay. A_s is the training that the same queue would have "
    "done on a constant number of dedicated nodes, equal to the mean number of idle nodes (eq-nodes), shared equally among "
    "the same number of concurrent trainers, without any rescale cost. Equal sharing is a reference, not an upper bound: a "
    "policy that gives nodes to the trainers that benefit most from them can exceed A_s on the same node-hours, and U is then "
    "above 100 %. This happens if trainers differ: under the objective throughput, trainers with cheap samples get more nodes, "
    "and U counts samples (the one-node hours beside it weigh all models equally). It also happens on few nodes: equal sharing "
    "gives the nodes that do not divide evenly to the first trainers in the queue, and all nodes if there are fewer nodes than "
    "trainers, although other trainers would benefit more. U is lowered by preemptions, by rescales, and by times with more "
    "idle nodes than the trainers together can use."
)


def idle_pictures(window: LogWindow) -> tuple[Picture, ...]:
    """The idle nodes by hour and weekday and by month, and the lengths of the fragments."""
    lengths_s, counts = np.unique(np.rint(fragments_of(window).length_s).astype(np.int64), return_counts=True)
    return (
        *_calendar_pictures(window),
        Picture(
            "fragments",
            fragments_figure(window),
            ("length_s", "fragments"),
            list(zip(lengths_s.tolist(), counts.tolist(), strict=True)),
        ),
    )


def _calendar_pictures(window: LogWindow) -> list[Picture]:
    """Where the log is long enough: a week for hours and weekdays, 60 days for months."""
    found = []
    if window.span_s >= 7 * 86400:
        hours = hours_of_week(window)
        rows = [
            (DAYS[day], hour, "" if np.isnan(share) else f"{share:.5f}", hours.days[day, hour])
            for (day, hour), share in np.ndenumerate(hours.shares)
        ]
        figure = hours_figure(hours, window.clock_name)
        found.append(Picture("idle-by-hour", figure, ("weekday", "hour", "idle_share", "days"), rows))
    if window.span_s >= 60 * 86400:
        months = idle_by_month(window)
        figure = months_figure(months, window)
        found.append(Picture("idle-by-month", figure, ("month", "idle_share"), [(m, f"{x:.5f}") for m, x in months]))
    return found


def nodes_picture(detail: Detail, policy: str, efficiency: float | None, window: LogWindow, shown: str = "") -> Picture:
    """Idle nodes and nodes in training under one policy; ``shown`` names the part of the log, if it is not all of it."""
    edges_s, idle, used = detail.edges_s.tolist(), detail.idle.tolist(), detail.used.tolist()
    rows = list(zip(_times(edges_s), idle, used, strict=True))
    series = step_series(edges_s, {"idle": idle, "in training": used}, "nodes", "nodes", area=True, window=window)
    figure = nodes_figure(detail, policy, efficiency, window, shown)
    return Picture("timeline", figure, ("time", "idle", "in_training"), rows, series)


def efficiency_picture(details: Mapping[str, Detail], static_bins: Sequence[float], window: LogWindow) -> Picture:
    """Interval efficiency by policy (Fig. 10), the first four in the figure; ``static_bins`` is A_s of each bin in samples."""
    bins_s = next(iter(details.values())).bin_edges_s.tolist()
    efficiency = {
        name: [done / static if static else 0.0 for done, static in zip(d.samples.tolist(), static_bins, strict=True)]
        for name, d in details.items()
    }
    rows = [
        (name, at, f"{u:.4f}") for name, each in efficiency.items() for at, u in zip(_times(bins_s), each, strict=True)
    ]
    series = step_series(bins_s, efficiency, "%", "interval efficiency", window=window)
    figure = efficiency_over_time_figure(bins_s, efficiency, window.zone)
    return Picture("efficiency-over-time", figure, ("policy", "time", "interval_efficiency"), rows, series)


def _times(edges_s: Sequence[float]) -> list[str]:
    """The beginning of each step or bin."""
    return [format_time(round(at)) for at in edges_s[:-1]]
