"""When a pilot that sees only the scheduler's counters releases nodes for main jobs."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from bftrainer.decide.yielding.backfill_cycles import CYCLE_S
from bftrainer.decide.yielding.blind import (
    MAX_CREDIT,
    MAX_STEPS,
    REFILL_S,
    RETRY_S,
    VOID_S,
    BlindMemory,
    Glance,
    OwnJobs,
    next_blind,
)
from bftrainer.decide.yielding.facts import JobCounters
from bftrainer.decide.yielding.pool import LEAVING_S
from bftrainer.times import PilotS

NOTICE_S, SERVER_S = 5.0, 1e9


@dataclass
class HiddenQueue:
    """A cluster with a hidden queue and a pilot that holds its nodes, one glance a second.

    A backfill cycle begins every ``cycle_s`` (None: the scheduler does not show them), and is shown
    ``takes_s`` later, when it is complete.
    ``offers`` are the times at which an offer began, ``moves`` those at which nodes were released.
    """

    nodes: int = 4
    waiting: int = 0
    now_s: float = 0.0
    held: int = 0
    submitted: int = 0
    started: int = 0
    ended: int = 0
    cycle_s: float | None = None
    takes_s: float = 0.0
    leaving: int = 0
    memory: BlindMemory = field(default_factory=BlindMemory)
    offers: list[float] = field(default_factory=list)
    moves: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.held = self.nodes
        self.glance()
        self.memory = replace(self.memory, waiting=self.waiting)

    def glance(self, seconds: float = 1.0) -> int:
        """Let the pilot decide ``seconds`` later; return how many nodes it releases."""
        self.now_s += seconds
        counts = self.submitted, self.started, self.ended
        server_s = SERVER_S + self.now_s
        planned_s = None
        if self.cycle_s:
            planned_s = server_s - self.takes_s - (self.now_s - self.takes_s) % self.cycle_s
        counters = JobCounters(server_s, *counts, planned_s=planned_s)
        was_offering = self.memory.offers
        glance = Glance(PilotS(self.now_s), counters, OwnJobs())
        decision = next_blind(glance, self.held, self.memory, NOTICE_S, self.leaving)
        self.memory = decision.memory
        self.held -= decision.release_count
        if decision.release_count:
            self.moves.append(self.now_s)
        if self.memory.offers and not was_offering:
            self.offers.append(self.now_s)
        if was_offering and not self.memory.offers:
            self.held = self.nodes
        return decision.release_count

    def is_offered(self, limit_s: float) -> float:
        """Return after how many seconds nodes are released."""
        begun_s = self.now_s
        while not self.glance():
            assert self.now_s - begun_s < limit_s, "the job waits"
        return self.now_s - begun_s

    def void_offer(self) -> None:
        """A job ends, and no other job takes the nodes."""
        self.ended += 1
        self.glance()
        assert self.memory.offers
        while self.memory.offers:
            self.glance()


def test_a_job_that_comes_after_many_void_offers_gets_nodes_at_the_next_glance() -> None:
    """Jobs wait for a reservation all the time, and each end of a job costs a void offer."""
    queue = HiddenQueue(waiting=5)
    for _ in range(30):
        queue.void_offer()
        queue.glance(REFILL_S)
    queue.void_offer()
    queue.submitted += 1
    assert queue.is_offered(3.0) <= 2.0


def test_a_job_that_comes_in_a_rest_waits_for_its_end_and_for_no_other_event() -> None:
    queue = HiddenQueue(waiting=5)
    while queue.memory.credit >= 1.0:
        queue.void_offer()
    queue.submitted += 1
    assert queue.is_offered(REFILL_S + 1.0) > 1.0


def submissions_for_an_hour(queue: HiddenQueue, *, cancels: bool) -> None:
    """A job is submitted every other second, and never starts."""
    for second in range(3600):
        queue.submitted += second % 2 == 0
        queue.ended += cancels and second % 2 == 1
        queue.glance()


@pytest.mark.parametrize("cancels", [True, False])
def test_jobs_that_never_start_cost_one_offer_a_minute(cancels: bool) -> None:
    queue = HiddenQueue()
    submissions_for_an_hour(queue, cancels=cancels)
    assert MAX_CREDIT < len(queue.offers) <= MAX_CREDIT + 3600 / REFILL_S
    late = [at_s for at_s in queue.moves if at_s > 1800]
    assert len(late) <= 3 * (1800 / REFILL_S + 1), "three steps for four nodes"


def test_what_an_ended_job_leaves_is_offered_to_all_jobs_that_wait() -> None:
    queue = HiddenQueue(waiting=3)
    queue.ended += 1
    queue.glance()
    queue.started += 1
    assert queue.glance() == 2, "a second one may fit now"
    queue.started += 2
    queue.glance()
    assert not queue.memory.offers


def test_an_offer_after_a_submission_is_over_with_a_start() -> None:
    queue = HiddenQueue(waiting=3)
    queue.submitted += 1
    queue.glance()
    queue.started += 1
    assert queue.glance() == 0
    assert not queue.memory.offers


def test_an_end_during_an_offer_extends_it() -> None:
    queue = HiddenQueue(waiting=3)
    queue.submitted += 1
    queue.glance()
    queue.started += 1
    queue.ended += 1
    assert queue.glance() == 2


def test_a_job_that_comes_when_an_offer_is_nearly_void_gets_one_of_its_own() -> None:
    queue = HiddenQueue(waiting=1)
    queue.ended += 1
    queue.glance()
    all_released_s = None
    while all_released_s is None or queue.now_s < all_released_s + VOID_S + NOTICE_S - 1.0:
        queue.glance()
        all_released_s = queue.memory.all_released_s
    queue.submitted += 1
    assert queue.is_offered(3.0) <= 2.0


def in_a_long_cycle() -> HiddenQueue:
    """A job has come after the cycle began that ends an offer."""
    queue = HiddenQueue(waiting=1, cycle_s=30.0, takes_s=10.0)
    queue.ended += 1
    while queue.memory.all_idle_s is None or queue.now_s % 30.0 != 2.0:
        queue.glance()
    queue.submitted += 1
    while queue.memory.offers:
        queue.glance()
    return queue


def test_a_job_that_comes_while_a_long_cycle_runs_is_not_judged_by_it() -> None:
    queue = in_a_long_cycle()
    assert queue.now_s % 30.0 == 10.0
    assert queue.is_offered(3.0) <= 2.0


def test_a_job_that_no_cycle_has_judged_is_not_forgotten_before_nodes_are_held_again() -> None:
    queue = in_a_long_cycle()
    queue.held = 0
    for _ in range(4):
        queue.glance()
    queue.held = queue.nodes
    assert queue.is_offered(3.0) <= 2.0


@pytest.mark.parametrize("nodes", [1, 100, 128, 129, 49152])
def test_all_nodes_are_released_in_eight_steps(nodes: int) -> None:
    queue = HiddenQueue(nodes, waiting=1)
    queue.ended += 1
    for _ in range(MAX_STEPS):
        queue.glance()
    assert queue.held == 0


@pytest.mark.parametrize(("cycle_s", "longest_s"), [(None, 12.0), (1.0, 13.0), (30.0, 39.0)])
def test_an_offer_is_not_void_before_a_complete_backfill_cycle(
    cycle_s: float | None, longest_s: float
) -> None:
    """Some jobs are only started by backfill."""
    seconds = []
    for offset in range(30):
        queue = HiddenQueue(waiting=1, now_s=float(offset), cycle_s=cycle_s)
        queue.void_offer()
        seconds.append(queue.now_s - queue.offers[0])
        released_s = queue.memory.all_released_s
        if cycle_s is not None and released_s is not None:
            assert queue.now_s - queue.now_s % cycle_s > released_s + NOTICE_S
    assert longest_s - 2 <= max(seconds) <= longest_s + 1


def test_a_backfill_cycle_that_never_comes_is_not_waited_for_for_ever() -> None:
    queue = HiddenQueue(waiting=1, cycle_s=1e6)
    queue.void_offer()
    assert CYCLE_S < queue.now_s < CYCLE_S + 20


def test_short_jobs_that_start_all_the_time_do_not_keep_an_offer_open() -> None:
    """A large job waits meanwhile, so that the pilot cannot know whom an offer is for."""
    queue = HiddenQueue(waiting=1, cycle_s=30.0)
    queue.ended += 1
    queue.glance()
    while queue.memory.offers:
        queue.submitted += 1
        queue.started += 1
        queue.ended += 1
        queue.glance()
        assert queue.now_s < queue.offers[0] + 45.0


def counted(
    at_s: float, submitted: int, pending: int, pending_at_s: float, own_pending: int = 0
) -> Glance:
    """A glance at counters with a number of pending jobs that is from an earlier moment."""
    counters = JobCounters(
        SERVER_S + at_s, submitted, 0, 0, pending=pending, pending_at_s=SERVER_S + pending_at_s
    )
    return Glance(PilotS(at_s), counters, OwnJobs(pending=own_pending))


def test_a_holder_that_came_after_a_count_hides_no_job_in_it() -> None:
    memory = next_blind(counted(1.0, 0, 0, -20.0), 4, BlindMemory(), NOTICE_S).memory
    first = next_blind(counted(2.0, 1, 0, -20.0), 4, memory, NOTICE_S)
    second = next_blind(counted(12.0, 1, 1, 10.0, own_pending=1), 3, first.memory, NOTICE_S)
    assert second.release_count == 2, "the job that was counted waits"


def test_a_count_from_before_a_submission_ends_no_offer() -> None:
    memory = next_blind(counted(1.0, 0, 0, -20.0), 4, BlindMemory(), NOTICE_S).memory
    first = next_blind(counted(2.0, 1, 0, -20.0), 4, memory, NOTICE_S)
    assert first.release_count == 1
    second = next_blind(counted(3.0, 1, 0, 1.0), 3, first.memory, NOTICE_S)
    assert second.release_count == 2, "the job waits, whatever was counted before it came"
    third = next_blind(counted(33.0, 1, 0, 31.0), 1, second.memory, NOTICE_S)
    assert not third.memory.offers, "a later count shows that no job waits"


def test_a_job_that_only_a_later_count_shows_is_offered_nodes() -> None:
    memory = next_blind(counted(1.0, 5, 0, -20.0), 4, BlindMemory(), NOTICE_S).memory
    assert next_blind(counted(12.0, 5, 1, 10.0), 4, memory, NOTICE_S).release_count == 1


def test_a_job_that_comes_while_holders_start_gets_nodes_as_soon_as_they_have() -> None:
    """The scheduler has given them their nodes already, and no payload has said so yet."""
    memory = next_blind(counted(1.0, 0, 0, -20.0), 0, BlindMemory(), NOTICE_S).memory
    glance = counted(2.0, 1, 0, -20.0)
    memory = next_blind(glance, 0, memory, NOTICE_S, is_starting=True).memory
    assert next_blind(counted(3.0, 1, 0, -20.0), 4, memory, NOTICE_S).release_count == 1


def test_no_offer_is_void_while_released_holders_are_ending() -> None:
    """On a busy machine they take longer than trainers have; no cycle has seen idle nodes."""
    queue = HiddenQueue(waiting=1, cycle_s=1.0)
    queue.ended += 1
    while queue.held:
        queue.glance()
    queue.leaving = 2
    for _ in range(20):
        queue.glance()
        assert queue.memory.offers
    queue.leaving = 0
    ended_s = queue.now_s
    while queue.memory.offers:
        queue.glance()
    assert queue.now_s >= ended_s + VOID_S


def test_a_holder_that_hangs_while_it_ends_keeps_no_offer_open() -> None:
    queue = HiddenQueue(waiting=1, cycle_s=1.0, leaving=1)
    queue.void_offer()
    assert LEAVING_S < queue.now_s < LEAVING_S + 20.0


def test_a_job_of_which_no_event_tells_is_offered_nodes_from_time_to_time() -> None:
    """It has become eligible at its begin time, say."""
    queue = HiddenQueue(waiting=1)
    for _ in range(3):
        assert queue.is_offered(RETRY_S + 2.0) > RETRY_S - 60.0
        while queue.memory.offers:
            queue.glance()


def test_a_pilot_that_takes_over_holders_offers_them_to_jobs_that_wait_already() -> None:
    """The pilot before it ended in the middle of an offer, or saw no submission."""
    memory = next_blind(counted(1.0, 5, 1, -20.0), 4, BlindMemory(), NOTICE_S).memory
    assert next_blind(counted(2.0, 5, 1, -20.0), 4, memory, NOTICE_S).release_count == 1
    memory = next_blind(counted(1.0, 5, 1, -20.0), 0, BlindMemory(), NOTICE_S).memory
    assert next_blind(counted(2.0, 5, 1, -20.0), 4, memory, NOTICE_S).release_count == 0


@pytest.mark.parametrize("step_s", [3600.0, -3600.0])
def test_a_step_of_the_schedulers_clock_makes_no_blind_offer_void(step_s: float) -> None:
    """The latest cycle seems to have begun in the future, or long ago."""
    queue = HiddenQueue(waiting=1)
    queue.ended += 1
    planned_s = SERVER_S - 5.0
    for number in range(60):
        queue.now_s += 1.0
        at_s = SERVER_S + queue.now_s + (step_s if number > 5 else 0.0)
        counters = JobCounters(at_s, 0, 0, 1, planned_s=planned_s)
        glance = Glance(PilotS(queue.now_s), counters, OwnJobs())
        decision = next_blind(glance, queue.held, queue.memory, NOTICE_S)
        queue.memory, queue.held = decision.memory, queue.held - decision.release_count
        assert queue.memory.offers, "no cycle has begun"


def test_nothing_is_offered_while_no_job_waits() -> None:
    queue = HiddenQueue()
    for _ in range(int(2 * RETRY_S)):
        assert queue.glance() == 0
