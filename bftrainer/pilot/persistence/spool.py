"""The spool: requests for the pilot, whether it is running or not. One file each, by write, fsync
and rename.

The uid of a file says who wrote it. A file that is a link, has a second name, is not regular,
belongs to another user or is too large is not read but moved to ``spool/rejected``.
"""

from __future__ import annotations

import os
import secrets
import stat
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import Literal

from pydantic import ValidationError, model_validator

from bftrainer.config.trainer_file import TrainerSpec
from bftrainer.config.validation import ConfigTable
from bftrainer.errors import InvalidValueError, StateDirError, StoreError
from bftrainer.system.users import name_of

MAX_BYTES = 1 << 20
MAX_FILES_AT_ONCE = 200
MAX_FILES_LISTED = 50_000
"""Files of one listing, which takes some 30 ms."""
_SUFFIX = ".json"


class RequestKind(StrEnum):
    """Kinds of requests."""

    SUBMIT = "submit"
    CANCEL = "cancel"
    PAUSE = "pause"
    RESUME = "resume"


class Request(ConfigTable):
    """One spool file."""

    version: Literal[1] = 1
    kind: RequestKind
    trainer: str
    spec: TrainerSpec | None = None
    owner: str = ""
    """Whatever the file says, the reader puts the owner of the file here."""

    @model_validator(mode="after")
    def _check(self) -> Request:
        """Reject a submission without a spec, another request with one, and a spec of another
        trainer.
        """
        if (self.kind is RequestKind.SUBMIT) != (self.spec is not None):
            raise InvalidValueError("a submission needs a spec; other requests have none")
        if self.spec is not None and self.spec.name != self.trainer:
            raise InvalidValueError(
                f"the request is for trainer {self.trainer!r}, but its spec is for "
                f"{self.spec.name!r}"
            )
        return self


@dataclass(frozen=True, slots=True)
class Received:
    """A spool file with its request, or with the reason why it is rejected."""

    name: str
    request: Request | None
    rejection: str = ""


class Spool:
    """The spool of a state directory. Only files of ``uid`` are accepted."""

    def __init__(self, state_dir: Path, uid: int | None = None) -> None:
        self.path = state_dir / "spool"
        self._uid = os.getuid() if uid is None else uid
        self._unremovable: set[str] = set()  # rejected or carried out, and cannot be removed
        self._listing: deque[str] = deque()

    def put(self, request: Request) -> str:
        """Write a request and return its name. It is on disk when this returns; names sort by time.

        Raises :class:`~bftrainer.errors.StoreError` if the disk does not take it.
        """
        return self.put_all((request,))[0]

    def put_all(self, requests: Sequence[Request]) -> tuple[str, ...]:
        """Write requests, in order, and return the names of their files. All are on disk under
        hidden names before the first becomes visible.

        So an error while they are written leaves none of them; an error or a crash while they
        become visible leaves the first ones. Raises :class:`~bftrainer.errors.StoreError` if the
        disk does not take them, and :class:`InvalidValueError` for a request that is too large.
        """
        files: dict[str, bytes] = {}
        start_ns = time.time_ns()
        for index, request in enumerate(requests):
            data = request.model_dump_json().encode()
            if len(data) > MAX_BYTES:
                raise InvalidValueError(
                    f"the request has {len(data):,} bytes, expected at most {MAX_BYTES:,}"
                )
            # The names sort in the order of the requests.
            files[f"{start_ns + index:020d}-{secrets.token_hex(4)}{_SUFFIX}"] = data
        visible: list[str] = []
        try:
            with suppress(FileExistsError):
                self.path.mkdir(mode=0o700)
            self._write_files(files, visible)
        except OSError as error:
            subject = "the request" if len(requests) == 1 else f"{len(requests):,} requests"
            result = f"the first {len(visible):,} are there" if visible else "nothing has changed"
            raise StoreError(
                f"{self.path}: {subject} cannot be written: {error.strerror}; {result}"
            ) from error
        return tuple(files)

    def _write_files(self, files: Mapping[str, bytes], visible: list[str]) -> None:
        """Write ``files`` (name, content). The names that a pilot can see are appended to
        ``visible``, also if an error ends the call.
        """
        with _opened_folder(self.path) as folder:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
            try:
                for name, data in files.items():
                    handle = os.open(f".{name}", flags, 0o600, dir_fd=folder)
                    with os.fdopen(handle, "wb") as out:
                        out.write(data)
                # One after the other when all are written: most then find their blocks on disk.
                for name in files:
                    _sync_folder(f".{name}", folder)
                for name in files:
                    os.rename(f".{name}", name, src_dir_fd=folder, dst_dir_fd=folder)
                    visible.append(name)
            except BaseException:
                # Also after an interrupt: the hidden files would stay for ever.
                for name in files:
                    with suppress(OSError):
                        os.unlink(f".{name}", dir_fd=folder)
                raise
            os.fsync(folder)

    def pending(self, count: int = MAX_FILES_AT_ONCE) -> tuple[Received, ...]:
        """Return the first ``count`` pending requests, oldest first, for commands that show them.

        The pilot reads by :meth:`take`. Files stay until :meth:`remove` or :meth:`put_aside`.
        """
        if not self._has_folder():
            return ()
        with _opened_folder(self.path) as folder:
            received = []
            for name in self._names(folder)[:count]:
                with suppress(FileNotFoundError):  # the pilot has removed it meanwhile
                    received.append(self._received_request(folder, name))
            return tuple(received)

    def names(self) -> frozenset[str]:
        """The names of all pending requests."""
        if not self.path.is_dir():
            return frozenset()
        with _opened_folder(self.path) as folder:
            return frozenset(_names(folder))

    def take(self, count: int) -> Iterator[Received]:
        """Yield up to ``count`` pending requests, oldest first, each read when it is asked for.
        Their files stay until the caller removes them.

        The folder is listed again only when everything of the last listing has been taken: the work
        of a call does not depend on how much there is.
        """
        if not self._listing:
            if not self._has_folder():
                return
            with _opened_folder(self.path) as folder:
                self._listing = deque(self._names(folder))
        for _ in range(min(count, len(self._listing))):
            with _opened_folder(self.path) as folder:
                name = self._listing.popleft()
                with suppress(FileNotFoundError):
                    yield self._received_request(folder, name)

    def _has_folder(self) -> bool:
        """Create the folder if it is missing. Returns whether it exists now."""
        # An NFS client remembers for a minute that a folder is missing: create it before looking.
        with suppress(OSError):
            self.path.mkdir(mode=0o700)
        return self.path.is_dir()

    def _names(self, folder: int) -> list[str]:
        return [name for name in _names(folder) if name not in self._unremovable]

    def remove(self, *names: str) -> None:
        """Remove the files of requests that have been carried out. A file that cannot be removed is
        not read again by this pilot.

        The registry has what was carried out, and the next pilot refuses the request or carries it
        out again without harm.
        """
        if not names:
            return
        with suppress(OSError), _opened_folder(self.path) as folder:
            for name in names:
                if not _remove_file(name, folder):
                    self._unremovable.add(name)
            os.fsync(folder)

    def put_aside(self, name: str) -> None:
        """Move the file of a rejected request to the folder ``rejected``, or else remove it. If
        neither can be done, this pilot does not read it again.
        """
        with _opened_folder(self.path) as folder:
            with suppress(OSError):
                os.mkdir("rejected", 0o700, dir_fd=folder)
            # Names may come again, and a folder cannot replace one that is not empty.
            for target in (f"rejected/{name}", f"rejected/{secrets.token_hex(4)}-{name[:200]}"):
                with suppress(OSError):
                    os.rename(name, target, src_dir_fd=folder, dst_dir_fd=folder)
                    return
            if not _remove_file(name, folder):
                self._unremovable.add(name)

    def _received_request(self, folder: int, name: str) -> Received:
        """Read a file of the spool, and return its request, or the reason why it is rejected.
        Raises ``FileNotFoundError`` if it is gone.

        ``folder`` is a descriptor of the open spool.
        """
        try:
            data = _read_checked(folder, name, self._uid)
            request = Request.model_validate_json(data)
            if request.kind is RequestKind.SUBMIT:
                request = request.model_copy(update={"owner": name_of(self._uid)})
            return Received(name, request)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"])
            return Received(name, None, f"is not a request: {where}: {first['msg']}"[:200])
        except FileNotFoundError:
            raise
        except (OSError, InvalidValueError) as error:
            return Received(name, None, str(error))


def open_state_dir(path: Path, *, create: bool = False) -> Path:
    """Check a state directory, create it if ``create``, and return its path without links. Raises
    :class:`StateDirError`.

    It must belong to this user with mode 0700. Only root and this user may change the directories
    above it (sticky ones like /tmp are fine).
    """
    path = path.absolute()
    try:
        if create:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
        real = path.resolve(strict=True)
        for folder in (real, *real.parents):
            _check_folder(folder, os.lstat(folder), is_state_dir=folder == real)
    except FileNotFoundError as error:
        raise StateDirError(
            f"{path}: does not exist; expected a pilot's state directory (see `bftrainer init`)"
        ) from error
    except OSError as error:
        raise StateDirError(f"{path}: cannot be used: {error.strerror}") from error
    return real


def _check_folder(folder: Path, status: os.stat_result, *, is_state_dir: bool) -> None:
    """Raise :class:`StateDirError` for a state directory that others can read or that is not this
    user's, and for a folder above it that others could change.

    ``status`` is that of the folder.
    """
    mode = stat.S_IMODE(status.st_mode)
    if not stat.S_ISDIR(status.st_mode):
        raise StateDirError(f"{folder}: is not a directory")
    if is_state_dir:
        if status.st_uid != os.getuid():
            raise StateDirError(
                f"{folder}: belongs to uid {status.st_uid}, expected {os.getuid()}: a pilot "
                "serves only its own user"
            )
        # Any right of the group or of others.
        if mode & 0o077:
            raise StateDirError(f"{folder}: has mode {mode:o}, expected 700 (chmod 700 {folder})")
    elif status.st_uid not in (0, os.getuid()):
        raise StateDirError(
            f"{folder}: belongs to uid {status.st_uid}, who could replace the state directory "
            "below it"
        )
    elif mode & 0o022 and not mode & stat.S_ISVTX:
        # Writable by others, without the sticky bit that keeps them from renaming what is not
        # theirs.
        raise StateDirError(
            f"{folder}: has mode {mode:o}: others could replace the state directory below it"
        )


def _names(folder: int) -> list[str]:
    """Return the names of requests, oldest first; of very many files, a limited number."""
    with os.scandir(folder) as entries:
        names = [entry.name for entry in islice(entries, MAX_FILES_LISTED)]
    return sorted(name for name in names if name.endswith(_SUFFIX) and not name.startswith("."))


def _sync_folder(name: str, folder: int) -> None:
    handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=folder)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _remove_file(name: str, folder: int) -> bool:
    """Delete a request's file. Returns whether no such file is left; False where the file system
    does not allow it.
    """
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


@contextmanager
def _opened_folder(path: Path) -> Iterator[int]:
    """Open the folder of the spool while the block runs. Raises :class:`StateDirError` for a
    link.
    """
    try:
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except NotADirectoryError as error:
        raise StateDirError(
            f"{path}: is not a folder, or a link to one; remove it, and it is made again"
        ) from error
    try:
        yield folder
    finally:
        os.close(folder)


def _read_checked(folder: int, name: str, uid: int) -> bytes:
    """Return the content of a request's file, ``name`` in the open ``folder``.

    Raises :class:`InvalidValueError` for a file that is not regular, does not belong to user
    ``uid``, has a second name or is too large: another user could have put it there, or could
    change it.
    """
    # O_NONBLOCK: opening a pipe would wait for its writer.
    handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY, dir_fd=folder)
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise InvalidValueError("is not a regular file")
        if status.st_uid != uid:
            raise InvalidValueError(f"belongs to uid {status.st_uid}, expected {uid}")
        if status.st_nlink != 1:
            raise InvalidValueError(f"has {status.st_nlink} hard links, expected one")
        if status.st_size > MAX_BYTES:
            raise InvalidValueError(f"has {status.st_size:,} bytes, expected at most {MAX_BYTES:,}")
        with os.fdopen(handle, "rb", closefd=False) as file:
            data = file.read(MAX_BYTES + 1)
    finally:
        os.close(handle)
    if len(data) > MAX_BYTES:
        raise InvalidValueError("grew while it was read")
    return data
