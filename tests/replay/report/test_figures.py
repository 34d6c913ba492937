"""The pictures of a log: their numbers by hand, the same bytes each time, odd windows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from replay.windows import window

from bftrainer_papers.bftrainer.idle_nodes_figure import idle_nodes_figure, mean_shares
from bftrainer_papers.bftrainer.over_time_figure import efficiency_over_time_figure
from bftrainer_replay.analysis.window_fragments import pool_sizes_of
from bftrainer_replay.figures.fragment_lengths import fragments_figure
from bftrainer_replay.figures.style import png
from bftrainer_replay.generation.generate import generate
from bftrainer_replay.logs.model import LogWindow, restricted_log

HOUR = 3600.0


def test_bars_are_means_over_their_hours_and_the_last_is_cut() -> None:
    log = window(14 * HOUR, "a", (3 * HOUR, "bc"), (9 * HOUR, "abc"), nodes=4)
    edges_s, shares = mean_shares(pool_sizes_of(log), log, 6)
    assert (edges_s / HOUR).tolist() == [0, 6, 12, 14]
    assert shares == pytest.approx(np.array([(3 * 1 + 3 * 3) / 6, 3 * 3 / 6, 0]) / 4)


def test_the_caption_says_what_the_numbers_say() -> None:
    log = restricted_log(generate(64, 2, 1), machine_nodes=64)
    for figure, start in (
        (fragments_figure(log), "Read: 58% of the "),
        (idle_nodes_figure(log), "Read: on average, 5."),
    ):
        assert any(text.get_text().startswith(start) for text in figure.texts)


@pytest.mark.parametrize("draw", [fragments_figure, idle_nodes_figure])
@pytest.mark.parametrize(
    "log",
    [
        restricted_log(generate(64, 1, 1), machine_nodes=64),
        window(5 * HOUR, ""),
        window(400 * 24 * HOUR, "a"),  # for more than a year
    ],
    ids=["a day", "never idle", "always idle"],
)
def test_each_window_has_a_picture_and_always_the_same(
    draw: Callable[[LogWindow], Any], log: LogWindow
) -> None:
    data = png(draw(log))
    assert data.startswith(b"\x89PNG")
    assert png(draw(log)) == data


def test_efficiency_over_time_counts_the_bins() -> None:
    figure = efficiency_over_time_figure(
        [0.0, 3600.0, 7200.0, 9000.0], {"a": [0.5, 1.2, 0.8], "b": [0.6, 0.9, 0.7]}
    )
    told = figure.texts[1].get_text().replace("\n", " ")
    assert (
        "under a, the interval efficiency is between 50% and 120%; it is above b in 2 of 3 "
        "intervals, by up to 30" in told
    )
    assert png(figure).startswith(b"\x89PNG")
