"""The database of a state directory: SQLite in rollback-journal mode, durable at every commit, with
one writer.

The rollback journal instead of WAL, because WAL needs shared memory, which network file systems
lack. The pilot that holds the lease row writes; commands such as ``list`` read.
"""

from __future__ import annotations

import os
import socket
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from bftrainer import __version__
from bftrainer.errors import DirectoryInUseError, LeaseLostError, StateDirError, StoreError
from bftrainer.pilot.persistence.database_checks import (
    FORMAT,
    BoundedReader,
    check_file,
    check_tables,
    guard,
    other_format,
    schema_sql,
)
from bftrainer.system.files import remove_file
from bftrainer.system.processes import ProcessId, is_alive

DB_NAME = "pilot.db"


@dataclass(frozen=True, slots=True)
class Holder:
    """The pilot in the lease row. ``job_id`` is the id of its batch job; empty if it runs in
    none.
    """

    host: str
    process: ProcessId
    job_id: str
    heartbeat_s: float


class Store:
    """An open database. ``at_step`` is called around every write with its name, for fault injection
    in tests.
    """

    def __init__(
        self, connection: sqlite3.Connection, path: Path, at_step: Callable[[str], None]
    ) -> None:
        """Use an open ``connection`` to the database file ``path``; see :func:`open_store`."""
        self.path = path
        self._connection = connection
        self._reader = BoundedReader(connection, path)
        self._at_step = at_step
        self._holder: ProcessId | None = None

    @contextmanager
    def writing(self, step: str) -> Iterator[sqlite3.Connection]:
        """Run the block as one transaction, on disk when the block ends. ``step`` names it for
        messages and tests.

        Raises :class:`StoreError` if it cannot be written, or :class:`LeaseLostError` if another
        pilot has taken the state directory.
        """
        self._at_step(f"{step}: before")
        with self._transaction(step):
            self._check_lease()
            yield self._connection
            self._at_step(f"{step}: written")
        self._at_step(f"{step}: committed")

    def write(self, step: str, statement: str, *values: object) -> None:
        """A transaction of one statement."""
        with self.writing(step) as db:
            db.execute(statement, values)

    @contextmanager
    def _transaction(self, step: str) -> Iterator[None]:
        """Run the block as one transaction; any error undoes it. Raises :class:`StoreError` if the
        database cannot be written.
        """
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            yield
            self._connection.execute("COMMIT")
        except BaseException as error:
            with suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")
            if isinstance(error, sqlite3.Error):
                raise StoreError(f"{self.path}: cannot be written ({step}): {error}") from error
            raise

    def read(self, query: str, *values: object) -> list[sqlite3.Row]:
        """Rows of a query. Raises :class:`StoreError`."""
        try:
            return self._reader.read(query, values)
        except (sqlite3.Error, OSError) as error:
            raise StoreError(f"{self.path}: cannot be read: {error}") from error

    def close(self) -> None:
        """Close the database. The lease stays."""
        self._connection.close()

    def holder(self) -> Holder | None:
        """Return the pilot in the lease row, which holds the state directory or held it last; None
        if there is none.
        """
        for row in self.read("SELECT * FROM lease"):
            return Holder(
                row["host"],
                ProcessId(row["pid"], row["pid_started"]),
                row["job_id"],
                row["heartbeat_s"],
            )
        return None

    def take_lease(
        self,
        process: ProcessId,
        job_id: str,
        now_s: float,
        lease_s: float,
        job_is_gone: Callable[[str], bool | None],
    ) -> Holder | None:
        """Take the lease of the state directory, and return the pilot that held it last (None:
        none). Raises :class:`DirectoryInUseError` if that pilot is still alive.

        On the same host a live process keeps the lease, however old its heartbeat is (it may be
        stopped, and resume). On another host its batch job must be gone (``job_is_gone``; None:
        unknown), or, without a job, its heartbeat must be older than three times ``lease_s``.
        """
        with self._transaction("lease"):
            previous = self.holder()
            if (
                previous is not None
                and previous.process != process
                and _may_be_alive(previous, job_id, now_s, lease_s, job_is_gone)
            ):
                job = f", job {previous.job_id}" if previous.job_id else ""
                raise DirectoryInUseError(
                    f"{self.path.parent}: is in use by the pilot with pid {previous.process.pid} "
                    f"on {previous.host}{job} "
                    f"(last seen {max(now_s - previous.heartbeat_s, 0):.0f} s ago); stop it first, "
                    "or specify another --state"
                )
            # Another connection cannot take it meanwhile: the transaction locks the database.
            self._connection.execute(
                "INSERT OR REPLACE INTO lease VALUES (1, ?, ?, ?, ?, ?, ?)",
                (socket.gethostname(), process.pid, process.started, job_id, now_s, now_s),
            )
        self._holder = process
        return previous

    @property
    def has_lease(self) -> bool:
        """Whether this process has taken the lease, and not dropped it."""
        return self._holder is not None

    def drop_lease(self) -> None:
        self.write("lease dropped", "DELETE FROM lease")
        self._holder = None

    def _check_lease(self) -> None:
        """Raise :class:`LeaseLostError` unless this process still has the lease."""
        row = self._connection.execute("SELECT pid, pid_started FROM lease").fetchone()
        if self._holder is None or row is None or ProcessId(*row) != self._holder:
            raise LeaseLostError(
                f"{self.path.parent}: another pilot has taken over; this one exits"
            )


def open_store(
    state_dir: Path, *, create: bool = False, at_step: Callable[[str], None] = lambda _: None
) -> Store:
    """Return the open database of a state directory. With ``create``, create it if it is missing.

    ``at_step`` is called around every write, for tests. Raises :class:`StateDirError` if it is
    missing or of another format, :class:`StoreError` if it cannot be opened.
    """
    path = state_dir / DB_NAME
    if not create and not path.exists():
        raise StateDirError(
            f"{state_dir}: no pilot has run here (no {DB_NAME}); start one with `bftrainer "
            "pilot`, or specify another --state"
        )
    try:
        if create and not path.exists():
            _create_complete(path)
        check_file(path)
        # `create` may read an existing file; the mode keeps a reader from making an empty one.
        connection = sqlite3.connect(
            f"{path.resolve().as_uri()}?mode={'rwc' if create else 'rw'}",
            uri=True,
            isolation_level=None,
            timeout=10.0,
        )
        try:
            connection.row_factory = sqlite3.Row
            guard(connection)
            # EXTRA: FULL does not sync the folder after the journal's unlink, so that after a power
            # loss the journal may be there again and undo a commit whose decision was carried out
            # (sqlite.org/pragma.html#pragma_synchronous).
            for pragma in ("journal_mode = DELETE", "synchronous = EXTRA", "foreign_keys = ON"):
                connection.execute(f"PRAGMA {pragma}")
            _check_or_make_tables(connection, path, create)
        except BaseException:
            connection.close()
            raise
    except (sqlite3.Error, OSError) as error:
        raise StoreError(f"{path}: cannot be opened: {error}") from error
    return Store(connection, path, at_step)


def _create_complete(path: Path) -> None:
    """Create the database ``path`` with all its tables at once, under another name first, so that
    no reader finds an empty one.
    """
    part = path.with_name(f".{path.name}.{os.getpid()}")
    part.unlink(missing_ok=True)
    with closing(sqlite3.connect(part, isolation_level=None)) as connection:
        _make_tables(connection)
    # It fails if another pilot was first, or if the file system has no links: then the database is
    # created in place.
    with suppress(OSError):
        os.link(part, path)
    remove_file(part)


def _make_tables(connection: sqlite3.Connection) -> None:
    meta = f"INSERT INTO meta VALUES (1, {FORMAT}, '{__version__}');"  # noqa: S608  # ours, both
    connection.executescript(f"BEGIN IMMEDIATE; {schema_sql()} {meta} COMMIT;")


def _check_or_make_tables(connection: sqlite3.Connection, path: Path, create: bool) -> None:
    """Check the format and the tables of a database; with ``create``, make the tables in an empty
    one. Raises :class:`StateDirError` for another format or other tables.
    """
    if not connection.execute("SELECT name FROM sqlite_master LIMIT 1").fetchall():
        if not create:
            raise StateDirError(f"{path}: is empty; the pilot creates its tables when it starts")
        _make_tables(connection)
        return
    # Alone first: a database of another format may have other tables, which is no damage.
    check_tables(connection, path, only="meta")
    row = connection.execute("SELECT format, written_by FROM meta").fetchone()
    written_format, version = row if row is not None else (None, "")
    if written_format != FORMAT:
        writer = f"bftrainer {str(version)[:40]} wrote it in format {str(written_format)[:20]}"
        raise other_format(path, writer)
    check_tables(connection, path)


def _may_be_alive(
    previous: Holder,
    job_id: str,
    now_s: float,
    lease_s: float,
    job_is_gone: Callable[[str], bool | None],
) -> bool:
    """Whether the pilot ``previous`` may still be alive, so that the lease cannot be taken
    (:meth:`Store.take_lease`).

    ``job_id`` is this pilot's batch job, empty for none; two pilots with the same job are the same,
    requeued.
    """
    if previous.host == socket.gethostname():
        return is_alive(previous.process)
    if previous.job_id == job_id != "":
        return False  # our own job, on the node where it was before the scheduler requeued it
    if previous.job_id:
        return job_is_gone(previous.job_id) is not True
    return now_s - previous.heartbeat_s < 3 * lease_s
