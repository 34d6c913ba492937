"""Two pilots that see only the scheduler's counters, on one cluster: each takes the other's holders
for main jobs, as far as the counters tell. Main jobs must start, and nodes may not move for ever.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bftrainer.decide.yielding.blind import (
    MAX_CREDIT,
    REFILL_S,
    BlindMemory,
    Glance,
    OwnJobs,
    next_blind,
)
from bftrainer.decide.yielding.facts import JobCounters
from bftrainer.times import PilotS

NOTICE_S, SERVER_S, CYCLE_S, COUNT_S = 5.0, 1e9, 30.0, 30.0
LONGEST_S = REFILL_S + 2 * (NOTICE_S + 2 * CYCLE_S)
"""A rest without credit, and an offer of each pilot."""


@dataclass
class BlindPilot:
    """A pilot: it holds ``held`` nodes, and asks for idle ones while it offers none."""

    held: int = 0
    submitted: int = 0
    ended: int = 0
    memory: BlindMemory = field(default_factory=BlindMemory)
    moves: list[int] = field(default_factory=list)


@dataclass
class SharedCluster:
    """A scheduler that starts main jobs in order, at once where they fit; it counts its pending
    jobs every :data:`COUNT_S`. A holder starts in the second in which it is submitted, and ends
    in the one in which it is released. Pilots glance in turn, half a second apart.
    """

    nodes: int
    pilots: tuple[BlindPilot, BlindPilot] = field(
        default_factory=lambda: (BlindPilot(), BlindPilot())
    )
    now_s: float = 0.0
    running: list[tuple[float, int]] = field(default_factory=list)
    waiting: list[tuple[float, int, float]] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    submitted: int = 0
    started: int = 0
    ended: int = 0
    pending: tuple[int, float] = (0, SERVER_S)

    @property
    def idle(self) -> int:
        busy = sum(size for _, size in self.running) + sum(pilot.held for pilot in self.pilots)
        assert 0 <= busy <= self.nodes, "no node twice"
        return self.nodes - busy

    def submit(self, size: int, length_s: float) -> None:
        """A main job: its nodes and how long it runs."""
        self.submitted += 1
        self.waiting.append((self.now_s, size, length_s))
        self.schedule()

    def schedule(self) -> None:
        """Start the first jobs that fit."""
        for job in tuple(self.waiting):
            at_s, size, length_s = job
            if size > self.idle:
                return
            self.waiting.remove(job)
            self.waits.append(self.now_s - at_s)
            self.started += 1
            self.running.append((self.now_s + length_s, size))

    def half_a_second(self, number: int) -> None:
        """End what ends, and let one pilot glance."""
        self.now_s += 0.5
        over = [job for job in self.running if job[0] <= self.now_s]
        self.running = [job for job in self.running if job[0] > self.now_s]
        self.ended += len(over)
        self.schedule()
        if self.now_s % COUNT_S == 0:
            self.pending = len(self.waiting), SERVER_S + self.now_s
        self.glance(self.pilots[number % 2])
        self.schedule()

    def glance(self, pilot: BlindPilot) -> None:
        """Let a pilot decide, release, and request idle nodes."""
        server_s = SERVER_S + self.now_s
        counters = JobCounters(
            server_s,
            self.submitted,
            self.started,
            self.ended,
            pending=self.pending[0],
            pending_at_s=self.pending[1],
            planned_s=server_s - server_s % CYCLE_S,
        )
        glance = Glance(PilotS(self.now_s), counters, OwnJobs(pilot.submitted, pilot.ended))
        decision = next_blind(glance, pilot.held, pilot.memory, NOTICE_S)
        pilot.memory = decision.memory
        count = decision.release_count
        pilot.moves += [int(self.now_s)] if count else []
        pilot.held, pilot.ended, self.ended = (
            pilot.held - count,
            pilot.ended + count,
            self.ended + count,
        )
        self.schedule()
        if not pilot.memory.offers and (idle := self.idle):
            pilot.held, pilot.submitted = pilot.held + idle, pilot.submitted + idle
            self.submitted, self.started = self.submitted + idle, self.started + idle

    def run(self, seconds: int) -> None:
        """Let time pass."""
        for number in range(2 * seconds):
            self.half_a_second(number)


@pytest.mark.parametrize("size", [1, 3, 8])
def test_a_main_job_starts_beside_two_blind_pilots(size: int) -> None:
    cluster = SharedCluster(8)
    cluster.run(120)
    assert cluster.idle == 0
    half = cluster.pilots[0].held // 2
    cluster.pilots[0].held -= half
    cluster.pilots[1].held += half
    cluster.submit(size, 60.0)
    cluster.run(int(LONGEST_S))
    assert not cluster.waiting
    assert cluster.waits[0] <= LONGEST_S


def test_two_blind_pilots_do_not_move_nodes_for_ever_where_no_job_waits() -> None:
    cluster = SharedCluster(8)
    cluster.run(3600)
    assert sum(len(pilot.moves) for pilot in cluster.pilots) == 0
    assert sum(pilot.held for pilot in cluster.pilots) == 8


def test_beside_a_job_that_never_starts_each_moves_nodes_once_a_minute() -> None:
    """Each takes the holders of the other for main jobs that come and end."""
    cluster = SharedCluster(8)
    cluster.run(60)
    cluster.submit(99, 60.0)
    cluster.run(3600)
    for pilot in cluster.pilots:
        minutes = {second // 60 for second in pilot.moves}
        offers = len([s for s in pilot.moves if not any(s - 8 < t < s for t in pilot.moves)])
        assert offers <= MAX_CREDIT + 3600 / REFILL_S + 1
        assert len(minutes) <= 61


@given(
    st.lists(st.tuples(st.integers(0, 300), st.integers(1, 8), st.integers(5, 120)), max_size=6),
    st.integers(0, 8),
)
@settings(max_examples=25)
def test_no_main_job_starves_beside_two_blind_pilots(
    jobs: list[tuple[int, int, int]], first: int
) -> None:
    """Whatever comes when, and however the nodes are divided: the queue empties."""
    cluster = SharedCluster(8)
    cluster.pilots[0].held, cluster.pilots[1].held = first, 8 - first
    cluster.submitted = cluster.started = 8
    comes = sorted(jobs)
    for number in range(2 * (300 + len(jobs) * int(LONGEST_S + 120))):
        while comes and comes[0][0] <= cluster.now_s:
            _, size, length_s = comes.pop(0)
            cluster.submit(size, float(length_s))
        cluster.half_a_second(number)
        if not comes and not cluster.waiting and cluster.now_s > 300:
            break
    assert not cluster.waiting
