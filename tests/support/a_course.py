"""A trainer's directory as an hour of training with rescales, a loss of workers and a wait leaves
it.
"""

from __future__ import annotations

import math
import random
from itertools import pairwise
from pathlib import Path

from bftrainer.wires.driver_events import (
    EventLine,
    Running,
    Started,
    Stopped,
    Stopping,
    format_event,
)
from bftrainer.wires.paths import TrainerDirectory
from bftrainer.wires.progress_line import Phase, ProgressLine, format_progress
from support.live_house import House, house, spec

START_S = 1_700_000_000.0
SIZES = ((0, 1), (400, 3), (1000, 6), (1500, 4), (1900, 0), (2300, 2), (2700, 5), (3600, 0))
"""Seconds and nodes."""


def a_course(path: Path, name: str = "digits") -> House:
    """A state directory with one trainer, whose files have the course."""
    home = house(path)
    home.cluster.give("n1")
    home.submit(spec(name, 6, samples_per_s=100.0, group="g", parameters={"lr": "0.1"}))
    home.pilot(5)
    directory = TrainerDirectory.of(path, name)
    directory.incarnation_logs(1).mkdir(parents=True)
    directory.worker_log(1, "n1", "1", 0).write_text("ready\n")
    rng = random.Random(1)
    progress, events, samples, step = [], [EventLine(START_S, 1, Started())], 0.0, 0
    for (begin, nodes), (end, after) in pairwise(SIZES):
        if nodes == 0:
            continue
        fragments = tuple(str(n) for n in range(nodes))
        events.append(EventLine(START_S + begin, 1, Running(nodes, fragments)))
        for second in range(begin + 12, end):
            rate = 100.0 * nodes**0.9 * (1 + 0.04 * rng.gauss(0, 1))
            samples, step = samples + rate, step + 3
            loss = 2.3 * math.exp(-samples / 2.5e5) + 0.05 + 0.05 * abs(rng.gauss(0, 1))
            metrics = {"accuracy": 1 - 0.9 * math.exp(-samples / 2e5)} if second % 300 == 0 else {}
            progress.append(
                ProgressLine(
                    START_S + second, Phase.RUNNING, 1, nodes, step, samples, loss, metrics=metrics
                )
            )
        if after == 0:
            events += [
                EventLine(START_S + end, 1, Stopping()),
                EventLine(START_S + end + 3, 1, Stopped("", True)),
            ]
        elif after < nodes:  # a loss of workers: back to the last commit
            samples -= 900.0
    directory.progress.write_text("".join(f"{format_progress(line)}\n" for line in progress))
    directory.events.write_text("".join(f"{format_event(line)}\n" for line in events))
    return home
