"""How files below a folder are written: in place, or by renaming. Uses Linux's inotify.

After a kill, a file that is written in place may be incomplete; a file that is renamed into place
is not.
"""

from __future__ import annotations

import ctypes
import os
import struct
from pathlib import Path

from bftrainer.console.rehearsal.copies import is_linked
from bftrainer.console.rehearsal.record import Saved

_MODIFY, _CLOSE_WRITE, _MOVED_FROM, _MOVED_TO, _CREATE, _DELETE = 0x2, 0x8, 0x40, 0x80, 0x100, 0x200
_IS_DIR = 0x40000000
_HEAD = struct.Struct("iIII")
_libc = ctypes.CDLL(None, use_errno=True)


class Writes:
    """Collects the files that are written below ``folder`` from now on, by inotify.

    New folders are watched as well; links are not followed.
    """

    def __init__(self, folder: Path) -> None:
        self._root = folder
        self._handle = _libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._handle < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), "inotify")
        # The watched folders, by the number of their watch.
        self._folders: dict[int, Path] = {}
        # Files that were written in place, or renamed into place, in this order.
        self._in_place: dict[Path, None] = {}
        self._renamed: dict[Path, None] = {}
        # Folders that are being renamed, by the cookie that both events of a rename have.
        self._old_folders: dict[int, Path] = {}
        # Folders that were made since the last ``forget``, or renamed into place as a whole.
        self._created_folders: set[Path] = set()
        self._renamed_folders: set[Path] = set()
        self._created_files: set[Path] = set()
        self._watch_folder(folder)

    def __enter__(self) -> Writes:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._handle)

    def forget(self) -> None:
        """Discard all writes so far."""
        self._read_events()
        self._in_place.clear()
        self._renamed.clear()
        self._created_folders.clear()
        self._renamed_folders.clear()
        self._created_files.clear()

    def saved(self) -> Saved:
        """Return the existing files that were written since the last ``forget``, the latest first.

        A folder that was renamed into place, as a whole, stands for its files; its name ends with a
        slash.
        """
        self._read_events()
        folders = [
            f"{self._relative_name(folder)}/"
            for folder in sorted(self._renamed_folders)
            if folder.is_dir() and self._has_new_file(folder)
        ]
        in_place, renamed = (
            self._existing_names(self._in_place),
            self._existing_names(self._renamed),
        )
        created = [name for name in in_place if self._root / name in self._created_files]
        return Saved(tuple(in_place), (*folders, *renamed), tuple(created))

    def _existing_names(self, paths: dict[Path, None]) -> list[str]:
        """Return the names of the files that exist, latest first.

        Those in a folder that was renamed as a whole are left out.
        """
        return [
            self._relative_name(path)
            for path in reversed(paths)
            if path.is_file() and not self._renamed_folders & set(path.parents)
        ]

    def _relative_name(self, path: Path) -> str:
        return str(path.relative_to(self._root))

    def _has_new_file(self, folder: Path) -> bool:
        """Whether a file below the folder was written since the last ``forget``, and exists."""
        return any(
            folder in path.parents and path.is_file() for path in (*self._in_place, *self._renamed)
        )

    def _watch_folder(self, folder: Path) -> None:
        """Watch a folder and the folders below it. One that has vanished meanwhile is left out."""
        mask = _MODIFY | _CLOSE_WRITE | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE
        for path, folders, _ in os.walk(folder):
            folders[:] = [name for name in folders if not is_linked(Path(path, name))]
            number = _libc.inotify_add_watch(self._handle, os.fsencode(path), mask)
            if number >= 0:
                self._folders[number] = Path(path)

    def _read_events(self) -> None:
        """Read all events that inotify has ready, and note each."""
        while True:
            try:
                data = os.read(self._handle, 1 << 16)
            except BlockingIOError:
                return
            offset = 0
            while offset < len(data):
                number, mask, cookie, length = _HEAD.unpack_from(data, offset)
                name_offset = offset + _HEAD.size
                name = data[name_offset : name_offset + length].rstrip(b"\0")
                offset = name_offset + length
                if number in self._folders and name:
                    self._note_event(self._folders[number] / os.fsdecode(name), mask, cookie)

    def _note_event(self, path: Path, mask: int, cookie: int) -> None:
        """Record an event: a file that was written, renamed or deleted, or a folder. ``mask`` has
        the kinds of the event. A rename within the folder is two events.
        """
        if mask & _IS_DIR:
            self._note_folder(path, mask, cookie)
            return
        if mask & (_MOVED_FROM | _DELETE | _MOVED_TO):
            self._in_place.pop(path, None)
            self._renamed.pop(path, None)
        if mask & _CREATE:
            self._created_files.add(path)
        if mask & _MOVED_TO:
            self._renamed[path] = None
        if mask & (_MODIFY | _CLOSE_WRITE):
            self._renamed.pop(path, None)
            self._in_place.pop(path, None)  # to the end
            self._in_place[path] = None

    def _note_folder(self, path: Path, mask: int, cookie: int) -> None:
        """Record a folder that was made or renamed; both events of a rename have the same
        ``cookie``.

        Events are read late: the folder may have been filled and renamed before it could be
        watched.
        """
        if mask & _CREATE:
            self._watch_folder(path)
            self._created_folders.add(path)
            self._created_files |= set(_files_by_write_time(path))
            self._in_place |= dict.fromkeys(_files_by_write_time(path))
        elif mask & _MOVED_FROM:
            self._old_folders[cookie] = path
        elif mask & _MOVED_TO:
            self._watch_folder(path)
            self._note_renamed_folder(path, self._old_folders.pop(cookie, None))

    def _note_renamed_folder(self, path: Path, old_path: Path | None) -> None:
        """Record a folder that was renamed to ``path``; ``old_path`` is None if it came from
        outside the watched folders.

        All files of a new folder are new. Of an older one, only those that were written before the
        rename.
        """
        files = [file for file in (*self._in_place, *self._renamed) if old_path in file.parents]
        for file in files:
            self._in_place.pop(file, None)
            self._renamed.pop(file, None)
        if old_path is None or old_path in self._created_folders:
            self._created_folders.discard(old_path or path)
            self._renamed |= dict.fromkeys(_files_by_write_time(path))
            self._renamed_folders.add(path)
        elif files:
            self._renamed |= {path / file.relative_to(old_path): None for file in files}
            self._renamed_folders.add(path)


def _files_by_write_time(folder: Path) -> list[Path]:
    """Return the files below a folder, in the order in which they were last written."""
    files = [file for file in folder.rglob("*") if file.is_file() and not file.is_symlink()]
    return sorted(files, key=lambda file: (_written_ns(file), file))


def _written_ns(file: Path) -> int:
    """Return the time at which a file was last written; 0 for one that is gone by now."""
    try:
        return file.stat().st_mtime_ns
    except FileNotFoundError:
        return 0
