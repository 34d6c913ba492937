"""What the pilot learns of its trainers: windows and stalls from their reports, curves corrected
while they run.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.live_house import House, house, spec

from bftrainer.decide.domain.events import Measured, RateSeen, StallSeen, WorkLost
from bftrainer.decide.domain.model import Curve, Trainer
from bftrainer.decide.domain.state import Active, State
from bftrainer.pilot.decision_maker import limited_costs
from bftrainer.pilot.persistence.registry import Submission
from bftrainer.pilot.persistence.registry_writer import RegistryWriter
from bftrainer.pilot.persistence.spool import RequestKind
from bftrainer.pilot.trainers.meter import MeterReading, update
from bftrainer.system.users import own_name
from bftrainer.wires.driver_events import EventLine, Running
from bftrainer.wires.reports import DriverView, after_event, after_progress

# --- the meter: a trainer that does 10 samples/s per node


def heard(view: DriverView, at_s: float, samples: float) -> DriverView:
    return replace(view, rank_0_reported_s=at_s, samples=samples, trains=True)


def running(fragments: str, driver_reported_s: float, view: DriverView | None = None) -> DriverView:
    return replace(
        view or DriverView(),
        alive=True,
        on=frozenset(fragments),
        driver_reported_s=driver_reported_s,
        trains=False,
    )


def fed(
    views: list[DriverView], window_s: float = 10.0, decided_s: float | None = None
) -> list[Measured]:
    it, seen = MeterReading(), []
    for view in views:
        it, more = update(it, "t", view, window_s, decided_s=decided_s)
        seen += more
    return seen


def steady(
    fragments: str, begin_s: int, end_s: int, samples: float, view: DriverView | None = None
) -> list[DriverView]:
    """Lines at each second; training begins at ``begin_s`` at once."""
    here = running(fragments, begin_s, view)
    return [here] + [
        heard(here, float(t), samples + 10 * len(fragments) * (t - begin_s))
        for t in range(begin_s, end_s + 1)
    ]


def test_windows_of_steady_training() -> None:
    seen = fed(steady("ab", 100, 150, 0.0))
    assert all(
        isinstance(s, RateSeen) and s.nodes == 2 and s.samples_per_s == pytest.approx(20.0)
        for s in seen
    )
    assert 3 <= len(seen) <= 5


def test_the_first_steps_after_a_rescale_are_left_out() -> None:
    """Four times slower for two seconds: neither window nor rate sees them, the stall does."""
    before = steady("a", 100, 130, 0.0)
    slow = running("ab", 140.0, before[-1])
    lines = [heard(slow, 140.0, 300.0), heard(slow, 142.0, 310.0)]
    lines += [heard(slow, float(t), 310.0 + 20 * (t - 142)) for t in range(143, 165)]
    seen = fed([*before, slow, *lines])
    rates = [s for s in seen if isinstance(s, RateSeen) and s.nodes == 2]
    stalls = [s for s in seen if isinstance(s, StallSeen)]
    assert [s.samples_per_s for s in rates] == [pytest.approx(20.0)] * 2
    assert [(s.grew, s.seconds) for s in stalls] == [(True, pytest.approx(11.5))], (
        "10 s, and 2 s with half a second's work"
    )


def test_work_done_twice_counts_as_standing_still() -> None:
    before = steady("ab", 100, 130, 0.0)
    back = steady("a", 133, 160, 500.0, before[-1])
    stalls = [s for s in fed([*before, *back]) if isinstance(s, StallSeen)]
    assert [(s.grew, s.seconds) for s in stalls] == [(False, pytest.approx(13.0))], (
        "3 s, and 100 samples again"
    )


def test_a_start_costs_from_the_drivers_first_word() -> None:
    started = DriverView(alive=True, driver_reported_s=90.0)
    stalls = [s for s in fed([started, *steady("a", 98, 130, 0.0)]) if isinstance(s, StallSeen)]
    assert [(s.grew, s.seconds) for s in stalls] == [(True, pytest.approx(8.0))]


def test_where_the_old_nodes_train_on_start_and_switch_are_told_apart() -> None:
    """Decided at 122; the old node trains until 130, and the new ones from 131. The driver may
    restart its workers for that.
    """
    before = steady("a", 100, 130, 0.0)
    for gap in ([], [replace(before[-1], on=frozenset(), driver_reported_s=130.5, trains=False)]):
        seen = fed([*before, *gap, *steady("ab", 131, 160, 300.0, before[-1])], decided_s=122.0)
        (stall,) = (s for s in seen if isinstance(s, StallSeen))
        assert (stall.grew, stall.seconds, stall.start_s) == (
            True,
            pytest.approx(1.0),
            pytest.approx(8.0),
        )
    stalled = fed([*before, *steady("ab", 131, 160, 300.0, before[-1])], decided_s=99.0)
    assert [s.start_s for s in stalled if isinstance(s, StallSeen)] == [None], (
        "it stalled when that was decided"
    )
    shrunk = fed(
        [*steady("ab", 100, 130, 0.0), *steady("a", 131, 160, 600.0, before[-1])], decided_s=122.0
    )
    assert [s.start_s for s in shrunk if isinstance(s, StallSeen)] == [None]
    alone = fed(
        [DriverView(alive=True, driver_reported_s=90.0), *steady("a", 98, 130, 0.0)], decided_s=85.0
    )
    (stall,) = (s for s in alone if isinstance(s, StallSeen))
    assert (stall.seconds, stall.start_s) == (pytest.approx(13.0), None), (
        "from the decision; nothing trained meanwhile"
    )


def test_the_last_line_on_the_old_nodes_may_be_read_with_the_news_of_the_new_ones() -> None:
    """The pilot looks a few times a second: the last line, the news and the first line are often
    there at once.
    """
    before = steady("a", 100, 129, 0.0)
    news = [EventLine(131.0, 1, Running(2, ("a", "b")))]
    lines = [{"time": float(t), "samples": 300.0 + 20 * max(t - 131, 0)} for t in range(130, 161)]
    for at_once in (1, 2):
        view = after_progress(after_event(before[-1], news[0]), lines[:at_once])
        views = [view, *((view := after_progress(view, [line])) for line in lines[at_once:])]
        (stall,) = (s for s in fed([*before, *views], decided_s=122.0) if isinstance(s, StallSeen))
        assert (stall.start_s, stall.seconds) == (pytest.approx(8.0), pytest.approx(1.0)), (
            "not 7 s, and 1.5 s"
        )


def test_the_line_at_the_switch_says_how_long_the_old_nodes_trained() -> None:
    """Their last line is from 130, but 9 more samples were done by the switch at 131: they trained
    until 130.9.
    """
    view = after_event(steady("a", 100, 130, 0.0)[-1], EventLine(131.0, 1, Running(2, ("a", "b"))))
    views = steady("a", 100, 130, 0.0)
    switch = {"time": 131.0, "samples": 309.0, "incarnation": 1, "world_size": 2, "formed": True}
    later = [{"time": float(t), "samples": 309.0 + 20 * (t - 131)} for t in range(132, 161)]
    views += [view := after_progress(view, [line]) for line in (switch, *later)]
    (stall,) = (s for s in fed(views, decided_s=122.0) if isinstance(s, StallSeen))
    assert (stall.start_s, stall.seconds) == (pytest.approx(8.9), pytest.approx(0.1)), (
        "not 8 s, and 0.55 s"
    )


def test_work_that_was_not_saved_is_lost_and_no_stall() -> None:
    """300 samples at 130, of which the next driver's first line knows 100: it started in 4 s."""
    before = steady("a", 100, 130, 0.0)
    started = DriverView(alive=True, driver_reported_s=140.0, samples=300.0)
    seen = fed(
        [*before, replace(before[-1], alive=False), started, *steady("a", 144, 170, 100.0, started)]
    )
    assert [s for s in seen if isinstance(s, WorkLost)] == [WorkLost("t", 200.0)]
    assert [s.seconds for s in seen if isinstance(s, StallSeen)] == [pytest.approx(4.0)], "not 24 s"


def test_a_trainer_that_stops_or_says_no_samples_gives_nothing() -> None:
    views = steady("a", 100, 108, 0.0)
    assert fed([*views, replace(views[-1], alive=False), *steady("a", 200, 208, 80.0)]) == []
    silent = running("a", 100.0)
    assert (
        fed(
            [
                silent,
                *(
                    replace(silent, rank_0_reported_s=float(t), trains=True)
                    for t in range(100, 160)
                ),
            ]
        )
        == []
    )


# --- the pilot, over a cluster in memory


def trains(home: House, truth: dict[str, Curve], saved: dict[str, float] | None = None) -> None:
    """Every trainer reports each second, as fast as its true curve says on the nodes it is on.

    ``saved`` are the samples from which its second driver resumes.
    """
    done: dict[str, tuple[float, float]] = {}

    def tick() -> None:
        now = home.clock.now_s()
        for name, driver in home.launcher.drivers.items():
            at_s, samples = done.get(name, (now, 0.0))
            view = driver.view
            if not (view.alive and view.on) or view.driver_reported_s > at_s:
                resumes = saved if saved and view.incarnation > 1 else {}
                done[name] = (
                    now,
                    resumes.pop(name, samples) if view.alive and view.on else samples,
                )
            elif now - at_s >= 1.0:
                samples += truth[name].at(len(view.on)) * (now - at_s)
                done[name] = (now, samples)
                home.launcher.progress(name, samples)

    home.after_tick = tick


def line(per_node: float, last: int = 4) -> Curve:
    return Curve((1, last), (per_node, per_node * last))


def blank(name: str, max_nodes: int = 4, **keys: Any) -> Any:
    return spec(name, max_nodes=max_nodes, samples_per_s=None, **keys)


def active(state: State, name: str) -> Active:
    return next(a for a in state.active if a.trainer.id == name)


@pytest.fixture
def home(tmp_path: Path) -> House:
    return house(
        tmp_path / "state", learning={"window_s": 5.0}, decisions={"objective": "relative-speed"}
    )


def test_a_wrong_curve_is_corrected_within_three_rescales(home: House) -> None:
    """It said 100 samples/s a node and does 10; the other one's 20 are true, and worth the
    nodes.
    """
    # relative-speed has no use for rates of linear curves.
    home = House(home.path, {**home.tables, "decisions": {"objective": "throughput"}})
    home.cluster.give("n1", "n2", "n3", "n4")
    trains(home, {"boasts": line(10.0), "honest": line(20.0)})
    home.submit(spec("boasts", samples_per_s=100.0), spec("honest", samples_per_s=20.0))
    state = home.pilot(90)
    assert len(active(state, "honest").nodes) == 4
    believed = active(state, "boasts").trainer.curve
    assert all(believed.at(n) == pytest.approx(10.0 * n, rel=0.05) for n in (1, 2, 4))
    log = home.entries()
    orders = [
        o for o in home.launcher.orders if o[1] == "boasts" and o[0] in ("start", "order", "stop")
    ]
    assert 1 <= len(orders) <= 3 + 1, "three rescales, and the pilot's end"
    assert any(entry.event.measured for entry in log), "measurements are part of the journal"
    assert not home.differences(), "and prove the decisions again"


def test_a_trainer_without_a_curve_is_measured_and_the_next_of_its_model_is_known(
    home: House,
) -> None:
    home.cluster.give("n1", "n2", "n3", "n4")
    trains(home, {"a": line(30.0), "b": line(30.0)})
    home.submit(blank("a", model="net"))
    state = home.pilot(60)
    nodes = len(active(state, "a").nodes)
    assert nodes >= 1
    assert active(state, "a").trainer.curve.at(nodes) == pytest.approx(30.0 * nodes, rel=0.05)
    home.submit(blank("b", model="net"))
    known = dict(home.last_state().measurements)
    assert list(known) == [f"model net of {own_name()}"]
    home.launcher.finish("a")
    state = home.pilot(4)
    assert active(state, "b").trainer.curve.at(nodes) == pytest.approx(30.0 * nodes, rel=0.05), (
        "before it ever ran"
    )
    assert not home.differences()


@pytest.mark.parametrize("learns", [True, False])
def test_the_length_that_a_script_reports_is_known_to_policies_and_users(
    home: House, learns: bool
) -> None:
    home.cluster.give("n1", "n2")
    home.submit(blank("a", 1) if learns else spec("a", 1), spec("short", 1, samples_total=500.0))
    home.at(5, lambda: home.launcher.progress("a", 100.0, samples_total=2000.0))
    home.at(5, lambda: home.launcher.progress("short", 100.0, samples_total=9000.0))
    home.at(8, lambda: home.launcher.progress("a", 200.0, samples_total=2001.0))
    home.at(9, lambda: home.cluster.give("n3"))
    state = home.pilot(20)
    assert active(state, "a").trainer.samples_total == 2000.0, "a change of 0.05 % is no news"
    assert active(state, "a").remaining_samples == 1800.0
    assert active(state, "short").trainer.samples_total == 500.0, "what the user says has priority"
    assert home.trainer("a").samples_total == 2000.0
    assert home.trainer("short").samples_total == 500.0
    assert not home.differences()
    home.at(3, lambda: home.cluster.give("n4"))
    home.at(5, lambda: home.launcher.progress("a", 300.0, samples_total=4000.0))
    home.at(6, lambda: home.cluster.give("n5"))
    state = home.pilot(12)
    assert active(state, "a").trainer.samples_total == 4000.0, "also in the pilot that comes next"
    assert not home.differences()


def test_a_trainer_that_is_queued_again_keeps_its_reported_length(home: House) -> None:
    home.cluster.give("n1")
    home.submit(spec("a"))
    home.at(5, lambda: home.launcher.progress("a", 100.0, samples_total=2000.0))
    home.at(8, lambda: home.ask(RequestKind.PAUSE, "a"))
    home.at(14, lambda: home.ask(RequestKind.RESUME, "a"))
    state = home.pilot(20)
    assert active(state, "a").trainer.samples_total == 2000.0


def test_what_one_user_measured_is_not_anothers(home: House) -> None:
    home.cluster.give("n1", "n2")
    trains(home, {"a": line(30.0), "b": line(30.0)})
    home.submit(blank("a", model="net"))
    home.pilot(40)
    other = blank("b", model="net")
    with closing(
        home.store(writes=True)
    ) as store:  # the spool knows one owner only: the user of the pilot
        assert all(
            RegistryWriter(store).add_all([Submission(other, "them", "b.json")], home.clock.now_s())
        )
    home.launcher.finish("a")
    home.pilot(40)
    assert [key for key, _ in home.last_state().measurements] == [
        f"model net of {own_name()}",
        "model net of them",
    ]


def test_measuring_can_be_turned_off(tmp_path: Path) -> None:
    home = house(tmp_path / "state", learning={"measure": False, "window_s": 5.0})
    home.cluster.give("n1", "n2", "n3", "n4")
    trains(home, {"a": line(10.0)})
    home.submit(spec("a", samples_per_s=100.0))
    state = home.pilot(60)
    assert active(state, "a").trainer.curve.at(4) == 400.0
    assert state.measurements == ()
    assert not any(entry.event.measured for entry in home.entries())


def test_costs_beyond_the_forward_time_are_noted_once_per_trainer() -> None:
    notes: list[tuple[str, str]] = []
    slow = Trainer("slow", line(10.0), 1, 4, 10.0, 1.0, start_s=55.0)
    state = State(2, active=(Active(slow), Active(replace(slow, id="quick", start_s=5.0))))
    for _ in range(2):
        notes += limited_costs(state, 60.0, [name for name, _ in notes])
    assert [name for name, _ in notes] == ["slow"]
    assert "a rescale takes 65 s (start 55 s, switch 10 s)" in notes[0][1]
    assert "counts as 54 s" in notes[0][1]
