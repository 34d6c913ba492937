"""``bftrainer replay delays``: which main jobs a pilot would delay, and what it would harvest."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from bftrainer.console.cli.choices import NumberRange
from bftrainer.console.cli.output import json_option, say, show_json
from bftrainer.console.cli.tables import name_column, number_column, say_paragraphs, show_table
from bftrainer.console.cli.topics import CommandWithTopics
from bftrainer.errors import UserError
from bftrainer_replay.cli.log_options import TOPICS_OF_LOGS, LogChoice, log_options, window_of

if TYPE_CHECKING:
    from bftrainer_replay.main_queue.outcome import QueueOutcome

WAYS = ("site", "yield", "blind", "life:600", "life:7200", "keep")
"""The ways that are compared by default."""


_TOPICS = {
    "Model of the simulation": ("--look", "--cycle", "--jobs", "--random-runs"),
    **TOPICS_OF_LOGS,
}


@click.command(cls=CommandWithTopics, topics=_TOPICS)
@log_options
@click.option(
    "--give-way",
    "ways",
    multiple=True,
    metavar="WAY",
    help="How held nodes are freed for main jobs. By the scheduler: at once (site), or after a "
    "guaranteed run time in seconds (life:600). By the pilot, which watches the queue (yield) or "
    "the scheduler's counters (blind). Never: keep, and windows, a pilot that fits its jobs into "
    "the plan. May be repeated.  [default: site, yield, blind, life:600, life:7200, keep]",
)
@click.option(
    "--worst-wait",
    "worst_wait_s",
    type=NumberRange(min=0),
    metavar="S",
    help="Time limit of a held node's job (nodes.worst_wait_s).  [default: 1800 for yield and "
    "blind, 7200 for windows, else a day]",
)
@click.option(
    "--settled",
    "settled_s",
    type=NumberRange(min=0),
    metavar="S",
    help="Hold no more nodes than were idle or held at all times in the last S seconds "
    "(nodes.settled_s).  [default: 300 for yield, 3600 for blind, else 0]",
)
@click.option(
    "--look",
    "look_s",
    type=NumberRange(min=0),
    default=1.0,
    metavar="S",
    help="Time between two looks at the queue (nodes.yield_poll_s).",
)
@click.option(
    "--cycle",
    "cycle_s",
    type=NumberRange(min=0),
    default=30.0,
    metavar="S",
    help="Time between two backfill cycles (Slurm: bf_interval). Nodes are offered to main "
    "jobs until a cycle has not used them.",
)
@click.option(
    "--backfill",
    type=click.Choice(["easy", "conservative"]),
    default="easy",
    help="How the scheduler plans: a reservation for the first waiting job, or for the first 100.",
)
@click.option(
    "--jobs",
    "most_jobs",
    type=click.IntRange(min=1),
    metavar="N",
    help="Simulate the first N jobs only.",
)
@click.option(
    "--random-runs",
    type=click.IntRange(0, 1000),
    default=8,
    metavar="N",
    help="Number of schedules without a pilot in which starts are a few seconds late at random.",
)
@json_option
def delays(
    choice: LogChoice,
    ways: tuple[str, ...],
    worst_wait_s: float | None,
    settled_s: float | None,
    look_s: float,
    cycle_s: float,
    backfill: str,
    most_jobs: int | None,
    random_runs: int,
    as_json: bool,
) -> None:
    """Simulate the main jobs of LOG beside a pilot: how long they wait for held nodes, and which
    part of the idle node-hours the pilot harvests.

    LOG is a job log with the submission, start, end, time limit and size of each job. A scheduler
    with backfill is simulated, and a pilot of the lowest priority that holds what its plan leaves
    idle. A delay is the time from the moment at which the scheduler would have started a job if no
    node had been held.

    \b
    Example:
      bftrainer replay delays sacct.txt --partition main
      bftrainer replay delays july.swf.gz --give-way yield --settled 0 --backfill conservative
    """
    from bftrainer_replay.main_queue.backfill import BACKFILLS
    from bftrainer_replay.main_queue.jobs import CannotTell, main_jobs_of
    from bftrainer_replay.main_queue.outcome import HEADINGS, outcome_of, rows_of
    from bftrainer_replay.main_queue.ways import rules_of
    from bftrainer_replay.report.delay_words import (
        chance_text,
        compared_with_chance,
        sentence_of,
        what_was_simulated,
    )

    every_rules = [rules_of(way, worst_wait_s, settled_s, look_s, cycle_s) for way in ways or WAYS]
    window = window_of(choice)
    jobs = main_jobs_of(window)
    if isinstance(jobs, CannotTell):
        raise UserError(f"{choice.log}: {jobs.why}")
    simulated_jobs = jobs if most_jobs is None else jobs.first(most_jobs)
    # The number of jobs in the whole log, of which the first are simulated.
    outcome = outcome_of(
        simulated_jobs, BACKFILLS[backfill], every_rules, random_runs, sum(jobs.is_counted)
    )
    if as_json:
        show_json([_as_json(outcome)])
        return
    say_paragraphs(what_was_simulated(outcome))
    say()
    name_heading, *number_headings = HEADINGS
    show_table([name_column(name_heading), *map(number_column, number_headings)], rows_of(outcome))
    say()
    for way in outcome.ways:
        say_paragraphs(f"{sentence_of(way)} {compared_with_chance(outcome, way)}")
    say_paragraphs(chance_text(outcome))


def _as_json(outcome: QueueOutcome) -> dict[str, object]:
    """Return all figures; shares are fractions, times seconds."""
    ways = {
        way.rules.name: {**asdict(way), "rules": {**asdict(way.rules), "way": way.rules.way.value}}
        for way in outcome.ways
    }
    return {**asdict(outcome), "ways": ways}
