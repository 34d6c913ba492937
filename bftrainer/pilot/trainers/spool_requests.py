"""Requests from the spool, carried out in the registry. Each is carried out once, however often the
pilot dies meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bftrainer.decide.domain.model import Trainer
from bftrainer.errors import UserError
from bftrainer.pilot.persistence.registry import Submission, TrainerStatus
from bftrainer.pilot.persistence.registry_writer import TrainerChange
from bftrainer.pilot.persistence.spool import Request, RequestKind
from bftrainer.pilot.recorder import Recorder
from bftrainer.pilot.trainers.manager import TrainerManager
from bftrainer.times import PilotS


def submit(
    received: Sequence[tuple[str, Request]],
    recorder: Recorder,
    trainers: TrainerManager,
    now_s: PilotS,
    refusal: Callable[[Trainer], str | None] = lambda _: None,
) -> tuple[tuple[str, str], ...]:
    """Register submissions, each a (spool name, request), in one commit. Returns (trainer, text of
    the rejection) of those that were rejected.

    ``refusal`` returns why a trainer cannot be accepted, or None.
    """
    rejected: list[tuple[str, str]] = []
    accepted: list[Submission] = []
    for spool_name, request in received:
        assert request.spec is not None
        if (reason := refusal(request.spec.trainer())) is None:
            accepted.append(Submission(request.spec, request.owner, spool_name))
        else:
            rejected.append(
                (request.trainer, f"submission of {request.trainer!r} rejected: {reason}")
            )
    if accepted:
        added = recorder.submissions(accepted)
        trainers.reload_registry(now_s)
        for submission, is_added in zip(accepted, added, strict=True):
            if not is_added:
                name = submission.spec.name
                rejected.append((name, f"submission of {name!r} rejected: the name is taken"))
    return tuple(rejected)


def carry_out(
    spool_name: str,
    request: Request,
    recorder: Recorder,
    trainers: TrainerManager,
) -> None:
    """Carry out a request to cancel, pause or resume a trainer, once. Raises :class:`UserError` for
    a request that cannot be carried out.
    """
    # A pilot that died after it had carried it out, before the file was removed.
    if recorder.registry.was_carried_out(spool_name):
        return
    record = trainers.record(request.trainer)
    if record is None or record.status.is_final:
        raise UserError(
            f"{request.kind.value} {request.trainer!r}: no such trainer, or it has already ended"
        )
    match request.kind:
        case RequestKind.CANCEL:
            trainers.change(
                record.name,
                TrainerChange(status=TrainerStatus.CANCELED, reason="canceled by its user"),
            )
        case RequestKind.PAUSE:
            trainers.change(
                record.name, TrainerChange(status=TrainerStatus.PAUSED, reason="paused by its user")
            )
        case RequestKind.RESUME if record.status is TrainerStatus.PAUSED:
            change = TrainerChange(status=TrainerStatus.QUEUED, reason="", failures=0, retry_s=0.0)
            trainers.change(record.name, change)
    recorder.command(spool_name)
    recorder.note(request.kind.value, record.name, "requested by its user")
