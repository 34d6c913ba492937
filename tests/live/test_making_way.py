"""A pilot that makes way for main jobs by itself, over a cluster in memory whose scheduler ends no
holder.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.fakes_live import START_S, FakeCluster
from support.live_house import House, house, spec

from bftrainer.cluster.model import (
    Fragment,
    FragmentPhase,
    GiveWay,
    Hidden,
    HoldingPermit,
    NodeWaits,
    Observation,
)
from bftrainer.decide.yielding.blind import (
    BlindMemory,
    Glance,
    OwnJobs,
    next_blind,
)
from bftrainer.decide.yielding.facts import JobCounters, ListedHolder, NodeWait
from bftrainer.decide.yielding.low_water import LowWater
from bftrainer.errors import SchedulerError
from bftrainer.fragment_names import fragment_name, id_in_job, job_of, node_of
from bftrainer.times import PilotS

NODES = tuple(f"n{i}" for i in range(1, 9))
WHY = "preemption: PreemptType=preempt/none"


@dataclass
class MainJob:
    """A job of the main queue."""

    id: str
    size: int
    length_s: float
    submitted_s: float
    started_s: float | None = None

    @property
    def waited_s(self) -> float:
        assert self.started_s is not None, f"job {self.id} waits"
        return self.started_s - self.submitted_s


@dataclass
class PatientCluster(FakeCluster):
    """Its scheduler starts main jobs on idle nodes, first come, first served, and waits for holders.

    ``shortened`` are orders to shorten holders.
    """

    queue: list[MainJob] = field(default_factory=list)
    hides: bool = False
    glances: int = 0
    is_silent: bool = False
    submitted: int = 0
    started: int = 0
    ended: int = 0
    shortened: list[tuple[frozenset[str], float]] = field(default_factory=list)
    windows_s: list[float] = field(default_factory=list)

    def submit(self, size: int, length_s: float = 20.0) -> MainJob:
        self.submitted += 1
        job = MainJob(str(self.submitted), size, length_s, self.clock.elapsed_s())
        self.queue.append(job)
        self.schedule()
        return job

    def schedule(self) -> None:
        for job in list(self.queue):
            free = sorted(self.idle - self.held())
            if len(free) < job.size:
                return
            self.queue.remove(job)
            self.started += 1
            job.started_s = self.clock.elapsed_s()
            nodes = free[: job.size]
            self.idle -= set(nodes)
            self.busy |= set(nodes)
            self.clock.after(job.length_s, lambda nodes=nodes: self._end(nodes))

    def _end(self, nodes: list[str]) -> None:
        self.ended += 1
        self.give(*nodes)
        self.schedule()

    def observe(self) -> Observation:
        seen = super().observe()
        if self.hides:
            return replace(seen, hidden=frozenset({Hidden.JOBS}))
        usable = frozenset(self.idle | self.busy)
        waits = tuple(
            NodeWait(job.id, job.size, 1.0, usable, reason="Resources") for job in self.queue
        )
        running = (FragmentPhase.READY, FragmentPhase.LEAVING)
        holders = tuple(
            ListedHolder(job_of(name), node_of(name), pilot="me/a")
            for name, fragment in self.fragments.items()
            if fragment.phase in running
        )
        return replace(seen, node_waits=NodeWaits(waits, holders))

    def glance(self) -> JobCounters:
        self.glances += 1
        if self.is_silent:
            raise SchedulerError("made up: no answer")
        at_s = self.clock.now_s()
        pending = len(self.queue)
        counts = self.submitted + self.number, self.started + self.number, self.ended + self.over
        return JobCounters(at_s, *counts, pending, at_s, at_s)

    @property
    def over(self) -> int:
        return len(self.released)

    def acquire(self, claims):  # type: ignore[no-untyped-def]
        self.windows_s += [claim.window_s for claim in claims]
        return super().acquire(claims)

    def release(self, names: frozenset[str]) -> None:
        super().release(names)
        self.schedule()

    def shorten(self, names: frozenset[str], seconds: float) -> None:
        self.shortened.append((names, seconds))
        for name in names:
            fragment = self.fragments[name]
            self.fragments[name] = replace(fragment, ends_s=self.clock.now_s() + seconds)


@dataclass
class CappedCluster(PatientCluster):
    """Its holders have up to ``per_job`` nodes, and end as a whole. ``events`` are (second, +1 or
    -1, nodes) of the jobs.
    """

    per_job: int = 4
    events: list[tuple[float, int, tuple[str, ...]]] = field(default_factory=list)

    def acquire(self, claims):  # type: ignore[no-untyped-def]
        acquired = super().acquire(claims)
        shared: list[Fragment] = []
        for begin in range(0, len(acquired.fragments), self.per_job):
            together = acquired.fragments[begin : begin + self.per_job]
            self.events.append((self.clock.elapsed_s(), 1, tuple(f.node for f in together)))
            for old in together:
                name = fragment_name(old.node, id_in_job(str(begin + self.number), old.node))
                new = replace(old, name=name)
                del self.fragments[old.name]
                self.fragments[name] = new
                self.clock.after(self.start_s, lambda name=name: self._ready(name))
                shared.append(new)
        return replace(acquired, fragments=tuple(shared))

    def _ready(self, name: str) -> None:
        if name in self.fragments:
            super()._ready(name)

    def release(self, names: frozenset[str]) -> None:
        jobs = {job_of(name) for name in names}
        others = {name for name in self.fragments if job_of(name) in jobs}
        assert others <= names, "a holder ends as a whole"
        self.events.append((self.clock.elapsed_s(), -1, tuple(map(node_of, sorted(names)))))
        super().release(names)


def test_of_a_holder_of_several_nodes_the_rest_is_requested_again_at_once(tmp_path: Path) -> None:
    pilot, _ = patient(tmp_path / "state", GiveWay.YIELD)
    cluster = CappedCluster(pilot.clock)
    pilot.cluster = pilot.yielding = cluster
    cluster.give(*NODES)
    jobs: list[MainJob] = []
    held: list[int] = []
    pilot.at(20.3, lambda: jobs.append(cluster.submit(1, 60.0)))
    for at_s in (19.0, 25.0):
        pilot.at(at_s, lambda: held.append(len(cluster.held())))
    pilot.pilot(40)
    assert jobs[0].waited_s <= 2.0 + 1.5
    assert held == [8, 7]
    first, second, end, renewal, *_ = cluster.events
    assert [len(nodes) for _, _, nodes in (first, second, end, renewal)] == [4, 4, 4, 3]
    assert (end[1], renewal[1]) == (-1, 1)
    assert renewal[0] == end[0], "in the same moment, before the holder has ended"
    assert set(renewal[2]) < set(end[2])


def patient(path: Path, way: GiveWay, **nodes: object) -> tuple[House, PatientCluster]:
    """A pilot with one trainer on eight idle nodes."""
    home = house(
        path,
        nodes={"settled_s": 0.0, "confirm_s": 0.0, **nodes},
        times={"poll_s": 10.0, "move_s": 60.0},
    )
    cluster = PatientCluster(home.clock, hides=way is GiveWay.BLIND)
    home.cluster = cluster
    home.yielding = cluster
    home.permit = HoldingPermit(give_way=way, why=WHY)
    cluster.give(*NODES)
    home.submit(spec("a", max_nodes=8))
    return home, cluster


@pytest.fixture
def home(tmp_path: Path) -> tuple[House, PatientCluster]:
    return patient(tmp_path / "state", GiveWay.YIELD)


def test_a_main_job_starts_within_a_look_and_the_trainers_notice(
    home: tuple[House, PatientCluster],
) -> None:
    pilot, cluster = home
    jobs: list[MainJob] = []
    for at_s, size in ((20.3, 1), (50.9, 3), (90.1, 8)):
        pilot.at(at_s, lambda size=size: jobs.append(cluster.submit(size)))
    held: list[int] = []
    pilot.at(19.0, lambda: held.append(len(cluster.held())))
    pilot.at(85.0, lambda: held.append(len(cluster.held())))
    pilot.pilot(150)
    assert [job.waited_s <= 2.0 + 1.5 for job in jobs] == [True] * 3
    assert held == [8, 8]
    lines = [line for line in pilot.notes() if line.startswith("yield")]
    assert len(lines) == 3
    assert len(pilot.launcher.urgent) >= 1 + 3, "trainers save at once, without imports ahead"
    assert lines[1].startswith("yield job 2 3 nodes, Resources: 3 nodes released 0.0 s after")
    assert pilot.noted("give way") == [
        f"yield: the pilot releases nodes when main jobs wait for them ({WHY})"
    ]
    assert all("waits for" in why or "the pilot ends" in why for why in pilot.reasons())


def test_a_deaf_trainer_does_not_delay_a_main_job(
    home: tuple[House, PatientCluster],
) -> None:
    pilot, cluster = home
    pilot.at(19.0, lambda: pilot.launcher.slow.update(a=30.0))
    jobs: list[MainJob] = []
    pilot.at(20.3, lambda: jobs.append(cluster.submit(2)))
    pilot.pilot(60)
    assert 5.0 <= jobs[0].waited_s <= 2.0 + 5.0 + 1.0, "P + yield_notice_s"


def test_holders_are_short_and_shorter_while_jobs_wait(
    home: tuple[House, PatientCluster],
) -> None:
    pilot, cluster = home
    cluster.limit_s = 1800.0
    pilot.at(20.0, lambda: cluster.submit(9))
    pilot.at(60.0, lambda: cluster.take("n1"))
    pilot.at(70.0, lambda: cluster.give("n1"))
    pilot.pilot(100)
    assert cluster.windows_s[:8] == [1800.0] * 8
    assert cluster.windows_s[8:] == [600.0], "for a job that needs more nodes than there are"
    assert {seconds for _, seconds in cluster.shortened} == {600.0}
    assert len(cluster.shortened[0][0]) == 8, "all by one call"
    assert sum(len(names) for names, _ in cluster.shortened) == 9, "each holder once"


def test_a_glance_costs_one_call_and_a_look_follows_only_a_change(
    home: tuple[House, PatientCluster],
) -> None:
    pilot, cluster = home
    before: list[int] = []
    pilot.at(50.0, lambda: before.extend((cluster.observations, cluster.glances)))
    pilot.pilot(150)
    looks, glances = cluster.observations - before[0], cluster.glances - before[1]
    assert 95 <= glances <= 101
    assert looks <= 11, "every poll_s"


def test_without_an_answer_to_glances_the_pilot_looks_instead(
    home: tuple[House, PatientCluster],
) -> None:
    pilot, cluster = home
    cluster.is_silent = True
    jobs: list[MainJob] = []
    pilot.at(31.0, lambda: jobs.append(cluster.submit(2)))
    pilot.pilot(60)
    assert jobs[0].waited_s <= 3.5


def test_nothing_is_requested_before_the_queue_was_seen(tmp_path: Path) -> None:
    home, cluster = patient(tmp_path / "state", GiveWay.YIELD)
    cluster.hides = True
    home.tables["nodes"]["give_way"] = "yield"
    home.pilot(30)
    assert cluster.acquired == []


@pytest.mark.parametrize("size", [1, 3, 8])
def test_where_the_queue_is_hidden_nodes_are_released_step_by_step(
    tmp_path: Path, size: int
) -> None:
    home, cluster = patient(tmp_path / "state", GiveWay.BLIND)
    jobs: list[MainJob] = []
    home.at(40.3, lambda: jobs.append(cluster.submit(size)))
    home.pilot(120)
    steps = size.bit_length()
    assert jobs[0].waited_s <= 1.0 * (1 + steps) + 2.5
    assert len(cluster.held()) == 0
    assert "a main job has started" in home.noted("yield")


def test_a_job_that_no_release_helps_costs_one_void_offer(tmp_path: Path) -> None:
    home, cluster = patient(tmp_path / "state", GiveWay.BLIND)
    home.at(40.3, lambda: cluster.submit(99))
    held: list[int] = []
    for second in range(60, 300, 10):
        home.at(float(second), lambda: held.append(len(cluster.held())))
    home.pilot(300)
    assert home.noted("yield") == ["no main job has started: the nodes are held again"]
    assert held[-20:] == [8] * 20


def test_a_job_that_comes_while_no_blind_pilot_is_there_gets_nodes_from_the_next_one(
    tmp_path: Path,
) -> None:
    """The pilot was killed and is started again, and its holders are still there."""
    home, cluster = patient(tmp_path / "state", GiveWay.BLIND)
    home.killed(after_s=30.0)
    assert len(cluster.held()) == 8
    job = cluster.submit(2)
    home.pilot(60)
    assert job.waited_s <= 10.0


def test_holders_are_short_while_the_counters_show_a_waiting_job(tmp_path: Path) -> None:
    home, cluster = patient(tmp_path / "state", GiveWay.BLIND)
    home.at(40.3, lambda: cluster.submit(99))
    home.pilot(90)
    windows_s = [window_s for window_s in cluster.windows_s if window_s < 1700.0]
    assert windows_s == pytest.approx([600.0] * 8, abs=5.0), "held again after the offer"
    assert cluster.windows_s[:8] == pytest.approx([1800.0] * 8, abs=5.0)


def test_hidden_queues_end_every_window(tmp_path: Path) -> None:
    home, cluster = patient(tmp_path / "state", GiveWay.BLIND, worst_wait_s=900.0)
    home.pilot(30)
    assert cluster.windows_s[0] == pytest.approx(900.0, abs=1.0)


def test_low_water_leaves_what_was_not_always_idle(tmp_path: Path) -> None:
    home, cluster = patient(tmp_path / "state", GiveWay.YIELD, settled_s=100.0)
    held: dict[float, int] = {}
    home.at(20.0, lambda: cluster.submit(3, 30.0))
    for second in (15.0, 45.0, 80.0, 190.0):
        home.at(second, lambda second=second: held.update({second: len(cluster.held())}))
    home.pilot(220)
    assert held == {15.0: 8, 45.0: 5, 80.0: 5, 190.0: 8}


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 50)), min_size=1), st.integers(0, 99))
def test_the_mark_is_the_lowest_of_the_latest_looks(
    looks: list[tuple[int, int]], window_s: int
) -> None:
    mark, at_s, seen = LowWater(), 0.0, list[tuple[float, int]]()
    for seconds, nodes in looks:
        at_s += seconds
        seen.append((at_s, nodes))
        mark = mark.after_look(nodes, at_s, window_s)
        assert mark.nodes == min(n for t, n in seen if t >= at_s - window_s)
        assert all(a < b for (_, a), (_, b) in pairwise(mark.looks))


def counters(submitted: int, started: int, ended: int, pending: int = 0) -> JobCounters:
    return JobCounters(START_S, submitted, started, ended, pending)


events = st.lists(
    st.tuples(st.sampled_from(["own", "other", "start", "end", "own end"]), st.booleans()),
    max_size=60,
)


@given(events)
def test_a_submission_of_another_is_never_lost_in_the_counters(
    steps: list[tuple[str, bool]],
) -> None:
    """However own holders and other jobs mix: whenever another job was submitted, an offer begins
    soon after, as long as it waits.
    """
    memory, own, total = BlindMemory(), OwnJobs(), [0, 0, 0]
    waiting, at_s = 0, 0.0
    for what, is_counted_late in steps:
        late = [0, 0, 0]
        if what == "own":
            own = replace(own, submitted=own.submitted + 1)
            late = [1, 1, 0]
        elif what == "own end" and own.ended < own.submitted:
            own = replace(own, ended=own.ended + 1)
            late = [0, 0, 1]
        elif what == "other":
            total[0] += 1
            waiting += 1
        elif what == "start" and waiting:
            total[1] += 1
            waiting -= 1
        elif what == "end":
            total[2] += 1
        if not is_counted_late:
            total = [count + more for count, more in zip(total, late, strict=True)]
            late = [0, 0, 0]
        for _ in range(2):
            at_s += 1.0
            glance = Glance(PilotS(at_s), counters(*total), own)
            memory = next_blind(glance, 4, memory, 5.0).memory
            total = [count + more for count, more in zip(total, late, strict=True)]
            late = [0, 0, 0]
        if what == "other" and memory.credit >= 1.0 and at_s > 2.0:
            assert memory.offers or memory.waiting <= memory.goal
    assert memory.waiting >= waiting - 1
