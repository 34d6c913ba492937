"""The chapter on what was trained: nodes, efficiency, trainers and losses over time (the paper's Figs. 10 and 11)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bftrainer_replay.figures.over_time import efficiency_over_time_figure
from bftrainer_replay.figures.replays import lost_figure, nodes_figure, trainers_figure
from bftrainer_replay.logs.event_log import format_time
from bftrainer_replay.report.items import Chapter, picture, stepped
from bftrainer_replay.report.plan import ReportPlan
from bftrainer_replay.sweep.cell import Cell
from bftrainer_replay.sweep.detail import read_detail
from bftrainer_replay.sweep.results import SweepRow

WHAT_U_IS = (
    "U is A_e / A_s. A_e is what the replay trained. A_s is what the same queue would have trained on as many constant "
    "nodes as were idle on average (eq-nodes), all of them dedicated, shared out equally among as many trainers at once, "
    "without any rescaling cost. Equal sharing is what U is measured by, not the best there is: a policy that gives nodes "
    "to those who make most of them can do more than A_s on the same node-hours, and U is then above 100 %. That happens "
    "where trainers differ: under the objective throughput those with cheap samples get more nodes, and samples are what U "
    "counts (one-node hours beside it count every model alike). It happens on few nodes too: equal sharing gives those that "
    "do not divide evenly, all of them where there are fewer nodes than trainers, to the first in line, who makes less of "
    "them than others would. What lowers U: preemptions, rescales, and moments with more idle nodes than the trainers "
    "together can use."
)


def outcome_chapter(plan: ReportPlan, rows: Mapping[Cell, SweepRow], static_bins: Sequence[float]) -> Chapter:
    """The base in pictures, equal share beside it where that helps; ``static_bins`` is A_s of each bin in samples."""
    base = rows[plan.base]
    details = {
        cell.policy: read_detail(rows[cell].result["detail"]) for cell in plan.policies if "detail" in rows[cell].result
    }
    mine = details[plan.base.policy]
    times = [format_time(round(float(at))) for at in mine.edges_s[:-1]]
    series = list(zip(times, mine.idle.tolist(), mine.used.tolist(), strict=True))
    nodes = stepped(
        mine.edges_s.tolist(),
        {"idle": mine.idle.tolist(), "in training": mine.used.tolist()},
        "nodes",
        "nodes",
        area=True,
    )
    bins_s = mine.bin_edges_s.tolist()
    efficiency = {
        name: [done / most if most else 0.0 for done, most in zip(d.samples.tolist(), static_bins, strict=True)]
        for name, d in list(details.items())[:4]
    }
    binned = [
        (name, format_time(round(at)), f"{u:.4f}")
        for name, each in efficiency.items()
        for at, u in zip(bins_s[:-1], each, strict=True)
    ]
    lost = [
        (name, format_time(round(float(at))), *(round(float(x), 1) for x in values))
        for name, d in details.items()
        for at, *values in zip(d.bin_edges_s[:-1], d.samples, d.lost_to_preemption, d.lost_to_rescale, strict=True)
    ]
    bars = [
        (n, m, format_time(round(a)), format_time(round(b)), "yes" if done else "no")
        for n, m, a, b, done in mine.trainers
    ]
    policy = plan.base.policy
    return Chapter(
        "What they would have trained",
        f"T_fwd {plan.base.forward_s:g} s, {plan.base.max_parallel} trainers at once, objective {plan.base.objective}, "
        f"policy {policy}; {int(base.result['completed']):,} trainers done.",
        (
            picture(
                "timeline", nodes_figure(mine, policy, base.efficiency), ("time", "idle", "in_training"), series, nodes
            ),
            picture(
                "efficiency-over-time",
                efficiency_over_time_figure(bins_s, efficiency),
                ("policy", "time", "efficiency"),
                binned,
                stepped(bins_s, efficiency, "%", "efficiency U"),
            ),
            picture("trainers", trainers_figure(mine, policy), ("trainer", "model", "start", "end", "done"), bars),
            picture(
                "lost",
                lost_figure(details),
                ("policy", "time", "samples", "lost_to_preemption", "lost_to_rescale"),
                lost,
            ),
        ),
        note=WHAT_U_IS,
    )
