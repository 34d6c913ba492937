"""The time line of a held node: collected by the pilot, in its database, in its metrics, on the
command line.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.command_line import bftrainer
from support.fakes_live import FakeClock

from bftrainer.cluster.model import Availability, NodeView
from bftrainer.decide.domain.events import Event
from bftrainer.decide.domain.model import Curve, Trainer
from bftrainer.decide.domain.node_stages import (
    TO_RELEASE,
    TO_TRAINING,
    NodeStage,
    p95,
    stage_seconds,
    whole_seconds,
)
from bftrainer.decide.domain.state import Active, Decision, Plan, State
from bftrainer.pilot.facts import FragmentEvent, FragmentTimed, PilotFact, Subscriber
from bftrainer.pilot.metrics import Metrics
from bftrainer.pilot.nodes.cluster_view import first_seen
from bftrainer.pilot.persistence.journal import Settings
from bftrainer.pilot.persistence.registry import Registry
from bftrainer.pilot.persistence.store import Store
from bftrainer.pilot.persistence.time_lines import time_lines
from bftrainer.pilot.recorder import Recorder
from bftrainer.pilot.steady_clock import SteadyClock
from bftrainer.wires.worker_times import TrainingTimes, WorkerTimes

NAME = "node01#7"
T0 = 1_800_000_000.0


def trainer() -> Trainer:
    return Trainer("a", Curve((1, 2), (1.0, 2.0)), 1, 2, 1.0, 1.0)


def recorder(store: Store, *subscribers: Subscriber) -> Recorder:
    return Recorder(store, SteadyClock(FakeClock(T0 + 100)), subscribers)


def one_life(it: Recorder) -> None:
    """A node becomes idle, trains, and is preempted. ``T0`` is when it was idle."""
    it.write_fragment_event(NAME, FragmentEvent.ASKED, T0 + 10)
    it.fragment_seen(NAME, {NodeStage.IDLE: T0, NodeStage.SEEN: T0 + 4})
    it.fragment_reached(NAME, [(NodeStage.SUBMITTED, T0 + 10.1)])
    it.fragment_reached(
        NAME, [(NodeStage.PAYLOAD_READY, T0 + 11), (NodeStage.JOB_STARTED, T0 + 10)]
    )
    it.write_fragment_event(NAME, FragmentEvent.TAKEN, T0 + 11.2)
    state, plan = (
        State(2, active=(Active(trainer()),)),
        Plan(Decision((1,)), (frozenset({NAME}),), None),
    )
    it.settings(Settings("bftrainer", "exact", "throughput", 120.0, 0, 2))
    for at_s in (T0 + 11.3, T0 + 11.9):  # the second decision does not give it again
        it.decision(Event(at_s, ()), state, plan, (), 0.1)
    starts = TrainingTimes((WorkerTimes("7", T0 + 12),))
    trains = TrainingTimes((WorkerTimes("7", T0 + 12, None, (1, 1), T0 + 12.5, T0 + 14),))
    gone = TrainingTimes((WorkerTimes("7", T0 + 12, None, (1, 1), T0 + 12.5, T0 + 14, T0 + 60.2),))
    it.driver_reported("a", TrainingTimes(), starts)
    ended = TrainingTimes(
        (WorkerTimes("7", T0 + 12, gone_s=T0 + 13),)
    )  # and starts again: that is not the way back
    it.driver_reported("a", starts, ended)
    it.driver_reported("a", ended, trains)
    it.write_fragment_event(NAME, FragmentEvent.ASKED_BACK, T0 + 60, "preempted")
    it.driver_reported("a", trains, gone)
    it.fragment_reached(NAME, [(NodeStage.LEFT, T0 + 60.3)])
    it.write_fragment_event(NAME, FragmentEvent.RELEASED, T0 + 61, "preempted")
    it.usage(())


def test_each_stage_is_told_once_and_is_in_the_database(store: Store) -> None:
    heard: list[PilotFact] = []
    registry = Registry(store)
    metrics = Metrics(registry)
    one_life(recorder(store, heard.append, metrics.hear))
    (line,) = time_lines(registry)
    assert (line.trainer, line.node) == ("a", "node01")
    assert NodeStage.IMPORTS_DONE not in line.instants
    seconds = {
        stage.value: round(value, 3)
        for stage, value in stage_seconds(line.instants, TO_TRAINING).items()
    }
    assert seconds == {
        "seen": 4.0,
        "decided": 6.0,
        "submitted": 0.1,
        "job_started": 0.0,
        "payload_ready": 0.9,
        "offered": 0.2,
        "given": 0.2,
        "worker_start": 0.6,
        "group_switched": 0.5,
        "first_step": 1.5,
    }
    assert whole_seconds(line.instants, TO_TRAINING) == pytest.approx(14)
    assert whole_seconds(line.instants, TO_RELEASE) == pytest.approx(1)
    timed = [fact for fact in heard if isinstance(fact, FragmentTimed)]
    assert [len(fact.seconds) for fact in timed] == [10, 3]
    page = metrics.text().decode()
    assert 'bftrainer_node_stage_seconds_count{stage="decided"} 1.0' in page
    assert 'bftrainer_node_stage_seconds_sum{stage="workers_gone"} 0.2' in page


def test_a_pilot_that_comes_back_goes_on_with_the_lines_of_open_fragments(store: Store) -> None:
    first = recorder(store)
    first.write_fragment_event(NAME, FragmentEvent.ASKED, T0 + 10)
    first.fragment_seen(NAME, {NodeStage.IDLE: T0})
    first.write_fragment_event(NAME, FragmentEvent.TAKEN, T0 + 11)
    first.usage(())
    heard: list[PilotFact] = []
    again = recorder(store, heard.append)
    again.fragment_seen(NAME, {NodeStage.IDLE: T0 + 5})  # not the first
    again.driver_reported(
        "a",
        TrainingTimes(),
        TrainingTimes((WorkerTimes("7", T0 + 20, None, (1, 1), T0 + 20.5, T0 + 21),)),
    )
    (fact,) = heard
    assert isinstance(fact, FragmentTimed)
    assert sum(seconds for _, seconds in fact.seconds) == pytest.approx(21)


def test_the_command_shows_stages(store: Store, tmp_path: Path) -> None:
    one_life(recorder(store))
    shown = bftrainer("nodes", "--timeline", "--all", "--state", tmp_path)
    assert shown.status == 0, shown
    words = next(line.split() for line in shown.out.splitlines() if line.strip().startswith("95 %"))
    assert words[2:] == [
        "4.00",
        "6.00",
        "0.10",
        "0.00",
        "0.90",
        "0.20",
        "0.20",
        "0.60",
        "-",
        "0.50",
        "1.50",
        "14.00",
        "0.20",
        "0.10",
        "0.70",
        "1.00",
    ]
    (row,) = (
        json.loads(line)
        for line in bftrainer(
            "nodes", "--timeline", "--all", "--json", "--state", tmp_path
        ).out.splitlines()
    )
    assert (row["idle_to_step_s"], row["stage_s"]["seen"], row["trainer"]) == (
        pytest.approx(14),
        4.0,
        "a",
    )


def test_a_node_is_idle_since_the_scheduler_says_so_and_seen_since_the_first_look_of_this_idle_time() -> (
    None
):
    def node(name: str, last_busy_s: float | None) -> NodeView:
        return NodeView(name, Availability.FREE, last_busy_s=last_busy_s)

    first = first_seen(
        {}, {"a", "b"}, [node("a", 90.0), node("b", None), node("c", 5.0)], 100.0, 2.0
    )
    assert first == {
        "a": {NodeStage.SEEN: 100.0, NodeStage.IDLE: 92.0},
        "b": {NodeStage.SEEN: 100.0},
    }
    then = first_seen(first, {"a"}, [node("a", 90.0)], 110.0, 2.5)
    assert then == {"a": first["a"]}
    again = first_seen(then, {"b"}, [node("b", 111.0)], 112.0, 2.0)
    assert again == {"b": {NodeStage.SEEN: 112.0, NodeStage.IDLE: 112.0}}


def test_instants_of_other_clocks_never_make_a_stage_negative() -> None:
    instants = {NodeStage.SUBMITTED: 10.9, NodeStage.JOB_STARTED: 10.0, NodeStage.FIRST_STEP: 12.0}
    assert stage_seconds(instants, TO_TRAINING) == {
        NodeStage.JOB_STARTED: 0.0,
        NodeStage.FIRST_STEP: pytest.approx(1.1),
    }
    assert stage_seconds({NodeStage.SUBMITTED: 10.9}, TO_TRAINING) == {}


def test_the_95th_percentile_is_a_value_that_was_measured() -> None:
    assert p95([3.0, 1.0, 2.0, 4.0]) == 4.0
    assert p95([float(n) for n in range(1, 101)]) == 95.0
    assert p95([3.0]) == 3.0
