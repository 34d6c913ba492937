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
    """``least`` and ``most`` with the samples of the line that had them first."""

    name: str
    last: float
    least: float
    least_samples: float
    most: float
    most_samples: float


def with_metrics(
    known: tuple[Metric, ...], lines: Iterable[tuple[float, Mapping[str, float]]]
) -> tuple[tuple[Metric, ...], tuple[str, ...]]:
    """The metrics after more values, (samples, values by name) each; the names that are too
    many.
    """
    found = {metric.name: metric for metric in known}
    left_out: list[str] = []
    for samples, values in lines:
        for name, value in values.items():
            if (old := found.get(name)) is None:
                if len(found) < MOST_METRICS:
                    found[name] = Metric(name, value, value, samples, value, samples)
                else:
                    left_out.append(name)
                continue
            least = (value, samples) if value < old.least else (old.least, old.least_samples)
            most = (value, samples) if value > old.most else (old.most, old.most_samples)
            found[name] = Metric(name, value, *least, *most)
    after = tuple(found.values())
    return (known if after == known else after), tuple(left_out)


def parse_metrics(value: object, refused: list[tuple[str, str]]) -> dict[str, float]:
    """The values of ``metrics`` of a line that can be used. What is wrong with others is appended
    to ``refused``.
    """
    if not isinstance(value, dict):
        refused.append(("metrics", f"expected an object of numbers, found {shown(value)}"))
        return {}
    found: dict[str, float] = {}
    for place, (name, one) in enumerate(value.items()):
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
            found[name] = number(one)
        except RefusedValueError as error:
            refused.append((f"metrics {name}", str(error)))
    return found
