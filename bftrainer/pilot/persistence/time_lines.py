"""When held fragments (nodes) reached each stage, read from the table of fragments and that of
further stages.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

from bftrainer.decide.domain.node_stages import NodeStage
from bftrainer.pilot.persistence.registry import FragmentRecord, Registry, StageReached
from bftrainer.pilot.persistence.store import Store
from bftrainer.times import HostS

_BY_WORD = {stage.value: stage for stage in NodeStage}
_MAX_FRAGMENTS = 100_000
"""Fragments that are read at most, the latest ones."""


@dataclass(frozen=True, slots=True)
class TimeLine:
    """The times at which one fragment (a held node) reached the stages from idle to training and
    back. ``trainer`` is the first that made a step on it; empty if none has.
    """

    fragment: str
    node: str
    trainer: str = ""
    instants: dict[NodeStage, HostS] = field(default_factory=dict)


def time_lines(registry: Registry, *, open_only: bool = False) -> tuple[TimeLine, ...]:
    """Return, for each fragment (held node), the times at which it reached the stages from idle to
    training and back; the oldest fragment first.

    ``open_only``: only of fragments that are not released.
    """
    audit = registry.fragments(open_only=open_only, last=_MAX_FRAGMENTS)
    lines = {fragment.name: _from_audit(fragment) for fragment in audit}
    trainers: dict[str, str] = {}
    for instant in _stages_of_fragments(registry.store, lines):
        lines[instant.fragment].instants[instant.stage] = instant.at_s
        if instant.stage is NodeStage.FIRST_STEP:
            trainers[instant.fragment] = instant.trainer
    return tuple(
        TimeLine(line.fragment, line.node, trainers.get(line.fragment, ""), line.instants)
        for line in lines.values()
    )


def _stages_of_fragments(store: Store, fragments: dict[str, TimeLine]) -> list[StageReached]:
    """Return the times at which these fragments reached stages that have a table of their own,
    because the table of fragments has no column for them.
    """
    names = json.dumps(list(fragments))
    rows = store.read(
        "SELECT * FROM stages WHERE fragment IN (SELECT value FROM json_each(?))", names
    )
    return [
        StageReached(row["fragment"], _BY_WORD[row["stage"]], row["at_s"], row["trainer"])
        for row in rows
        if row["stage"] in _BY_WORD  # a database that comes from elsewhere may contain any word
    ]


def _from_audit(fragment: FragmentRecord) -> TimeLine:
    """Return the times of a fragment that its row of the table of fragments has."""
    columns: Sequence[tuple[NodeStage, HostS | None]] = (
        (NodeStage.DECIDED, fragment.asked_s),
        (NodeStage.OFFERED, fragment.taken_s),
        (NodeStage.NOTICE, fragment.asked_back_s),
        (NodeStage.RELEASED, fragment.released_s),
    )
    instants = {stage: at_s for stage, at_s in columns if at_s is not None}
    return TimeLine(fragment.name, fragment.node, trainer="", instants=instants)
