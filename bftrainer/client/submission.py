"""Submissions into the spool: one trainer, or a whole sweep at once."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from bftrainer.client.gate import Draft, Gate
from bftrainer.client.requests import KnownTrainer, known_trainers
from bftrainer.config.script import fixed_checkpoint, save_option, script_of, text_of
from bftrainer.config.trainer_file import TrainerSpec
from bftrainer.errors import InputFileError
from bftrainer.persistence.spool import Request, RequestKind, Spool, open_state_dir

_ENVIRONMENT = {"env"}  # it holds what `inherit` copied from the shell, which may be another one at a rerun


@dataclass(frozen=True, slots=True)
class Submitted:
    """``spool_name`` is empty for a trial that had been submitted before."""

    spec: TrainerSpec
    spool_name: str


def submit_one(state: Path, draft: Draft, note: Callable[[str], None]) -> tuple[Path, Submitted]:
    """Submit one trainer: the state directory's true path, and what was submitted. Its name must be new."""
    folder = open_state_dir(state, create=True)
    (spec,) = Gate(folder, note).passed((draft,))
    known = known_trainers(folder)
    if spec.name in known:
        raise InputFileError(
            f"{draft.where}: name",
            f"{spec.name!r} is taken; expected a name that no trainer of this state directory has had",
        )
    _note_shared_checkpoint((spec,), known, note)
    return folder, Submitted(spec, Spool(folder).put(_request(spec)))


def submit_sweep(
    state: Path, drafts: Sequence[Draft], note: Callable[[str], None]
) -> tuple[Path, tuple[Submitted, ...]]:
    """Submit all trials that have not been submitted. Raises, and submits none, if any of them cannot be submitted.

    So a sweep that was interrupted is continued by submitting it again: a trial with the name and all the keys of one that is
    there is the same trial. One with the name of a different trainer is an error.
    """
    folder = open_state_dir(state, create=True)
    specs = Gate(folder, note).passed(drafts)
    known = known_trainers(folder)
    for spec, draft in zip(specs, drafts, strict=True):
        if (there := known.get(spec.name)) is not None and (differs := _difference(spec, there.spec)):
            raise InputFileError(
                f"{draft.where}: name",
                f"{spec.name!r} is taken by a trainer with another {differs}; expected the same sweep, or another name",
            )
    fresh = [spec for spec in specs if spec.name not in known]
    _note_shared_checkpoint(fresh, known, note)
    names = dict(zip((spec.name for spec in fresh), Spool(folder).put_all([_request(s) for s in fresh]), strict=True))
    return folder, tuple(Submitted(spec, names.get(spec.name, "")) for spec in specs)


def _request(spec: TrainerSpec) -> Request:
    return Request(kind=RequestKind.SUBMIT, trainer=spec.name, spec=spec)


def _note_shared_checkpoint(
    specs: Sequence[TrainerSpec], known: Mapping[str, KnownTrainer], note: Callable[[str], None]
) -> None:
    """Note the first trainer that would load the work of another one."""
    fixed = cache(lambda script: fixed_checkpoint(text_of(script) or ""))

    def file_of(spec: TrainerSpec) -> Path | None:
        file, script = save_option(spec.command), script_of(spec.command)
        if not file and script and not any(spec.name in word for word in spec.command):
            file = fixed(spec.cwd / script)
        return spec.cwd / file if file else None

    ended_first = sorted(known.values(), key=lambda it: not it.ended)  # of a file's trainers, one that trains is named
    owners = {file: (it.spec.name, it.ended) for it in ended_first if (file := file_of(it.spec)) is not None}
    for spec in specs:
        if (file := file_of(spec)) is not None:
            other, ended = owners.setdefault(file, (spec.name, ""))
            if other != spec.name and (not ended or os.access(file, os.F_OK)):
                hint = ", such as one with {name}" if spec.parameters else ""
                problem = f"saves to {file}, as {other} {'did' if ended else 'does'}, and may load its work"
                note(f"{spec.name} {problem}; expected a file for each{hint}")
                return


def _difference(spec: TrainerSpec, there: TrainerSpec) -> str:
    """The first key in which two submissions differ; empty for the same one."""
    mine, theirs = spec.model_dump(exclude=_ENVIRONMENT), there.model_dump(exclude=_ENVIRONMENT)
    return next((key for key, value in mine.items() if theirs.get(key) != value), "")
