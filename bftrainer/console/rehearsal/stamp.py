"""Passed rehearsals in a state directory, by the content of the script and how it is launched, not
by name or arguments.
"""

from __future__ import annotations

import hashlib
import json
import time
from pathlib import Path

from bftrainer.config.trainer_file import TrainerSpec
from bftrainer.errors import InputFileError
from bftrainer.system.files import write_atomically

FOLDER = "rehearsed"


def key_of(spec: TrainerSpec) -> str:
    """Return the key under which a pass of this trainer is recorded.

    It follows from the command up to the script, the script's content, the launcher, and how the
    trainer is stopped. Arguments after the script do not count: another learning rate needs no new
    rehearsal.
    """
    words, content = list(spec.command), b""
    for word_count, word in enumerate(spec.command[1:], 2):
        path = spec.cwd / word
        if path.is_file():  # the script
            words, content = words[:word_count], path.read_bytes()
            break
    facts = [
        words,
        spec.launcher,
        spec.setup,
        spec.started_per.value,
        spec.scaling.value if spec.scaling is not None else None,
        spec.stop_signal,
    ]
    return hashlib.sha256(json.dumps(facts).encode() + content).hexdigest()


def note(state: Path, spec: TrainerSpec) -> None:
    """Record in the state directory that the trainer has passed."""
    (state / FOLDER).mkdir(mode=0o700, exist_ok=True)
    value = {
        "version": 1,
        "trainer": spec.name,
        "command": list(spec.command),
        "passed_s": round(time.time(), 3),
    }
    write_atomically(state / FOLDER / f"{key_of(spec)}.json", json.dumps(value).encode(), 0o600)


def require(state: Path, spec: TrainerSpec, where: str) -> None:
    """Reject a trainer that has not passed; ``where`` names its file in the error. Raises
    :class:`~bftrainer.errors.InputFileError`.
    """
    if not (state / FOLDER / f"{key_of(spec)}.json").exists():
        file = where if where.endswith(".toml") else "FILE.toml"
        raise InputFileError(
            where,
            "this pilot requires a rehearsal (workers.require_rehearsal), and this version of "
            "the script has not passed one "
            f"with this launcher; run: bftrainer rehearse {file} --state {state}",
        )
