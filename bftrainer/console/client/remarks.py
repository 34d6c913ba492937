"""The remark on a trainer, as ``bftrainer list``, ``results`` and :class:`bftrainer.ResultRow` show
it.
"""

from __future__ import annotations

from contextlib import suppress

from bftrainer.config.script import script_of
from bftrainer.counted import counted
from bftrainer.pilot.persistence.registry import TrainerRecord

REPEATED_SHARE = 0.01
"""Less work that was repeated is not worth a remark."""


def remark_of(record: TrainerRecord) -> str:
    """Return the remark on a trainer: its status' reason, how much work was repeated, whether its
    script was edited.
    """
    share = record.repeated_samples / max(record.samples_done + record.repeated_samples, 1e-9)
    repeated = (
        f"{100 * share:.0f} % of its work was repeated: "
        f"{counted(record.repeated_samples, 'sample')} since checkpoints"
    )
    return "; ".join(
        filter(None, [record.reason, repeated if share >= REPEATED_SHARE else "", _edited(record)])
    )


def _edited(record: TrainerRecord) -> str:
    """Say that a trainer's script has been edited since it began; empty if it has not."""
    script = script_of(record.spec.command)
    if script and record.started_s is not None and not record.status.is_final:
        with suppress(OSError):
            if (record.spec.cwd / script).stat().st_mtime > record.started_s:
                return (
                    f"{script} has been edited since it began: workers that start later run "
                    "the new text"
                )
    return ""
