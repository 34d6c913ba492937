"""When a trainer's nodes came to train, from what its driver and rank 0 report."""

from __future__ import annotations

from functools import reduce

from bftrainer.protocol.events import Event, EventLine, Running, Started, Warm, Warming, WorkerExited, WorkerStarted
from bftrainer.protocol.progress_line import ProgressLine
from bftrainer.protocol.reports import DriverView, after_event, after_progress
from bftrainer.protocol.worker_times import MOST_GONE, WorkerTimes


def started(fragment: str, pid: int) -> WorkerStarted:
    return WorkerStarted(f"n{fragment}", fragment, 0, pid, "log")


def exited(fragment: str, pid: int) -> WorkerExited:
    return WorkerExited(f"n{fragment}", fragment, 0, pid, 0, True)


def fold(*lines: tuple[float, Event] | ProgressLine, incarnation: int = 1) -> DriverView:
    def after(view: DriverView, line: tuple[float, Event] | ProgressLine) -> DriverView:
        if isinstance(line, ProgressLine):
            return after_progress(view, [as_json(line)])
        return after_event(view, EventLine(line[0], incarnation, line[1]))

    return reduce(after, lines, DriverView(alive=True))


def as_json(line: ProgressLine) -> dict[str, object]:
    return {
        "time": line.at_s, "incarnation": line.incarnation, "world_size": line.world_size, "samples": line.samples,
        "formed": line.formed,
    }  # fmt: skip


def step(at_s: float, world_size: int, incarnation: int = 1, *, formed: bool = False) -> ProgressLine:
    return ProgressLine(at_s, incarnation=incarnation, world_size=world_size, samples=at_s, formed=formed)


def test_a_restart_trains_from_the_first_line_of_its_incarnation() -> None:
    view = fold(
        (10.0, Started()), (10.5, started("1", 7)), (10.6, Running(1, ("1",))), step(9.0, 1, incarnation=0), step(14.0, 1),
        step(15.0, 1),
    )  # fmt: skip
    assert view.times.of("1") == WorkerTimes("1", 10.5, None, (1, 1), 10.6, 14.0)


def test_a_warm_worker_joins_when_the_group_is_formed_and_not_while_another_rescale_is_made() -> None:
    before = [(10.0, started("1", 7)), (10.1, started("2", 8)), (10.2, Running(2, ("1", "2"))), step(12.0, 2)]
    joins = [(20.0, Warming("n3", "3")), (20.1, started("3", 9))]
    other = [step(21.0, 2), step(22.0, 1, formed=True), step(22.5, 1), (22.6, Running(1, ("1",)))]
    view = fold(*before, *joins, *other)
    assert view.times.of("3") == WorkerTimes("3", 20.1)
    view = fold(
        *before, *joins, *other, (24.0, Warm("n3", "3")), step(25.0, 1), step(26.0, 2, formed=True), step(26.4, 2),
        (26.5, Running(2, ("1", "3"))), step(27.0, 2),
    )  # fmt: skip
    assert view.times.of("3") == WorkerTimes("3", 20.1, 24.0, (1, 2), 26.0, 26.4)
    assert view.times.of("1") == WorkerTimes("1", 10.0, None, (1, 2), 10.2, 12.0), "the first group counts"


def test_a_driver_may_say_that_a_group_trains_before_its_lines_are_read() -> None:
    view = fold((10.0, started("1", 7)), (10.4, Running(1, ("1",))), step(10.1, 1, formed=True), step(10.2, 1))
    assert view.times.of("1") == WorkerTimes("1", 10.0, None, (1, 1), 10.1, 10.2)


def test_a_fragment_is_free_when_its_last_worker_has_ended() -> None:
    lines = [(10.0, started("1", 7)), (10.0, started("1", 8)), (11.0, exited("1", 7))]
    assert fold(*lines).times.of("1") == WorkerTimes("1", 10.0)
    view = fold(*lines, (12.0, exited("1", 8)))
    assert view.times.of("1") == WorkerTimes("1", 10.0, gone_s=12.0)
    assert fold(*lines, (12.0, exited("1", 8)), (13.0, started("1", 9))).times.of("1") == WorkerTimes("1", 10.0)


def test_a_driver_of_weeks_remembers_the_latest_fragments() -> None:
    lines: list[tuple[float, Event]] = []
    for number in range(MOST_GONE + 20):
        lines += [(float(number), started(str(number), 7)), (number + 0.5, exited(str(number), 7))]
    times = fold(*lines).times
    assert len(times.fragments) == MOST_GONE
    assert times.of("19") is None
    assert times.of("20") is not None
