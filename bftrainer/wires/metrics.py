"""Metrics of a trainer: the last, the smallest and the largest value that its progress lines had of
each name. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from bftrainer.wires.bounds import RefusedValueError, number, shown

LOSS = "loss"
"""The name under which the ``loss`` of a line is a metric."""
MOST_METRICS = 32
"""Names per trainer, so that one trainer cannot fill the registry."""
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./@%+-]{0,63}")


@dataclass(frozen=True)
class Metric:
    """The last, the smallest and the largest value of one name; ``least`` and ``most`` with the
    samples of the line that had them first.
    """

    name: str
    last: float
    least: float
    least_samples: float
    most: float
    most_samples: float


def with_metrics(
    before: tuple[Metric, ...], lines: Iterable[tuple[float, Mapping[str, float]]]
) -> tuple[tuple[Metric, ...], tuple[str, ...]]:
    """Return the metrics after further values, each given as (samples, values by name), and the
    names that were left out because there are more than :data:`MOST_METRICS`.
    """
    by_name = {metric.name: metric for metric in before}
    left_out: list[str] = []
    for samples, values in lines:
        for name, value in values.items():
            if (old := by_name.get(name)) is None:
                if len(by_name) < MOST_METRICS:
                    by_name[name] = Metric(name, value, value, samples, value, samples)
                else:
                    left_out.append(name)
                continue
            smallest = (value, samples) if value < old.least else (old.least, old.least_samples)
            largest = (value, samples) if value > old.most else (old.most, old.most_samples)
            by_name[name] = Metric(name, value, *smallest, *largest)
    after = tuple(by_name.values())
    return (before if after == before else after), tuple(left_out)


def parse_metrics(value: object, refused: list[tuple[str, str]]) -> dict[str, float]:
    """Return the usable values of a line's ``metrics``. For each other value, (key, problem) is
    appended to ``refused``.
    """
    if not isinstance(value, dict):
        refused.append(("metrics", f"expected an object of numbers, found {shown(value)}"))
        return {}
    metrics: dict[str, float] = {}
    for place, (name, raw) in enumerate(value.items()):
        if place >= MOST_METRICS:
            refused.append(
                ("metrics", f"expected at most {MOST_METRICS} names, found {len(value)}")
            )
            break
        if not isinstance(name, str) or not _NAME.fullmatch(name) or name == LOSS:
            expected = (
                "up to 64 letters, digits and _./@%+-, and not 'loss', which has a key of its own"
            )
            refused.append(("metrics", f"expected a name of {expected}; found {shown(name)}"))
            continue
        try:
            metrics[name] = number(raw)
        except RefusedValueError as error:
            refused.append((f"metrics {name}", str(error)))
    return metrics
