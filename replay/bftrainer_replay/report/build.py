"""The chapters of the report, from the window and the rows of its plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bftrainer_replay.analysis.characterize import Characteristics
from bftrainer_replay.analysis.fragments import fragments_of, pool_sizes_of
from bftrainer_replay.figures.fragments import fragments_figure
from bftrainer_replay.figures.idle_nodes import idle_nodes_figure
from bftrainer_replay.figures.sweeps import Level
from bftrainer_replay.logs.event_log import format_time
from bftrainer_replay.logs.model import LogWindow
from bftrainer_replay.report.items import Chapter, Table, picture
from bftrainer_replay.report.outcome import outcome_chapter
from bftrainer_replay.report.page import Report
from bftrainer_replay.report.plan import ReportPlan
from bftrainer_replay.report.settings import cost_chapter, forward_chapter, objective_chapter, parallel_chapter
from bftrainer_replay.sweep.cell import Cell
from bftrainer_replay.sweep.detail import read_detail
from bftrainer_replay.sweep.results import SweepRow
from bftrainer_replay.workload.workload import SAMPLES_TOTAL

_MONTH_H = 30 * 24.0
# Table 1 of the paper: system, span, INC/h, DEC/h, idle share, eq-nodes.
_TABLE_1 = (
    ("Summit (paper)", "2 months", "41.7", "28.6", "11.1%", "524"),
    ("Theta (paper)", "1 year", "6.3", "6.2", "12.5%", "547"),
    ("Mira (paper)", "1 year", "2.8", "2.4", "10.3%", "5,071"),
)


def build(
    window: LogWindow,
    found: Characteristics,
    plan: ReportPlan,
    rows: Mapping[Cell, SweepRow],
    static_bins: Sequence[float],
    name: str,
    commands: tuple[str, ...],
) -> Report:
    """The report; ``rows`` has every cell of the plan, ``static_bins`` is A_s of each bin in samples."""
    base = rows[plan.base]
    months = _MONTH_H / found.span_h
    u = base.efficiency or 0.0
    equal = next((rows[cell] for cell in plan.policies if cell.policy == "equal-share"), None)
    gain = (
        "" if equal is None or not equal.samples else f", {_signed(base.samples / equal.samples - 1)} than equal shares"
    )
    lead = (
        f"In {_span(found.span_h)} {found.node_hours:,.0f} node-hours lay idle, {found.idle_share:.1%} of the machine. "
        f"bftrainer would have trained {base.samples / 1e6:,.0f} million samples on them: {u:.0%} of what "
        f"{found.eq_nodes:,.0f} dedicated nodes would have done{gain}."
    )
    most = max((rows[c] for c in plan.parallel), key=lambda row: row.samples)
    if most.samples > 1.02 * base.samples:
        lead += (
            f" With {most.cell.max_parallel} trainers at once instead of {plan.base.max_parallel} it would be "
            f"{_signed(most.samples / base.samples - 1)}."
        )
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
        _idle(window, found),
        _queue(found, window),
        outcome_chapter(plan, rows, static_bins),
        _month(base, found, months),
        _policies(plan, rows),
        forward,
        parallel_chapter([rows[c] for c in plan.parallel]),
        objective_chapter(
            [r for r in at_base if r.cell.max_parallel == plan.base.max_parallel],
            [*(rows[c] for c in plan.parallel), *(r for r in at_base if r.cell.objective != plan.base.objective)],
        ),
        cost_chapter([rows[c] for c in plan.costs]),
    )
    tiles = (
        ("idle node-hours", f"{found.node_hours:,.0f}"),
        (f"idle share of {found.machine_nodes:,} nodes", f"{found.idle_share:.1%}"),
        ("efficiency U", f"{u:.1%}"),
        ("one-node hours of training a month", f"{months * float(base.result['outcome_one_node_h']):,.0f}"),
    )
    return Report(f"{name}: what its idle nodes could train", lead, _warnings(window, base), tiles, chapters, commands)


def _idle(window: LogWindow, found: Characteristics) -> Chapter:
    row = (
        "this log", _span(found.span_h), f"{found.per_hour(found.increases):.1f}", f"{found.per_hour(found.decreases):.1f}",
        f"{found.idle_share:.1%}", f"{found.eq_nodes:,.0f}",
    )  # fmt: skip
    table = Table(
        "table-1",
        "The idle nodes beside the paper's Table 1",
        "Read: how often the number of idle nodes grows (INC) and falls (DEC) in an hour, and the nodes that would give as "
        "many node-hours if they were always there (eq-nodes).",
        ("system", "span", "INC/h", "DEC/h", "idle share", "eq-nodes"),
        (row, *_TABLE_1),
        main=0,
    )
    sizes = pool_sizes_of(window)
    over_time = [(format_time(at), n) for at, n in zip(sizes.start_s.tolist(), sizes.nodes.tolist(), strict=True)]
    fragments = fragments_of(window)
    lengths = [(node, f"{s:.0f}") for node, s in zip(fragments.nodes, fragments.length_s.tolist(), strict=True)]
    return Chapter(
        "What lies idle",
        f"From {format_time(window.start_s)} to {format_time(window.end_s)} ({window.clock}).",
        (
            table,
            picture("idle-nodes", idle_nodes_figure(window), ("time", "idle_nodes"), over_time),
            picture("fragments", fragments_figure(window), ("node", "length_s"), lengths),
        ),
    )


def _queue(found: Characteristics, window: LogWindow) -> Chapter:
    if found.idle_while is None:
        return Chapter(
            "What could not have been backfilled",
            "This log does not say who waited in the queue, so this report cannot tell idle nodes that the scheduler could "
            "have filled from those it could not. Give the scheduler's own job log to know.",
            (),
        )
    told = found.idle_while
    nobody, fits, larger = told.shares()
    table = Table(
        "idle-while",
        "What waited while nodes were idle",
        f"Read: during {fits:.1%} of the idle node-time a job waited that asked for no more nodes than were idle; why it did "
        f"not start (time, memory, partition, priority) the log does not say. A better-filled machine would leave less to "
        f"train on. Waits under {window.debounce_s:g} s do not count.",
        ("idle node-time while", "node-hours", "share"),
        (
            ("no job waits", f"{told.no_job_waits_node_h:,.0f}", f"{nobody:.1%}"),
            ("a waiting job is small enough to fit", f"{told.a_waiting_job_fits_node_h:,.0f}", f"{fits:.1%}"),
            ("only larger jobs wait", f"{told.only_larger_jobs_wait_node_h:,.0f}", f"{larger:.1%}"),
        ),
        main=1,
    )
    text = f"At least {nobody + larger:.1%} of the idle node-time could not have been filled by any waiting job's size."
    return Chapter("What could not have been backfilled", text, (table,))


def _month(base: SweepRow, found: Characteristics, months: float) -> Chapter:
    result = base.result
    used = float(result["resource_integral_node_h"]) - float(result["unused_node_h"])

    def both(value: float) -> tuple[str, str]:
        return f"{value:,.0f}", f"{value * months:,.0f}"

    table = Table(
        "per-month",
        "In this log, and in 30 days like it",
        "Read: one-node hours are what one dedicated node would need for the same samples, a measure that does not favour "
        "models with cheap samples.",
        ("", "this log", "a month"),
        (
            ("idle node-hours", *both(found.node_hours)),
            ("node-hours in training", *both(used)),
            ("million samples", *both(base.samples / 1e6)),
            ("trainings of 100 epochs of ImageNet", *both(base.samples / SAMPLES_TOTAL)),
            ("one-node hours of training", *both(float(result["outcome_one_node_h"]))),
            ("nodes taken back by the main queue while training (preemptions)", *both(float(result["preemptions"]))),
        ),
        main=2,
    )
    return Chapter("What that is in a month", "If every month were like this log.", (table,))


def _policies(plan: ReportPlan, rows: Mapping[Cell, SweepRow]) -> Chapter:
    base = rows[plan.base]

    def row(each: SweepRow) -> tuple[str, ...]:
        cell, told = each.cell, each.result
        mean = told["mean_runtime_h"]
        return (
            cell.policy, cell.objective, f"{cell.forward_s:g} s", f"{cell.max_parallel}", f"{cell.cost_factor:g}",
            "–" if each.efficiency is None else f"{each.efficiency:.1%}",  # noqa: RUF001  # a dash
            f"{each.samples / base.samples - 1:+.1%}" if base.samples else "",
            f"{float(told['outcome_one_node_h']):,.0f}", f"{int(told['completed']):,}",
            "" if mean is None else f"{mean:.1f}", f"{int(told['preemptions']):,}", f"{int(told['rescales']):,}",
        )  # fmt: skip

    every = tuple(row(rows[cell]) for cell in plan.cells)
    ranked = sorted((rows[c] for c in plan.policies), key=lambda r: -r.samples)
    words = ", ".join(f"{r.cell.policy} {r.samples / 1e6:,.0f}" for r in ranked)
    table = Table(
        "replays",
        "Every replay of this report",
        f"Read: the first row is the one shown above, the others change one thing each. Policies by million samples: {words}.",
        (
            "policy", "objective", "T_fwd", "P_jmax", "costs", "U", "samples", "one-node h", "done", "mean h", "preempted",
            "rescales",
        ),
        every,
        main=0,
    )  # fmt: skip
    text = "U compares with as many dedicated nodes and as many trainers; the samples with the first row."
    return Chapter("What if", text, (table,))


def _warnings(window: LogWindow, base: SweepRow) -> tuple[str, ...]:
    found = [window.note] if window.note else []
    if base.result["work_ran_out_at"] is not None:
        found.append(f"The work ran out at {base.result['work_ran_out_at']}; from there on U counts idle nodes as lost")
    return tuple(found)


def _signed(share: float) -> str:
    return f"{share:.1%} more" if share >= 0 else f"{-share:.1%} less"


def _span(hours: float) -> str:
    return f"{hours:.3g} hours" if hours < 48 else f"{hours / 24:.3g} days"
