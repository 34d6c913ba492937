"""``bftrainer audit``: how long main jobs waited for nodes that pilots held, by the scheduler's own
account. No pilot has to run, and none is asked.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from bftrainer.console.cli.choices import FILE, SCHEDULER, NumberRange
from bftrainer.console.cli.output import (
    clock_time,
    counted,
    json_option,
    length,
    note,
    say,
    show_json,
)
from bftrainer.console.cli.tables import (
    name_column,
    number_column,
    remark_column,
    show_table,
    wide_option,
)

if TYPE_CHECKING:
    from bftrainer.cluster.main_delays import MainDelay
    from bftrainer.cluster.past_jobs import JobLog


@click.command()
@click.argument("log", type=FILE, required=False)
@click.option(
    "--days",
    type=NumberRange(min=0, min_open=True, max=366),
    default=7.0,
    show_default=True,
    help="Period before now, in days. A LOG counts as a whole.",
)
@click.option(
    "--within",
    "within_s",
    type=NumberRange(min=0),
    default=5.0,
    show_default=True,
    metavar="SECONDS",
    help="Longest delay that is part of a normal start.",
)
@click.option(
    "--top",
    type=click.IntRange(min=0),
    default=20,
    show_default=True,
    help="Number of jobs in the table.",
)
@click.option(
    "--scheduler",
    type=SCHEDULER,
    show_default="the one that has an account",
    help="Whose account.",
)
@json_option
@wide_option
def audit(
    log: Path | None,
    days: float,
    within_s: float,
    top: int,
    scheduler: str | None,
    as_json: bool,
    wide: bool,
) -> None:
    """Measure how long main jobs waited for nodes that pilots held, from the scheduler's account.

    A main job is any job but pilots' holders. Its delay is the longest stretch in which the idle
    nodes of its partition were not enough for it, those that pilots held would have been, and
    backfill would have started it. With LOG, the jobs of that file count (output of sacct -P with
    JobName). The exit status is 0, whatever the verdict.

    \b
    Example:
      bftrainer audit --days 7
      bftrainer audit jobs.txt --within 2 --json
    """
    from bftrainer.cluster.main_delays import main_delays

    jobs = _read_accounting(scheduler, days, log)
    delays = main_delays(jobs)
    if as_json:
        show_json([*map(_delay_object, delays), _summary_object(jobs, delays, within_s)])
        return
    rows = [_delay_row(delay) for delay in delays[:top]]
    columns = [
        name_column("job"),
        name_column("user", 1),
        name_column("partition", 1),
        number_column("nodes"),
        name_column("from"),
        number_column("delay, s"),
        number_column("held", 1),
        number_column("missing", 2),
        remark_column("also waited for"),
    ]
    if rows:
        show_table(columns, rows, wide=wide)
    if len(delays) > len(rows) > 0:
        note(f"{counted(len(delays) - len(rows), 'job')} with shorter delays; --top shows more")
    for remark in _limiting_remarks(jobs):
        note(remark)
    say(_verdict_text(jobs, delays, within_s))


def _read_accounting(scheduler: str | None, days: float, log: Path | None) -> JobLog:
    from bftrainer.cluster.site_advice import accounted_site

    return accounted_site(scheduler).job_log(days, log)


def _delay_row(delay: MainDelay) -> tuple[str, ...]:
    """Return the row of a delayed main job in the table."""
    job = delay.job
    return (
        job.id,
        job.user or "-",
        job.partition,
        str(job.size),
        clock_time(delay.begin_s),
        f"{delay.seconds:,.0f}",
        str(delay.held),
        str(delay.missing),
        job.other_reason,
    )


def _delay_object(delay: MainDelay) -> dict[str, object]:
    """Return the object of a delayed main job for ``--json``."""
    job = delay.job
    return {
        "job": job.id,
        "user": job.user,
        "partition": job.partition,
        "nodes": job.size,
        "eligible_s": job.eligible_s,
        "start_s": job.start_s,
        "delay_from_s": delay.begin_s,
        "delay_s": delay.seconds,
        "held": delay.held,
        "missing": delay.missing,
        "other_reason": job.other_reason,
    }


def _summary_object(
    log: JobLog, delays: tuple[MainDelay, ...], within_s: float
) -> dict[str, object]:
    """Return the last object of ``--json``, with the counts and the verdict."""
    long_delays = _long_delays(delays, within_s)
    return {
        "main_jobs": sum(not job.is_holder for job in log.jobs),
        "holders": sum(job.is_holder for job in log.jobs),
        "from_s": log.begin_s,
        "to_s": log.end_s,
        "within_s": within_s,
        "late": len(long_delays),
        "late_for_other_reasons_too": sum(bool(delay.job.other_reason) for delay in long_delays),
        "worst_s": max((delay.seconds for delay in delays), default=0.0),
        "skipped": log.skipped,
        "verdict": _verdict_text(log, delays, within_s),
    }


def _long_delays(delays: tuple[MainDelay, ...], within_s: float) -> list[MainDelay]:
    return [delay for delay in delays if delay.seconds > within_s]


def _limiting_remarks(log: JobLog) -> list[str]:
    """Return what limits the result: remarks on the account, and records that were not counted."""
    remarks = list(log.remarks)
    if log.skipped:
        remarks.append(f"not counted: {counted(log.skipped, 'record')} that cannot be read")
    if not any(job.is_holder for job in log.jobs):
        remarks.append("the account has no holder, so no job can have waited for one")
    return remarks


def _verdict_text(log: JobLog, delays: tuple[MainDelay, ...], within_s: float) -> str:
    """Return the verdict in one line: how many main jobs waited longer than ``within_s``, and the
    worst delay.
    """
    main_count = sum(not job.is_holder for job in log.jobs)
    span = f"in {length(log.end_s - log.begin_s)}"
    long_delays = _long_delays(delays, within_s)
    if not long_delays:
        worst_s = max((delay.seconds for delay in delays), default=0.0)
        return (
            f"none of {counted(main_count, 'main job')} waited longer than {within_s:g} s for held "
            f"nodes {span} (worst: {worst_s:g} s)"
        )
    worst = long_delays[0]  # delays are sorted, the longest one first
    also_count = sum(bool(delay.job.other_reason) for delay in long_delays)
    remark = f"; {also_count} of them also waited for something else" if also_count else ""
    return (
        f"{len(long_delays):,} of {counted(main_count, 'main job')} waited longer than "
        f"{within_s:g} s for held nodes {span} "
        f"(worst: {worst.seconds:,.0f} s, job {worst.job.id}){remark}"
    )
