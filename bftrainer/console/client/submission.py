"""Submissions into the spool: one trainer, or a whole sweep at once."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import count
from pathlib import Path

from bftrainer.config.script import fixed_checkpoint, save_option, script_of, text_of
from bftrainer.config.trainer_file import MOST_NAME, TrainerSpec
from bftrainer.console.client.gate import Draft, Gate
from bftrainer.console.client.requests import KnownTrainer, known_trainers
from bftrainer.console.client.sweep import NAME_COLUMN, TrialParameters, drafts_of
from bftrainer.errors import InputFileError, StoreError, UserError
from bftrainer.pilot.persistence.spool import Request, RequestKind, Spool, open_state_dir
from bftrainer.system.locks import try_lock

LOCK = "submit.lock"
"""The file in the state directory that a submission locks."""
_LOCK_S = 60.0
_LOCK_POLL_S = 0.02
_MOST_STEM = 40
_ENVIRONMENT = {"env"}
"""Not compared: ``inherit`` copies variables of the shell, which may be another one at a rerun."""


@dataclass(frozen=True, slots=True)
class Submitted:
    """A trainer that was submitted, now or before.

    ``spool_name`` is empty for a trial that had been submitted before.
    """

    spec: TrainerSpec
    spool_name: str
    taken_name: str = ""
    """The default name, if it was taken: the trainer or its sweep has that name with a number."""


def submit_one(state: Path, draft: Draft, note: Callable[[str], None]) -> tuple[Path, Submitted]:
    """Submit one trainer; return the state directory's true path, and what was submitted.

    ``note`` is called with remarks. A default name that is taken is numbered: ``train-2``. Any
    other name must be new (else ``InputFileError``).
    """
    folder = open_state_dir(state, create=True)
    gate = Gate(folder, note)
    original_name, taken_name = draft.name, ""
    if not draft.has_default_name:  # before notes on a submission that is refused anyway
        _check_free(draft, known_trainers(folder))
    while True:
        (spec,) = gate.passed((draft,))
        with _exclusive_submission(folder):
            trainers = known_trainers(folder)
            if spec.name not in trainers:
                _note_shared_checkpoint((spec,), trainers, note)
                spool_name = Spool(folder).put(_submission_request(spec))
                return folder, Submitted(spec, spool_name, taken_name)
        if not draft.has_default_name:
            _check_free(draft, trainers)
        draft, taken_name = draft.renamed(free_name(original_name, trainers)), original_name


def _check_free(draft: Draft, trainers: Mapping[str, KnownTrainer]) -> None:
    """Raise ``InputFileError`` if the name of a submission is taken."""
    if draft.name in trainers:
        raise InputFileError(
            f"{draft.where}: name",
            f"{draft.name!r} is taken; expected a name that no training of this state directory "
            f"has had, such as {free_name(draft.name, trainers)!r}",
        )


def submit_sweep(
    state: Path, base: Draft, trials: Sequence[TrialParameters], note: Callable[[str], None]
) -> tuple[Path, tuple[Submitted, ...]]:
    """Submit all trials that have not been submitted; return the state directory's true path, and
    all trials.

    Raises, and submits none, if any of them cannot be submitted.

    A sweep that was interrupted is continued by submitting it again: a trial whose name and keys
    are all equal to those of a known trainer is the same trial. A trial whose name belongs to a
    different trainer is an error, unless the trials' names were derived from the name of the
    script: then the whole sweep is tried again as ``train-2``, ``train-3`` and so on. The first
    attempt has the name without a number; ``number`` is for the attempt after the current one.
    """
    folder = open_state_dir(state, create=True)
    gate = Gate(folder, note)
    original_name, taken_name = base.name, ""
    may_be_numbered = base.has_default_name and not any(NAME_COLUMN in trial for trial in trials)
    for number in count(2):
        specs = gate.passed(drafts_of(base, trials))
        with _exclusive_submission(folder):
            trainers = known_trainers(folder)
            problem = _conflict_text(specs, trainers)
            if not problem:
                new_specs = [spec for spec in specs if spec.name not in trainers]
                _note_shared_checkpoint(new_specs, trainers, note)
                files = Spool(folder).put_all([_submission_request(spec) for spec in new_specs])
                spool_names = dict(zip((spec.name for spec in new_specs), files, strict=True))
                return folder, tuple(
                    Submitted(spec, spool_names.get(spec.name, ""), taken_name) for spec in specs
                )
        if not may_be_numbered:
            raise InputFileError(
                f"{base.where}: name", f"{problem}; expected the same sweep, or another name"
            )
        # A trial whose name would be too long has only the first letters of the sweep's name. The
        # name is cut, so that its number is among them.
        base = base.renamed(numbered(original_name[:_MOST_STEM], number))
        taken_name = original_name
    raise AssertionError("the loop has no end")


def numbered(name: str, number: int) -> str:
    """Append a number to a name, within the length that names may have."""
    suffix = f"-{number}"
    return name[: MOST_NAME - len(suffix)] + suffix


def free_name(name: str, names: Container[str]) -> str:
    """Append the first number, from 2 on, with which the name is not among ``names``."""
    candidates = (numbered(name, number) for number in count(2))
    return next(candidate for candidate in candidates if candidate not in names)


def _conflict_text(specs: Sequence[TrainerSpec], trainers: Mapping[str, KnownTrainer]) -> str:
    """Say how the first trial that cannot be submitted differs from the trainer of its name.

    The text is empty if all can be submitted: their names are free, or belong to equal trainers.
    """
    for spec in specs:
        other = trainers.get(spec.name)
        if other is None:
            continue
        key = _differing_key(spec, other.spec)
        if key:
            return f"{spec.name!r} is taken by a training with another {key}"
    return ""


@contextmanager
def _exclusive_submission(folder: Path) -> Iterator[None]:
    """Lock the state directory against other submissions within the block, so that no name is taken
    between the check of names and this submission.

    Raises ``StoreError`` if the lock file cannot be opened, and ``UserError`` if another submission
    holds the lock for ``_LOCK_S``.
    """
    path = folder / LOCK
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise StoreError(
            f"{path}: cannot be opened: {error.strerror}; nothing has been submitted"
        ) from error
    try:
        deadline_s = time.monotonic() + _LOCK_S
        while not try_lock(handle, path):
            if time.monotonic() > deadline_s:
                raise UserError(
                    f"{path}: another submission has held this lock for {_LOCK_S:.0f} s; "
                    "submit again later"
                )
            time.sleep(_LOCK_POLL_S)
        yield
    finally:
        os.close(handle)


def _submission_request(spec: TrainerSpec) -> Request:
    return Request(kind=RequestKind.SUBMIT, trainer=spec.name, spec=spec)


def _note_shared_checkpoint(
    specs: Sequence[TrainerSpec], trainers: Mapping[str, KnownTrainer], note: Callable[[str], None]
) -> None:
    """Record the first new trainer (of ``specs``) that would load another one's work, since both
    save to the same file.
    """
    # The trainers of a sweep have one script, which is read once.
    checkpoint_in_script = cache(lambda script: fixed_checkpoint(text_of(script) or ""))

    def checkpoint_file(spec: TrainerSpec) -> Path | None:
        """Return the file to which a trainer saves; None if it is not known, or its own."""
        file, script = save_option(spec.command), script_of(spec.command)
        # A script that is called with the trainer's name may save to a file of that name.
        if not file and script and not any(spec.name in word for word in spec.command):
            file = checkpoint_in_script(spec.cwd / script)
        return spec.cwd / file if file else None

    owners: dict[Path, KnownTrainer] = {}
    # Trainers that have ended come first: of several with one file, one that trains is named.
    for trainer in sorted(trainers.values(), key=lambda trainer: not trainer.final_status):
        file = checkpoint_file(trainer.spec)
        if file is not None:
            owners[file] = trainer
    for spec in specs:
        file = checkpoint_file(spec)
        if file is None:
            continue
        owner = owners.setdefault(file, KnownTrainer(spec))
        if owner.spec.name == spec.name:
            continue
        has_ended = bool(owner.final_status)
        if has_ended and not os.access(file, os.F_OK):
            continue  # it left no file to load
        hint = ", such as one with {name}" if spec.parameters else ""
        note(
            f"{spec.name} saves to {file}, as {owner.spec.name} {'did' if has_ended else 'does'}, "
            f"and may load its work; expected a file for each{hint}"
        )
        return


def _differing_key(spec: TrainerSpec, other: TrainerSpec) -> str:
    """Return the first key in which two submissions differ; empty if they are the same one."""
    values = spec.model_dump(exclude=_ENVIRONMENT)
    other_values = other.model_dump(exclude=_ENVIRONMENT)
    return next((key for key, value in values.items() if other_values.get(key) != value), "")
