"""The host's clock is set while a pilot runs: nothing is booked, delayed or given back for it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from support.fakes_live import START_S, FakeClock
from support.live_house import house, spec

from bftrainer.pilot.facts import FragmentEvent
from bftrainer.pilot.persistence.registry import Submission, TrainerStatus
from bftrainer.pilot.persistence.registry_writer import TrainerChange
from bftrainer.pilot.persistence.store import Store
from bftrainer.pilot.recorder import Recorder
from bftrainer.pilot.steady_clock import SteadyClock

HOUR_S = 3600.0


def story(path: Path, step_s: float) -> tuple[object, ...]:
    """What a pilot does in a minute, if the clock is set in its 20th second: what it booked,
    ordered and gave back.
    """
    home = house(path, times={"move_s": 8.0})
    home.cluster.give("n1", "n2", "n3", "n4")
    home.submit(spec("a", max_nodes=3), spec("fails", max_nodes=1))
    home.launcher.behaviour["fails"] = "fails"
    home.at(20, lambda: setattr(home.clock, "set_by", step_s))
    home.at(24, lambda: home.cluster.take("n1"))
    home.at(30, lambda: home.cluster.give("n1"))
    state = home.pilot(61)
    usage, failed = home.trainer("a"), home.trainer("fails")
    assert not home.differences()
    assert bool(home.noted("clock")) == bool(step_s), "it says so"
    (a,) = state.active
    return (
        usage.held_node_s,
        a.run_s,
        a.node_s,
        failed.status,
        failed.failures,
        home.reasons(),
        home.launcher.orders,
    )


@pytest.mark.parametrize("step_s", [HOUR_S, -HOUR_S])
def test_it_books_no_time_delays_nothing_and_moves_nobody(tmp_path: Path, step_s: float) -> None:
    """Retries come after 5, 10 and 20 s, nodes that were given back are released after ``move_s``,
    all the same.
    """
    expected = story(tmp_path / "as ever", 0.0)
    assert expected[3:5] == (TrainerStatus.FAILED, 4)
    found = story(tmp_path / "set", step_s)
    assert found[:3] == pytest.approx(expected[:3])
    assert found[3:] == expected[3:]


def test_users_and_other_hosts_read_the_hosts_time(store: Store) -> None:
    clock = FakeClock()
    steady = SteadyClock(clock)
    recorder = Recorder(store, steady)
    clock.set_by = HOUR_S
    clock.sleep(10.0)
    assert steady.now_s() == pytest.approx(START_S + 10.0)
    assert clock.now_s() == pytest.approx(START_S + 10.0 + HOUR_S)
    recorder.submissions([Submission(spec("a"), "me", "x")])
    recorder.trainer(
        recorder.registry.trainer("a"), TrainerChange(status=TrainerStatus.RUNNING, retry_s=5.0)
    )
    recorder.note("kind", "", "text")
    recorder.usage(())
    recorder.write_fragment_event("n1#1", FragmentEvent.ASKED, steady.now_s())
    found, (held,) = recorder.registry.trainer("a"), recorder.registry.fragments()
    times = (
        found.submitted_s,
        found.started_s,
        found.not_before_s - 5.0,
        recorder.registry.notes()[0].at_s,
        held.asked_s,
    )
    assert times == pytest.approx([clock.now_s()] * 5)
    holder = store.holder()
    assert holder is not None
    assert holder.heartbeat_s == pytest.approx(clock.now_s())


def test_a_clock_that_is_kept_in_step_changes_nothing() -> None:
    clock = FakeClock()
    steady = SteadyClock(clock)
    clock.set_by = 0.3
    assert steady.to_host(5.0) == 5.0


def learned(path: Path, off_s: float) -> tuple[list[str], list[str]]:
    """A trainer that grows, on a node whose clock is off by so much: measured kinds, notes."""
    home = house(path, learning={"window_s": 5.0, "explore_after_s": 0.0})
    home.cluster.give("n1")
    home.submit(spec("a", max_nodes=2))
    home.at(20, lambda: home.cluster.give("n2"))
    home.at(150, lambda: home.submit(spec("b")))

    def report() -> None:
        if (driver := home.launcher.drivers.get("a")) is not None and driver.view.on:
            at_s = home.clock.elapsed_s()
            home.launcher.progress(
                "a", 10.0 * (at_s if at_s < 20 else max(at_s - 8, 20))
            )  # a stall of 8 s
            driver.view = replace(
                driver.view, rank_0_reported_s=driver.view.rank_0_reported_s + off_s
            )

    for at_s in range(1, 160):
        home.at(at_s, report)
    home.pilot(160)
    seen = [type(m).__name__ for entry in home.entries() for m in entry.event.measured]
    return seen, home.noted("clock")


def test_the_clock_of_a_node_does_not_inflate_what_is_learned_of_stalls(tmp_path: Path) -> None:
    seen, notes = learned(tmp_path / "right", 0.0)
    assert "StallSeen" in seen
    assert not notes
    for off_s, where in ((-40.0, "40 s behind"), (40.0, "40 s ahead of")):
        seen, notes = learned(tmp_path / f"off {off_s}", off_s)
        assert "RateSeen" in seen, "rates are between two times of one clock"
        assert "StallSeen" not in seen
        assert [where in note for note in notes] == [True]


def test_a_set_clock_is_no_clock_of_a_node_that_is_off_and_starves_nobody(tmp_path: Path) -> None:
    """All hosts are set together: the lines of rank 0 are as young as before, and no hour has
    passed without nodes.
    """
    tell = ["sh", "-c", "cat > told"]
    home = house(
        tmp_path, learning={"window_s": 5.0}, notices={"on_event": tell, "starved_after_s": 600.0}
    )
    home.cluster.give("n1")
    home.submit(spec("a", max_nodes=1), spec("waits", max_nodes=1))
    home.at(20, lambda: setattr(home.clock, "set_by", HOUR_S))

    def report() -> None:
        if (driver := home.launcher.drivers.get("a")) is not None and driver.view.on:
            home.launcher.progress("a", 10.0 * home.clock.elapsed_s())

    for at_s in range(1, 60):
        home.at(at_s, report)
    home.pilot(60)
    kinds = [note.split(" ")[:2] for note in home.notes()]
    assert ["clock", ""] in kinds
    assert ["clock", "a"] not in kinds
    assert ["notice", "waits"] not in kinds
