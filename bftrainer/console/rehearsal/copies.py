"""A copy of a trainer's working directory, so that a rehearsal leaves the original unchanged."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from bftrainer.config.trainer_file import TrainerSpec
from bftrainer.errors import InputFileError

_ENVIRONMENTS = ("pyvenv.cfg", "conda-meta")
"""A folder with one of these is a Python environment: linked, not copied."""
_LINKED = (".git", "node_modules")
_PATH = re.compile(r"(?:/|\.\./)[^\s'\":,;()\[\]]+")
SCRATCH = "bftrainer-rehearse."
"""Prefix of scratch directories, which may be below the working directory."""


def copy_folder(source: Path, target: Path, limit_bytes: int, where: str) -> None:
    """Copy the files and links of a folder; environments and repositories in it become links.

    Raises ``InputFileError`` for more than ``limit_bytes``.
    """
    size = sum(path.stat().st_size for path in _files_to_copy(source))
    if size > limit_bytes:
        raise InputFileError(
            where,
            f"the working directory {source} has {size / 1e6:,.0f} MB; a rehearsal copies at most "
            f"{limit_bytes / 1e6:,.0f} MB; keep data elsewhere and link to it, raise "
            "--copy-mb, or use --in-place (trains on "
            "your real checkpoint)",
        )
    copy_whole(source, target)


def copy_whole(source: Path, target: Path) -> None:
    """Copy the files and links of a folder as :func:`copy_folder` does, of any size.

    The target may exist, if it is empty.
    """
    _copy_folder(source.resolve(), target, source.resolve(), target)


def moved(spec: TrainerSpec, source: Path, target: Path) -> TrainerSpec:
    """Return the trainer with the copy ``target`` of ``source`` as its working directory.

    Paths in its command and environment are adjusted: those below the original lead into the copy,
    and relative ones that lead out of it become absolute. Nothing is sent to trackers.
    """

    def in_copy(text: str) -> str:
        """Return a word with its path adjusted, if it has one."""
        # A path may be an option's value: --checkpoint=DIRECTORY/model.pt
        head, sign, path = text.rpartition("=")
        for name in (path, str(Path(path).resolve()) if path.startswith("/") else ""):
            if _is_below(name, source):
                return f"{head}{sign}{target}{name.removeprefix(str(source))}"
        if path.startswith("..") and (source / path).exists():
            # The copy has other neighbors.
            return f"{head}{sign}{(source / path).resolve()}"
        return text

    # PATH stays: an environment in the working directory is linked, and its programs contain their
    # original paths.
    variables = {name: in_copy(value) for name, value in spec.env.items() if name != "PATH"}
    env = spec.env | variables
    command = (spec.command[0], *map(in_copy, spec.command[1:]))
    return spec.model_copy(update={"cwd": target, "command": command, "env": env, "trackers": ()})


def outside(spec: TrainerSpec) -> list[Path]:
    """Return the existing files and folders outside the working directory that the command or a
    link names.

    They are not copied: the rehearsal uses the originals.
    """
    words = [word.rpartition("=")[2] for word in spec.command[1:]]
    relative_words = [word for word in (*words, *spec.env.values()) if word.startswith("..")]
    paths = [
        *(Path(word) for word in words if word.startswith("/")),
        *((spec.cwd / word).resolve() for word in relative_words),
    ]
    outside_paths = [
        path for path in paths if path.exists() and not _is_below(str(path.resolve()), spec.cwd)
    ]
    link_targets = [path.resolve() for path in _links_to_copy(spec.cwd) if path.exists()]
    root = spec.cwd.resolve()
    outside_paths += [path for path in link_targets if not _is_below(str(path), root)]
    return list(dict.fromkeys(outside_paths))


def missing(tail: Iterable[str], home: Path, work: Path) -> tuple[str, ...]:
    """Return the paths in the last lines of a log that exist relative to the original ``home``, but
    not to the copy ``work``.

    They lead out of the working directory ("../data").
    """
    paths = []
    for name in _PATH.findall("\n".join(tail)):
        # A script may have made its relative path absolute.
        relative = os.path.relpath(name, work) if name.startswith("/") else name
        if (
            relative.startswith("..")
            and not (work / relative).exists()
            and (home / relative).exists()
        ):
            paths.append(relative)
    return tuple(dict.fromkeys(paths))


def written_since(paths: list[Path], at_s: float) -> list[Path]:
    """Return the files that have changed since ``at_s``, and the folders that have, or one of whose
    entries has.
    """
    changed_paths = []
    for path in paths:
        entries = [path, *(path.iterdir() if path.is_dir() else ())]
        if any(entry.lstat().st_mtime >= at_s for entry in entries):
            changed_paths.append(path)
    return changed_paths


def _is_below(path: str, folder: Path) -> bool:
    """Whether a path is the folder or below it, by its text."""
    return path == str(folder) or path.startswith(f"{folder}{os.sep}")


def is_linked(folder: Path) -> bool:
    """Whether a copy has a link instead of this folder: an environment or a repository."""
    return folder.name in _LINKED or any((folder / name).exists() for name in _ENVIRONMENTS)


def _is_left_out(path: Path) -> bool:
    return path.name == "__pycache__" or path.name.startswith(SCRATCH)


def _files_to_copy(folder: Path) -> Iterator[Path]:
    """Yield the files that are copied: not links, not those of environments and repositories."""
    for path in folder.iterdir():
        if path.is_symlink() or _is_left_out(path):
            continue
        if path.is_dir():
            if not is_linked(path):
                yield from _files_to_copy(path)
        elif path.is_file():
            yield path


def _links_to_copy(folder: Path) -> Iterator[Path]:
    for path in folder.iterdir():
        if path.is_symlink():
            yield path
        elif path.is_dir() and not is_linked(path) and not _is_left_out(path):
            yield from _links_to_copy(path)


def _copy_folder(source: Path, target: Path, root: Path, copy: Path) -> None:
    """Copy a folder below ``root`` to the new folder ``target`` below ``copy``. Links into ``root``
    lead into the copy.
    """
    target.mkdir(mode=0o700, parents=True, exist_ok=True)
    for path in source.iterdir():
        new_path = target / path.name
        if path.is_symlink():
            real = Path(os.path.abspath(path.parent / path.readlink()))  # noqa: PTH100 - one link, not the next as well
            is_inside = real.is_relative_to(root)
            leads_to = copy / real.relative_to(root) if is_inside else real
            if leads_to != new_path:  # an environment that was linked by the copy of this folder
                new_path.symlink_to(leads_to)
        elif path.is_dir():
            if is_linked(path):
                new_path.symlink_to(path)
            elif not _is_left_out(path):
                _copy_folder(path, new_path, root, copy)
        elif path.is_file():
            shutil.copy2(path, new_path)
