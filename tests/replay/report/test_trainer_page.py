"""``bftrainer plot`` and ``show``: one trainer's course from its files."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from replay.commands import executed
from support.a_course import SIZES, START_S, a_course
from support.command_line import bftrainer, complaint

from bftrainer.console.client.history import MOST_POINTS, latest_progress, read_history
from bftrainer.decide.domain.node_stages import TO_TRAINING, NodeStage
from bftrainer.pilot.persistence.time_lines import TimeLine
from bftrainer.wires.paths import TrainerDirectory
from bftrainer.wires.progress_line import ProgressLine, format_progress
from bftrainer_replay.figures.node_stages import node_stages_figure, stage_table
from bftrainer_replay.figures.trainer import (
    over_samples_figure,
    over_time_figure,
    rescale_times,
    speeds,
)
from bftrainer_replay.report.trainer_page import trainer_page


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return a_course(tmp_path_factory.mktemp("course") / "state").path


def test_the_course_is_read_from_the_files(state: Path) -> None:
    history = read_history(TrainerDirectory.of(state, "digits"))
    assert rescale_times(history) == tuple(START_S + at_s for at_s, _ in SIZES[1:])
    assert [it.nodes for it in history.nodes][1 : len(SIZES) + 1] == [nodes for _, nodes in SIZES]
    assert history.metric_names == ("accuracy",)
    edges, speed, reached = speeds(history.points)
    assert len(edges) == len(speed) + 1 == len(reached) + 1
    at = START_S + 1300  # six nodes
    (mine,) = [
        rate
        for left, right, rate in zip(edges, edges[1:], speed, strict=False)
        if left <= at < right
    ]
    assert mine == pytest.approx(100 * 6**0.9, rel=0.03)
    waits = [
        rate
        for left, rate in zip(edges, speed, strict=False)
        if START_S + 1920 < left < START_S + 2250
    ]
    assert max(waits) < 1


def test_both_pictures_say_what_they_show(state: Path) -> None:
    history = read_history(TrainerDirectory.of(state, "digits"))
    for figure in (over_time_figure("d", history, "accuracy"), over_samples_figure("d", history)):
        labels = [axes.get_ylabel() for axes in figure.axes]
        assert "loss" in labels
        assert "samples/s" in labels
        assert figure.axes[-1].get_xlabel() in ("time (UTC)", "samples")
        assert figure.texts[1].get_text().startswith("Read: the loss went from 2.4")
    assert "7 changes of size" in over_time_figure("d", history).texts[1].get_text().replace(
        "\n", " "
    )


def test_a_picture_stacks_the_stages_of_its_nodes(state: Path) -> None:
    lines = []
    for number, waited_s in enumerate((4.0, 6.0, 12.0)):
        instants = dict.fromkeys(TO_TRAINING, START_S + waited_s) | {NodeStage.IDLE: START_S}
        del instants[NodeStage.IMPORTS_DONE]
        instants[NodeStage.FIRST_STEP] += 2.5
        lines.append(TimeLine(f"n{number}#7", f"n{number}", "digits", instants))
    lines.append(TimeLine("n9#7", "n9", "", {NodeStage.IDLE: START_S}))
    figure = node_stages_figure("digits", lines)
    words = figure.texts[1].get_text().replace("\n", " ")
    assert "3 nodes took 8.5 s in the median, and 95 % of them at most 14.5 s, from idle" in words
    assert 'The longest stage ends with "a poll shows it idle" (6.0 s)' in words
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == [
        "median",
        "95 %",
        "n0",
        "n1",
        "n2",
    ]
    assert stage_table(lines)[2] == ("n2#7", "12.0000", *["0.0000"] * 7, "", "0.0000", "2.5000")
    history = read_history(TrainerDirectory.of(state, "digits"))
    assert [it.title for it in trainer_page("digits", history, {}, None, lines).chapters] == [
        "Course",
        "Nodes",
        "Facts",
    ]
    assert [it.title for it in trainer_page("digits", history, {}, None, lines[3:]).chapters] == [
        "Course",
        "Facts",
    ]


def test_the_command_writes_a_page_and_names_what_it_lacks(state: Path, tmp_path: Path) -> None:
    executed("plot", "digits", "--state", state, "--out", tmp_path / "out")
    assert (tmp_path / "out" / "pictures" / "over-time.png").read_bytes().startswith(b"\x89PNG")
    assert "The course of digits" in (tmp_path / "out" / "report.html").read_text()
    assert "unknown metric 'acc'" in complaint(
        bftrainer("plot", "digits", "--metric", "acc", "--state", state)
    )
    assert "no training named 'x'" in complaint(bftrainer("plot", "x", "--state", state))


def test_show_has_the_latest_report_and_the_logs(state: Path) -> None:
    (row,) = map(
        json.loads, bftrainer("show", "digits", "--state", state, "--json").out.splitlines()
    )
    assert row["step"] == 9384
    assert row["loss"] == pytest.approx(0.126, abs=1e-3)
    assert row["samples_per_s"] == pytest.approx(100 * 5**0.9, rel=0.05)
    assert row["log"].endswith("trainers/digits/logs/1/n1.1.0.log")
    assert re.search(r"samples_per_s +42\d\.", bftrainer("show", "digits", "--state", state).out)


def test_a_long_course_is_thinned_and_keeps_its_metrics(tmp_path: Path) -> None:
    directory = TrainerDirectory(tmp_path)
    count = 3 * MOST_POINTS
    rows = (
        ProgressLine(float(i), samples=float(i), metrics={"m": 1.0} if i == 4999 else {})
        for i in range(count)
    )
    directory.progress.write_text(
        "not JSON\n" + "".join(f"{format_progress(line)}\n" for line in rows)
    )
    history = read_history(directory)
    assert MOST_POINTS / 2 < len(history.points) < 2 * MOST_POINTS
    assert sum("m" in point.metrics for point in history.points) == 1
    latest = latest_progress(directory)
    assert latest.samples == count - 1
