"""bftrainer forecast and submit --deadline, through the command line."""

from __future__ import annotations

import json
import time
from contextlib import closing
from datetime import datetime
from pathlib import Path

import pytest
from replay.commands import executed
from support.command_line import bftrainer, complaint
from support.live_house import house, spec

from bftrainer.decide.core.loop import run as loop
from bftrainer.decide.domain.events import Event
from bftrainer.decide.domain.model import Curve, Trainer
from bftrainer.decide.domain.state import Plan, State
from bftrainer.decide.policies.equal_share import EqualShare
from bftrainer.pilot.persistence.journal import JournalWriter, Settings
from bftrainer.pilot.persistence.store import Store, open_store
from bftrainer.system.processes import this_process
from bftrainer_replay.analysis.window_fragments import pool_sizes_of
from bftrainer_replay.logs.event_log import read_event_log
from bftrainer_replay.logs.model import LogWindow, restricted_log
from bftrainer_replay.simulation.past_runs import without_gaps
from bftrainer_replay.simulation.replay_world import Arrival, ReplayWorld
from bftrainer_replay.workload.of_pilot import pool_of

LONG = {"samples_total": 3e4, "group": "digits"}


@pytest.fixture
def state(tmp_path: Path) -> Path:
    home = house(tmp_path / "state")
    home.submit(spec("one", **LONG), spec("two", **LONG), spec("endless"))
    return home.path


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.csv.gz"
    executed("replay", "generate", "--nodes", 48, "--days", 3.5, "--seed", 3, "--out", path)
    return path


class ToDisk:
    """The loop's journal, as a pilot has it."""

    def __init__(self, store: Store) -> None:
        self._writer = JournalWriter(store)
        self._writer.begin(Settings("equal-share", "exact", "fair", 120.0, 0, None), 0.0)

    def record(self, event: Event, state: State, plan: Plan) -> None:
        self._writer.record(event, state, plan, (), 0.0)


def piloted(state: Path, log: Path) -> LogWindow:
    """A journal of days on the nodes of the log that ends now: one trainer, and after an idle day
    another.
    """
    whole = restricted_log(read_event_log(log))
    later_s = time.time() - whole.end_s
    moved = tuple(type(e)(e.at_s + later_s, e.change) for e in whole.events)
    window = LogWindow(
        whole.start_s + later_s, whole.end_s + later_s, whole.initial, moved, 48, "test"
    )
    most = Trainer("first", Curve((1, 48), (1.0, 48.0)), 1, 48, 0.0, 0.0, 1e5)
    later = Trainer("last", Curve((1, 48), (1.0, 48.0)), 1, 48, 0.0, 0.0, 1e9)
    arrivals = [Arrival(window.start_s, most), Arrival(window.start_s + 86_400, later)]
    with closing(open_store(state, create=True)) as store:
        store.take_lease(this_process(), "", time.time(), 60.0, lambda _: None)
        loop(ReplayWorld(window, arrivals), State(None), EqualShare(), ToDisk(store))
        store.drop_lease()
    return window


def test_the_end_of_each_trainer_and_of_a_group(state: Path, log: Path) -> None:
    command = ["forecast", "--state", state, "--log", log, "--seconds", 1]
    one, two, both = map(
        json.loads, bftrainer(*command, "--group", "digits", "--json").out.splitlines()
    )
    assert (one["trainers"], both["trainers"]) == (["one"], ["one", "two"])
    for row in (one, two, both):
        assert time.time() < row["from_s"] < row["done_s"] < row["to_s"]
    assert both["done_s"] >= max(one["done_s"], two["done_s"]) - 1
    text = bftrainer(*command).out
    assert "all 3" in text
    assert "its length is unknown (samples_total)" in text
    assert f"{datetime.fromtimestamp(one['done_s']):%a %m-%d}" in text


def test_processes_replay_the_past_as_well(state: Path, log: Path) -> None:
    command = ("forecast", "one", "--state", state, "--log", log, "--seconds", 1, "--json")
    (row,) = map(json.loads, bftrainer(*command, "--workers", 2).out.splitlines())
    assert row["trainers"] == ["one"]
    assert row["replays"] >= 32
    assert time.time() < row["from_s"] < row["done_s"] < row["to_s"]


def test_a_submission_with_a_deadline_says_how_likely(state: Path, log: Path) -> None:
    piloted(state, log)
    given = ["--state", state, "--max-nodes", 4, "--samples-per-s", 10, "--samples-total", "1e4"]
    said = bftrainer(
        "submit", "--name", "soon", *given, "--deadline", "2100-01-01", "--json", "--", "true"
    ).out
    submitted, forecast = map(json.loads, said.splitlines())
    assert (submitted["trainer"], forecast["trainers"]) == ("soon", ["soon"])
    assert forecast["probability"] > 0.99
    assert (
        " 0%"
        in bftrainer(
            "forecast", "soon", "--state", state, "--seconds", 1, "--deadline", "2020-01-01"
        ).out
    )


def test_a_journal_tells_the_pool_while_there_were_trainers(state: Path, log: Path) -> None:
    window = piloted(state, log)
    with closing(open_store(state)) as store:
        found = pool_of(store, window.end_s)
    (gap,) = found.gaps
    assert gap[1] == window.start_s + 86_400
    assert 0 < gap[0] - window.start_s < 86_400
    assert pool_sizes_of(found).node_hours() == pytest.approx(pool_sizes_of(window).node_hours())
    assert without_gaps(found).span_s == pytest.approx(window.span_s - (gap[1] - gap[0]))


def test_what_cannot_be_forecast_is_told_in_one_line(state: Path, tmp_path: Path) -> None:
    short = tmp_path / "short.csv.gz"
    bftrainer("replay", "generate", "--nodes", 8, "--days", 1, "--seed", 3, "--out", short)
    for arguments, said in (
        (
            ["one"],
            "has 0.0 days of idle nodes, which is too short for a forecast: expected 2 or "
            "more; use --log",
        ),
        (["one", "--log", short], "short.csv.gz has 1.0 days of idle nodes"),
        (["three"], "no unfinished training named 'three'"),
        (["--group", "letters"], "no unfinished training of group 'letters'"),
        (
            ["one", "--deadline", "soon"],
            "'--deadline': 'soon' is not ISO 8601, expected a time like 2026-01-31T18:00",
        ),
    ):
        assert said in complaint(bftrainer("forecast", "--state", state, *arguments))
    given = ["submit", "--state", state, "--name", "late", "--max-nodes", 2, "--deadline"]
    assert "'soon' is not ISO 8601" in complaint(bftrainer(*given, "soon", "--", "true"))
    ended = executed(*given, "2100-01-01", "--", "true")
    assert "note: submitted; no forecast: " in ended.err
