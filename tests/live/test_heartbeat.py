"""Leases are renewed whatever the loop waits for, but not for a loop that is dead."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support.fakes_live import FakeClock
from support.live_house import house, spec
from support.live_machine import eventually

from bftrainer.pilot.heartbeat import Heartbeat
from bftrainer.system.clock import SystemClock

LEASE_S = 60.0


@dataclass
class Renewals:
    clock: FakeClock
    at_s: list[float] = field(default_factory=list)

    def renew(self) -> None:
        self.at_s.append(self.clock.elapsed_s())


def test_a_loop_that_waits_is_renewed_for_and_one_that_is_dead_is_not() -> None:
    clock = FakeClock()
    seen = Renewals(clock)
    it = Heartbeat(seen.renew, clock, LEASE_S)
    it.renew_if_due()
    assert seen.at_s == [], "not before this pilot has written to the journal"
    it.mark_written()
    while clock.elapsed_s() < 200.0:  # what the thread does while the loop is silent
        it.renew_if_due()
        clock.sleep(1.0)
    gaps = [b - a for a, b in zip(seen.at_s, seen.at_s[1:], strict=False)]
    assert max(gaps) <= it.interval_s + 1.0
    assert LEASE_S - it.interval_s - 1.0 <= seen.at_s[-1] <= LEASE_S, (
        "a hung loop does not hold nodes for ever"
    )


def test_the_thread_renews_while_the_loop_is_busy_and_ends_with_it() -> None:
    count = [0]

    def renew() -> None:
        count[0] += 1
        if count[0] == 2:
            raise OSError("the file system is away for a moment")

    fast = Heartbeat(renew, SystemClock(), 0.6)
    fast.mark_written()
    with fast.running():
        eventually(lambda: count[0] >= 4, 30)  # the loop does nothing at all
        fast.mark_written()
    ended = count[0]
    time.sleep(0.3)
    assert count[0] <= ended + 1
    assert not any(thread.name == "heartbeat" for thread in threading.enumerate())


def test_the_loop_does_not_wait_for_a_renewal_that_hangs() -> None:
    hangs, begun = threading.Event(), threading.Event()

    def renew() -> None:
        begun.set()
        hangs.wait(60)

    it = Heartbeat(renew, SystemClock(), 60.0)
    it.mark_written()
    thread = threading.Thread(target=it.renew_if_due)
    thread.start()
    assert begun.wait(60)
    it.renew_if_due()  # returns
    hangs.set()
    thread.join(60)


@dataclass
class Later:
    """Work that is done when the test says so."""

    waiting: list[tuple[Any, Future[Any]]] = field(default_factory=list)

    def start(self, work: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.waiting.append((work, future))
        return future

    def finish(self) -> None:
        for work, future in self.waiting:
            future.set_result(work())
        self.waiting = []


def test_the_loop_goes_on_while_a_poll_takes_its_time(tmp_path: Path) -> None:
    """Half a dozen commands of 9 s each: renewals, releases and ticks do not wait. One poll is on
    its way at a time, and one call that shows other pilots the demand.
    """
    home = house(tmp_path / "state", times={"poll_s": 1.0, "stale_after_s": 60.0})
    home.background = Later()
    home.cluster.give("n1", "n2")
    home.submit(spec("a", max_nodes=2))
    for at_s in (54.0, 108.0, 162.0):
        home.at(at_s, home.background.finish)
    kinds: list[list[str]] = []
    renewed: list[int] = []
    home.after_tick = lambda: (
        kinds.append(sorted(work.__name__ for work, _ in home.background.waiting)),
        renewed.append(home.cluster.renewals),
    )
    home.pilot(190)
    assert max(kinds, key=len) == ["<lambda>", "_observe_cluster"]
    assert len(home.cluster.acquired) == 2
    assert renewed[-1] > 30
    assert home.reasons() == ["the pilot ends"] * 2, (
        "polls that succeed are no silence of the scheduler"
    )
