"""Assumptions of a report: every guess of the importer, and every choice of the replay, with the
option that changes it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from bftrainer.counted import counted
from bftrainer_replay.logs.model import LogWindow
from bftrainer_replay.report.page import Chapter, PageTable
from bftrainer_replay.report.plan import ReportPlan
from bftrainer_replay.report.top import Trainings
from bftrainer_replay.report.used_nodes import UsedNodes, one_node_hours, spread_text
from bftrainer_replay.report.words import range_text
from bftrainer_replay.simulation.play import equivalent_nodes
from bftrainer_replay.sweep.cell import Cell
from bftrainer_replay.sweep.results import SweepRow
from bftrainer_replay.sweep.sample import LogSample

_GUESSES = (
    ("a warm-up of", "--warm-up-h"),
    ("a cool-down of", "--cool-down-h"),
    ("processors per node", "--processors-per-node"),
    ("skipped as bad", "--skip-bad"),
    ("outages excluded", "--outage"),
)


def assumptions_chapter(
    window: LogWindow,
    plan: ReportPlan,
    sample: LogSample,
    rows: Mapping[Cell, SweepRow],
    trainings: Trainings,
    guesses: Mapping[str, str],
) -> Chapter:
    """Return the chapter with one row per assumption of the report, with the option that changes
    it.

    ``guesses`` tells, by option of the importer, what another value would change; for settings of
    the replay, other replays tell it (``rows``).
    """
    base, trainers = rows[plan.base], trainings.trainers
    largest = max(trainer.max_nodes for trainer in trainers)
    usable_trainers = equivalent_nodes(window) / largest
    choices = [
        (
            "Throughput of the trainers",
            trainings.rates,
            "--curves, --trainers",
            trainings.doubt or "measure yours with bftrainer rehearse --curves",
        ),
        (
            "Cost of a rescale",
            f"a training stalls for R_up = {range_text([t.scale_up_s for t in trainers])} s "
            "when it gets nodes, for R_dw = "
            f"{range_text([trainer.scale_down_s for trainer in trainers])} s when it loses some",
            "--trainers",
            _effects_text(
                base,
                [rows[cost] for cost in plan.costs],
                lambda cell: f"{cell.cost_factor:g} times the cost",
            ),
        ),
        (
            "Concurrent trainers",
            f"at most {plan.base.max_parallel}; on average, {usable_trainers:.1f} trainers of "
            f"{counted(largest, 'node')} could use the idle nodes",
            "--max-parallel",
            _effects_text(
                base, [rows[c] for c in plan.parallel], lambda cell: f"{cell.max_parallel}"
            ),
        ),
        (
            "Objective",
            plan.base.objective,
            "",
            _effects_text(
                base,
                [
                    rows[objective]
                    for objective in plan.objectives
                    if _differs_in_objective_only(objective, plan.base)
                ],
                lambda cell: cell.objective,
            ),
        ),
        (
            "Forward-looking time",
            f"{plan.base.forward_s:g} s",
            "--forward-s",
            _effects_text(
                base, [rows[c] for c in plan.forward], lambda cell: f"{cell.forward_s:g} s"
            ),
        ),
    ]
    if not sample.is_whole:
        effect = f"{UsedNodes.of(base).share:.0%} used, {spread_text(base)}"
        # A replay of pieces is the assumption to read first.
        choices.insert(0, ("Part of the log that is replayed", sample.text, "--full", effect))
    if window.note:
        choices.append(("Nodes", window.note, "", ""))
    importer_rows = []
    for remark in window.remarks:
        options = _options_for(remark)
        effects = "; ".join(guesses[option] for option in options if option in guesses)
        importer_rows.append(("The log", _sentence(remark), ", ".join(options), effects))
    table = PageTable(
        "assumptions",
        "Assumptions and guesses",
        "Read: the last column is the work (one-node hours of training, estimated for the "
        "whole log) with another value, "
        "relative to the figures at the top, and the share of the idle node-hours used; or "
        "which share of the cluster is idle. "
        "An empty cell: not tried.",
        ("what", "assumed", "changed by", "effect of other values"),
        (*choices, *importer_rows),
        prose=True,
    )
    return Chapter("Assumptions", "The figures at the top depend on the following.", (table,))


def _options_for(remark: str) -> list[str]:
    """Return the options that a remark names, and those that replace the guesses it reports."""
    guess_options = [option for words, option in _GUESSES if words in remark]
    return list(dict.fromkeys([*re.findall(r"--[a-z-]+", remark), *guess_options]))


def _effects_text(base: SweepRow, others: Sequence[SweepRow], name: Callable[[Cell], str]) -> str:
    """Return a text with the work and the used share under each other value of a setting.

    ``name`` names the value of a row. Work is relative to ``base``; empty if that has none to
    compare with.
    """
    base_h = one_node_hours(base)
    if not base_h:
        return ""
    return "; ".join(
        f"{name(row.cell)}: {one_node_hours(row) / base_h - 1:+.1%} "
        f"({UsedNodes.of(row).share:.0%} used)"
        for row in others
        if row.cell != base.cell
    )


def _differs_in_objective_only(cell: Cell, base: Cell) -> bool:
    return (cell.forward_s, cell.max_parallel) == (base.forward_s, base.max_parallel)


def _sentence(remark: str) -> str:
    return remark[:1].upper() + remark[1:]
