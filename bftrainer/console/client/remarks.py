"""The remark on a trainer, as ``bftrainer list``, ``results`` and :class:`bftrainer.ResultRow` show
it.
"""

from __future__ import annotations

from bftrainer.config.script import script_of
from bftrainer.counted import counted
from bftrainer.pilot.persistence.registry import TrainerRecord

REPEATED_SHARE = 0.01
"""Less work that was repeated is not worth a remark."""


def remark_of(record: TrainerRecord) -> str:
    """Return the remark on a trainer: its status' reason, how much work was repeated, whether its
    script was edited.
    """
    parts = [record.reason, _repetition_remark(record), _edit_remark(record)]
    return "; ".join(filter(None, parts))


def _repetition_remark(record: TrainerRecord) -> str:
    """Say how much of a trainer's work was repeated; empty for less than ``REPEATED_SHARE``."""
    share = record.repeated_samples / max(record.samples_done + record.repeated_samples, 1e-9)
    if share < REPEATED_SHARE:
        return ""
    return (
        f"{100 * share:.0f} % of its work was repeated: "
        f"{counted(record.repeated_samples, 'sample')} since checkpoints"
    )


def _edit_remark(record: TrainerRecord) -> str:
    """Say that a trainer's script has been edited since the trainer began; empty if it has not, or
    if no later workers can run the new text.
    """
    script = script_of(record.spec.command)
    if not script or record.started_s is None or record.status.is_final:
        return ""
    try:
        edited_s = (record.spec.cwd / script).stat().st_mtime
    except OSError:
        return ""
    if edited_s <= record.started_s:
        return ""
    return f"{script} has been edited since it began: workers that start later run the new text"
