"""What a spool file asks for, carried out in the registry. Each is carried out once, however often the pilot dies over it."""

from __future__ import annotations

from collections.abc import Callable

from bftrainer.domain.model import Trainer
from bftrainer.errors import UserError
from bftrainer.live.trainers.manager import TrainerManager
from bftrainer.persistence.registry import Registry, TrainerStatus
from bftrainer.persistence.spool import Request, RequestKind


def carry_out(
    spool_name: str,
    request: Request,
    registry: Registry,
    desk: TrainerManager,
    now_s: float,
    refusal: Callable[[Trainer], str | None] = lambda _: None,
) -> None:
    """Submit, cancel, pause or resume. A request that cannot be met raises :class:`UserError`; it is the user's to read."""
    if request.kind is RequestKind.SUBMIT:
        assert request.spec is not None
        if (reason := refusal(request.spec.trainer())) is not None:
            raise UserError(f"submission of {request.trainer!r} refused: {reason}")
        added = registry.add(request.spec, request.owner, spool_name, now_s)
        desk.reload_registry(now_s)
        if not added:
            raise UserError(f"submission of {request.trainer!r} refused: the name is taken")
        return
    if registry.was_carried_out(spool_name):
        return
    record = desk.record(request.trainer)
    if record is None or record.status.is_final:
        raise UserError(f"{request.kind.value} {request.trainer!r}: there is no such trainer, or it has ended")
    match request.kind:
        case RequestKind.CANCEL:
            desk.change(record.name, status=TrainerStatus.CANCELLED, reason="cancelled by its user")
        case RequestKind.PAUSE:
            desk.change(record.name, status=TrainerStatus.PAUSED, reason="paused by its user")
        case RequestKind.RESUME if record.status is TrainerStatus.PAUSED:
            desk.change(record.name, status=TrainerStatus.QUEUED, reason="", failures=0, not_before_s=0.0)
    registry.carried_out(spool_name, now_s)
    registry.note(now_s, request.kind.value, record.name, "as its user asked")
