"""``bftrainer forecast``: when the trainers of a pilot are done, from what its queue would have
taken at past moments.
"""

from __future__ import annotations

import math
import time
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from bftrainer.console.cli.choices import IsoTime, NumberRange
from bftrainer.console.cli.ending import ended_by_signals
from bftrainer.console.cli.output import clock_time, json_option, say, show_json
from bftrainer.console.cli.state import state_option
from bftrainer.console.cli.tables import name_column, remark_column, show_table
from bftrainer.console.cli.trainer_names import TrainerName
from bftrainer.counted import counted
from bftrainer.errors import UserError
from bftrainer_replay.cli.workers import Workers, in_order, workers_option_with

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bftrainer_replay.logs.model import LogWindow
    from bftrainer_replay.simulation.forecast import Forecast
    from bftrainer_replay.workload.of_pilot import Queued

_MAX_RUNS = 256
_MIN_RUNS = 32
_MIN_DAYS = 2.0
_TIME = "%a %m-%d %H:%M"
_STALE_S = 3600.0
"""A log that ended longer ago does not tell the present pool."""
_TOO_SHORT = "from too few past moments it was done within the log"


@click.command()
@click.argument("name", required=False, type=TrainerName(), metavar="[NAME]")
@click.option(
    "--group",
    metavar="NAME",
    help="Only the trainings of a group, and when the last of them is done.",
)
@click.option(
    "--deadline",
    "by_s",
    type=IsoTime(),
    metavar="WHEN",
    help="Print how likely they are done by then: 2026-01-31T18:00, local time.",
)
@click.option(
    "--log",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help=(
        "Log of idle nodes to use, such as of `bftrainer record`.  [default: the pool of the "
        "pilot's journal]"
    ),
)
@click.option(
    "--seconds", type=NumberRange(min=1.0), default=20.0, help="Time for replays of the past."
)
@state_option
@json_option
@ended_by_signals()
@workers_option_with("1", "1")
def forecast(
    name: str | None,
    group: str | None,
    by_s: float | None,
    log: Path | None,
    seconds: float,
    state: Path,
    as_json: bool,
    workers: Workers,
) -> None:
    """Forecast when trainings are done, with an interval that holds four times in five.

    The queue, as it is, is replayed from many past moments of the pilot's pool, under its policy.
    Later submissions, failures and work that is repeated are not in the forecast.

    \b
    Example:
      bftrainer forecast
      bftrainer forecast digits --deadline 2026-01-31T18:00
      bftrainer forecast --group sweep --log idle-nodes.csv.gz
    """
    from bftrainer_replay.workload.of_pilot import queue_of

    now_s = time.time()
    queue = queue_of(state)
    trainers = [
        queued.trainer.id
        for queued in queue
        if name in (None, queued.trainer.id) and group in (None, queued.group)
    ]
    if not trainers:
        raise UserError(
            f"no unfinished training{_selection_text(name, group)} in {state}; see "
            "`bftrainer list --all`"
        )
    past, present = _past_log(state, log, now_s)
    starts_s, took_s = _replay_past(past, queue, state, seconds, workers)
    rows = []
    for names in _rows_of(trainers):
        places = [place for place, queued in enumerate(queue) if queued.trainer.id in names]
        # What is unknown of the first trainer that cannot be replayed ("": all can).
        lacks = next((queue[place].lacks for place in places if queue[place].lacks), "")
        distribution = None
        if not lacks:
            # Several trainers are done with the last of them.
            last_s = took_s[:, places].max(axis=1)
            distribution = _computed_forecast(past, starts_s, last_s, present)
        rows.append(_forecast_object(names, distribution, lacks or _TOO_SHORT, now_s, by_s))
    log_days = past.span_s / 86_400
    if as_json:
        show_json([row | {"replays": len(starts_s), "log_days": log_days} for row in rows])
        return
    heads = [name_column("training"), name_column("done by"), name_column("80 %")]
    if by_s is not None:
        heads.append(name_column("by the deadline"))
    heads.append(remark_column("remark"))
    show_table(heads, [_forecast_cells(row, by_s) for row in rows])
    say(f"{counted(len(starts_s), 'replay')} of the queue on {log_days:.1f} days of {past.source}")


def _selection_text(name: str | None, group: str | None) -> str:
    """Return in words which trainers the user named; empty if none."""
    if name:
        return f" named {name!r}"
    return f" of group {group!r}" if group else ""


def _rows_of(trainers: list[str]) -> list[list[str]]:
    """Return the trainers of each row: every trainer alone, then several together."""
    rows = [[name] for name in trainers]
    if len(trainers) > 1:
        rows.append(trainers)
    return rows


def _past_log(state: Path, log: Path | None, now_s: float) -> tuple[LogWindow, float | None]:
    """Return the log of idle nodes to replay, without its gaps, and how full the pool is now.

    The log is ``log`` or that of the pilot's journal. The second value is the mean number of nodes
    in its last hour relative to the mean of the whole log; None if the log ended so long ago that
    it says nothing of the present pool. Raises :class:`UserError` for a log that is too short.
    """
    from bftrainer.console.client.state_dir import has_registry, opened_registry
    from bftrainer_replay.cli.log_options import LogChoice, window_of
    from bftrainer_replay.simulation.past_runs import recent_nodes, without_gaps
    from bftrainer_replay.workload.of_pilot import pool_of

    window = None
    if log is not None:
        window = window_of(LogChoice(log))
    elif has_registry(state):
        with opened_registry(state) as registry:
            window = pool_of(registry.store, now_s)
    past = None if window is None else without_gaps(window)
    days = 0.0 if past is None else past.span_s / 86_400
    if window is None or past is None or days < _MIN_DAYS:
        where = f"the journal of {state}" if log is None else str(log)
        raise UserError(
            f"{where} has {days:.1f} days of idle nodes, which is too short for a forecast: "
            f"expected {_MIN_DAYS:g} or more; "
            "use --log with a longer log, such as of `bftrainer record`"
        )
    if now_s - window.end_s >= _STALE_S:
        return past, None
    return past, float(recent_nodes(past, np.array([past.end_s]))[0])


def _replay_past(
    past: LogWindow, queue: tuple[Queued, ...], state: Path, seconds: float, workers: Workers
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Replay the queue from as many past moments as ``seconds`` allow, and at least ``_MIN_RUNS``.

    Return the moments in order of time, and the seconds that each trainer (a column) took from each
    of them (a row). The moments are spread evenly over the log, however many are reached in time.
    """
    from bftrainer.console.client.state_dir import read
    from bftrainer.pilot.decision_maker import settings_of
    from bftrainer_replay.cli.sweeping import progress_of_tasks
    from bftrainer_replay.comparison.past_tasks import PastQueue, replay_past
    from bftrainer_replay.simulation.past_runs import even_starts

    settings = settings_of(read(state))
    trainers = tuple([queued.trainer for queued in queue])
    past_queue = PastQueue(
        past,
        trainers,
        settings.policy,
        settings.objective,
        settings.forward_s,
        settings.seed,
        settings.gather_s,
        settings.max_parallel,
    )
    moments_s = list(islice(even_starts(past), _MAX_RUNS))
    took_from = {}
    began_s = time.monotonic()
    replays = in_order(workers, replay_past, past_queue, moments_s)
    with progress_of_tasks("replays of the past") as show, closing(replays):
        for start_s, took_s in zip(moments_s, replays, strict=True):
            took_from[start_s] = took_s
            spent_s = time.monotonic() - began_s
            # By whichever limit is nearer: the number of replays or the time.
            show(max(len(took_from) / _MAX_RUNS, min(spent_s / seconds, 1.0)), 1.0)
            if spent_s >= seconds and len(took_from) >= _MIN_RUNS:
                break
    starts_s = sorted(took_from)
    return np.array(starts_s), np.array([took_from[start_s] for start_s in starts_s])


def _computed_forecast(
    past: LogWindow,
    starts_s: NDArray[np.float64],
    took_s: NDArray[np.float64],
    present: float | None,
) -> Forecast | None:
    """Return the forecast for one trainer or the whole queue; None if the log is too short.

    ``took_s[i]`` is the number of seconds until it was done in the replay that began at the past
    moment ``starts_s[i]``; both have one dimension. ``present`` is the pool of the last hour,
    relative to the mean of ``past``.
    """
    from bftrainer_replay.simulation.forecast import PastRuns, forecast
    from bftrainer_replay.simulation.past_runs import recent_nodes

    runs = PastRuns(starts_s, took_s, past.end_s - starts_s, recent_nodes(past, starts_s))
    return forecast(runs, past.end_s, present)


def _forecast_object(
    names: list[str], forecast: Forecast | None, remark: str, now_s: float, by_s: float | None
) -> dict[str, object]:
    """Return the forecast for some trainers as a JSON object; times are in seconds since 1970.

    ``done_s`` is the median, ``from_s`` and ``to_s`` are the 10th and 90th percentile; null where
    the log is too short to tell. ``probability`` is that of the end before ``by_s``, if there is a
    deadline.
    """
    row: dict[str, object] = {
        "trainers": names,
        "done_s": None,
        "from_s": None,
        "to_s": None,
        "remark": remark,
    }
    if forecast is not None:
        for key, share in (("done_s", 0.5), ("from_s", 0.1), ("to_s", 0.9)):
            after_s = forecast.after_s(share)
            row[key] = now_s + after_s if math.isfinite(after_s) else None
        row |= {"remark": "", "widened": forecast.widened, "past_forecasts": forecast.errors}
    if by_s is not None:
        row["probability"] = None if forecast is None else forecast.probability(by_s - now_s)
    return row


def _forecast_cells(row: dict[str, Any], by_s: float | None) -> list[str]:
    """Return the cells of a forecast's row in the table, from its JSON object; "-" for what is
    unknown.
    """
    names = row["trainers"]
    done, first, last = (clock_time(row[key], _TIME) for key in ("done_s", "from_s", "to_s"))
    cells = [
        names[0] if len(names) == 1 else f"all {len(names)}",
        done,
        "-" if row["from_s"] is None else f"{first} to {last}",
    ]
    if by_s is not None:
        probability = row["probability"]
        cells.append("-" if probability is None else f"{probability:.0%}")
    cells.append(row["remark"])
    return cells
