"""The top of a report, read in twenty seconds: a sentence, four figures in boxes, two pictures, and
what to believe.

Every figure says whether it is measured, simulated or calculated. All shares of use have one base,
the idle node-hours of the log, and work is in one-node hours, so that elastic trainings and plain
jobs compare.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bftrainer.counted import counted
from bftrainer.decide.domain.model import Trainer
from bftrainer_replay.analysis.characterize import Characteristics
from bftrainer_replay.analysis.plain_jobs import PlainJobs
from bftrainer_replay.analysis.window_fragments import pool_sizes_of
from bftrainer_replay.logs.dialect import GENERIC, Dialect
from bftrainer_replay.logs.job_needs import JobFact
from bftrainer_replay.logs.model import LogWindow
from bftrainer_replay.logs.silent import LEAST_H
from bftrainer_replay.logs.torus import is_block
from bftrainer_replay.report.figures import MONTH_H, ReportFigures
from bftrainer_replay.report.main_jobs import (
    MainJobsEffect,
    delay_claim,
    main_jobs_row,
    wait_box,
)
from bftrainer_replay.report.page import Box, PageTop, TopPicture
from bftrainer_replay.report.words import (
    listed,
    precise,
    range_text,
    share_text,
    span_text,
    three_digits,
)
from bftrainer_replay.sweep.sample import LogSample

_EMPTY = 0.5
"""Most of a cluster is idle at once around maintenance rather than for want of jobs that fit."""
_WEEK_S = 7 * 86_400.0
_ALIKE = 0.005  # of the idle node-hours
_EMPTY_MATTERS = 0.05  # of the idle node-hours
_WORTH_SAYING = 0.005  # of the idle node-hours
_EMPTY_RARE = 0.05  # of the time: a cluster that is empty more often just has few jobs


@dataclass(frozen=True, slots=True)
class Trainings:
    """The simulated trainers. ``rates`` says where their curves come from, ``doubt`` is a warning
    about them.

    ``table`` is the name of the user's own trainer table, if any.
    """

    trainers: Sequence[Trainer]
    rates: str
    doubt: str = ""
    table: str = ""

    @property
    def nodes_each(self) -> int:
        """The largest size of a training."""
        return max(trainer.max_nodes for trainer in self.trainers)

    @property
    def start_s(self) -> float:
        """The mean time to start, which a plain job takes as well."""
        return sum(trainer.scale_up_s for trainer in self.trainers) / len(self.trainers)

    @property
    def whose(self) -> str:
        """Say in words whom the simulated trainings stand for: the user's own table, or sample
        models.
        """
        models = sorted({trainer.model for trainer in self.trainers})
        if self.table:
            return f"the trainings of {self.table}"
        if len(models) > 1:
            return f"copies of {len(models)} sample models"
        return f"copies of the sample model {models[0]}"


def top_of(
    figures: ReportFigures,
    window: LogWindow,
    characteristics: Characteristics,
    sample: LogSample,
    trainings: Trainings,
    pictures: tuple[TopPicture, TopPicture],
    title: str | None,
    last: ReportFigures | None = None,
    effect: MainJobsEffect | None = None,
) -> PageTop:
    """Build the top of the report: its sentence, boxes, pictures and rows; ``last`` are the figures
    of an earlier report to compare with, ``effect`` is what a pilot does to main jobs.
    """
    name = title or f"A cluster of {counted(characteristics.machine_nodes, 'node')}"
    origin = figures.origin
    box = None if effect is None else wait_box(effect)
    dialect = GENERIC if window.queue is None else window.queue.dialect
    rows = [
        ("Measured", _measured_row(figures, window, characteristics)),
        ("Simulated", _simulated_row(figures, sample, trainings)),
        ("Assumed", _assumed_row(figures, window, trainings)),
        ("Next", _next_row(trainings, dialect)),
    ]
    if effect is not None:
        rows.insert(0, ("Main jobs", main_jobs_row(effect)))
    if last is not None:
        rows.insert(-1, ("Compared", f"With the report on {figures.since(last)}"))
    return PageTop(
        about=f"{name} · {figures.dates} · from {origin.log} · estimate by bftrainer",
        sentence=_one_user_warning(window)
        + (figures.lacks_jobs and f"{figures.lacks_jobs} ")
        + sentence(figures, "" if effect is None else delay_claim(effect)),
        boxes=(
            _idle_box(figures, window, characteristics),
            _training_box(figures, sample),
            _plain_box(figures, trainings),
            box or _wait_box(dialect),
        ),
        pictures=pictures,
        rows=tuple(rows),
        foot="A node-hour of work is the work of one node in an hour without interruption; a "
        "month has 30 days. "
        f"{origin.log}, SHA-256 {origin.sha256[:16]}…; {origin.day}.",
    )


def _one_user_warning(window: LogWindow) -> str:
    """Warn that the log has the jobs of one user only; empty for a log of all users."""
    user = window.site.only_user
    return (
        f"Not the whole cluster: this log has the jobs of user {user} only, and counts those "
        "of others as idle. "
        if user
        else ""
    )


def sentence(figures: ReportFigures, delays: str = "") -> str:
    """Return the claim of the report in at most two lines of the page: what share of the node-hours
    lies idle, and how much of it trainings turn into work at what delay of other jobs (``delays``;
    empty: not known).
    """
    left_out = f" ({figures.left_out} left out)" if figures.left_out else ""
    trainings, work = figures.trainings, figures.work_share
    plain = ""
    alike = next((some for some in figures.plain if some.share >= work - _ALIKE), figures.plain[-1])
    if alike.share >= work - _ALIKE and alike.jobs <= 10 * trainings:
        plain, work = f", or {counted(alike.jobs, 'plain one-node job')},", min(work, alike.share)
    return (
        f"{_idle_text(figures)} of the node-hours of this cluster lie idle{left_out}: "
        f"{counted(trainings, 'elastic training')}{plain} would turn {precise(work)} of these "
        f"into work{delays and f' {delays}'}."
    )


def _idle_text(figures: ReportFigures) -> str:
    """Return the idle share in words, or its range over all readings of the log."""
    smallest, largest = map(share_text, figures.idle_range)
    return smallest.capitalize() if smallest == largest else f"Between {smallest} and {largest}"


def _idle_box(figures: ReportFigures, window: LogWindow, characteristics: Characteristics) -> Box:
    """Return the box with the idle share, what it is in node-hours a month, and how it changes
    under other readings of the log.
    """
    month_h = figures.idle_node_h_a_month
    causes = characteristics.idle_while
    waiting = (
        ""
        if causes is None
        else f"waiting jobs could have used at most {share_text(causes.fillable_share)}"
    )
    mean = f"{three_digits(characteristics.eq_nodes)} nodes on average"
    other = [f"{bound.idle_share:.1%} {bound.condition}" for bound in window.site.bounds]
    fine = [
        mean,
        _short_log(window),
        waiting,
        *other,
        without_empty(window, characteristics),
        without_silent(window),
    ]
    shares, share = _idle_shares(figures), f"{figures.idle_share:.1%}"
    month = (
        f": {three_digits(month_h)} a month"
        if shares == share
        else f"; {share} are {three_digits(month_h)} a month"
    )
    return Box(
        "idle",
        "Idle",
        shares,
        f"of all node-hours{' in service' * bool(figures.left_out)}{month}",
        "; ".join(text for text in fine if text),
        "measured",
        ", job log",
    )


def _short_log(window: LogWindow) -> str:
    """Warn that the log is shorter than a week; empty for a longer one."""
    if window.span_s >= _WEEK_S:
        return ""
    return f"only {span_text(window.span_s / 3600)} of log: other weeks may differ"


def _idle_shares(figures: ReportFigures) -> str:
    """Return the idle share as digits, or its range over the readings of the log: ``12.3%`` or
    ``10.1-12.3%``, with a dash.
    """
    smallest, largest = figures.idle_range or (figures.idle_share, figures.idle_share)
    if f"{smallest:.1%}" == f"{largest:.1%}":
        return f"{figures.idle_share:.1%}"
    return f"{100 * smallest:.1f}–{largest:.1%}"  # noqa: RUF001  # a dash


def _training_box(figures: ReportFigures, sample: LogSample) -> Box:
    """Return the box with the share of the idle node-hours that the simulated trainings turn into
    work.
    """
    work_h = figures.idle_node_h_a_month * figures.work_share
    hours = (
        ", whole log"
        if sample.is_whole
        else f", {sample.replayed_h:,.3g} of {sample.log.span_s / 3600:,.0f} hours"
    )
    lost = figures.held_share - figures.work_share
    rest = "; spreading over many nodes and interruptions cost the rest" if lost > 0.01 else ""
    pool_share = figures.pool_share or 0.0
    pool = (
        f". A pool of one-node tasks beside them: another {precise(pool_share)}"
        if pool_share >= _WORTH_SAYING
        else ""
    )
    return Box(
        "training",
        f"{counted(figures.trainings, 'elastic training')}",
        precise(figures.work_share),
        f"of the idle node-hours become work: {three_digits(work_h)} a month",
        f"Trainings hold {precise(figures.held_share)}{rest}{pool}",
        "simulated",
        hours,
    )


def _plain_box(figures: ReportFigures, trainings: Trainings) -> Box:
    """Return the box with the share that plain one-node jobs turn into work: large, with as many at
    once as there are trainings; small, with as many as help at all.
    """
    alike, best = figures.plain_alike, figures.plain[-1]
    between = _middle_point(figures.plain, alike.jobs)
    others = [some for some in (between, best) if some is not None and some.jobs != alike.jobs]
    more = "".join(f"{some.jobs:,} at once: {precise(some.share)}. " for some in others)
    return Box(
        "plain",
        f"{counted(alike.jobs, 'plain one-node job')} instead",
        precise(alike.share),
        "of the idle node-hours become work",
        f"{more}Preemptible, saved at the notice; each start costs {trainings.start_s:.0f} s",
        "calculated",
        " from the job log",
    )


def _middle_point(plain: Sequence[PlainJobs], jobs: int) -> PlainJobs | None:
    """Return a point of the curve of plain jobs with more than ``jobs`` and less than the most: the
    one nearest to two thirds of the largest share. None if there is none.
    """
    rest = [plain_jobs for plain_jobs in plain[:-1] if plain_jobs.jobs > jobs]
    target = 2 / 3 * plain[-1].share
    return min(rest, key=lambda plain_jobs: abs(plain_jobs.share - target), default=None)


def _wait_box(dialect: Dialect) -> Box:
    """Return the box with the delay of jobs in the main queue where the log does not tell it:
    delays that were measured elsewhere are not this cluster's.
    """
    return Box(
        "wait",
        "Longer wait, main queue",
        "not known",
        "for a job that takes nodes from training",
        dialect.preemption or "Not simulated for this log",
        "not measured",
        f", see {dialect.setup if dialect.preemption else 'docs/main-jobs.md'}",
    )


def without_silent(window: LogWindow) -> str:
    """Say what the idle share would be without nodes that ran no job for 48 h or more, which may
    have been down or renamed; empty if there are none.
    """
    silent = window.site.silent
    if silent is None:
        return ""
    nodes = counted(silent.nodes, "node")
    return (
        f"{silent.idle_share_without:.1%} if the {nodes} that ran no job for {LEAST_H:g} "
        f"hours or more were {silent.likely}"
    )


def without_empty(window: LogWindow, characteristics: Characteristics) -> str:
    """Say what the idle share would be without the times in which over half of the cluster was
    idle, as around maintenance; empty if they matter little or are frequent.
    """
    pool = pool_sizes_of(window)
    empty = pool.nodes > _EMPTY * characteristics.machine_nodes
    hours, node_h = (
        pool.duration_s[empty].sum() / 3600,
        float(pool.nodes[empty] @ pool.duration_s[empty]) / 3600,
    )
    rest_h = characteristics.span_h - hours
    if (
        not characteristics.node_hours
        or node_h < _EMPTY_MATTERS * characteristics.node_hours
        or hours > _EMPTY_RARE * characteristics.span_h
    ):
        return ""
    without = (characteristics.node_hours - node_h) / (
        rest_h * characteristics.machine_nodes - characteristics.down_node_h
    )
    return (
        f"{without:.1%} without {span_text(hours)} in which over half were idle, as around "
        "maintenance"
    )


def _measured_row(
    figures: ReportFigures,
    window: LogWindow,
    characteristics: Characteristics,
) -> str:
    """Return the row "Measured": the length of the log, and how waiting jobs were judged."""
    jobs = "" if window.queue is None else f", {counted(len(window.queue.nodes), 'job')}"
    unknown = (
        ""
        if figures.left_out or window.site.silent
        else " The log does not show which nodes were out of service: some of the idle ones "
        "may have been."
    )
    return (
        f"Idle nodes: {span_text(characteristics.span_h)} of the log{jobs}.{unknown} "
        f"{waiting_sentence(window, characteristics)}"
    )


def waiting_sentence(window: LogWindow, characteristics: Characteristics) -> str:
    """Say by which criteria (size, partition, time limit ...) the report judges whether a waiting
    job could have used idle nodes.
    """
    if characteristics.idle_while is None:
        return (
            "Whether a waiting job could have used the idle nodes is in the scheduler's own "
            "log, not in this one."
        )
    dialect = (GENERIC if window.queue is None else window.queue.dialect).partition
    judged = {
        JobFact.PARTITION: dialect,
        JobFact.RESOURCES: "devices",
        JobFact.CONSTRAINT: "features",
    }
    judged[JobFact.TIME_LIMIT] = "time limit"
    criteria = listed(
        [
            "size",
            *(
                word
                for fact, word in judged.items()
                if fact not in characteristics.idle_while.unknown
            ),
        ]
    )
    blocks = (
        ". Jobs here get blocks of the torus: whether the idle nodes formed a block is not judged"
        * _has_blocks(window)
    )
    return f"Waiting jobs are judged by {criteria}{blocks}."


def _has_blocks(window: LogWindow) -> bool:
    """Return whether the scheduler gives jobs blocks of a torus network, judged by the name of a
    node.
    """
    every = window.initial or next(
        (event.change.joined for event in window.events if event.change.joined), frozenset()
    )
    return any(is_block(node) for node in sorted(every)[:1])


def _simulated_row(figures: ReportFigures, sample: LogSample, trainings: Trainings) -> str:
    """Return the row "Simulated": which trainings were replayed on what part of the log, and how
    often jobs take nodes from them.
    """
    points = max(round(100 * figures.spread), 1)
    error = f" (error of this choice: ±{counted(points, 'point')})"
    part = "the whole log" if sample.is_whole else f"{sample.text}{error}"
    seconds = range_text([trainer.scale_down_s for trainer in trainings.trainers])
    models = ", ".join(f"{precise(share)} with {model} alone" for model, share in figures.by_model)
    models = f"Work depends on the models: {models}. " if models else ""
    return (
        f"Trainings: {trainings.whose}; {part}. {models}In a month, jobs take nodes from training "
        f"{three_digits(figures.preemptions_a_month)} times; "
        f"each stops a training for {seconds} s, "
        "which the figures include. A pool "
        f"starts on a node in {trainings.start_s:.0f} s. Plain jobs: calculated from the whole log."
    )


def _assumed_row(figures: ReportFigures, window: LogWindow, trainings: Trainings) -> str:
    """Return the row "Assumed": the largest size of a training and whether it limits the result,
    where the rates come from, and the number of trainings.
    """
    most_idle = int(pool_sizes_of(window).nodes.max(initial=0))
    nodes_each, together = figures.nodes_each, figures.nodes_each * figures.trainings
    if nodes_each >= most_idle:
        cap = "even one could take every idle node here"
    elif together >= most_idle:
        cap = "together, these trainings could take every idle node here"
    else:
        cap = f"this caps what {figures.trainings} can use at {counted(together, 'node')}"
    placed = f" {window.note[:1].upper()}{window.note[1:]}." if window.note else ""
    return (
        f"**Each training may spread over up to {counted(nodes_each, 'node')}: {cap}.** Rates: "
        f"{trainings.rates}.{placed} How many trainings "
        f"your users have is for you to say (--max-parallel); {figures.trainings} is only a "
        "default."
    )


def _next_row(trainings: Trainings, dialect: Dialect) -> str:
    """Return the row "Next": what the reader should do to get figures of the own trainings, then a
    pilot.
    """
    measure = (
        "Count and measure your users' trainings (bftrainer rehearse FILE.toml --curves "
        "curves.csv), and make this page again "
        "with --curves curves.csv. "
        if trainings.doubt
        else ""
    )
    condition = f" {dialect.preemption}." if dialect.preemption else ""
    return (
        f"{measure}Then set the scheduler up ({dialect.setup}; bftrainer "
        "doctor) and run a pilot on a few "
        f"nodes for a week.{condition}"
    )


def as_text(top: PageTop) -> str:
    """Return the sentence, boxes and rows as plain text for a terminal."""
    boxes = "\n".join(
        f"{box.title}: {box.number} {box.text}. {box.fine}. ({box.origin}{box.where})"
        for box in top.boxes
    )
    rows = "\n".join(f"{name}: {text.replace('**', '')}" for name, text in top.rows)
    return f"{top.sentence}\n{boxes}\n{rows}"


assert MONTH_H == 720.0, "the foot of the page says 30 days"
