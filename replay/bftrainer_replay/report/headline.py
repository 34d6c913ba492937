"""The top of a report: what the log shows, what a simulation adds to it, how long main-queue jobs wait, and what to do next.

A reader who sees only this must not mistake one for the other: the figures of the log stand first, and a box says that the rest
is a simulation, and of what, before its figures. Every share names what it is a share of. The efficiency U is further down: it
compares with as many dedicated nodes under the same limit of concurrent trainers, so it can be high while most idle nodes stay
unused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bftrainer.domain.model import Trainer
from bftrainer_replay.analysis.characterize import Characteristics
from bftrainer_replay.analysis.fragments import pool_sizes_of
from bftrainer_replay.analysis.idle_causes import IdleCause
from bftrainer_replay.logs.model import LogWindow
from bftrainer_replay.logs.needs import Fact
from bftrainer_replay.logs.silent import LEAST_H
from bftrainer_replay.report.page import Bar, BarMark, BarPart, TopPart
from bftrainer_replay.report.plan import ReportPlan
from bftrainer_replay.report.prices import NO_PRICES, SitePrices
from bftrainer_replay.report.simulated import MONTH_H, Trainings, settings_sentence, training_sentence
from bftrainer_replay.report.used_nodes import UsedNodes, preemptions
from bftrainer_replay.report.words import about, dates, range_text, share_text, span_text
from bftrainer_replay.sweep.cell import Cell
from bftrainer_replay.sweep.results import SweepRow
from bftrainer_replay.sweep.sample import LogSample

DELAYS_S = (0.06, 0.31, 1.33)
"""Medians of docs/slurm.md, "Effect on the main queue": least and largest of the recommended site; largest of the defaults."""


INTRODUCTION = (
    "bftrainer trains neural networks on nodes that no job uses, and gives a node back as soon as a job wants it. This page "
    "estimates from a log what that would bring on this cluster."
)
_EMPTY = 0.5
"""Most of a cluster is idle at once around maintenance rather than for want of jobs that fit."""
_EMPTY_MATTERS = 0.05  # of the idle node-hours
_EMPTY_RARE = 0.05  # of the time: a cluster that is empty more often just has few jobs
_UNKNOWN_OUT = " The log does not show which nodes were out of service: some of the idle ones may have been."


def title_of(window: LogWindow) -> str:
    """The cluster and the dates of the log: the name of a file says neither."""
    return f"Idle nodes of a {window.machine_nodes:,}-node cluster, {dates(window)}"


def top(
    log: str,
    window: LogWindow,
    found: Characteristics,
    plan: ReportPlan,
    sample: LogSample,
    rows: Mapping[Cell, SweepRow],
    trainings: Trainings,
    prices: SitePrices = NO_PRICES,
) -> tuple[TopPart, ...]:
    """What was idle and what a waiting job could have used; what training used, with which settings; the delay of jobs."""
    base = rows[plan.base]
    return (
        TopPart(
            f"From the log {log}",
            (idle_sentence(window, found, prices), _queue_sentence(found)),
            bar=_cluster_bar(found),
            note=_sentence(window.note),
        ),
        TopPart(
            "From a simulation on this log",
            (
                training_sentence(found, sample, base, prices),
                settings_sentence(window, plan, rows, trainings.trainers),
                *_taken(preemptions(base, found.node_hours) * MONTH_H / found.span_h, trainings.trainers),
            ),
            bar=_idle_bar(found, base),
            note=" ".join(text for text in (_ran_out(base), prices.missing_words()) if text),
            warning=trainings.warning,
        ),
        TopPart("From measurements on a test cluster", (_delay_sentence(),)),
        TopPart("What to do next", (_next_sentence(trainings),)),
    )


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def _ran_out(base: SweepRow) -> str:
    if base.result["work_ran_out_at"] is None:
        return ""
    return (
        f"Trainings ran out of work at {base.result['work_ran_out_at']}; from then on, the idle nodes stayed idle in the "
        "simulation."
    )


def _taken(nodes_a_month: float, trainers: Sequence[Trainer]) -> tuple[str, ...]:
    """How often jobs take nodes, and what that costs the trainings: ``training_sentence`` has both."""
    if nodes_a_month < 1:
        return ()
    seconds = range_text([trainer.scale_down_s for trainer in trainers])
    return (
        f"In 30 days, jobs would take a node from training about {about(nodes_a_month)} times. The training that loses it "
        f"stops for {seconds} s each time, which the figures above include.",
    )


def _delay_sentence() -> str:
    least, most, default = DELAYS_S
    return (
        f"In tests on a Slurm cluster of eight nodes, a job started {least:g} to {most:.1f} s later on nodes in "
        f"training than on an empty cluster with the recommended settings, and up to {default:.1f} s later with Slurm's "
        "defaults (medians of series of jobs of one to eight nodes). Larger clusters and other schedulers were not measured. "
        "All series: docs/slurm.md in the bftrainer repository, section Effect on the main queue."
    )


def _next_sentence(trainings: Trainings) -> str:
    """From this page to a trial."""
    first = (
        "Measure the training scripts of your own users (bftrainer rehearse FILE.toml --curves curves.csv, minutes on an idle "
        "node), and make this page again with --curves curves.csv. "
        if trainings.doubt
        else ""
    )
    return (
        f"{first}For a trial, which needs Slurm or LSF, set the scheduler up as in docs/site-setup.md or docs/lsf.md "
        "(bftrainer doctor names what it lacks), and run a pilot with few nodes, such as nodes.max_nodes = 16, for a week. "
        "Compare the waits of jobs before and during that week, and node-hours in training (bftrainer usage) with this page."
    )


def _cluster_bar(found: Characteristics) -> Bar:
    """The node-hours of the whole cluster. Without knowledge of nodes that are down, the rest need not be busy."""
    out = found.down_node_h / found.span_h / found.machine_nodes
    parts = (
        BarPart("busy" if out else "not idle", 1 - found.idle_share - out, "soft"),
        *((BarPart("out of service or reserved", out, "c6"),) if out else ()),
        BarPart("idle", found.idle_share, "c1"),
    )
    return Bar("All node-hours of the cluster", parts)


def _idle_bar(found: Characteristics, row: SweepRow) -> Bar:
    """The idle node-hours. Training and waiting jobs may have used the same ones: the latter are no part of their own."""
    used = UsedNodes.of(row).share
    mark = None
    if found.idle_while is not None and found.idle_while.fillable_share:
        mark = BarMark(
            "of all idle node-hours, a waiting job could have used (log)", 0.0, found.idle_while.fillable_share
        )
    parts = (BarPart("used by training (simulated)", used, "c3"), BarPart("still idle (simulated)", 1 - used, "c5"))
    return Bar("The idle node-hours", tuple(part for part in parts if part.share > 1e-9), mark)


def _silent_words(window: LogWindow) -> str:
    """Nodes that may be no part of the cluster any more, beside its size."""
    silent = window.site.silent
    if silent is None:
        return ""
    return (
        f" In the log, {silent.nodes:,} node{'s' if silent.nodes > 1 else ''} ran no job for {LEAST_H:g} hours or more at a "
        "time and may have been down or removed. "
        f"Without these periods, {silent.idle_share_without:.1%} of the log's node-hours are idle, not {silent.idle_share:.1%}."
    )


def _empty_words(window: LogWindow, found: Characteristics) -> str:
    """The times in which nearly nobody had a job: maintenance rather than nodes to be had."""
    pool = pool_sizes_of(window)
    empty = pool.nodes > _EMPTY * found.machine_nodes
    hours, node_h = pool.duration_s[empty].sum() / 3600, float(pool.nodes[empty] @ pool.duration_s[empty]) / 3600
    share = node_h / found.node_hours if found.node_hours else 0.0
    rest_h = found.span_h - hours
    if share < _EMPTY_MATTERS or hours > _EMPTY_RARE * found.span_h:
        return ""
    without = (found.node_hours - node_h) / rest_h / found.machine_nodes
    return (
        f" {share_text(share)} of the idle node-hours are from {span_text(hours)} in which more than half of the cluster was "
        f"idle at once, as around maintenance; in the rest of the time, {without:.1%} of the node-hours are idle."
    )


def idle_sentence(window: LogWindow, found: Characteristics, prices: SitePrices) -> str:
    """How many nodes are idle, and what that figure may have in it."""
    month_h = found.eq_nodes * MONTH_H
    idle = about(found.eq_nodes) if found.eq_nodes < 100 else f"{found.eq_nodes:,.0f}"
    out = found.down_node_h / found.span_h / found.machine_nodes
    unknown = "" if out or window.site.silent else _UNKNOWN_OUT
    apart = f" Another {share_text(out)} of all node-hours are out of service or reserved." if out else ""
    return (
        f"On average, {idle} of {found.machine_nodes:,} nodes are idle: {found.idle_share:.1%} of all "
        f"node-hours, or about {about(month_h)} idle node-hours in 30 days (measured over {span_text(found.span_h)})."
        f"{apart}{_silent_words(window)}{_empty_words(window, found)}{unknown}{prices.idle_words(month_h)}"
    )


def _queue_sentence(found: Characteristics) -> str:
    if found.idle_while is None:
        return (
            "This log does not tell which part of the idle node-hours a waiting job could have used; the scheduler's own job "
            "log would."
        )
    shares = found.idle_while.shares()
    fits = found.idle_while.fillable_share
    other = {cause: share for cause, share in shares.items() if cause is not IdleCause.FITS}
    cause = max(other, key=lambda each: other[each])
    most = ""
    if other[cause]:
        most = (
            f" The main reason for the rest: {found.idle_while.text(cause)} ({share_text(other[cause])} of all idle "
            "node-hours)."
        )
    if not fits:
        return f"Waiting jobs could have used none of the idle node-hours.{most.replace('the rest', 'this')}"
    could = f"Waiting jobs could have used at most {share_text(fits)} of the idle node-hours"
    if Fact.TIME_LIMIT in found.idle_while.unknown:
        return f"{could} by their size{_by(found)}; the log does not have their time limits.{most}"
    return (
        f"{could}: as many nodes as they asked for{_by(found)}, for as long as they asked. Training would use these nodes, "
        f"too, but a job that starts there takes them from it.{most}"
    )


def _by(found: Characteristics) -> str:
    """What else was judged of a waiting job."""
    assert found.idle_while is not None
    judged = {
        Fact.PARTITION: found.idle_while.dialect.partition,
        Fact.RESOURCES: "devices",
        Fact.CONSTRAINT: "features",
    }
    words = [word for fact, word in judged.items() if fact not in found.idle_while.unknown]
    return f" with the right {' and '.join(words)}" if words else ""
