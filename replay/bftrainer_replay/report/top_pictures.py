"""The two pictures at the top of a report: idle nodes over time, and work over the number of
trainings or plain jobs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bftrainer.counted import counted
from bftrainer_replay.analysis.window_fragments import PoolSizes, pool_sizes_of
from bftrainer_replay.logs.model import LogWindow
from bftrainer_replay.report.charts import Chart, ticks
from bftrainer_replay.report.figures import ReportFigures
from bftrainer_replay.report.over_time import Course, hourly_means
from bftrainer_replay.report.page import PageTable, TopPicture
from bftrainer_replay.report.used_nodes import work_share
from bftrainer_replay.report.words import precise, three_digits
from bftrainer_replay.sweep.detail import Detail
from bftrainer_replay.sweep.results import SweepRow

DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_NIGHT_H = (20, 6)
_WEEKEND = (5, 6)
_MIN_WEEKEND_RATIO = 1.25  # times as many idle nodes: a difference that a title tells
_MIN_DIFFERENCE = 0.05  # of all idle node-hours: numbers that a picture need not name twice
_MIN_VISIBLE_SHARE = 0.04
_NEARLY_ALL = 0.9
_MOST = _NEARLY_ALL - 0.1  # a share so large that the first point of a curve is worth a label
_LETTER, _LINE = 0.02, 0.09
"""A bold letter of 12 px in a chart of 353 by 170 px: that of 420 px is the narrowest page, 1300 px
has the lowest charts.
"""
_BLUE, _ORANGE = "of-training", "of-plain"
_Label = tuple[float, float, str, str]
"""A label at a point of a chart: x, share, words, style."""


def idle_picture(window: LogWindow, figures: ReportFigures, detail: Detail | None) -> TopPicture:
    """Draw the idle nodes over time and how many of them train.

    ``detail`` has the replayed trainings of the whole log; None: the picture shows the most that
    could train, as many idle nodes as the trainings' sizes allow.
    """
    idle = pool_sizes_of(window)
    cap = figures.trainings * figures.nodes_each
    if detail is None:
        used = replace(idle, nodes=np.minimum(idle.nodes, cap))
        training_words = "of these, as many as can be in training"
    else:
        used = PoolSizes(detail.edges_s[:-1], np.diff(detail.edges_s), detail.used)
        training_words = "of these in training"
    hourly = hourly_means(window, idle, used)
    highest = float(np.nanmax(hourly.idle, initial=0.0))
    bins = "Mean week" if hourly.is_week else "Means of an hour"
    legend = (
        ("idle", "idle nodes, "),
        ("training", f"{training_words}."),
        (
            "",
            f" {bins}, {window.clock_name}; nights (20 to 6 h) shaded. {_weekend_sentence(hourly)}",
        ),
    )
    trainings = counted(figures.trainings, "training")
    is_capped = cap < highest
    if is_capped:
        size = counted(figures.nodes_each, "node")
        title = f"{trainings} × {size} = at most {cap:,} of the idle nodes"  # noqa: RUF001  # a sign
    else:
        title = f"{trainings} could fill nearly every idle node"
    chart = _hours_chart(hourly, highest, cap if is_capped else None)
    label = (
        f"Idle nodes: {three_digits(figures.mean_idle_nodes)} on average, "
        f"at most {highest:,.0f} in "
        f"an hour; {title}."
    )
    charts = [("", chart.svg(label))]
    if hourly.days:
        charts.append(
            (
                "Each day of the log, weekends shaded",
                _days_chart(hourly.days[0]).svg("Mean idle nodes of each day", "slim"),
            )
        )
    times = _bin_names(hourly)
    rows = tuple(
        (at, _mean_text(n), _mean_text(u))
        for at, n, u in zip(times, hourly.idle, hourly.used, strict=True)
    )
    sentence = "Read: mean nodes of each hour. An empty cell: out of service, or not recorded."
    table = PageTable(
        "top-idle", "Idle nodes over time", sentence, ("from", "idle nodes", "in training"), rows
    )
    return TopPicture(title, legend, tuple(charts), table)


def _bin_names(hourly: Course) -> list[str]:
    """Return when each bin of a course begins, in words.

    Such a text is ``2026-01-31T14:00`` or, in a mean week, a day and ``14 h``.
    """
    if not hourly.is_week:
        return [f"{at:%Y-%m-%dT%H:%M}" for at in hourly.begins]
    places = zip(hourly.weekdays, hourly.clock_hours, strict=True)
    return [f"{DAYS[weekday]} {hour:02d} h" for weekday, hour in places]


def _mean_text(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.1f}"


def _weekend_sentence(hourly: Course) -> str:
    """Return a sentence on the mean idle nodes of weekends and of other days.

    Empty if they differ little, or if the log does not have all days of a week.
    """
    weekdays = np.array(hourly.weekdays)
    is_weekend = np.isin(weekdays, _WEEKEND)
    if len(set(weekdays.tolist())) < 7:  # too short a log to compare
        return ""
    weekend_nodes = float(np.nanmean(hourly.idle[is_weekend]))
    other_nodes = float(np.nanmean(hourly.idle[~is_weekend]))
    larger, smaller = max(weekend_nodes, other_nodes), min(weekend_nodes, other_nodes)
    if larger < _MIN_WEEKEND_RATIO * smaller:
        return ""
    return (
        f"Weekends have {three_digits(weekend_nodes)} idle nodes on average, other days "
        f"{three_digits(other_nodes)}."
    )


def _hours_chart(hourly: Course, highest: float, cap: int | None) -> Chart:
    """Return a chart of idle and training nodes by the hour.

    ``highest`` is the top of the axis, ``cap`` a line at the nodes that all trainings can hold
    (None: no line).
    """
    hours = len(hourly.idle)
    chart = Chart(float(hours), max(highest * 1.04, 1.0))
    places = list(range(hours + 1))
    clock, weekday = hourly.clock_hours, hourly.weekdays
    _shade_runs(chart, [hour >= _NIGHT_H[0] or hour < _NIGHT_H[1] for hour in clock], "night")
    _shade_runs(chart, np.isnan(hourly.idle).tolist(), "out")
    chart.steps(places, hourly.idle, "idle")
    chart.steps(places, hourly.used, "training")
    chart.grid(ticks(highest))
    if cap is not None:
        chart.line([(0, cap), (hours, cap)], "ceiling")
        chart.text(f"{cap:,}", 0, cap, kind="of-training", dx=-6, dy=4, anchor="end")
    noons = [k for k in range(hours) if clock[k] == 12]
    step = max(-(-len(noons) // 11), 1)  # at most 11 names of days
    for position, k in enumerate(noons[::step]):
        name = DAYS[weekday[k]] if hourly.is_week else f"{DAYS[weekday[k]]} {hourly.begins[k].day}"
        classes = ["weekend"] if weekday[k] in _WEEKEND else []
        if position % 2:
            classes.append("wide")  # every second name is for wide screens only
        is_at_edge = k > 0.95 * hours
        chart.text(
            name,
            hours if is_at_edge else k,
            0,
            kind=" ".join(classes),
            dy=17,
            anchor="end" if is_at_edge else "middle",
        )
    return chart


def _shade_runs(chart: Chart, marked: Sequence[bool], kind: str) -> None:
    """Shade each run of marked hours or days, with ``kind`` as style."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], np.array(marked, dtype=np.int64), [0]))))
    for begin, end in edges.reshape(-1, 2).tolist():
        chart.band(begin, end, kind)


def _days_chart(days: Course) -> Chart:
    """Return a chart of the mean idle and training nodes of each day, for the strip below the
    hours.
    """
    highest = float(np.nanmax(days.idle, initial=1.0))
    chart = Chart(float(len(days.idle)), highest * 1.04)
    _shade_runs(chart, [at.weekday() in _WEEKEND for at in days.begins], "night")
    places = list(range(len(days.idle) + 1))
    chart.steps(places, days.idle, "idle")
    chart.steps(places, days.used, "training")
    chart.grid((0.0, highest))
    months = [k for k, at in enumerate(days.begins) if at.day == 1 or k == 0]
    step = -(-len(months) // 8)
    for k in months[::step]:
        at = days.begins[k]
        # The name of a first month that is too short would lie on the next one.
        if k or len(months) == 1 or months[1] > 0.12 * len(days.idle):
            chart.text(f"{at:%B}" if len(months) <= 12 else f"{at:%b %Y}", k, 0, dy=15)
    return chart


@dataclass(frozen=True, slots=True)
class _NumberScale:
    """The logarithmic x axis of :func:`number_picture`: how many trainings or jobs run at once,
    from the lowest number to the highest.
    """

    lowest: int
    highest: int

    @property
    def width(self) -> float:
        """The length of the axis in powers of ten."""
        return max(math.log10(self.highest / self.lowest), 0.3)

    def at(self, number: int) -> float:
        """Return where a number is on the axis."""
        return math.log10(number / self.lowest)

    def on_axis(self, points: Iterable[tuple[int, float]]) -> list[tuple[float, float]]:
        """Return points (number, share) as the chart draws them: (place on the axis, share)."""
        return [(self.at(number), share) for number, share in points]


def number_picture(
    figures: ReportFigures, rows: Sequence[SweepRow], usable: Callable[[int], float]
) -> TopPicture:
    """Return the picture of the share of idle node-hours turned into work, over the number of
    trainings.

    The same is drawn over the number of plain jobs. ``usable(n)`` is the share that ``n`` trainings
    can hold at most.
    """
    work = [(row.cell.max_parallel, work_share(row)) for row in rows]
    plain = [(jobs.jobs, jobs.share) for jobs in figures.plain]
    scale = _scale_of(work, plain, figures.trainings)
    # Numbers of jobs below the axis are not drawn.
    plain = [point for point in plain if point[0] >= scale.lowest]
    caps = _cap_points(work, scale, usable)
    is_capped = min(share for _, share in caps) < 1 - _MIN_DIFFERENCE
    chart = Chart(scale.width, 1.04)
    chart.grid((0.0, 0.5, 1.0), "{:.0%}")
    if is_capped:
        chart.line(scale.on_axis(caps), "cap")
    chart.line(scale.on_axis(plain), "line plain")
    chart.line(scale.on_axis(work), "line training")
    chart.dots(scale.on_axis(work), "training")
    jobs_by_number = dict(plain)
    named = _labeled_jobs(jobs_by_number, figures.trainings)
    chart.dots(scale.on_axis((n, jobs_by_number[n]) for n in named), "plain")
    lines = [work, plain, caps if is_capped else work]
    _write_labels(
        chart,
        _training_labels(scale, work, figures.trainings)
        + _job_labels(scale, jobs_by_number, named),
        [scale.on_axis(points) for points in lines],
    )
    _number_axis(chart, scale)
    title = _number_title(figures, is_capped)
    dotted = ""
    if is_capped:
        nodes = counted(figures.nodes_each, "node")
        dotted = f" Dotted: the most that trainings of {nodes} can hold."
    legend = (("", f"Share of the idle node-hours turned into work. Marks are replays.{dotted}"),)
    label = (
        f"{title}. "
        + "; ".join(f"{counted(n, 'training')} {share:.0%}" for n, share in work)
        + "; "
        + "; ".join(f"{counted(n, 'plain job')} {share:.0%}" for n, share in plain)
    )
    return TopPicture(
        title, legend, (("", chart.svg(label)),), _number_table(dict(work), jobs_by_number)
    )


def _scale_of(
    work: Sequence[tuple[int, float]], plain: Sequence[tuple[int, float]], trainings: int
) -> _NumberScale:
    """Return the x axis for the points of trainings (``work``) and of plain jobs.

    It leaves out numbers of plain jobs far below the first number of trainings.
    """
    numbers = [number for number, _ in (*work, *plain)]
    lowest, first = min(numbers), work[0][0]
    if first >= 10 and lowest < first // 2:
        lowest = min(first // 2, trainings)
    return _NumberScale(lowest, max(numbers))


def _cap_points(
    work: Sequence[tuple[int, float]], scale: _NumberScale, usable: Callable[[int], float]
) -> list[tuple[int, float]]:
    """Return points (number, share) of the most that trainings can hold.

    They are at every replayed number and at 25 places along the axis.
    """
    numbers = [number for number, _ in work]
    between = [round(scale.lowest * 10 ** (scale.width * k / 24)) for k in range(25)]
    return [
        (number, min(usable(number), 1.0))
        for number in sorted({*numbers, *between})
        if numbers[0] <= number <= numbers[-1]
    ]


def _training_labels(
    scale: _NumberScale, work: Sequence[tuple[int, float]], trainings: int
) -> list[_Label]:
    """Return the labels of points of trainings as (x, share, words, style), for
    :func:`_write_labels`.
    """
    shares = dict(work)
    return [
        (scale.at(number), shares[number], words, _BLUE)
        for number, words in _labeled_trainings(work, trainings)
    ]


def _job_labels(
    scale: _NumberScale, shares: Mapping[int, float], named: Sequence[int]
) -> list[_Label]:
    """Return the labels of the ``named`` points of plain jobs as (x, share, words, style), for
    :func:`_write_labels`.
    """
    return [
        (
            scale.at(number),
            shares[number],
            f"{counted(number, 'plain job')}: {precise(shares[number])}",
            _ORANGE,
        )
        for number in named
    ]


def _number_title(figures: ReportFigures, is_capped: bool) -> str:
    """Return the title of :func:`number_picture`: one claim on trainings against plain jobs.

    ``is_capped``: trainings can hold only a part of the idle nodes.
    """
    best = figures.plain[-1]
    if min(figures.work_share, best.share) > _NEARLY_ALL:
        return f"A few trainings are enough; plain jobs need {best.jobs:,}"
    if is_capped:
        return "The more at once, the more becomes work"
    enough = next(
        (plain.jobs for plain in figures.plain if plain.share >= figures.work_share), None
    )
    if enough is None:
        return "Trainings turn more into work than any number of plain jobs"
    return (
        f"{counted(figures.trainings, 'training does', 'trainings do')} the work of "
        f"{counted(enough, 'plain job')}"
    )


def _labeled_jobs(plain: Mapping[int, float], trainings: int) -> list[int]:
    """Return the numbers of plain jobs to label.

    They are the number of trainings, if so many plain jobs do enough to be seen, and one more: the
    lowest number if that many do over half of the work, else the one nearest to two thirds of the
    largest share.
    """
    if plain[trainings] > 0.5:
        return [n for n in (min(plain), trainings) if n == trainings or plain[n] < 0.5]
    largest_share = max(plain.values())
    named = dict.fromkeys(
        (trainings, min(plain, key=lambda n: abs(plain[n] - 2 / 3 * largest_share)))
    )
    return [n for n in named if plain[n] >= _MIN_VISIBLE_SHARE]


def _labeled_trainings(work: Sequence[tuple[int, float]], trainings: int) -> list[tuple[int, str]]:
    """Return the numbers of trainings to label, with their words.

    They are the one in the report's sentence, and the first or last of the axis if its share is far
    from that one's.
    """
    shares = dict(work)
    (first, first_share), (last, last_share) = work[0], work[-1]
    names = [(trainings, f"{counted(trainings, 'training')}: {precise(shares[trainings])}")]
    is_first_enough = first_share > _MOST and first != trainings
    if is_first_enough:
        return [(first, f"{counted(first, 'training')}: {precise(first_share)}"), *names]
    if last_share - shares[trainings] > 2 * _MIN_DIFFERENCE:
        names.append((last, f"{last:,}: {precise(last_share)}"))
    return names


def _write_labels(
    chart: Chart,
    points: Sequence[_Label],
    lines: Sequence[Sequence[tuple[float, float]]],
) -> None:
    """Write the label of each point where it touches no line and no other label.

    A point is (x, share, words, style); its label is at the nearest such place. ``lines`` are all
    that is drawn, as points.
    """
    drawn = np.concatenate([_points_along(line, chart.wide) for line in lines])
    # The lowest points have the least room.
    for x, share, words, kind in sorted(points, key=lambda point: point[1]):
        width, point_x = _LETTER * len(words), x / chart.wide
        left, base = (
            axis.ravel()
            for axis in np.meshgrid(np.linspace(0, 1 - width, 60), np.linspace(0.03, 0.96, 63))
        )
        is_touching = np.zeros(len(left), dtype=np.bool_)
        for px, py in drawn:
            is_touching |= (
                (px > left - 0.01)
                & (px < left + width + 0.01)
                & (py > base - 0.03)
                & (py < base + _LINE)
            )
        # The distance from the point to the label's edge, then to its middle; a place that touches
        # anything is worse than any other.
        beside = np.maximum(np.maximum(left - point_x, point_x - left - width), 0)
        over = np.maximum(np.maximum(base - share, share - base - _LINE), 0)
        penalty = (
            np.hypot(2 * beside, over)
            + 0.05 * np.hypot(2 * (left + width / 2 - point_x), base - share)
            + 9 * is_touching
        )
        best = int(penalty.argmin())
        is_left = left[best] + width / 2 < point_x
        place = (left[best] + width * is_left) * chart.wide
        chart.text(words, place, float(base[best]), kind=kind, anchor="end" if is_left else "start")
        corners = np.meshgrid(
            np.linspace(left[best], left[best] + width, 30),
            base[best] + np.array([0, _LINE / 2, _LINE]),
        )
        drawn = np.concatenate((drawn, np.column_stack([axis.ravel() for axis in corners])))


def _points_along(line: Sequence[tuple[float, float]], wide: float) -> NDArray[np.float64]:
    """Return points of a line, close to each other, as (part of the chart's width, share)."""
    grid = np.linspace(0.0, wide, 400)
    x = grid[(grid >= line[0][0]) & (grid <= line[-1][0])]
    return np.column_stack((x / wide, np.interp(x, *np.array(line).T)))


def _number_axis(chart: Chart, scale: _NumberScale) -> None:
    """Write the numbers under the axis, and a line that says what they count."""
    for number in _axis_numbers(scale):
        anchor = "end" if chart.x(scale.at(number)) > 97 else "middle"
        if number == scale.lowest:
            anchor = "start"
        chart.text(f"{number:,}", scale.at(number), 0, dy=17, anchor=anchor)
    chart.text("trainings, or jobs, at once", chart.wide / 2, 0, dy=35, anchor="middle")


def _axis_numbers(scale: _NumberScale) -> list[int]:
    """Return the numbers to write on the axis: powers of ten, or 1, 2 and 5 times them if there are
    no more than two.
    """
    tens = [10**k for k in range(7) if scale.lowest <= 10**k <= scale.highest]
    if len(tens) > 2:
        return tens
    numbers = [n * m for m in (1, 10, 100, 1000, 10000) for n in (1, 2, 5)]
    return [number for number in numbers if scale.lowest <= number <= scale.highest]


def _number_table(work: Mapping[int, float], plain: Mapping[int, float]) -> PageTable:
    """Return the data of :func:`number_picture` as a table."""
    rows = tuple(
        (f"{number:,}", _share_at(work, number), _share_at(plain, number))
        for number in sorted({*work, *plain})
    )
    return PageTable(
        "top-numbers",
        "Work over the number of trainings or plain jobs",
        "Read: shares of the idle node-hours turned into work. An empty cell: not tried.",
        ("at once", "trainings", "plain one-node jobs"),
        rows,
    )


def _share_at(shares: Mapping[int, float], number: int) -> str:
    """Return the share at a number as text; empty if the number was not tried."""
    return f"{shares[number]:.1%}" if number in shares else ""
