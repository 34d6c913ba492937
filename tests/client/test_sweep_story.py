"""A sweep of 200 trials on a pilot of fakes whose nodes come and go as in a generated log: none is
lost, the best is found.
"""

from __future__ import annotations

import json
import random
from functools import cache
from pathlib import Path

import pytest
from support.live_house import House, house

import bftrainer as api
from bftrainer.console.client.results import Goal, as_csv, best_first, result_rows
from bftrainer_replay.generation.generate import START_S, generate

TRIALS = 200
SAMPLES = 512
EPOCHS = 6
RATES = tuple(f"{10 ** (-3 + 3.5 * i / 39):.4g}" for i in range(40))
SPEED_UP = 30.0
"""Seconds of the log in a second of the pilot."""
PER_S = 40.0
"""Samples per second on a node."""


@cache
def learned(lr: str, seed: str) -> tuple[tuple[float, float], ...]:
    """Loss and accuracy after each epoch, which go up and down: what a trial reports."""
    draw = random.Random(f"{lr} {seed}")
    return tuple((draw.uniform(0.1, 3.0), draw.random()) for _ in range(EPOCHS))


def trains(home: House, parameters: dict[str, dict[str, str]]) -> None:
    """Trainers with nodes make progress, report after each epoch, and finish after the last one."""
    done: dict[str, float] = {}
    last = [home.clock.now_s()]

    def tick() -> None:
        passed_s, last[0] = home.clock.now_s() - last[0], home.clock.now_s()
        for name, driver in list(home.launcher.drivers.items()):
            if not (driver.view.alive and driver.view.on):
                continue
            before = done.get(name, 0.0)
            done[name] = now = before + PER_S * len(driver.view.on) * passed_s
            epoch = int(now // SAMPLES)
            if epoch > int(before // SAMPLES):
                given = parameters[name]
                loss, accuracy = learned(given["lr"], given["seed"])[min(epoch, EPOCHS) - 1]
                home.launcher.progress(
                    name, min(now, EPOCHS * SAMPLES), loss=loss, accuracy=accuracy
                )
                if epoch >= EPOCHS:
                    home.launcher.finish(name)

    home.after_tick = tick


@pytest.mark.slow
def test_two_hundred_trials_with_preemptions(tmp_path: Path) -> None:
    home = house(
        tmp_path / "state",
        decisions={"max_parallel": 24},
        nodes={"unused_after_s": 30.0},
        times={"file_poll_s": 1.0},
    )
    handles = api.sweep(
        state=home.path,
        name="digits",
        command=["true", "{lr}", "{seed}"],
        max_nodes=2,
        samples_per_s=PER_S,
        scale_up_s=1,
        scale_down_s=1,
        grid={"lr": RATES, "seed": range(TRIALS // len(RATES))},
    )
    assert len(handles) == TRIALS
    parameters = {row.name: row.parameters for row in result_rows(home.path)}
    for event in generate(256, 1.0, seed=3).events:
        at_s, change = (event.at_s - START_S) / SPEED_UP, event.change
        home.at(at_s, lambda change=change: home.cluster.give(*change.joined))
        home.at(at_s, lambda change=change: [home.cluster.take(node) for node in change.left])
    trains(home, parameters)
    home.pilot(400)
    home.pilot(1400)  # another pilot takes over in the middle
    rows = result_rows(home.path, "digits")
    assert len(rows) == TRIALS, "none lost"
    assert {row.status for row in rows} == {api.SubmissionStatus.DONE}
    best = best_first(rows, Goal("accuracy", maximize=True))[0]
    expected = {name: learned(p["lr"], p["seed"]) for name, p in parameters.items()}
    assert best.metric("accuracy").most == max(
        max(a for _, a in course) for course in expected.values()
    )  # type: ignore[union-attr]
    for row in rows:
        course = expected[row.name]
        loss = row.metric("loss")
        assert (loss.last, loss.least) == (course[-1][0], min(one for one, _ in course)), row.name
        assert row.samples == EPOCHS * SAMPLES
    assert len(as_csv(rows).splitlines()) == TRIALS + 1
    assert json.loads(json.dumps(rows[0].as_json()))["metrics"]["accuracy"]["max"] > 0
    assert any("preempted" in reason for reason in home.reasons())
    assert not home.launcher.overlaps
