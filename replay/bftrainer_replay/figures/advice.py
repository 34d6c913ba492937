"""The loss of every value of a setting against the best value: the picture of ``bftrainer advise``."""

from __future__ import annotations

from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from bftrainer_replay.comparison.advise import Advice
from bftrainer_replay.figures.style import BLUE, INK, SKY, sheet

_NAMES = {"forward_s": "T_fwd, s", "max_parallel": "P_jmax", "objective": "objective"}


def losses_figure(advice: Advice) -> Figure:
    """A bar per setting and value; the chosen values are dark."""
    worst = max(
        ((loss, choice.name, value) for choice in advice.choices for value, loss in choice.losses),
        key=lambda row: row[0],
    )
    chosen_values = ", ".join(
        f"{_NAMES[choice.name].partition(',')[0]} {_word(choice.value)}" for choice in advice.choices
    )
    figure, (axes,) = sheet(
        "Losses of other values",
        f"Read: the chosen values are {chosen_values}: of each setting, the smallest that is as good as the best. The worst "
        f"value is {_NAMES[worst[1]].partition(',')[0]} {_word(worst[2])}, which loses {worst[0]:.1%} of the outcome.",
    )
    ticks, names, at = [], [], 0.0
    for choice in advice.choices:
        first = at
        width = 1.0 if choice.name != "objective" else 1.7
        for value, loss in choice.losses:
            chosen = value == choice.value
            axes.bar(at, loss, 0.8, color=BLUE if chosen else SKY, edgecolor="white")
            axes.text(
                at, loss, "chosen" if chosen else f"{loss:.1%}", ha="center", va="bottom", fontsize=8,
                color=BLUE if chosen else INK, fontweight="bold" if chosen else "normal",
            )  # fmt: skip
            ticks.append(at)
            names.append(_word(value).replace("-", "-\n"))  # or long names run into each other
            at += width
        above = axes.get_xaxis_transform()
        axes.text((first + at - width) / 2, 0.97, _NAMES[choice.name], ha="center", va="top", transform=above)
        at += 0.8
    axes.set_xticks(ticks, names, fontsize=8)
    axes.grid(visible=False, axis="x")
    axes.set_ylim(0, max(1.3 * worst[0], 0.01))
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    axes.set_ylabel("loss of the outcome")
    return figure


def _word(value: float | int | str) -> str:
    return value if isinstance(value, str) else f"{value:g}"
