"""The view of the cluster after polls: a poll that fails, at whatever point, changes nothing of what is known."""

from __future__ import annotations

from dataclasses import fields, replace
from itertools import pairwise

import pytest
from live_house import configuration

from bftrainer.core.windows import PilotJobs
from bftrainer.domain.cluster import Availability, Hidden, NodeView, Observation, PeerPilot
from bftrainer.errors import BFTrainerError, PostponedError, SchedulerError
from bftrainer.live.nodes.cluster_view import ClusterView, EndedPoll, PollAnswer, after_poll, notes
from bftrainer.live.nodes.poll_schedule import PollSchedule

CONFIG = configuration({"nodes": {"site_max_nodes": 4, "confirm_s": 0.0}})
NODES = tuple(NodeView(f"n{i}", Availability.FREE) for i in range(3))
SEEN = Observation(1000.0, NODES)
POLLS = {"failures", "error", "silent_s", "schedule", "is_postponed", "budget"}


class Lookup:
    def of_node(self, node: str) -> str | None:
        return "cpu"

    def gpus(self, node: str) -> int:
        return 0


def polled(view: ClusterView, at_s: float, answer: PollAnswer | BFTrainerError) -> ClusterView:
    return after_poll(
        view, EndedPoll(at_s, at_s, 1000.0 + at_s, 0.5, answer), CONFIG, PilotJobs(), Lookup(), frozenset()
    )


@pytest.mark.parametrize(
    "bad",
    [
        SchedulerError("no answer"),
        PostponedError("later", 30.0),
        PollAnswer(Observation(1010.0, NODES[:1], hidden=frozenset({Hidden.JOBS})), 1010.0, None),  # windows unknown
        PollAnswer(Observation(1010.0, NODES[:1], hidden=frozenset({Hidden.JOBS})), 1010.0, ()),  # holders not counted
    ],
)
def test_a_poll_that_fails_changes_nothing_of_what_is_known(bad: PollAnswer | BFTrainerError) -> None:
    known = polled(ClusterView(PollSchedule(0.0)), 0.0, PollAnswer(SEEN, 1000.0, ()))
    assert [c.request.node for c in known.candidates] == ["n0", "n1", "n2"]
    after = polled(known, 10.0, bad)
    assert {it.name for it in fields(after) if getattr(after, it.name) != getattr(known, it.name)} <= POLLS
    assert after.silent_s == 0.5


def test_where_the_site_hides_jobs_nodes_are_not_split_and_that_is_noted_once() -> None:
    config = configuration({"nodes": {"confirm_s": 0.0}, "slurm": {"assume_window_s": 600}})
    ours, bea = PilotJobs(assume_window_s=600.0), PeerPilot("b", "bea", wants=8)
    views = [ClusterView(PollSchedule(0.0))]
    for at_s, hidden in ((0, False), (10, True), (20, True)):
        seen = Observation(1000.0 + at_s, NODES, hidden=frozenset({Hidden.JOBS}) if hidden else frozenset())
        poll = EndedPoll(float(at_s), float(at_s), 1000.0 + at_s, 0.5, PollAnswer(seen, 1000.0 + at_s, (bea,)))
        views.append(after_poll(views[-1], poll, config, ours, Lookup(), frozenset()))
    assert [len(view.rivals) for view in views] == [0, 1, 0, 0]
    found = [[kind for kind, _ in notes(before, after)] for before, after in pairwise(views)]
    assert found == [[], ["share"], []]


def test_an_outage_is_noted_at_its_begin_and_at_its_end() -> None:
    views = [ClusterView(PollSchedule(0.0))]
    for at_s, answer in ((0, None), (10, "no answer"), (20, "no answer"), (30, "refused"), (40, None), (50, None)):
        result = PollAnswer(SEEN, 1000.0 + at_s, ()) if answer is None else SchedulerError(answer)
        views.append(polled(views[-1], float(at_s), result))
    views.append(polled(views[-1], 60.0, PollAnswer(replace(SEEN, remark="squeue: is 13.0 s old"), 1060.0, ())))
    views.append(polled(views[-1], 70.0, PollAnswer(replace(SEEN, remark="squeue: is 23.0 s old"), 1070.0, ())))
    found = [[text for _, text in notes(before, after)] for before, after in pairwise(views)]
    told = [["the pilot polls the scheduler itself: squeue: is 13.0 s old"], []]
    assert found[-2:] == told, "of a broker"
    assert found[:-2] == [[], ["no answer"], [], ["refused"], ["the scheduler responds again after 3 failed polls"], []]
