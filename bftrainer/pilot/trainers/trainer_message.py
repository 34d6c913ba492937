"""``trainer.json`` of a trainer file, and the site's part of ``driver.json``. Pure."""

from __future__ import annotations

from bftrainer.config.pilot import WorkersConfig
from bftrainer.config.trainer_file import TrainerSpec
from bftrainer.wires.environment import FRAGMENT, PART, TRAINER_DIR
from bftrainer.wires.messages import TrainerMessage

_DRIVER_KEYS = {
    "interface",
    "allow_from",
    "hang_s",
    "first_step_s",
    "notice_s",
    "warm",
    "log_bytes",
    "allow_stock_horovodrun",
    "private_interface",
}


def trainer_message(spec: TrainerSpec) -> TrainerMessage:
    """Return ``trainer.json`` of a trainer file, for its driver and its script.

    Keys that both have keep their values; the lines of ``stage_in``, which copy data to the node,
    become the first line of ``setup``.
    """
    common = {
        key: getattr(spec, key)
        for key in TrainerMessage.__dataclass_fields__
        if key in TrainerSpec.model_fields
    }
    setup = (*_staging_lines(spec.stage_in), *spec.setup)
    renamed = {"id": spec.name, "environment": spec.env, "setup": setup, "group": spec.group or ""}
    return TrainerMessage(**common | renamed)


def driver_settings(workers: WorkersConfig, poll_s: float) -> dict[str, object]:
    """Return the keys of ``driver.json`` that the configuration sets, for pilots and rehearsals
    alike.
    """
    return {**workers.model_dump(include=_DRIVER_KEYS), "poll_s": poll_s}


def _staging_lines(lines: tuple[str, ...]) -> tuple[str, ...]:
    """Return the ``lines`` of ``stage_in`` (shell commands that copy data to the node) as one line
    of ``setup``.

    The first worker of a node runs them under a lock and writes to the marker file; the others wait
    for the lock, and find the marker. With divided nodes, each part has a marker of its own.
    """
    if not lines:
        return ()
    mark = f'"${TRAINER_DIR}/staged-${{{PART}:-${FRAGMENT}}}"'
    work = " && ".join(f"{{ {line}; }}" for line in lines)
    return (f"( flock 9 && {{ [ -s {mark} ] || {{ {work} && echo done >&9; }}; }} ) 9>>{mark}",)
