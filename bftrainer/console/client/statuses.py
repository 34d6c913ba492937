"""Statuses of submissions: one query of the spool and the registry for any number of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from bftrainer.console.client.state_dir import has_registry, opened_registry
from bftrainer.pilot.persistence.registry import Registry, TrainerRecord
from bftrainer.pilot.persistence.spool import Spool


class SubmissionStatus(Enum):
    """The status of a submission.

    It is submitted (on disk, not read by a pilot), then queued, then waiting or running, or paused,
    and at last done, failed or canceled. ``rejected``: the pilot could not accept the submission.
    """

    SUBMITTED = "submitted"
    REJECTED = "rejected"
    QUEUED = "queued"
    WAITING = "waiting"
    RUNNING = "running"
    PAUSED = "paused"
    DONE = "done"
    FAILED = "failed"
    CANCELED = "canceled"

    @property
    def is_final(self) -> bool:
        """Whether the trainer has ended for good."""
        return self in (self.REJECTED, self.DONE, self.FAILED, self.CANCELED)


@dataclass(frozen=True, slots=True)
class SubmissionView:
    """The status of a submission with its reason.

    ``record`` is the registry's; None before a pilot has read the submission, and for a rejected
    one.
    """

    status: SubmissionStatus
    reason: str = ""
    record: TrainerRecord | None = None

    @property
    def is_over(self) -> bool:
        """Whether the status is final and the trainer's processes have ended, so that its files are
        complete.
        """
        if self.status is SubmissionStatus.REJECTED:
            return True
        has_finished = self.record is not None and self.record.finished_s is not None
        return self.status.is_final and has_finished


def read_views(folder: Path, spool_names: Mapping[str, str]) -> dict[str, SubmissionView]:
    """Read the status of each trainer in ``spool_names``, by name, from the state directory.

    The value is the spool name of the trainer's submission, or an empty text for any trainer of
    that name.
    """
    # The spool is read before the registry: a pilot registers a submission before it removes the
    # file, so that each is in one of them.
    pending = Spool(folder).names()
    if not has_registry(folder):
        return dict.fromkeys(spool_names, SubmissionView(SubmissionStatus.SUBMITTED))
    with opened_registry(folder) as registry:
        submissions = registry.submissions()
        records = {record.name: record for record in registry.named(tuple(spool_names))}
        views: dict[str, SubmissionView] = {}
        for name, spool_name in spool_names.items():
            record = records.get(name)
            if record is not None and spool_name in ("", submissions.get(name, "")):
                views[name] = SubmissionView(
                    SubmissionStatus(record.status.value), record.reason, record
                )
            elif spool_name in pending or not spool_name:
                views[name] = SubmissionView(SubmissionStatus.SUBMITTED)
            else:
                views[name] = SubmissionView(
                    SubmissionStatus.REJECTED, _rejection_reason(registry, name, spool_name)
                )
    return views


def _rejection_reason(registry: Registry, name: str, spool_name: str) -> str:
    """Return why a pilot has rejected a submission, as it noted under the trainer's name or that
    of the file.
    """
    notes = [*registry.notes(20, name), *registry.notes(1, spool_name)]
    texts = [note.text for note in notes if note.kind == "spool"]
    return texts[-1] if texts else "the pilot has no such submission; see `bftrainer events`"
