"""Mean time to the next hit on a cohort against its age, with the fit for the policy `cohort`."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from bftrainer.policies.cohort_worth import CohortModel
from bftrainer_replay.analysis.cohorts import LEAST_HITS, CohortHits
from bftrainer_replay.figures.style import BLUE, FAINT, INK, ORANGE, sheet

_TITLE = "Mean time to the next hit on a cohort, by its age"
_TICKS = {10: "10 s", 60: "1 min", 600: "10 min", 3600: "1 h", 6 * 3600: "6 h", 86400: "1 day", 7 * 86400: "1 week"}


def cohorts_figure(found: CohortHits, model: CohortModel | None) -> Figure:
    """Measured means with their standard errors, the fit, and the defaults of the policy."""
    total = int(found.hits.sum())
    age_s, mean_s, hits = found.coarse(max(LEAST_HITS // 4, total // 40))
    if model is None or not len(age_s):
        figure, (axes,) = sheet(_TITLE, f"Nodes left cohorts {total} times; a fit needs {LEAST_HITS} times.")
        axes.text(0.5, 0.5, "too few hits", transform=axes.transAxes, ha="center", color=INK)
        return figure
    figure, (axes,) = sheet(
        _TITLE,
        f"Read: a cohort, the nodes that joined together, is hit after {model.mean_to_hit_s(600.0):,.0f} s in the mean once it "
        f"is 10 minutes old, and after {model.mean_to_hit_s(3600.0):,.0f} s once it is an hour old. Of {total:,} hits, "
        f"{found.taken_whole:.0%} of those on two and more nodes take all of them.",
    )
    axes.set_xscale("log")
    axes.set_yscale("log")
    error = np.array([mean_s - mean_s / (1 + hits**-0.5), mean_s / (1 - hits**-0.5) - mean_s])
    axes.errorbar(age_s, mean_s, error, fmt="o", color=BLUE, markersize=5, label="measured, with standard error")
    along = np.geomspace(age_s[0], age_s[-1], 200)
    for each, color, dashes, name in (
        (model, ORANGE, "-", f"fit: {model.first_s:g} s + age; {model.late:g} of the age beyond {model.knee_s:g} s"),
        (CohortModel(), FAINT, (0, (5, 2)), "default of policy cohort"),
    ):
        axes.plot(along, [each.mean_to_hit_s(a) for a in along], color=color, linestyle=dashes, linewidth=2, label=name)
    for axis, low, high in ((axes.xaxis, age_s[0], age_s[-1]), (axes.yaxis, mean_s.min(), mean_s.max())):
        axis.set_major_locator(FixedLocator([tick for tick in _TICKS if low / 3 <= tick <= high * 3]))
        axis.set_major_formatter(FuncFormatter(lambda value, _: _TICKS.get(round(value), "")))
        axis.set_minor_locator(NullLocator())
    axes.set_xlabel("age of the cohort")
    axes.set_ylabel("mean time to the next hit")
    axes.legend(frameon=False, fontsize=9)
    return figure
