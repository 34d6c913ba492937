"""Files are written by atomic rename: a crash leaves the old file or the new one, never a part.

Folders are removed by atomic rename as well: another process sees all of a folder or nothing.
"""

from __future__ import annotations

import os
import secrets
import shutil
from contextlib import suppress
from pathlib import Path

_REMOVED = ".removed-"


def make_empty_file(path: Path) -> None:
    """Make an empty file for a writer that opens it by name, as ``torch.save`` does, and then
    renames it. Raises ``OSError``.

    What a killed process has left there is removed, and never written to: it may be another user's
    link to a file of this user. Such names stay the same from one checkpoint to the next, so that
    killed workers do not fill the disk.
    """
    path.unlink(missing_ok=True)
    os.close(
        os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    )


def write_atomically(path: Path, data: bytes, mode: int = 0o666) -> None:
    """Write ``data`` beside ``path``, flush it to disk, then rename it into place. Parent
    directories are created.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    # The kernel applies the umask. Reading the umask would mean to change it, for all threads of
    # the process.
    handle = os.open(
        part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode
    )
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def remove_folder(folder: Path) -> bool:
    """Remove a folder, so that it is no longer at its path; return False where the file system does
    not allow that.

    It is renamed first. A process that looks at the folder's files one by one would otherwise meet
    half a folder, and a process that still writes there would make the removal fail ("Directory not
    empty"). Files that cannot be deleted stay under the hidden name: :func:`remove_leftovers` tries
    again. Raises nothing: what is only tidied up must end no program.
    """
    hidden = folder.with_name(f"{_REMOVED}{secrets.token_hex(6)}")
    try:
        folder.rename(hidden)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    shutil.rmtree(hidden, ignore_errors=True)
    return True


def remove_leftovers(parent: Path) -> None:
    """Delete what earlier calls of :func:`remove_folder` below ``parent`` could not. Raises
    nothing.
    """
    with suppress(OSError):
        for hidden in parent.glob(f"{_REMOVED}*"):
            shutil.rmtree(hidden, ignore_errors=True)


def remove_file(path: Path) -> None:
    """Delete a file that nobody needs any more. Raises nothing: what is only tidied up must end no
    program.
    """
    with suppress(OSError):
        path.unlink()
