"""Words in the picture of numbers touch no line, and no other words."""

from __future__ import annotations

import itertools
import math
import re

import numpy as np
import pytest

from bftrainer_replay.report.charts import Chart
from bftrainer_replay.report.top_pictures import _labeled_jobs, _labeled_trainings, _write_labels

CURVES = {  # plain jobs and their shares, trainings and theirs, of reports on public logs
    "Mira": (
        {
            25: 0.002,
            100: 0.01,
            1000: 0.09,
            2000: 0.18,
            5000: 0.4,
            10000: 0.67,
            20000: 0.92,
            40960: 0.99,
        },
        100,
        {25: 0.12, 50: 0.22, 100: 0.4, 200: 0.65},
    ),
    "Theta": (
        {
            1: 0.002,
            5: 0.01,
            16: 0.03,
            50: 0.09,
            100: 0.18,
            200: 0.29,
            500: 0.48,
            1000: 0.66,
            2000: 0.84,
            4360: 0.99,
        },
        16,
        {1: 0.1, 5: 0.32, 16: 0.56, 48: 0.83},
    ),
    "KTH-SP2": (
        {1: 0.035, 2: 0.065, 5: 0.15, 10: 0.27, 20: 0.45, 50: 0.77, 100: 0.99},
        10,
        {1: 0.71, 3: 0.88, 10: 0.94, 30: 0.97},
    ),
    "wagap": (
        {1: 0.22, 2: 0.4, 5: 0.71, 10: 0.9, 20: 0.994},
        10,
        {1: 0.92, 3: 0.97, 10: 0.996, 30: 0.998},
    ),
    "few idle nodes": (
        {1: 0.09, 2: 0.18, 5: 0.42, 10: 0.7, 20: 0.93, 40: 0.99},
        10,
        {1: 0.5, 3: 0.9, 10: 0.97, 30: 0.98},
    ),
}
WIDE, HIGH = 353.0, 170.0  # pixels of the chart on a page of 420
TEXT = re.compile(
    r'<text.*? x="([\d.]+)%" y="([\d.]+)%" dx="(\S+)" dy="(\S+)" text-anchor="(\w+)">(.*?)</text>'
)


def boxes(chart: Chart) -> list[tuple[float, float, float, float]]:
    """Left, top, right and bottom of all words, in pixels: bold letters of 12 px."""
    found = []
    for x, y, dx, dy, anchor, words in TEXT.findall("".join(chart.texts)):
        width, base = 7.0 * len(words), HIGH * float(y) / 100 + float(dy)
        left = (
            WIDE * float(x) / 100
            + float(dx)
            - {"start": 0.0, "middle": 0.5, "end": 1.0}[anchor] * width
        )
        found.append((left, base - 9, left + width, base + 2))
    return found


@pytest.mark.parametrize("name", CURVES)
def test_no_label_touches_a_line(name: str) -> None:
    plain, trainings, work = CURVES[name]
    chart = Chart(math.log10(max(plain) / min(plain)), 1.04)

    def points(shares: dict[int, float]) -> list[tuple[float, float]]:
        return [(math.log10(n / min(plain)), share) for n, share in shares.items()]

    words = [(n, work[n], text) for n, text in _labeled_trainings(list(work.items()), trainings)]
    words += [
        (n, plain[n], f"{n:,} plain jobs: {plain[n]:.0%}") for n in _labeled_jobs(plain, trainings)
    ]
    _write_labels(
        chart,
        [(math.log10(n / min(plain)), share, text, "") for n, share, text in words],
        [points(work), points(plain)],
    )
    found = boxes(chart)
    assert len(found) == len(words)
    for left, top, right, bottom in found:
        assert left >= -2
        assert right <= WIDE + 2
        for x in np.linspace(left, right, 50):
            for xs, shares in (zip(*points(work), strict=True), zip(*points(plain), strict=True)):
                at = chart.wide * x / WIDE
                level = HIGH * (1 - float(np.interp(at, xs, shares)) / 1.04)
                assert not (top < level < bottom and xs[0] <= at <= xs[-1])
    for (a_left, a_top, a_right, a_bottom), (
        b_left,
        b_top,
        b_right,
        b_bottom,
    ) in itertools.combinations(found, 2):
        assert a_right < b_left or b_right < a_left or a_bottom <= b_top or b_bottom <= a_top
