"""Starts of a trainer with half of a file that its last save wrote in place, as a kill during the
save would leave the folder.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from bftrainer.console.rehearsal.copies import copy_whole, is_linked
from bftrainer.console.rehearsal.record import Line, Played, Record, Saved, Trial, is_whole
from bftrainer.console.rehearsal.scenario import Act, ActKind

MAX_TRIALS = 3
"""Number of files written in place that are tried with half of their bytes."""


class Starter(Protocol):
    """Starts a trainer: the part of :class:`~bftrainer.console.rehearsal.player.Player` that a
    trial needs.
    """

    lines: list[Line]

    def play(self, act: Act) -> Played: ...

    def end(self) -> None: ...


def try_halves(
    starter: Starter,
    record: Record,
    folder: Path,
    kept: Path,
    tell: Callable[[str], None],
    *,
    in_place: bool = False,
) -> tuple[Trial, ...]:
    """Start the trainer once for each file of :func:`chosen`, cut to half; return what happened.

    A kill also leaves out the files that the save would have made afterwards. The folder is as the
    save left it before each trial and at the end: a trial saves checkpoints of its own.

    Args:
        starter: Starts the trainer and ends it.
        record: The rehearsal, with the files of its last save.
        folder: The trainer's working directory.
        kept: A new folder, to which the files are copied meanwhile.
        tell: Gets a line for each trial.
        in_place: The folder is the user's own: files of the save are restored, and others are not
            removed. Only one file is tried, because the checkpoints of that trial remain.
    """
    names = [name for name in chosen(record.saved, folder) if (folder / name).stat().st_size > 1]
    if not names:
        return ()
    if in_place:
        names = names[:1]
        _copy_files(folder, kept, record.saved.in_place)
    else:
        copy_whole(folder, kept)
    trials = []
    for name in names:
        tell(f"start with half of {name}")
        _truncate_file(folder, name, record.saved)
        lines_before = len(starter.lines)
        try:
            played = starter.play(Act(ActKind.START, record.acts[0].nodes))
            starter.end()
        finally:
            if in_place:
                _copy_files(kept, folder, record.saved.in_place)
            else:
                _restore_folder(folder, kept)
        trials.append(_trial_of_file(name, played, starter.lines[lines_before:]))
    return tuple(trials)


def chosen(saved: Saved, folder: Path) -> tuple[str, ...]:
    """Return the files written in place that are tried: the latest one, then the largest ones."""
    latest, others = saved.in_place[:1], saved.in_place[1:]
    by_size = sorted(others, key=lambda name: -(folder / name).stat().st_size)
    return (*latest, *by_size)[:MAX_TRIALS]


def _truncate_file(folder: Path, name: str, saved: Saved) -> None:
    """Leave the folder as a kill within the writing of a file would."""
    later = saved.in_place[: saved.in_place.index(name)]
    for other in later:
        if other in saved.created:
            (folder / other).unlink()
    path = folder / name
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)


def _trial_of_file(name: str, played: Played, lines: Sequence[Line]) -> Trial:
    """Return the trial of a file, with the first step that was reported after it."""
    steps = [line["step"] for line in lines if is_whole(line.get("step"))]
    return Trial(name, played.outcome, steps[0] if steps else None, played.reason, played.tail)


def _copy_files(source: Path, target: Path, names: Sequence[str]) -> None:
    for name in names:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source / name, target / name)


def _restore_folder(folder: Path, kept: Path) -> None:
    """Make the content of a folder that of its copy again."""
    _clear_folder(folder)
    copy_whole(kept, folder)


def _clear_folder(folder: Path) -> None:
    """Remove the content of a folder but for environments and repositories, which no copy has."""
    for path in folder.iterdir():
        if path.is_symlink() or not path.is_dir():
            path.unlink()
        elif not is_linked(path):
            _clear_folder(path)
            if not any(path.iterdir()):
                path.rmdir()
