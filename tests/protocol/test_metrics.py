"""Metrics of progress lines: finite, bounded, and never lost between two lines."""

from __future__ import annotations

import json
from functools import reduce
from pathlib import Path
from typing import Any

import pytest

from bftrainer.progress import Reporter
from bftrainer.wires.driver_events import (
    AnyDriverEvent,
    EventLine,
    Running,
    Started,
    Warm,
    Warming,
    WorkerExited,
    WorkerStarted,
)
from bftrainer.wires.environment import TRAINER_DIR
from bftrainer.wires.metrics import MOST_METRICS, Metric
from bftrainer.wires.progress_line import ProgressLine, parse_progress
from bftrainer.wires.reports import DriverView, after_event, after_progress
from bftrainer.wires.worker_times import MOST_GONE, WorkerTimes


def line(**keys: Any) -> dict[str, Any]:
    return {"time": 1.0, "phase": "running", "step": 1, "samples": 10, **keys}


def test_a_metric_is_followed_over_lines_and_a_loss_is_one() -> None:
    values = [0.5, 0.9, 0.7]
    lines = [
        line(samples=10 * i, loss=1.0 / i, metrics={"acc": x}) for i, x in enumerate(values, 1)
    ]
    view = after_progress(DriverView(), lines)
    found = {metric.name: metric for metric in view.metrics}
    assert found["acc"] == Metric("acc", 0.7, 0.5, 10.0, 0.9, 20.0)
    assert (found["loss"].last, found["loss"].most) == (1.0 / 3, 1.0)
    assert after_progress(view, [line(samples=40)]).metrics is view.metrics, (
        "unchanged: nothing is written again"
    )


@pytest.mark.parametrize(
    ("metrics", "key"),
    [
        ({"acc": float("nan")}, "progress metrics acc"),
        ({"acc": 1e40}, "progress metrics acc"),
        ({"acc": "high"}, "progress metrics acc"),
        ({"acc": True}, "progress metrics acc"),
        ({"a\x1b[2J": 1.0}, "progress metrics"),
        ({"loss": 1.0}, "progress metrics"),
        ([1.0], "progress metrics"),
        ({f"m{i}": 1.0 for i in range(MOST_METRICS + 1)}, "progress metrics"),
    ],
)
def test_what_cannot_be_used_is_named_and_the_rest_of_the_line_is_used(
    metrics: object, key: str
) -> None:
    view = after_progress(DriverView(), [line(metrics=metrics)])
    assert view.samples == 10
    assert [found for found, _ in view.refused] == [key]
    assert all(metric.name.startswith("m") for metric in view.metrics)


def test_one_trainer_has_so_many_metrics_over_all_its_lines() -> None:
    view = after_progress(
        DriverView(), [line(metrics={f"m{i}": 1.0}) for i in range(MOST_METRICS + 5)]
    )
    assert len(view.metrics) == MOST_METRICS
    assert view.refused == (
        ("progress metrics", f"expected at most {MOST_METRICS} names; skipped 'm{MOST_METRICS}'"),
    )


def test_the_path_of_a_checkpoint() -> None:
    assert parse_progress(line(checkpoint="a/b.pt")).checkpoint == "a/b.pt"
    assert parse_progress(line(checkpoint="x" * 5000)).refused[0][0] == "checkpoint"


def test_a_total_that_cannot_be_used_is_named() -> None:
    parsed = parse_progress(line(samples_total=-1))
    assert parsed.samples_total is None
    assert [key for key, _ in parsed.refused] == ["samples_total"]


def test_a_metric_waits_for_the_next_line(tmp_path: Path) -> None:
    report = Reporter({TRAINER_DIR: str(tmp_path)}, clock=lambda: 5.0)
    report.step(step=1, samples=10)
    report.step(step=2, samples=20, metrics={"acc": 0.5})  # within the same second: no line
    report.metrics(f1=0.4)
    report.checkpointed(Path("a.pt"))
    report.done()
    lines = [json.loads(text) for text in (tmp_path / "progress.jsonl").read_text().splitlines()]
    assert [(it["phase"], it.get("metrics"), it.get("checkpoint")) for it in lines] == [
        ("running", None, None),
        ("checkpointed", {"acc": 0.5, "f1": 0.4}, "a.pt"),
        ("done", None, None),
    ]


# --- When a trainer's nodes came to train, from what its driver and rank 0 report


def started(fragment: str, pid: int) -> WorkerStarted:
    return WorkerStarted(f"n{fragment}", fragment, 0, pid, "log")


def exited(fragment: str, pid: int) -> WorkerExited:
    return WorkerExited(f"n{fragment}", fragment, 0, pid, 0, True)


def fold(*lines: tuple[float, AnyDriverEvent] | ProgressLine, incarnation: int = 1) -> DriverView:
    def after(view: DriverView, line: tuple[float, AnyDriverEvent] | ProgressLine) -> DriverView:
        if isinstance(line, ProgressLine):
            return after_progress(view, [as_json(line)])
        return after_event(view, EventLine(line[0], incarnation, line[1]))

    return reduce(after, lines, DriverView(alive=True))


def as_json(line: ProgressLine) -> dict[str, object]:
    return {
        "time": line.at_s,
        "incarnation": line.incarnation,
        "world_size": line.world_size,
        "samples": line.samples,
        "formed": line.formed,
    }


def step(
    at_s: float, world_size: int, incarnation: int = 1, *, formed: bool = False
) -> ProgressLine:
    return ProgressLine(
        at_s, incarnation=incarnation, world_size=world_size, samples=at_s, formed=formed
    )


def test_a_restart_trains_from_the_first_line_of_its_incarnation() -> None:
    view = fold(
        (10.0, Started()),
        (10.5, started("1", 7)),
        (10.6, Running(1, ("1",))),
        step(9.0, 1, incarnation=0),
        step(14.0, 1),
        step(15.0, 1),
    )
    assert view.times.worker("1") == WorkerTimes("1", 10.5, None, (1, 1), 10.6, 14.0)


def test_a_warm_worker_joins_when_the_group_is_formed_and_not_while_another_rescale_is_made() -> (
    None
):
    before = [
        (10.0, started("1", 7)),
        (10.1, started("2", 8)),
        (10.2, Running(2, ("1", "2"))),
        step(12.0, 2),
    ]
    joins = [(20.0, Warming("n3", "3")), (20.1, started("3", 9))]
    other = [step(21.0, 2), step(22.0, 1, formed=True), step(22.5, 1), (22.6, Running(1, ("1",)))]
    view = fold(*before, *joins, *other)
    assert view.times.worker("3") == WorkerTimes("3", 20.1)
    view = fold(
        *before,
        *joins,
        *other,
        (24.0, Warm("n3", "3")),
        step(25.0, 1),
        step(26.0, 2, formed=True),
        step(26.4, 2),
        (26.5, Running(2, ("1", "3"))),
        step(27.0, 2),
    )
    assert view.times.worker("3") == WorkerTimes("3", 20.1, 24.0, (1, 2), 26.0, 26.4)
    assert view.times.worker("1") == WorkerTimes("1", 10.0, None, (1, 2), 10.2, 12.0), (
        "the first group counts"
    )


def test_a_driver_may_say_that_a_group_trains_before_its_lines_are_read() -> None:
    view = fold(
        (10.0, started("1", 7)),
        (10.4, Running(1, ("1",))),
        step(10.1, 1, formed=True),
        step(10.2, 1),
    )
    assert view.times.worker("1") == WorkerTimes("1", 10.0, None, (1, 1), 10.1, 10.2)


def test_a_fragment_is_free_when_its_last_worker_has_ended() -> None:
    lines = [(10.0, started("1", 7)), (10.0, started("1", 8)), (11.0, exited("1", 7))]
    assert fold(*lines).times.worker("1") == WorkerTimes("1", 10.0)
    view = fold(*lines, (12.0, exited("1", 8)))
    assert view.times.worker("1") == WorkerTimes("1", 10.0, gone_s=12.0)
    assert fold(*lines, (12.0, exited("1", 8)), (13.0, started("1", 9))).times.worker(
        "1"
    ) == WorkerTimes("1", 10.0)


def test_a_driver_of_weeks_remembers_the_latest_fragments() -> None:
    lines: list[tuple[float, AnyDriverEvent]] = []
    for number in range(MOST_GONE + 20):
        lines += [(float(number), started(str(number), 7)), (number + 0.5, exited(str(number), 7))]
    times = fold(*lines).times
    assert len(times.fragments) == MOST_GONE
    assert times.worker("19") is None
    assert times.worker("20") is not None
