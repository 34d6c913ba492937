"""Metrics of progress lines: finite, bounded, and never lost between two lines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bftrainer.progress import Reporter
from bftrainer.protocol.environment import TRAINER_DIR
from bftrainer.protocol.metrics import MOST_METRICS, Metric
from bftrainer.protocol.progress_line import parse_progress
from bftrainer.protocol.reports import DriverView, after_progress


def line(**keys: Any) -> dict[str, Any]:
    return {"time": 1.0, "phase": "running", "step": 1, "samples": 10, **keys}


def test_a_metric_is_followed_over_lines_and_a_loss_is_one() -> None:
    values = [0.5, 0.9, 0.7]
    lines = [line(samples=10 * i, loss=1.0 / i, metrics={"acc": x}) for i, x in enumerate(values, 1)]
    view = after_progress(DriverView(), lines)
    found = {metric.name: metric for metric in view.metrics}
    assert found["acc"] == Metric("acc", 0.7, 0.5, 10.0, 0.9, 20.0)
    assert (found["loss"].last, found["loss"].most) == (1.0 / 3, 1.0)
    assert after_progress(view, [line(samples=40)]).metrics is view.metrics, "unchanged: nothing is written again"


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
def test_what_cannot_be_used_is_named_and_the_rest_of_the_line_is_used(metrics: object, key: str) -> None:
    view = after_progress(DriverView(), [line(metrics=metrics)])
    assert view.samples == 10
    assert [found for found, _ in view.refused] == [key]
    assert all(metric.name.startswith("m") for metric in view.metrics)


def test_one_trainer_has_so_many_metrics_over_all_its_lines() -> None:
    view = after_progress(DriverView(), [line(metrics={f"m{i}": 1.0}) for i in range(MOST_METRICS + 5)])
    assert len(view.metrics) == MOST_METRICS
    assert view.refused == (("progress metrics", f"expected at most {MOST_METRICS} names; skipped 'm{MOST_METRICS}'"),)


def test_the_path_of_a_checkpoint() -> None:
    assert parse_progress(line(checkpoint="a/b.pt")).checkpoint == "a/b.pt"
    assert parse_progress(line(checkpoint="x" * 5000)).refused[0][0] == "checkpoint"


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
