"""The note in a state directory that a script has passed its rehearsal: by what it is, not by what it is called or given."""

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
    """Of a settled trainer: its program up to the script, that file's content, its launcher, and how it is asked to stop.

    Arguments after the script do not count: another learning rate is not another rehearsal.
    """
    words, content = list(spec.command), b""
    for number, word in enumerate(spec.command[1:], 2):
        path = spec.cwd / word
        if path.is_file():
            words, content = words[:number], path.read_bytes()
            break
    facts = [words, spec.launcher, spec.setup, spec.started_per.value, spec.scaling.value, spec.stop_signal]
    return hashlib.sha256(json.dumps(facts).encode() + content).hexdigest()


def note(state: Path, spec: TrainerSpec) -> None:
    """It has passed."""
    (state / FOLDER).mkdir(mode=0o700, exist_ok=True)
    value = {"version": 1, "trainer": spec.name, "command": list(spec.command), "passed_s": round(time.time(), 3)}
    write_atomically(state / FOLDER / f"{key_of(spec)}.json", json.dumps(value).encode())


def require(state: Path, spec: TrainerSpec, where: str) -> None:
    """Refuse one that has not."""
    if not (state / FOLDER / f"{key_of(spec)}.json").exists():
        file = where if where.endswith(".toml") else "FILE.toml"
        raise InputFileError(
            where,
            "this pilot takes rehearsed trainers only (workers.require_rehearsal); this script, as it is, has not passed under "
            f"this launcher; run: bftrainer rehearse {file} --state {state}",
        )
