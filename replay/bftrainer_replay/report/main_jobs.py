"""The chapter and the box of a report on main jobs: what a pilot would harvest at this site, and
whom it would delay.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bftrainer_replay.logs.model import LogWindow
from bftrainer_replay.main_queue.backfill import BACKFILLS
from bftrainer_replay.main_queue.jobs import CannotTell, main_jobs_of
from bftrainer_replay.main_queue.outcome import HEADINGS, QueueOutcome, outcome_of, rows_of
from bftrainer_replay.main_queue.ways import FreeingWay, rules_of
from bftrainer_replay.report.delay_words import (
    chance_text,
    compared_with_chance,
    late_text,
    seconds_text,
    sentence_of,
    site_sentence,
    what_was_simulated,
)
from bftrainer_replay.report.page import Box, Chapter, PageTable
from bftrainer_replay.report.words import precise

MOST_JOBS = 20_000
"""A report simulates no more jobs: more take minutes, and change the figures little."""
_RANDOM_RUNS = 4
_WAYS = ("site", "yield", "blind", "life:600", "life:7200", "keep")
_TITLE = "Main jobs beside a pilot"


@dataclass(frozen=True, slots=True)
class MainJobsEffect:
    """What a pilot does to the main jobs of a log. ``site``: how held nodes are freed there, such
    as ``yield`` or ``life:600``. ``outcome`` is None where the log does not tell, for the reason
    ``why``.
    """

    site: str
    outcome: QueueOutcome | None = None
    why: str = ""


def effect_of(
    window: LogWindow, site: str, on_run: Callable[[], None] | None = None
) -> MainJobsEffect:
    """Return what a pilot does to the main jobs of a window, simulated for every way to free nodes.

    ``site`` is the way at this site. ``on_run`` is called after each simulation. Raises
    :class:`UserError` for a way that does not exist.
    """
    site_rules = rules_of(site)
    jobs = main_jobs_of(window)
    if isinstance(jobs, CannotTell):
        return MainJobsEffect(site_rules.name, why=jobs.why)
    ways = dict.fromkeys((*_WAYS, site_rules.name))
    outcome = outcome_of(
        jobs.first(MOST_JOBS),
        BACKFILLS["easy"],
        map(rules_of, ways),
        _RANDOM_RUNS,
        sum(jobs.is_counted),
        on_run,
    )
    return MainJobsEffect(site_rules.name, outcome)


def main_jobs_chapter(effect: MainJobsEffect) -> Chapter:
    """Return the chapter on main jobs: a sentence on each way to free nodes, and all figures."""
    outcome = effect.outcome
    if outcome is None:
        return Chapter(
            _TITLE,
            f"What a pilot would harvest here and which main jobs it would delay cannot be told: "
            f"{effect.why}.",
            (),
        )
    sentences = PageTable(
        "main-jobs-sentences",
        "What a pilot would harvest here, and whom it would delay",
        "Read: a case for each way in which held nodes can be freed for main jobs "
        f"(nodes.give_way). {chance_text(outcome)}",
        ("way", "effect", "mean waits"),
        tuple(
            (way.rules.name, sentence_of(way), compared_with_chance(outcome, way))
            for way in outcome.ways
        ),
        prose=True,
    )
    figures = PageTable(
        "main-jobs",
        "Delays of main jobs by the way in which held nodes are freed",
        "Read: harvest is the held part of the idle node-hours, less 10 s for each start of a "
        "holder. Delays are weighted by node-hours in the fourth column. The last two columns "
        "are mean waits as multiples of those without a pilot.",
        HEADINGS,
        tuple(map(tuple, rows_of(outcome))),
        main=[way.rules.name for way in outcome.ways].index(_pilot_way(effect)),
    )
    return Chapter(_TITLE, what_was_simulated(outcome), (sentences, figures))


def main_jobs_row(effect: MainJobsEffect) -> str:
    """Return the row at the top of the page: the sentence for this site, or why there is none."""
    if effect.outcome is None:
        return f"Their delay at this site cannot be told: {effect.why}."
    return site_sentence(effect.outcome, effect.site)


def wait_box(effect: MainJobsEffect) -> Box | None:
    """Return the box (a figure at the top) with the delay of main jobs at this site.

    None where the log does not tell.
    """
    outcome = effect.outcome
    if outcome is None:
        return None
    way = outcome.way(_pilot_way(effect))
    delays = way.delays
    if not delays.longest_s:
        number, text = "0 s", "for main jobs, besides the time that preemption takes"
    else:
        number = f"≤ {seconds_text(delays.p99_s)}"
        text = f"for 99 of 100 main jobs, {late_text(delays)}"
    return Box(
        "wait",
        "Longer wait, main queue",
        number,
        text,
        f"{_box_condition(effect)}; the pilot would hold {precise(way.harvest)} of the idle "
        "node-hours",
        "simulated",
        f", {outcome.jobs:,} jobs of the log",
    )


def delay_claim(effect: MainJobsEffect) -> str:
    """Return the end of the page's first sentence: how far main jobs are delayed; empty where the
    log does not tell.
    """
    if effect.outcome is None:
        return ""
    way = effect.outcome.way(_pilot_way(effect))
    if not way.delays.longest_s:
        return "and, in a simulation, delay no main job beyond the time that preemption takes"
    return (
        "and, in a simulation, delay 99 of 100 main jobs by at most "
        f"{seconds_text(way.delays.p99_s)}"
    )


def _pilot_way(effect: MainJobsEffect) -> str:
    """Return the way that a pilot takes at the site: it yields where a run time is guaranteed."""
    return FreeingWay.YIELD.value if effect.site.startswith(FreeingWay.LIFE.value) else effect.site


def _box_condition(effect: MainJobsEffect) -> str:
    """Return a few words on how held nodes are freed at the site."""
    match effect.site.partition(":")[0]:
        case FreeingWay.SITE.value:
            return "If the scheduler preempts at once"
        case FreeingWay.BLIND.value:
            return "If the queue is hidden, and the pilot yields"
        case FreeingWay.LIFE.value:
            seconds = float(effect.site.partition(":")[2])
            return f"With {seconds_text(seconds)} of guaranteed run time, the pilot yields"
        case FreeingWay.YIELD.value:
            return "If the scheduler does not preempt, and the pilot yields"
        case _:
            return "If nobody frees held nodes"
