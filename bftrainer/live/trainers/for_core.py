"""A registered trainer as the core gets it: with how it is to be learned."""

from __future__ import annotations

from dataclasses import replace

from bftrainer.config.pilot import LearningConfig
from bftrainer.domain.model import Learning, Trainer
from bftrainer.persistence.registry import TrainerRecord


def for_core(record: TrainerRecord, config: LearningConfig) -> Trainer:
    """One without a curve is always learned. What is learned is kept by owner, model and class of nodes."""
    spec = record.spec
    trainer = spec.trainer()
    if not (config.measure or spec.is_blank):
        return trainer
    kind = f" on {spec.node_class}" if spec.node_class else ""
    key = f"model {spec.model} of {record.owner}{kind}" if spec.model else ""
    settings = Learning(key, spec.is_blank, config.share, config.window_s, config.explore_after_s)
    return replace(trainer, learning=settings)
