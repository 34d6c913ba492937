"""Checks of a database file before and while it is read: it may have been copied from anywhere.

SQLite carries out what a file says. A view or trigger in place of a table runs for as long as its
author likes. The rollback journal beside the file can name any other file, which SQLite deletes
after it has rolled back (3.40.1). Pages that share their children yield more rows than the file has
bytes, and a column holds values of any type. So only our tables are read, rows must have the
declared types, and a query is bounded by the size of the file.
"""

from __future__ import annotations

import functools
import math
import os
import sqlite3
import stat
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from importlib.resources import files as package_files
from pathlib import Path

from bftrainer import __version__
from bftrainer.errors import StateDirError, StoreError

FORMAT = 1
"""The format of the database: its tables, and the classes and fields of its JSON (codec.py)."""
LONGEST_VALUE = 64 << 20
"""Bytes of a value, read or written; the state of 200,000 nodes takes a third of it."""
LATEST_S = 253_370_764_800.0
"""The latest time that can be shown: the year 9999."""
_SUPER_JOURNAL = bytes.fromhex("d9d505f920a163d7")
"""The magic that ends a rollback journal which names another file (sqlite.org/fileformat.html). We
attach no second database, so ours never does.
"""
_STEPS, _STEPS_PER_BYTE, _STEPS_PER_CALL = 50_000_000, 20, 1_000_000
_TYPES: Mapping[str, tuple[type, ...]] = {"INTEGER": (int,), "REAL": (float, int), "TEXT": (str,)}
_SQLITE_PREFIX = "sqlite_"
_NULLABLE = frozenset(
    {
        "max_parallel",
        "admitted_s",
        "started_s",
        "finished_s",
        "samples_at_failure",
        "reported_total",
        "taken_s",
        "asked_back_s",
        "released_s",
    }
)


def schema_sql() -> str:
    """Return the SQL statements that make our tables."""
    schema = package_files("bftrainer.pilot.persistence").joinpath("schema.sql")
    return schema.read_text(encoding="utf-8")


def other_format(path: Path, difference: str) -> StateDirError:
    """Return the error for a database that another version of bftrainer wrote in another format."""
    return StateDirError(
        f"{path}: {difference}, expected format {FORMAT} of bftrainer {__version__}; let the "
        "bftrainer that wrote it finish its trainers, then specify a new --state"
    )


def check_file(path: Path) -> None:
    """Raise :class:`StateDirError` for a file ``path`` that SQLite must not open: a pipe or device,
    or a database with a rollback journal that names another file, which SQLite would delete.
    """
    try:
        status = path.stat()
    except FileNotFoundError:
        return  # no database yet: SQLite creates it in place where the file system has no links
    if not stat.S_ISREG(status.st_mode):
        raise StateDirError(f"{path}: is not a regular file, expected a pilot's database")
    journal = path.with_name(f"{path.name}-journal")
    try:
        handle = os.open(journal, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    except FileNotFoundError:
        return
    try:
        status = os.fstat(handle)
        is_file = stat.S_ISREG(status.st_mode)
        # The last bytes of the journal, where the name of another file would be marked.
        ending = (
            os.pread(handle, len(_SUPER_JOURNAL), max(status.st_size - len(_SUPER_JOURNAL), 0))
            if is_file
            else b""
        )
    finally:
        os.close(handle)
    if not is_file or ending == _SUPER_JOURNAL:
        raise StateDirError(
            f"{journal}: is no rollback journal of a pilot (it names another file, which "
            "SQLite would delete); "
            "the folder comes from elsewhere: remove this file to read the database"
        )


def guard(connection: sqlite3.Connection) -> None:
    """Set up a connection against a hostile file; called for every connection."""
    for pragma in ("trusted_schema = OFF", "cell_size_check = ON"):
        connection.execute(f"PRAGMA {pragma}")
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST_VALUE)
    connection.set_progress_handler(_WorkLimit(_STEPS), _STEPS_PER_CALL)


@dataclass(slots=True)
class _WorkLimit:
    """A progress handler of SQLite, which interrupts a statement that takes more than
    ``steps_left`` steps.
    """

    steps_left: float

    def __call__(self) -> bool:
        """Count the steps since the last call. Returns True to interrupt the statement."""
        self.steps_left -= _STEPS_PER_CALL
        return self.steps_left < 0


def check_tables(connection: sqlite3.Connection, path: Path, *, only: str = "") -> None:
    """Raise :class:`StateDirError` unless the tables and indexes of the database are those of a
    pilot, with the same columns.

    A view or trigger could run code of its author. ``only``: check this table alone; empty: all.
    """
    names = {only} if only else {*columns(), "fragments_open"}
    for kind, name, sql in connection.execute(
        "SELECT type, name, substr(sql, 1, 60) FROM sqlite_master"
    ):
        is_plain = kind in ("table", "index") and not str(sql).upper().startswith("CREATE VIRTUAL")
        # SQLite itself makes tables and indexes whose names begin with "sqlite_".
        if (only and name != only) or (is_plain and str(name).startswith(_SQLITE_PREFIX)):
            continue
        if name not in names or not is_plain:
            raise StateDirError(
                f"{path}: contains {str(kind)[:20]} {str(name)[:60]!r}, expected only the "
                "tables of a pilot's database"
            )
    for table in sorted(names & columns().keys()):
        declared = {
            # Name, type and kind of each column.
            row[1]: (str(row[2]).upper(), row[6])  # 6: generated, or of a virtual table
            for row in connection.execute(f"PRAGMA table_xinfo({table})")
        }
        if declared != {name: (kind, 0) for name, kind in columns()[table].items()}:
            raise other_format(path, f"the table {table} has other columns")


@functools.cache
def columns() -> Mapping[str, Mapping[str, str]]:
    """Return the declared type of each column of each of our tables, by the names of table and
    column.
    """
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(schema_sql())
        names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        types: dict[str, dict[str, str]] = {}
        for (table,) in names.fetchall():
            rows = connection.execute(f"PRAGMA table_info({table})")
            types[table] = {row[1]: row[2] for row in rows}
        return types


class BoundedReader:
    """Runs queries on a connection: typed rows, no more of them and no more work than a file of
    this size explains.
    """

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        """Bound the queries on ``connection``, whose database is the file ``path``."""
        self._connection, self._path = connection, path
        self._limit = _WorkLimit(math.inf)  # the pilot's own writes are small
        connection.set_progress_handler(self._limit, _STEPS_PER_CALL)

    def read(self, query: str, values: tuple[object, ...]) -> list[sqlite3.Row]:
        """Return the rows of a ``query`` with ``values`` for its question marks. Raises
        :class:`~bftrainer.errors.StoreError` for a damaged file, or an error of sqlite3.
        """
        size = self._path.stat().st_size
        self._limit.steps_left = _STEPS + _STEPS_PER_BYTE * size
        try:
            return self._bounded_rows(query, values, size)
        finally:
            self._limit.steps_left = math.inf

    def _bounded_rows(self, query: str, values: tuple[object, ...], size: int) -> list[sqlite3.Row]:
        """Return the rows of a query on a file of ``size`` bytes.

        Raises :class:`StoreError` for a value of another type than its column's, and for more data
        than such a file can have: pages of a prepared file may share their children.
        """
        bytes_left = 2 * size + (1 << 20)
        rows = []
        cursor = self._connection.execute(query, values)
        checks = [
            (index, check)
            # The first entry of each description is the name of the column.
            for index, column in enumerate(cursor.description)
            if (check := _column_checks().get(column[0]))
        ]
        for row in cursor:
            for index, check in checks:
                if not check(row[index]):
                    raise self._damage_error(
                        f"{cursor.description[index][0]} is {str(row[index])[:40]!r}"
                    )
            bytes_left -= sum(map(_value_size, row))
            if bytes_left < 0:
                raise self._damage_error("a query yields more than the file has")
            rows.append(row)
        return rows

    def _damage_error(self, how: str) -> StoreError:
        return StoreError(f"{self._path}: is damaged, or was not written by a pilot: {how}")


def _value_size(value: object) -> int:
    """About how many bytes a value needs in the file."""
    return len(value) if isinstance(value, (str, bytes)) else 8


@functools.cache
def _column_checks() -> Mapping[str, Callable[[object], bool]]:
    """Return a check for the values of each column, by the column's name: a name has the same type
    in all our tables.

    Columns that end in ``_s`` are times or node-seconds, and are bounded as well.
    """
    checks: dict[str, Callable[[object], bool]] = {}
    for table in columns().values():
        for name, kind in table.items():
            types = (*_TYPES[kind], type(None)) if name in _NULLABLE else _TYPES[kind]
            bound = math.inf
            if name.endswith("_s"):
                bound = 1e18 if name.endswith("_node_s") else LATEST_S
            checks[name] = functools.partial(_is_value, types, bound)
    return checks


def _is_value(types: tuple[type, ...], bound: float, value: object) -> bool:
    """Whether ``value`` is of one of the ``types``, and its size at most ``bound``. Call with a
    finite bound only where the types are numbers or None.
    """
    return isinstance(value, types) and (bound == math.inf or value is None or abs(value) <= bound)  # type: ignore[arg-type]
