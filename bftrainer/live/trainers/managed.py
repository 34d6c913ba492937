"""One trainer of the pilot: its row of the registry, its driver, what was measured of it and what it has used."""

from __future__ import annotations

from dataclasses import dataclass, field

from bftrainer.live.trainers.meter import TrainerMeter
from bftrainer.live.trainers.outcomes import samples_of
from bftrainer.live.trainers.steps import TrainerState
from bftrainer.persistence.registry import TrainerRecord, Usage
from bftrainer.protocol.metrics import Metric


@dataclass(slots=True)
class ManagedTrainer:
    """``fault`` is why its driver was killed by this pilot. ``held_node_s`` and what follows is not in the registry yet."""

    record: TrainerRecord
    state: TrainerState
    meter: TrainerMeter = field(default_factory=TrainerMeter)
    fault: str = ""
    held_node_s: float = 0.0
    trained_node_s: float = 0.0
    repeated_samples: float = 0.0
    metrics: tuple[Metric, ...] = ()
    """As they were written last."""

    @property
    def name(self) -> str:
        return self.record.name

    @property
    def samples(self) -> float:
        """Samples done."""
        return samples_of(self.record, self.state.view)

    def account(self, passed_s: float) -> None:
        """Count the node-seconds of the last ``passed_s``; trained: rank 0 has reported since the last change of size."""
        view, node_s = self.state.view, len(self.state.ordered) * passed_s
        if view.alive:
            self.held_node_s += node_s
            # For a program that reports nothing, what its driver says counts.
            if view.trains or (view.on and view.heard_s == 0):
                self.trained_node_s += node_s

    def take_usage(self) -> Usage | None:
        """What is not in the registry yet; the caller writes it. None if there is nothing."""
        metrics = self.state.view.metrics
        changed = metrics if metrics and metrics is not self.metrics else ()
        held, trained, repeated = self.held_node_s, self.trained_node_s, self.repeated_samples
        if not (self.state.view.alive or held or repeated or changed):
            return None
        self.held_node_s = self.trained_node_s = self.repeated_samples = 0.0
        self.metrics = metrics
        return Usage(self.name, self.samples, held, trained, held - trained, changed, repeated)
