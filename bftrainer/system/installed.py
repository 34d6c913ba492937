"""Files that are installed beside the packages: job scripts and examples."""

from __future__ import annotations

import importlib.metadata
import sysconfig
from collections.abc import Iterator
from enum import Enum
from pathlib import Path

import bftrainer
from bftrainer.errors import UserError


class Installed(Enum):
    """A kind of file: its folder in a checkout. Installed, it is in ``share/bftrainer/`` and the
    last part of that.
    """

    JOBSCRIPT = "jobscripts"
    EXAMPLE = "docs/examples"

    @property
    def share(self) -> str:
        return f"share/bftrainer/{Path(self.value).name}"


def installed_folder(kind: Installed) -> Path | None:
    """Return the folder with the installed files of this kind: the checkout's, else the one under
    ``share``; None if neither exists.
    """
    return next((folder for folder in _candidate_folders(kind) if folder.is_dir()), None)


def installed_file(kind: Installed, name: str) -> Path:
    """Return the path of an installed file. Raises :class:`UserError` with the folders that were
    searched.
    """
    folders = list(_candidate_folders(kind))
    for folder in folders:
        if (folder / name).is_file():
            return (folder / name).absolute()
    raise UserError(
        f"{name} is neither in {' nor in '.join(map(str, folders))}; reinstall bftrainer"
    )


def _candidate_folders(kind: Installed) -> Iterator[Path]:
    """Yield the folders where files of this kind may be, the checkout's first."""
    yield Path(bftrainer.__file__).parents[1] / kind.value
    # pip's record knows whatever scheme pip used: a virtual environment, --user, --prefix, a
    # distribution's own.
    for file in importlib.metadata.files("bftrainer") or ():
        # The folder itself, not the __pycache__ that pip makes there for examples.
        if file.parent.as_posix().endswith(kind.share):
            yield Path(str(file.locate())).resolve().parent
            return
    yield Path(sysconfig.get_path("data")) / kind.share  # a system package need not bring a record
