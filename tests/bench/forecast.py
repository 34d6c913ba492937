"""How often the 80 % interval of ``bftrainer forecast`` holds on held-out weeks: ``python
tests/bench/forecast.py``.

    python tests/bench/forecast.py [--logs Summit,Mira] [--workloads 1x6,4x3,8x16] [--keep DIR]
    [--held-out]

A workload of CxH is C trainers with curves of Table 2, whose work takes the log's mean pool about H
hours. It starts at even steps over the log (all hours of the day); each start after the first week
is forecast from the earlier ones, as far as they were known by then. Mira's second week is forecast
from its first one on. Printed, for the first half and for all of the trainers: the share of true
times in the interval and its standard error (as many independent times as the held-out time has
completion times); the share below and above it; the median of upper / lower end, beside the ratio
of a naive interval (the time from the same hour a week earlier, times the 10 to 90 % quantiles of
such ratios over all of the log, which no forecast could know); and the medians of the error of the
middle and of the naive time. Logs are those of ../shared/data or $BFTRAINER_DATA; a missing one is
left out. ``--keep`` keeps the completion times there and uses those that are there.

``--held-out``: the constants are chosen for each two of the logs, by the interval score (Gneiting
and Raftery 2007) of the times' logarithms; printed is the coverage of the others.
"""

from __future__ import annotations

import argparse
import itertools
import os
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
from plain_jobs import BESIDE, window
from plain_jobs import LOGS as WINDOWS
from rich.console import Console
from rich.table import Table

from bftrainer.decide.allocation.exact import Exact
from bftrainer.decide.allocation.objectives import OBJECTIVES
from bftrainer.decide.domain.model import Trainer, rates
from bftrainer.decide.policies.bftrainer import BFTrainer
from bftrainer_replay.logs.model import LogWindow, piece
from bftrainer_replay.simulation import forecast as module
from bftrainer_replay.simulation.forecast import Forecast, PastRuns, forecast
from bftrainer_replay.simulation.past_runs import recent_nodes, took_s
from bftrainer_replay.simulation.play import equivalent_nodes
from bftrainer_replay.workload.curves import TABLE_2

DAY_S, WEEK_S = 86_400.0, 7 * 86_400.0
LOGS = {
    "Summit": (("Summit-1",), 5.0),
    "Mira": (("Mira-1", "Mira-3"), 5.0),
    "KTH-SP2": (("KTH-SP2",), 31.0),
    "Theta": (("Theta",), 13.0),
    "wagap": (("wagap",), 9.0),
}
"""Windows of plain_jobs.py, and the hours between two starts."""


def trainers(workload: str, nodes: float) -> list[Trainer]:
    """The trainers of a workload ``CxH`` on a mean pool of ``nodes``."""
    count, hours = (float(number) for number in workload.split("x"))
    if count == 1:
        max_nodes = max(1, min(64, int(nodes)))
        blank = Trainer("t000", TABLE_2["shufflenet"], 1, max_nodes, 18.0, 12.0)
        usual = min(max_nodes, max(1, int(nodes)))
        node_s = min(max_nodes, nodes) * hours * 3600
        return [replace(blank, samples_total=rates(blank)[usual] / usual * node_s)]
    models = sorted(TABLE_2)
    max_nodes = max(1, min(64, int(4 * nodes / count)))
    usual = min(max_nodes, max(1, int(nodes / count)))
    queue = []
    for k in range(int(count)):
        blank = Trainer(f"t{k:03d}", TABLE_2[models[k % 7]], 1, max_nodes, 18.0, 12.0)
        share = 0.5 + (k * 7919 % count) / count
        node_s = nodes / count * hours * 3600 * share
        queue.append(replace(blank, samples_total=rates(blank)[usual] / usual * node_s))
    return queue


def runs_of(
    log: LogWindow, name: str, workload: str, step_h: float, keep: Path | None
) -> tuple[PastRuns, ...]:
    """Past runs for the first half of the trainers to be done, and for all."""
    kept = None if keep is None else keep / f"{name}-{workload}.npz"
    if kept is not None and kept.exists():
        starts, times = np.load(kept)["starts"], np.load(kept)["took"]
    else:
        objective = OBJECTIVES["fair"]
        policy = BFTrainer(Exact(), objective, objective.forward_s)
        queue = trainers(workload, equivalent_nodes(log))
        starts = np.arange(log.start_s, log.end_s - 3 * 3600, step_h * 3600)
        times = np.array([took_s(log, queue, policy, None, float(start_s)) for start_s in starts])
        if kept is not None:
            np.savez(kept, starts=starts, took=times)
    ends, pool = np.sort(times, axis=1), recent_nodes(log, starts)
    columns = sorted({(ends.shape[1] - 1) // 2, ends.shape[1] - 1})
    return tuple(PastRuns(starts, ends[:, k], log.end_s - starts, pool) for k in columns)


def joined(parts: list[PastRuns]) -> PastRuns:
    """The runs of several windows of one log."""
    return PastRuns(
        np.concatenate([part.start_s for part in parts]),
        np.concatenate([part.took_s for part in parts]),
        np.concatenate([part.log_s for part in parts]),
        np.concatenate([part.pool for part in parts]),
    )


def compared(runs: PastRuns) -> tuple[np.ndarray, list[float], float]:
    """A row for each forecast (inside, below, above, logarithms of width and error, score), the
    naive errors, and the time held out.
    """
    median_s = float(np.median(runs.took_s))
    rows, naive, held_out_s = [], [], 0.0
    steps_s = np.diff(runs.start_s, prepend=runs.start_s[0])
    for k, at_s in enumerate(runs.start_s):
        true_s, step_s = runs.took_s[k], steps_s[k]
        ahead = runs.log_s[k] > 3 * median_s and np.isfinite(true_s)
        before = int(np.abs(runs.start_s - (at_s - WEEK_S)).argmin())
        if (
            ahead
            and at_s - runs.start_s[0] >= WEEK_S
            and abs(runs.start_s[before] - (at_s - WEEK_S)) < DAY_S
        ):
            naive.append(np.log(true_s / runs.took_s[before]))
        prediction = None
        if ahead:
            prediction = forecast(runs.before(k, float(at_s)), float(at_s), float(runs.pool[k]))
        if prediction is None or at_s - runs.start_s[0] < WEEK_S:
            continue
        held_out_s += min(step_s, DAY_S * 2)
        low, high = prediction.after_s(0.1), prediction.after_s(0.9)
        score = np.log(high / low) + 10 * max(np.log(low / true_s), np.log(true_s / high), 0.0)
        error = np.log(true_s / prediction.median_s)
        rows.append(
            (low <= true_s <= high, true_s < low, true_s > high, np.log(high / low), error, score)
        )
    return np.array(rows, dtype=float), naive, held_out_s


def judged(runs: PastRuns) -> tuple[str, ...]:
    """The cells of a row of the table."""
    median_s = float(np.median(runs.took_s))
    table, naive, held_out_s = compared(runs)
    inside, below, above = table[:, :3].mean(axis=0)
    error = np.sqrt(inside * (1 - inside) / max(min(len(table), held_out_s / median_s), 1.0))
    ratio, middle = np.exp(np.median(table[:, 3])), np.exp(np.median(np.abs(table[:, 4])))
    wide = np.exp(np.quantile(naive, 0.9) - np.quantile(naive, 0.1))
    return (
        f"{len(table)}",
        f"{median_s / 3600:.1f}",
        f"{inside:.0%} +- {error:.0%}",
        f"{below:.0%}, {above:.0%}",
        f"{ratio:.1f}, {wide:.1f}",
        f"{middle:.2f}, {np.exp(np.median(np.abs(naive))):.2f}",
    )


class Remembered:
    """A forecast without errors, remembered by its moment: the same are needed again and again."""

    def __init__(self, plain: Callable[..., Forecast | None]) -> None:
        self._plain = plain
        self._forecasts: dict[float, Forecast | None] = {}

    def __call__(self, runs: PastRuns, now_s: float, pool: float | None) -> Forecast | None:
        if now_s not in self._forecasts:
            self._forecasts[now_s] = self._plain(runs, now_s, pool)
        return self._forecasts[now_s]


def held_out(cells: dict[str, list[PastRuns]]) -> Table:
    """Coverage of the logs that took no part in the choice of the constants."""
    names = ("_HALF_LIFE_S", "_POOL_BANDWIDTH", "_OTHER_POOL_WEIGHT", "_WARM_UP_SHARE")
    assert all(hasattr(module, name) for name in names)
    plain, results = module._forecast_distribution, {}
    for constants in itertools.product(
        (5 * DAY_S, 14 * DAY_S, 40 * DAY_S), (0.4, 0.7, 1.2), (0.02, 0.2), (0.2, 0.4, 0.6)
    ):
        for name, value in zip(names, constants, strict=True):
            setattr(module, name, value)
        for log, runs in cells.items():
            tables = []
            for part in runs:
                module._forecast_distribution = Remembered(plain)
                tables.append(compared(part)[0])
            finite = [table[np.isfinite(table[:, 5]), 5].mean() for table in tables]
            results[constants, log] = (
                float(np.mean(finite)),
                float(np.concatenate(tables)[:, 0].mean()),
            )
    table = Table("fitted to", "half-life d, band, far, warm", "covered")
    for pair in itertools.combinations(cells, 2):
        scores = {
            constants: results[constants, pair[0]][0] + results[constants, pair[1]][0]
            for constants, _ in results
        }
        best = min(scores, key=scores.__getitem__)
        others = ", ".join(f"{log} {results[best, log][1]:.0%}" for log in cells if log not in pair)
        table.add_row(", ".join(pair), f"{best[0] / DAY_S:g}, {best[1:]}", others)
    return table


def main() -> None:
    """Print the table of coverage."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--logs", default=",".join(LOGS))
    parser.add_argument("--workloads", default="1x6,4x3,8x16")
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--held-out", action="store_true")
    options = parser.parse_args()
    folder = Path(os.environ.get("BFTRAINER_DATA") or BESIDE)
    table = Table(
        "log",
        "workload",
        "forecasts",
        "median h",
        "covered",
        "below, above",
        "width, naive",
        "error, naive",
    )
    cells: dict[str, list[PastRuns]] = {}
    for name in options.logs.split(","):
        windows, step_h = LOGS[name]
        if not all((folder / WINDOWS[part][0]).exists() for part in windows):
            print(f"{name}: no log in {folder}")
            continue
        with tempfile.TemporaryDirectory() as scratch:
            logs = [window(folder, part, 1e6, Path(scratch)) for part in windows]
        if name != "Summit":  # a job log does not show who ran at its beginning
            logs = [piece(log, log.start_s + DAY_S, log.end_s) for log in logs]
        for workload in options.workloads.split(","):
            parts = [
                runs_of(log, part, workload, step_h, options.keep)
                for log, part in zip(logs, windows, strict=True)
            ]
            labels = ("half", "all")[-len(parts[0]) :]
            for part, label in zip(zip(*parts, strict=True), labels, strict=True):
                cells.setdefault(name, []).append(joined(list(part)))
                table.add_row(name, f"{workload}, {label}", *judged(cells[name][-1]))
    Console(width=140).print(held_out(cells) if options.held_out else table)


if __name__ == "__main__":
    main()
