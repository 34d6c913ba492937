"""The sentences of figures that only the paper has."""

from __future__ import annotations

from matplotlib.backends.backend_agg import FigureCanvasAgg

from bftrainer_papers.bftrainer.model_figures import runtimes_figure
from bftrainer_papers.bftrainer.setting_figures import return_figure
from bftrainer_replay.figures.layout import screens
from bftrainer_replay.figures.style import png


def test_runtimes_by_model_say_who_takes_longest() -> None:
    hours = {"throughput": {"cheap": 1.0, "dear": 14.0}, "scaling-efficiency": {"cheap": 2.0, "dear": 3.0}}
    told = runtimes_figure(hours).texts[1].get_text().replace("\n", " ")
    assert "under throughput, dear takes 14.0 times as long as cheap" in told
    assert "under scaling-efficiency, dear takes 1.5 times as long as cheap" in told
    assert "relative-speed" not in told
    assert "The objective throughput gives nodes to models with cheap samples; scaling-efficiency weighs" in told
    assert "no trainer completed" in runtimes_figure({"throughput": {}}).texts[1].get_text()


def test_returns_of_single_events_need_not_exist_everywhere() -> None:
    outcome = [(30.0, 100.0), (120.0, 110.0)]
    figure = return_figure([(30.0, 0.0), (120.0, 20.0)], outcome, {120.0: (0.0, 2.0, 30.0, 80.0, 400.0)})
    told = figure.texts[1].get_text().replace("\n", " ")
    assert (
        "At 120 s, half of the single events return more than 30, one in ten 0.0 or less, one in ten 400 or more"
        in told
    )
    assert png(figure).startswith(b"\x89PNG")
    assert "single events" not in return_figure([(30.0, 5.0), (120.0, 2.0)], outcome, {}).texts[1].get_text()


def test_a_narrow_figure_keeps_its_legend_inside_the_image_and_off_the_axes() -> None:
    points = [(float(s), 1.0 + s / 1000) for s in (30, 120, 300, 900)]
    spread = {s: (1.0, 10.0, 50.0, 100.0, 1000.0) for s, _ in points}
    outcome = [(s, 1.4e6) for s, _ in points]  # long labels: a wide margin at the left
    figure = return_figure(points, outcome, spread)
    screens(figure)
    FigureCanvasAgg(figure).draw()
    legend = figure.axes[0].get_legend()
    assert legend is not None
    box = legend.get_window_extent()
    assert box.x0 >= 0
    assert box.x1 <= figure.bbox.x1
    assert box.y0 >= figure.axes[0].get_window_extent().y1 - 1
