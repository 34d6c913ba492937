"""Pictures that several pages show, with their data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bftrainer_replay.analysis.fragments import fragments_of, pool_sizes_of
from bftrainer_replay.figures.fragments import fragments_figure
from bftrainer_replay.figures.idle_nodes import idle_nodes_figure
from bftrainer_replay.figures.over_time import efficiency_over_time_figure
from bftrainer_replay.figures.replays import lost_figure, nodes_figure, trainers_figure
from bftrainer_replay.logs.event_log import format_time
from bftrainer_replay.logs.model import LogWindow
from bftrainer_replay.report.page import Picture, step_series
from bftrainer_replay.sweep.detail import Detail

WHAT_U_IS = (
    "U is A_e / A_s. A_e is the training done in the replay. A_s is the training that the same queue would have done on a "
    "constant number of dedicated nodes, equal to the mean number of idle nodes (eq-nodes), shared equally among the same "
    "number of concurrent trainers, without any rescale cost. Equal sharing is a reference, not an upper bound: a policy that "
    "gives nodes to the trainers that benefit most from them can exceed A_s on the same node-hours, and U is then above 100 %. "
    "This happens if trainers differ: under the objective throughput, trainers with cheap samples get more nodes, and U counts "
    "samples (the one-node hours beside it weigh all models equally). It also happens on few nodes: equal sharing gives the "
    "nodes that do not divide evenly to the first trainers in the queue, and all nodes if there are fewer nodes than trainers, "
    "although other trainers would benefit more. U is lowered by preemptions, by rescales, and by times with more idle nodes "
    "than the trainers together can use."
)


def idle_pictures(window: LogWindow) -> tuple[Picture, Picture]:
    """The idle nodes over time, and the lengths of the fragments."""
    sizes, fragments = pool_sizes_of(window), fragments_of(window)
    over_time = [(format_time(at), n) for at, n in zip(sizes.start_s.tolist(), sizes.nodes.tolist(), strict=True)]
    lengths = [(node, f"{s:.0f}") for node, s in zip(fragments.nodes, fragments.length_s.tolist(), strict=True)]
    return (
        Picture("idle-nodes", idle_nodes_figure(window), ("time", "idle_nodes"), over_time),
        Picture("fragments", fragments_figure(window), ("node", "length_s"), lengths),
    )


def nodes_picture(detail: Detail, policy: str, efficiency: float | None) -> Picture:
    """Idle nodes and nodes in training under one policy."""
    edges_s, idle, used = detail.edges_s.tolist(), detail.idle.tolist(), detail.used.tolist()
    rows = list(zip(_times(edges_s), idle, used, strict=True))
    series = step_series(edges_s, {"idle": idle, "in training": used}, "nodes", "nodes", area=True)
    return Picture("timeline", nodes_figure(detail, policy, efficiency), ("time", "idle", "in_training"), rows, series)


def efficiency_picture(details: Mapping[str, Detail], static_bins: Sequence[float]) -> Picture:
    """U of each bin by policy (Fig. 10); ``static_bins`` is A_s of each bin in samples. The figure shows the first four."""
    bins_s = next(iter(details.values())).bin_edges_s.tolist()
    efficiency = {
        name: [done / static if static else 0.0 for done, static in zip(d.samples.tolist(), static_bins, strict=True)]
        for name, d in details.items()
    }
    rows = [
        (name, at, f"{u:.4f}") for name, each in efficiency.items() for at, u in zip(_times(bins_s), each, strict=True)
    ]
    series = step_series(bins_s, efficiency, "%", "efficiency U")
    figure = efficiency_over_time_figure(bins_s, efficiency)
    return Picture("efficiency-over-time", figure, ("policy", "time", "efficiency"), rows, series)


def lost_picture(details: Mapping[str, Detail]) -> Picture:
    """The samples lost to preemption and to rescaling by policy (Fig. 11)."""
    rows = [
        (name, at, *(round(float(x), 1) for x in values))
        for name, d in details.items()
        for at, *values in zip(
            _times(d.bin_edges_s.tolist()), d.samples, d.lost_to_preemption, d.lost_to_rescale, strict=True
        )
    ]
    header = ("policy", "time", "samples", "lost_to_preemption", "lost_to_rescale")
    return Picture("lost", lost_figure({name: d.bins for name, d in details.items()}), header, rows)


def trainers_picture(detail: Detail, policy: str) -> Picture:
    """The trainers from start to end."""
    rows = [
        (name, model, format_time(round(start)), format_time(round(end)), "yes" if done else "no")
        for name, model, start, end, done in detail.trainers
    ]
    return Picture("trainers", trainers_figure(detail, policy), ("trainer", "model", "start", "end", "done"), rows)


def _times(edges_s: Sequence[float]) -> list[str]:
    """The beginning of each step or bin."""
    return [format_time(round(at)) for at in edges_s[:-1]]
