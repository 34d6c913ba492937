"""The page of ``replay report``: one log, from the replays of its plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bftrainer.domain.model import Trainer
from bftrainer_replay.analysis.characterize import Characteristics
from bftrainer_replay.analysis.idle_causes import Cause, IdleCauses, explained
from bftrainer_replay.analysis.partitions import HEADINGS, partitions_of
from bftrainer_replay.analysis.shared_nodes import shared_nodes
from bftrainer_replay.figures.sweeps import Level
from bftrainer_replay.logs.event_log import format_time
from bftrainer_replay.logs.model import LogWindow
from bftrainer_replay.report.assumptions import assumptions_chapter
from bftrainer_replay.report.headline import MONTH_H, UsedNodes, bar, sentences, span_text
from bftrainer_replay.report.page import Chapter, Page, PageTable
from bftrainer_replay.report.pictures import (
    WHAT_U_IS,
    efficiency_picture,
    idle_pictures,
    lost_picture,
    nodes_picture,
    trainers_picture,
)
from bftrainer_replay.report.plan import ReportPlan
from bftrainer_replay.report.settings import cost_chapter, forward_chapter, objective_chapter, parallel_chapter
from bftrainer_replay.sweep.cell import Cell
from bftrainer_replay.sweep.detail import read_detail
from bftrainer_replay.sweep.results import SweepRow
from bftrainer_replay.workload.workload import SAMPLES_TOTAL

# Table 1 of the paper: system, span, INC/h, DEC/h, idle share, eq-nodes.
_TABLE_1 = (
    ("Summit (paper)", "2 months", "41.7", "28.6", "11.1%", "524"),
    ("Theta (paper)", "1 year", "6.3", "6.2", "12.5%", "547"),
    ("Mira (paper)", "1 year", "2.8", "2.4", "10.3%", "5,071"),
)


def log_page(
    window: LogWindow,
    found: Characteristics,
    plan: ReportPlan,
    rows: Mapping[Cell, SweepRow],
    static_bins: Sequence[float],
    trainers: Sequence[Trainer],
    curves: str,
    name: str,
    commands: tuple[str, ...],
) -> Page:
    """The page; ``rows`` has every cell of the plan, ``static_bins`` is A_s of each bin in samples.

    ``curves`` says where the throughput curves of ``trainers`` were measured.
    """
    base = rows[plan.base]
    months = MONTH_H / found.span_h
    forward = forward_chapter(
        [rows[c] for c in plan.forward],
        [
            rows[c]
            for c in plan.objectives
            if c.objective != plan.base.objective and c.max_parallel == plan.base.max_parallel
        ],
        read_detail(base.result["detail"]),
        window,
        None if base.no_cost_bound is None else Level(f"no-cost bound {base.no_cost_bound:.1%}", base.no_cost_bound),
    )
    at_base = [rows[c] for c in plan.objectives if c.forward_s == plan.base.forward_s]
    chapters = (
        assumptions_chapter(window, plan, rows, trainers, curves),
        _idle(window, found),
        _queue(found, window),
        *_shared(window),
        _training(plan, rows, static_bins),
        _month(base, found, months),
        _replays(plan, rows),
        forward,
        parallel_chapter([rows[c] for c in plan.parallel]),
        objective_chapter(
            [r for r in at_base if r.cell.max_parallel == plan.base.max_parallel],
            [*(rows[c] for c in plan.parallel), *(r for r in at_base if r.cell.objective != plan.base.objective)],
        ),
        cost_chapter([rows[c] for c in plan.costs]),
    )
    used = UsedNodes.of(base).share
    tiles = (
        ("idle node-hours per month", f"{found.node_hours * months:,.0f}"),
        (f"of {found.machine_nodes:,} nodes idle", f"{found.idle_share:.1%}"),
        ("of the idle node-hours used", f"{used:.1%}"),
        ("of the idle node-hours left over", f"{1 - used:.1%}"),
    )
    return Page(
        f"{name}: training on idle nodes", "\n".join(sentences(found, plan, rows)), _warnings(window, base), tiles,
        chapters, commands, bar(found, base),
    )  # fmt: skip


def _idle(window: LogWindow, found: Characteristics) -> Chapter:
    """Numbers of the idle nodes beside the paper's, and pictures."""
    row = (
        "this log", span_text(found.span_h), f"{found.per_hour(found.increases):.1f}", f"{found.per_hour(found.decreases):.1f}",
        f"{found.idle_share:.1%}", f"{found.eq_nodes:,.0f}",
    )  # fmt: skip
    table = PageTable(
        "table-1",
        "Idle nodes, compared with Table 1 of the paper",
        "Read: INC/h and DEC/h are how often per hour the number of idle nodes increases and decreases; eq-nodes is the "
        "constant number of nodes that would give the same node-hours.",
        ("system", "span", "INC/h", "DEC/h", "idle share", "eq-nodes"),
        (row, *_TABLE_1),
        main=0,
    )
    return Chapter(
        "Idle nodes",
        f"From {format_time(window.start_s)} to {format_time(window.end_s)} ({window.clock}).",
        (table, *idle_pictures(window)),
    )


def _queue_text(causes: IdleCauses) -> str:
    return f"At least {1 - causes.fillable_share:.1%} of the idle node-time could not have been filled by the jobs that waited."


def _causes_table(causes: IdleCauses, window: LogWindow) -> PageTable:
    rows = [
        (cause.value, f"{causes.of(cause):,.0f}", f"{share:.1%}")
        for cause, share in causes.shares().items()
        if share or cause in (Cause.FITS, Cause.NO_JOB)
    ]
    return PageTable(
        "idle-while",
        "Jobs that waited while nodes were idle",
        f"Read: {' '.join(explained(causes, window.debounce_s))}",
        ("idle node-time while", "node-hours", "share"),
        tuple(rows),
        main=1,
        prose=True,
    )


def _by_partition(window: LogWindow) -> tuple[PageTable, ...]:
    rows = tuple(part.cells() for part in partitions_of(window))
    if len(rows) < 2:
        return ()
    return (
        PageTable(
            "partitions",
            "By partition and device type",
            "Read: a node in several partitions counts in each. The option --partition NAME makes this report of one of them.",
            HEADINGS,
            rows,
            main=3,
        ),
    )


def _shared(window: LogWindow) -> tuple[Chapter, ...]:
    """Cores and devices that are idle on nodes with a job."""
    shared = shared_nodes(window)
    if shared is None:
        return ()
    table = PageTable(
        "shared-nodes",
        "Idle cores and devices",
        "Read: the first three columns add up to what there is, less what is out of service. What a node has is the most that "
        "was in use on it at once, which is at most what it really has.",
        ("hours of", "in use", "idle on nodes without a job", "idle on nodes with a job", "all idle", "of what there is"),
        tuple(
            (
                each.kind, f"{each.used_h:,.0f}", f"{each.whole_nodes_h:,.0f}", f"{each.parts_h:,.0f}", f"{each.idle_h:,.0f}",
                f"{each.idle_h / each.available_h:.1%}" if each.available_h else "",
            )
            for each in shared.kinds
        ),
        main=4,
    )  # fmt: skip
    return (Chapter("Shared nodes", shared.sentence(), (table,)),)


def _queue(found: Characteristics, window: LogWindow) -> Chapter:
    title = "Idle nodes and waiting jobs"
    if found.idle_while is None:
        return Chapter(
            title,
            "This log does not contain the job queue. The report therefore cannot tell idle nodes that the scheduler could "
            "have filled from those that it could not. The scheduler's own job log contains the queue.",
            (),
        )
    return Chapter(
        title, _queue_text(found.idle_while), (_causes_table(found.idle_while, window), *_by_partition(window))
    )


def _training(plan: ReportPlan, rows: Mapping[Cell, SweepRow], static_bins: Sequence[float]) -> Chapter:
    """The base in pictures, with equal share for comparison."""
    base = rows[plan.base]
    details = {
        cell.policy: read_detail(rows[cell].result["detail"]) for cell in plan.policies if "detail" in rows[cell].result
    }
    policy = plan.base.policy
    return Chapter(
        "Training on the idle nodes",
        f"T_fwd {plan.base.forward_s:g} s, {plan.base.max_parallel} concurrent trainers, objective {plan.base.objective}, "
        f"policy {policy}; {int(base.result['completed']):,} trainers completed. Efficiency U is {base.efficiency or 0.0:.1%}: "
        "it compares with as many dedicated nodes under the same limit of concurrent trainers, so it is not the share of the "
        f"idle node-hours that is used ({UsedNodes.of(base).share:.1%}).",
        (
            nodes_picture(details[policy], policy, base.efficiency),
            efficiency_picture(details, static_bins),
            trainers_picture(details[policy], policy),
            lost_picture(details),
        ),
        note=WHAT_U_IS,
    )


def _month(base: SweepRow, found: Characteristics, months: float) -> Chapter:
    result = base.result
    used = float(result["resource_integral_node_h"]) - float(result["unused_node_h"])

    def both(value: float) -> tuple[str, str]:
        return f"{value:,.0f}", f"{value * months:,.0f}"

    table = PageTable(
        "per-month",
        "This log, and 30 days like it",
        "Read: one-node hours are the time that one dedicated node would need for the same samples. This measure does not "
        "favor models with cheap samples.",
        ("", "this log", "a month"),
        (
            ("idle node-hours", *both(found.node_hours)),
            ("node-hours in training", *both(used)),
            ("million samples", *both(base.samples / 1e6)),
            ("trainings of 100 epochs of ImageNet", *both(base.samples / SAMPLES_TOTAL)),
            ("one-node hours of training", *both(float(result["outcome_one_node_h"]))),
            ("nodes preempted while in training", *both(float(result["preemptions"]))),
        ),
        main=2,
    )
    return Chapter("Per month", "The numbers of this log, scaled to 30 days.", (table,))


def _replays(plan: ReportPlan, rows: Mapping[Cell, SweepRow]) -> Chapter:
    base = rows[plan.base]

    def row(each: SweepRow) -> tuple[str, ...]:
        cell, result = each.cell, each.result
        mean = result["mean_runtime_h"]
        return (
            cell.policy, cell.objective, f"{cell.forward_s:g} s", f"{cell.max_parallel}", f"{cell.cost_factor:g}",
            "–" if each.efficiency is None else f"{each.efficiency:.1%}",  # noqa: RUF001  # a dash
            f"{each.samples / base.samples - 1:+.1%}" if base.samples else "",
            f"{float(result['outcome_one_node_h']):,.0f}", f"{int(result['completed']):,}",
            "" if mean is None else f"{mean:.1f}", f"{int(result['preemptions']):,}", f"{int(result['rescales']):,}",
        )  # fmt: skip

    every = tuple(row(rows[cell]) for cell in plan.cells)
    ranked = sorted((rows[c] for c in plan.policies), key=lambda r: -r.samples)
    words = ", ".join(f"{r.cell.policy} {r.samples / 1e6:,.0f}" for r in ranked)
    table = PageTable(
        "replays",
        "All replays of this report",
        f"Read: the first row is the replay shown above; each other row changes one setting. Million samples by policy: "
        f"{words}.",
        (
            "policy", "objective", "T_fwd", "P_jmax", "costs", "U", "samples", "one-node h", "done", "mean h", "preempted",
            "rescales",
        ),
        every,
        main=0,
    )  # fmt: skip
    text = (
        "U is relative to the same number of dedicated nodes and of concurrent trainers. The samples are relative to the first "
        "row."
    )
    return Chapter("All replays", text, (table,))


def _warnings(window: LogWindow, base: SweepRow) -> tuple[str, ...]:
    found = [window.note] if window.note else []
    if base.result["work_ran_out_at"] is not None:
        found.append(
            f"Trainers ran out of work at {base.result['work_ran_out_at']}; from then on, U counts idle nodes as lost"
        )
    return tuple(found)
