"""Metrics of a trainer: the last, the smallest and the largest value that its progress lines had of
each name. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from bftrainer.wires.bounds import RefusedValueError, number, value_text

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
    metrics: tuple[Metric, ...], lines: Iterable[tuple[float, Mapping[str, float]]]
) -> tuple[tuple[Metric, ...], tuple[str, ...]]:
    """Return the metrics after the values of more lines, each (samples, values by name), and the
    names that were skipped because there are more than :data:`MOST_METRICS`. ``metrics`` itself is
    returned if no value changes.
    """
    by_name = {metric.name: metric for metric in metrics}
    skipped_names: list[str] = []
    for samples, values in lines:
        for name, value in values.items():
            old = by_name.get(name)
            if old is not None:
                by_name[name] = _with_value(old, value, samples)
            elif len(by_name) < MOST_METRICS:
                by_name[name] = Metric(
                    name,
                    last=value,
                    least=value,
                    least_samples=samples,
                    most=value,
                    most_samples=samples,
                )
            else:
                skipped_names.append(name)
    new_metrics = tuple(by_name.values())
    return (metrics if new_metrics == metrics else new_metrics), tuple(skipped_names)


def _with_value(metric: Metric, value: float, samples: float) -> Metric:
    """Return a metric after one more value, of a line with ``samples``."""
    is_smallest, is_largest = value < metric.least, value > metric.most
    return Metric(
        metric.name,
        last=value,
        least=value if is_smallest else metric.least,
        least_samples=samples if is_smallest else metric.least_samples,
        most=value if is_largest else metric.most,
        most_samples=samples if is_largest else metric.most_samples,
    )


def parse_metrics(value: object, refused: list[tuple[str, str]]) -> dict[str, float]:
    """Return the usable values of a line's ``metrics``. For each other value, (key, problem) is
    appended to ``refused``.
    """
    if not isinstance(value, dict):
        refused.append(("metrics", f"expected an object of numbers, found {value_text(value)}"))
        return {}
    metrics: dict[str, float] = {}
    for index, (name, raw_value) in enumerate(value.items()):
        if index >= MOST_METRICS:
            refused.append(
                ("metrics", f"expected at most {MOST_METRICS} names, found {len(value)}")
            )
            break
        if not isinstance(name, str) or not _NAME.fullmatch(name) or name == LOSS:
            expected = (
                "up to 64 letters, digits and _./@%+-, and not 'loss', which has a key of its own"
            )
            refused.append(("metrics", f"expected a name of {expected}; found {value_text(name)}"))
            continue
        try:
            metrics[name] = number(raw_value)
        except RefusedValueError as error:
            refused.append((f"metrics {name}", str(error)))
    return metrics
