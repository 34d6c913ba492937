"""Ends trainers by the rules of their ``stop_when``. What a trainer had at each rung is in the
database.
"""

from __future__ import annotations

from bftrainer.counted import counted
from bftrainer.decide.domain.stopping import ASHA, parse_rule
from bftrainer.pilot.persistence.registry import Rung, TrainerRecord
from bftrainer.pilot.recorder import Recorder
from bftrainer.wires.reports import DriverView


class EarlyStops:
    """Ends trainers early by the rungs that they and their groups have come to."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._rungs: dict[tuple[str, str, float], dict[str, float]] = {}
        for rung in recorder.registry.rungs():
            self._rungs.setdefault((rung.group, rung.rule, rung.samples), {})[rung.trainer] = (
                rung.value
            )

    def hear(self, record: TrainerRecord, view: DriverView) -> str:
        """Record the rungs that a trainer has come to. Returns why it ends; empty if it goes on."""
        samples, last = view.samples or 0.0, {metric.name: metric.last for metric in view.metrics}
        for text in record.spec.stop_when if samples else ():
            rule = parse_rule(text)
            if (value := last.get(rule.metric)) is None:
                continue
            group = record.spec.group or record.name if isinstance(rule, ASHA) else record.name
            for rung in rule.rungs:
                values = self._rungs.setdefault((group, text, rung), {})
                if samples < rung or record.name in values:
                    continue
                ends = rule.ends(value, values.values())
                values[record.name] = value
                self._recorder.rung(Rung(group, text, rung, record.name, value))
                if ends:
                    return (
                        f"stopped early by {text}: {rule.metric} {value:.6g} at "
                        f"{counted(samples, 'sample')}"
                    )
        return ""
