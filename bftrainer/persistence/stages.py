"""Instants of fragments that the audit has no column for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from bftrainer.domain.node_stages import NodeStage
from bftrainer.persistence.store import Store


@dataclass(frozen=True, slots=True)
class StageReached:
    """A fragment has reached an instant of its time line, for a trainer (empty: none was concerned)."""

    fragment: str
    stage: NodeStage
    at_s: float
    trainer: str = ""


def add_stages(store: Store, reached: Iterable[StageReached]) -> None:
    """Write instants, in one transaction."""
    with store.writing("stages") as db:
        db.executemany(
            "INSERT OR REPLACE INTO stages VALUES (?, ?, ?, ?)",
            [(it.fragment, it.stage.value, it.at_s, it.trainer) for it in reached],
        )
