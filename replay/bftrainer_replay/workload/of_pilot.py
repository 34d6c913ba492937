"""The unfinished trainers of a pilot as a workload: what is left of each, with the curves and costs that are known now."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from bftrainer.client.state_dir import opened_registry
from bftrainer.errors import UserError
from bftrainer.persistence.journal import last_state
from bftrainer_replay.simulation.world import Arrival


def unfinished_trainers(state: Path, group: str | None, at_s: float) -> tuple[tuple[Arrival, ...], tuple[str, ...]]:
    """The trainers of the last decision that are not done, submitted at ``at_s`` in their order; and the names of those whose
    length is unknown, which are left out. Raises :class:`~bftrainer.errors.UserError` if none is left.
    """
    with opened_registry(state) as registry:
        found = last_state(registry.store)
        records = {record.name: record for record in registry.trainers()}
    trainers = [] if found is None else [*(a.trainer for a in found.active), *found.queue]
    arrivals: list[Arrival] = []
    unknown: list[str] = []
    for trainer in trainers:
        record = records[trainer.id]
        if group not in (None, record.spec.group) or record.status.is_final:
            continue
        if trainer.samples_total is None:
            unknown.append(trainer.id)
        elif (left := trainer.samples_total - record.samples_done) > 0:
            arrivals.append(Arrival(at_s, replace(trainer, samples_total=left, learning=None, node_class=None)))
    if not arrivals:
        whose = f"of group {group!r} " if group is not None else ""
        raise UserError(f"{state}: no trainer {whose}with a known length (samples_total) is unfinished")
    return tuple(arrivals), tuple(unknown)
