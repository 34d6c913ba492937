"""Requests for trainers that exist, by name, pattern or group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from bftrainer.client.state_dir import has_registry, opened_registry, pending_submissions
from bftrainer.config.trainer_file import TrainerSpec
from bftrainer.errors import UserError
from bftrainer.persistence.spool import Request, RequestKind, Spool, open_state_dir


@dataclass(frozen=True, slots=True)
class KnownTrainer:
    """A trainer of the registry, or a pending submission. ``ended``: its final status; empty if it has not ended."""

    spec: TrainerSpec
    ended: str = ""


def known_trainers(folder: Path) -> dict[str, KnownTrainer]:
    """All trainers of a state directory, pending submissions last."""
    pending = pending_submissions(folder)  # first: a pilot registers a submission before it takes its file away
    found: dict[str, KnownTrainer] = {}
    if has_registry(folder):
        with opened_registry(folder) as registry:
            for it in registry.trainers():
                found[it.name] = KnownTrainer(it.spec, it.status.value if it.status.is_final else "")
    for one in pending:
        if one.spec is not None:
            found.setdefault(one.trainer, KnownTrainer(one.spec))
    return found


def is_pattern(text: str) -> bool:
    """Whether it selects by pattern: no name of a trainer has these characters."""
    return any(mark in text for mark in "*?[")


def select(state: Path, names: Sequence[str], group: str | None = None) -> tuple[str, ...]:
    """The trainers that have not ended, of these names or patterns, each once; with ``group``, only those of that group.

    Raises :class:`~bftrainer.errors.UserError` for a name that does not exist or has ended, and where nothing matches.
    """
    known = known_trainers(open_state_dir(state))
    there = [name for name, it in known.items() if not it.ended and group in (None, it.spec.group)]
    within = "" if group is None else f" of group {group!r}"
    chosen: dict[str, None] = {}
    for text in names or ("*",):
        if is_pattern(text):
            found = [name for name in there if fnmatchcase(name, text)]
            if not found:
                matching = f" matches {text!r}" if names else ""
                raise UserError(f"no trainer{within} that has not ended{matching}; see `bftrainer list --all`")
            chosen |= dict.fromkeys(found)
            continue
        if (one := known.get(text)) is None or group not in (None, one.spec.group):
            raise UserError(f"no trainer{within} named {text!r}; see `bftrainer list --all`")
        if one.ended:
            raise UserError(f"trainer {text!r} is already {one.ended}")
        chosen[text] = None
    return tuple(chosen)


def enqueue(state: Path, kind: RequestKind, names: Sequence[str]) -> None:
    """Put requests into the spool."""
    Spool(open_state_dir(state)).put_all([Request(kind=kind, trainer=name) for name in names])
