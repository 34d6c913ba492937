"""``control`` and ``leave``: requests to train on, or to checkpoint and exit."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from bftrainer.errors import InputFileError
from bftrainer.wires.typed_json import read_json

STOPPED_STATUS = 83
"""Exit status of a worker that left after a stop request, and of a driver after ``stopped``."""


class ControlRequest(Enum):
    """What is asked for."""

    RUN = "run"
    STOP = "stop"
    """Checkpoint, then exit with ``STOPPED_STATUS``."""


@dataclass(frozen=True)
class ControlMessage:
    """``number``: in ``control``, how many requests the pilot has made; in ``leave``, the
    incarnation that is to exit.
    """

    request: ControlRequest
    number: int = 0


def is_stop_requested(control: Path) -> bool:
    """Read ``control`` and return whether the pilot asks the trainer to stop; a missing file means
    no. Raises :class:`InputFileError` if the file cannot be understood.
    """
    try:
        return read_json(ControlMessage, control).request is ControlRequest.STOP
    except InputFileError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return False
        raise
