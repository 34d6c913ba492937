"""A registered trainer as the core sees it, with the settings for learning its curve."""

from __future__ import annotations

from dataclasses import replace

from bftrainer.config.pilot import LearningConfig
from bftrainer.domain.model import Learning, Trainer
from bftrainer.persistence.registry import TrainerRecord


def for_core(record: TrainerRecord, config: LearningConfig) -> Trainer:
    """The trainer of a record. A trainer without a curve is always learned.

    Measurements are kept by owner, model and node class; without a model they are the trainer's own.
    """
    spec = record.spec
    trainer = spec.trainer()
    if not (config.measure or spec.is_blank):
        return trainer
    of_class = f" on {spec.node_class}" if spec.node_class else ""
    key = f"model {spec.model} of {record.owner}{of_class}" if spec.model else ""
    settings = Learning(key, spec.is_blank, config.share, config.window_s, config.explore_after_s)
    return replace(trainer, learning=settings)
