"""The holder of thousands of nodes: what is at rest costs little, and is noticed all the same."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from support.fakes_jobs import PATIENT, Job, NoLimits
from support.fakes_live import FakeClock

from bftrainer.cluster.model import Acquired, FragmentPhase, NodeRequest
from bftrainer.errors import PostponedError
from bftrainer.fragment_names import id_of
from bftrainer_clusters.holding.call_budget import CallKind
from bftrainer_clusters.holding.holder_files import HolderFiles
from bftrainer_clusters.holding.holder_jobs import JobPhase, SchedulerTraits
from bftrainer_clusters.holding.job_holder import _MARKS_AT_ONCE, JobHolder

NODES = 2 * _MARKS_AT_ONCE + 1
TRAITS = SchedulerTraits("made up", "made_up", "submit", min_interval_s=1.0, failures_in_a_row=2)


@dataclass
class Jobs(NoLimits):
    traits: SchedulerTraits = TRAITS
    jobs: dict[str, Job] = field(default_factory=dict)
    lists: int = 0
    waits_s: dict[CallKind, float] = field(default_factory=dict)
    refuses: bool = False
    tidied: int = 0

    def wait_s(self, kind: CallKind) -> float:
        return self.waits_s.get(kind, 0.0)

    def submit(self, claim: NodeRequest, beside: tuple[str, ...] = ()) -> str:
        if self.refuses:
            raise PostponedError("refused", 30.0)
        name = str(len(self.jobs) + 1)
        self.jobs[name] = Job(name, claim.node, JobPhase.RUNS, 1e9)
        return name

    def listed(self) -> Mapping[str, Job]:
        self.lists += 1
        return dict(self.jobs)

    def unknown(self, ids: list[str]) -> frozenset[str]:
        return frozenset()

    def end(self, ids: list[str]) -> None:
        for name in ids:
            self.jobs[name] = Job(name, self.jobs[name].node, JobPhase.OVER)

    def end_workers(self, names: list[str]) -> None:
        self.tidied += 1


@dataclass
class Held:
    """A holder with many fragments, all at rest: ready, listed, and their ends known."""

    path: Path
    kind: type[HolderFiles] = HolderFiles

    traits: SchedulerTraits = TRAITS

    def __post_init__(self) -> None:
        self.clock, self.jobs = FakeClock(), Jobs(self.traits)
        self.files = files = self.kind(self.path / "holders")
        self.holder = JobHolder(self.jobs, PATIENT, files, self.clock, 10.0)
        self.holder.poll()
        found = self.holder.acquire(tuple(NodeRequest(f"n{i:04d}") for i in range(NODES)))
        self.names = [fragment.name for fragment in found.fragments]
        for name in self.names:
            (files.root / name / "ready").write_text("1.0\n")
        for _ in range(3):
            self.clock.sleep(5.1)
            self.shown = self.holder.poll()
        assert {f.phase for f in self.shown} == {FragmentPhase.READY}
        assert len(self.shown) == NODES

    def mark(self, name: str) -> None:
        (self.holder.holders / name / "leaving").write_text("asked back\n")

    def phase(self, name: str) -> FragmentPhase:
        return next(f.phase for f in self.holder.poll() if f.name == name)


def test_nothing_new_is_the_very_same_answer(tmp_path: Path) -> None:
    held = Held(tmp_path)
    lists = held.jobs.lists
    for _ in range(10):
        held.clock.sleep(0.2)
        assert held.holder.poll() is held.shown
    assert held.jobs.lists == lists


def test_lists_are_rare_at_rest_until_a_node_has_no_job(tmp_path: Path) -> None:
    """At every third poll; at the next one when a held node shows no job: it may have failed, and
    leaves no mark.
    """
    held = Held(tmp_path, traits=replace(TRAITS, polls_at_rest=3))

    def lists_in(polls: int) -> int:
        before = held.jobs.lists
        for _ in range(polls):
            held.clock.sleep(10.0)
            held.holder.poll()
        return held.jobs.lists - before

    lists_in(3)
    assert lists_in(9) == 3
    held.holder.observed(frozenset({"another"}))
    assert lists_in(1) == 0
    held.holder.observed(frozenset({"n0003"}))
    assert lists_in(1) == 1
    assert lists_in(2) == 0


def test_submissions_and_lists_wait_for_the_budget_and_releases_do_not(tmp_path: Path) -> None:
    held = Held(tmp_path)
    spare = (NodeRequest("spare1"), NodeRequest("spare2"))
    held.jobs.waits_s = dict.fromkeys((CallKind.SUBMIT, CallKind.LIST, CallKind.TIDY), 60.0)
    assert held.holder.acquire(spare) == Acquired(), "left for the next call"
    lists = held.jobs.lists
    held.clock.sleep(100.0)
    held.holder.poll()
    assert held.jobs.lists == lists
    held.holder.release(frozenset(held.names[:1]))
    assert held.jobs.jobs["1"].phase is JobPhase.OVER
    assert held.jobs.tidied == 0, "the payload ends its workers"
    held.jobs.waits_s, held.jobs.refuses = {}, True
    assert held.holder.acquire(spare) == Acquired(), (
        "the site refused the call: no node is backed off"
    )
    held.jobs.refuses = False
    assert [fragment.node for fragment in held.holder.acquire(spare).fragments] == [
        "spare1",
        "spare2",
    ]


def test_every_mark_is_seen_before_its_turn_has_come_twice(tmp_path: Path) -> None:
    held = Held(tmp_path)
    for name in held.names[:: NODES // 7]:
        held.mark(name)
        turns = 1
        while held.phase(name) is not FragmentPhase.LEAVING:
            turns += 1
            held.clock.sleep(0.001)
        assert turns <= math.ceil(NODES / _MARKS_AT_ONCE) + 1


class SlowFiles(HolderFiles):
    """On a file server that takes 20 ms to open a file, once ``clock`` is set."""

    clock: FakeClock | None = None
    looks = 0

    def leaving(self, name: str) -> str | None:
        self.looks += 1
        if self.clock is not None:
            self.clock.sleep(0.02)
        return super().leaving(name)


def test_a_slow_file_server_costs_a_poll_a_bounded_time_and_hides_no_mark(tmp_path: Path) -> None:
    held = Held(tmp_path, SlowFiles)
    files = held.files
    files.clock, files.looks = held.clock, 0
    held.holder.poll()
    assert 1 <= files.looks <= 5
    held.mark(held.names[NODES // 2])
    for _ in range(NODES):
        if held.phase(held.names[NODES // 2]) is FragmentPhase.LEAVING:
            break
    else:
        pytest.fail("its turn never came")


def test_one_that_is_gone_is_told_once_and_the_others_stay(tmp_path: Path) -> None:
    held = Held(tmp_path)
    held.holder.release(frozenset(held.names[:2]))
    told: list[str] = []
    for _ in range(4):
        held.clock.sleep(11.0)
        told += [f.name for f in held.holder.poll() if f.phase is FragmentPhase.GONE]
    assert sorted(told) == sorted(held.names[:2])
    assert [f.name for f in held.holder.poll()] == sorted(held.names[2:])


def test_released_ones_are_seen_to_leave_at_once(tmp_path: Path) -> None:
    held = Held(tmp_path)
    held.holder.release(frozenset(held.names[-1:]))
    assert held.phase(held.names[-1]) in (FragmentPhase.LEAVING, FragmentPhase.GONE)


def test_what_the_list_says_of_one_at_rest_is_seen_at_the_next_list(tmp_path: Path) -> None:
    held = Held(tmp_path)
    changed = dict(
        zip(("ends later", "suspended", "not listed", "jumps"), held.names, strict=False)
    )
    ids = {what: id_of(name) for what, name in changed.items()}
    jobs = held.jobs.jobs
    jobs[ids["ends later"]] = replace(jobs[ids["ends later"]], ends_s=2e9)
    jobs[ids["suspended"]] = replace(jobs[ids["suspended"]], phase=JobPhase.SUSPENDED)
    jobs[ids["jumps"]] = replace(jobs[ids["jumps"]], ends_s=1e9 + 1)
    missing = jobs.pop(ids["not listed"])
    held.clock.sleep(10.0)
    shown = {fragment.name: fragment for fragment in held.holder.poll()}
    assert shown[changed["ends later"]].ends_s == 2e9
    assert shown[changed["suspended"]].phase is FragmentPhase.LEAVING
    assert (
        shown[changed["not listed"]].phase is shown[changed["jumps"]].phase is FragmentPhase.READY
    )
    assert [f for f in held.shown if f.name in held.names[4:]] == [
        shown[name] for name in held.names[4:]
    ]
    jobs[missing.id] = missing
    held.clock.sleep(10.0)
    held.holder.poll()  # the suspended one was ended and is told for the last time
    assert held.holder.poll() is held.holder.poll(), "back at rest"
    held.mark(changed["ends later"])
    for _ in range(math.ceil(NODES / _MARKS_AT_ONCE) + 1):
        held.clock.sleep(0.001)
        last = held.holder.poll()
    assert next(f for f in last if f.name == changed["ends later"]).phase is FragmentPhase.LEAVING
