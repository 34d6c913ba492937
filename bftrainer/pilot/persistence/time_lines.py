"""The time lines of fragments, read from the audit and the table of further instants."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

from bftrainer.decide.domain.node_stages import NodeStage
from bftrainer.pilot.persistence.registry import FragmentRecord, Registry, StageReached
from bftrainer.pilot.persistence.store import Store
from bftrainer.times import HostS

_BY_WORD = {stage.value: stage for stage in NodeStage}
MOST = 100_000
"""Fragments that are read at most, the latest ones."""


@dataclass(frozen=True, slots=True)
class TimeLine:
    """One fragment. ``trainer`` is the first that made a step on it; empty if none has."""

    fragment: str
    node: str
    trainer: str = ""
    instants: dict[NodeStage, HostS] = field(default_factory=dict)


def time_lines(registry: Registry, *, open_only: bool = False) -> tuple[TimeLine, ...]:
    """The time lines, oldest first. Those of an earlier version contain what its audit says."""
    found = {it.name: _from_audit(it) for it in registry.fragments(open_only=open_only, last=MOST)}
    trainers: dict[str, str] = {}
    for it in _instants(registry.store, found):
        found[it.fragment].instants[it.stage] = it.at_s
        if it.stage is NodeStage.FIRST_STEP:
            trainers[it.fragment] = it.trainer
    return tuple(
        TimeLine(it.fragment, it.node, trainers.get(it.fragment, ""), it.instants)
        for it in found.values()
    )


def _instants(store: Store, fragments: dict[str, TimeLine]) -> list[StageReached]:
    if not store.read("SELECT 1 FROM sqlite_master WHERE name = 'stages'"):
        return []  # written by an earlier version
    names = json.dumps(list(fragments))
    rows = store.read(
        "SELECT * FROM stages WHERE fragment IN (SELECT value FROM json_each(?))", names
    )
    return [
        StageReached(row["fragment"], _BY_WORD[row["stage"]], row["at_s"], row["trainer"])
        for row in rows
        if row["stage"] in _BY_WORD  # a later version may know more stages
    ]


def _from_audit(it: FragmentRecord) -> TimeLine:
    columns: Sequence[tuple[NodeStage, HostS | None]] = (
        (NodeStage.DECIDED, it.asked_s),
        (NodeStage.OFFERED, it.taken_s),
        (NodeStage.NOTICE, it.asked_back_s),
        (NodeStage.RELEASED, it.released_s),
    )
    return TimeLine(
        it.name, it.node, "", {stage: at_s for stage, at_s in columns if at_s is not None}
    )
