"""Requests for trainers that exist, by name, pattern or group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from bftrainer.config.trainer_file import TrainerSpec
from bftrainer.console.client.state_dir import pending_submissions, registered_trainers
from bftrainer.errors import UserError
from bftrainer.pilot.persistence.spool import Request, RequestKind, Spool, open_state_dir


@dataclass(frozen=True, slots=True)
class KnownTrainer:
    """A trainer of the registry, or a pending submission.

    ``final_status`` is empty if it has not ended.
    """

    spec: TrainerSpec
    final_status: str = ""


def known_trainers(folder: Path) -> dict[str, KnownTrainer]:
    """Return all trainers of a state directory by name, pending submissions last."""
    # Submissions are read before the registry: a pilot registers a submission before it removes
    # the file, so that each is in one of them.
    pending = pending_submissions(folder)
    trainers: dict[str, KnownTrainer] = {}
    for record in registered_trainers(folder):
        final_status = record.status.value if record.status.is_final else ""
        trainers[record.name] = KnownTrainer(record.spec, final_status)
    for submission in pending:
        if submission.spec is not None:
            trainers.setdefault(submission.trainer, KnownTrainer(submission.spec))
    return trainers


def is_pattern(text: str) -> bool:
    """Whether a text selects by pattern: no name of a trainer has these characters."""
    return any(mark in text for mark in "*?[")


@dataclass(frozen=True, slots=True)
class Selection:
    """The trainers that a command selects.

    ``names`` are trainers that have not ended, each once. ``refused`` has a line for each text that
    selects none of them.
    """

    names: tuple[str, ...]
    refused: tuple[str, ...]


def select(state: Path, texts: Sequence[str], group: str | None = None) -> Selection:
    """Select trainers by name or pattern; with ``group``, only those of that group.

    ``texts`` are names and patterns; without any, all trainers that have not ended are selected.
    Raises :class:`~bftrainer.errors.UserError` where nothing is selected.
    """
    trainers = known_trainers(open_state_dir(state))
    open_names = [
        name
        for name, trainer in trainers.items()
        if not trainer.final_status and group in (None, trainer.spec.group)
    ]
    group_text = "" if group is None else f" of group {group!r}"
    names: dict[str, None] = {}  # a set in the order of selection
    refused: list[str] = []
    for text in texts or ("*",):
        trainer = trainers.get(text)
        if is_pattern(text):
            matches = [name for name in open_names if fnmatchcase(name, text)]
            if not matches:
                pattern_text = f" matches {text!r}" if texts else ""
                refused.append(
                    f"no training{group_text} that has not ended{pattern_text}; "
                    "see `bftrainer list --all`"
                )
            names |= dict.fromkeys(matches)
        elif trainer is None or group not in (None, trainer.spec.group):
            refused.append(f"no training{group_text} named {text!r}; see `bftrainer list --all`")
        elif trainer.final_status:
            refused.append(f"training {text!r} is already {trainer.final_status}")
        else:
            names[text] = None
    if not names:
        raise UserError("; ".join(refused))
    return Selection(tuple(names), tuple(refused))


def enqueue(state: Path, kind: RequestKind, selection: Selection) -> None:
    """Put a request for each selected trainer into the spool."""
    Spool(open_state_dir(state)).put_all(
        [Request(kind=kind, trainer=name) for name in selection.names]
    )
