"""Ends trainers by the rules of their ``stop_when``. What a trainer had at each rung is in the
database.
"""

from __future__ import annotations

import statistics
from collections import deque

from bftrainer.counted import counted
from bftrainer.decide.domain.stopping import ASHA, Rule, parse_rule
from bftrainer.pilot.persistence.registry import Rung, TrainerRecord
from bftrainer.pilot.recorder import Recorder
from bftrainer.wires.reports import DriverView

BEFORE_RUNG = 0.2
"""ASHA judges by the median of the reports in this last share of the samples before a rung: the
loss of one batch is noise.
"""
_REPORTS = 64


class EarlyStops:
    """Ends trainers early by the rules of their ``stop_when``, which compare a metric at certain
    numbers of samples (rungs) with a limit or with the other trainers of the group.
    """

    def __init__(self, recorder: Recorder) -> None:
        """Read back what trainers had reached at each rung before this pilot."""
        self._recorder = recorder
        self._rungs: dict[tuple[str, str, float], dict[str, float]] = {}
        self._recent: dict[tuple[str, str], deque[tuple[float, float]]] = {}
        for rung in recorder.registry.rungs():
            self._rungs.setdefault((rung.group, rung.rule, rung.samples), {})[rung.trainer] = (
                rung.value
            )

    def hear(self, record: TrainerRecord, view: DriverView) -> str:
        """Record the rungs that a trainer has come to by its driver's report. Returns why it ends;
        empty if it goes on.

        A rung is a number of samples at which a rule of ``stop_when`` looks at a metric.
        """
        samples, last = view.samples or 0.0, {metric.name: metric.last for metric in view.metrics}
        for rule_text in record.spec.stop_when if samples else ():
            rule = parse_rule(rule_text)
            if (value := last.get(rule.metric)) is None:
                continue
            self._note_value(record.name, rule.metric, samples, value)
            for rung_samples in rule.rungs:
                reason = self._at_rung(record, rule, rule_text, rung_samples, samples, value)
                if reason:
                    self._drop_reports(record.name)
                    return reason
        return ""

    def _at_rung(
        self,
        record: TrainerRecord,
        rule: Rule,
        rule_text: str,
        rung_samples: float,
        samples: float,
        value: float,
    ) -> str:
        """Record the ``value`` at the rung ``rung_samples`` of a rule, if the trainer has just come
        to it with ``samples``. Returns why the trainer ends; empty if it goes on.
        """
        # Only ASHA compares the trainers of a group.
        group = (record.spec.group or record.name) if isinstance(rule, ASHA) else record.name
        values = self._rungs.setdefault((group, rule_text, rung_samples), {})
        # Not there yet, or judged there already: each rung is looked at once.
        if samples < rung_samples or record.name in values:
            return ""
        reports = [value]
        if isinstance(rule, ASHA):
            reports = self._values_before_rung(record.name, rule.metric, rung_samples) or reports
        judged = statistics.median(reports)
        ends = rule.ends(judged, values.values())
        values[record.name] = judged
        self._recorder.rung(Rung(group, rule_text, rung_samples, record.name, judged))
        if not ends:
            return ""
        several = f" (median of {len(reports)} reports)" if len(reports) > 1 else ""
        return (
            f"stopped early by {rule_text}: {rule.metric} {judged:.6g}{several} at "
            f"{counted(samples, 'sample')}"
        )

    def _note_value(self, trainer: str, metric: str, samples: float, value: float) -> None:
        """Keep a value if it has changed: the same one again is that of an earlier line."""
        reports = self._recent.setdefault((trainer, metric), deque(maxlen=_REPORTS))
        if not reports or reports[-1][1] != value:
            reports.append((samples, value))

    def _values_before_rung(self, trainer: str, metric: str, rung_samples: float) -> list[float]:
        """Return the values of the reports shortly before a rung and since."""
        reports = self._recent.get((trainer, metric), ())
        return [value for samples, value in reports if samples >= (1 - BEFORE_RUNG) * rung_samples]

    def _drop_reports(self, trainer: str) -> None:
        """Drop the reports of a trainer that ends."""
        for key in [key for key in self._recent if key[0] == trainer]:
            del self._recent[key]
