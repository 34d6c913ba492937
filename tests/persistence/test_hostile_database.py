"""A state directory that was copied from elsewhere: what its database says is read as data, in
bounded work, or refused.
"""

from __future__ import annotations

import os
import sqlite3
import struct
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from support.journals import write_journal

from bftrainer.errors import BFTrainerError, StateDirError, StoreError
from bftrainer.pilot.persistence.journal import last_state
from bftrainer.pilot.persistence.registry import Registry
from bftrainer.pilot.persistence.store import DB_NAME, open_store
from bftrainer.pilot.rerun import decide_again

ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n)"
JOURNAL = "number, at_s, settings, event, plan, answers, took_s"
LARGE = "UPDATE journal SET event = CAST(zeroblob(70000000) AS TEXT) WHERE number = 1;"


def written(folder: Path, script: str = "") -> Path:
    """A state directory with a recorded journal, changed by a script."""
    write_journal("bftrainer", folder)
    with closing(sqlite3.connect(folder / DB_NAME)) as database:
        database.executescript(f"PRAGMA ignore_check_constraints = ON; {script}")
        database.commit()
    return folder


def read_all(folder: Path) -> int:
    """What `replay journal`, `list`, `nodes`, `events` and `explain` read."""
    with closing(open_store(folder)) as store:
        registry = Registry(store)
        registry.trainers()
        registry.fragments()
        registry.notes()
        store.holder()
        last_state(store)
        return len(list(decide_again(store)))


def test_a_recorded_journal_is_read(tmp_path: Path) -> None:
    assert read_all(written(tmp_path / "state")) > 10


SCHEMAS = {
    "a view that never ends": "ALTER TABLE journal RENAME TO j; CREATE VIEW journal AS "
    f"{ENDLESS} SELECT x AS number, "
    "1.0 AS at_s, 1 AS settings, '' AS event, '' AS plan, '' AS answers, 1.0 AS took_s FROM n "
    "WHERE x < 0;",
    "a view of the version": f"DROP TABLE meta; CREATE VIEW meta AS {ENDLESS} SELECT max(x) AS "
    "format, "
    "'' AS written_by, 1 AS only_row FROM n;",
    "a trigger": "CREATE TRIGGER t AFTER UPDATE ON lease BEGIN DELETE FROM journal; END;",
    "a generated column": "ALTER TABLE journal RENAME TO j; CREATE TABLE journal (number "
    "INTEGER PRIMARY KEY, at_s REAL, "
    "settings INTEGER, event TEXT AS (hex(zeroblob(40000000))), plan TEXT, answers TEXT, "
    "took_s REAL);"
    f"INSERT INTO journal ({JOURNAL.replace('event, ', '')}) SELECT number, at_s, settings, "
    "plan, answers, took_s FROM j;"
    "DROP TABLE j;",
    "a virtual table": "CREATE VIRTUAL TABLE extra USING fts5(x);",
    "a missing table": "DROP TABLE notes;",
    "a missing column": "ALTER TABLE notes DROP COLUMN text;",
    "an unknown table": "CREATE TABLE more (x);",
    "a version that is a word": "DROP TABLE meta; CREATE TABLE meta (only_row INTEGER, "
    "format INTEGER, "
    "written_by TEXT); INSERT INTO meta VALUES (1, 'two', '0.1.0');",
    "no version": "DELETE FROM meta;",
    "a version of 1970": "UPDATE meta SET format = -1;",
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_schema_that_is_not_a_pilots_is_refused(tmp_path: Path, name: str) -> None:
    folder = written(tmp_path / "state", SCHEMAS[name])
    for create in (False, True):
        with pytest.raises(StateDirError) as error, closing(open_store(folder, create=create)):
            pass
        assert "\n" not in str(error.value)


VALUES = {
    "a time that is a word": "UPDATE fragments SET asked_s = 'never';",
    "a time that is a blob": "UPDATE notes SET at_s = x'00';",
    "an endless time": "UPDATE notes SET at_s = 9e999;",
    "the year 10,000": "UPDATE trainers SET submitted_s = 1e12;",
    "a number that is a word": "UPDATE trainers SET failures = 'many';",
    "text that is a number": "DROP TABLE lease; CREATE TABLE lease (only_row INTEGER, host, "
    "pid INTEGER, pid_started TEXT, "
    "job_id TEXT, started_s REAL, heartbeat_s REAL); INSERT INTO lease VALUES (1, 5, 1, 'x', "
    "'', 1.0, 1.0);",
    "text that is a blob": "UPDATE journal SET event = x'ff00';",
    "text that is not UTF-8": "UPDATE journal SET event = CAST(x'ff' AS TEXT);",
    "an event of 70 MB": LARGE,
    "a state that is unknown": "UPDATE trainers SET status = 'happy';",
    "a last state of an unknown class": (
        'UPDATE last_state SET state = replace(state, \'"$":"Active"\', \'"$":"Passive"\');'
    ),
    "a row of settings that is not there": (
        "PRAGMA foreign_keys = OFF; UPDATE journal SET settings = 99;"
    ),
    "nothing where something must be": "DROP TABLE notes; CREATE TABLE notes (number INTEGER "
    "PRIMARY KEY, at_s REAL, "
    "kind TEXT, subject TEXT, text TEXT); INSERT INTO notes VALUES (1, NULL, NULL, NULL, NULL);",
}


@pytest.mark.parametrize("name", VALUES)
def test_a_value_that_no_pilot_writes_is_an_error_of_one_line(tmp_path: Path, name: str) -> None:
    folder = written(tmp_path / "state", MORE_ROWS + VALUES[name])
    with pytest.raises(BFTrainerError) as error:
        read_all(folder)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 600


MORE_ROWS = (
    "INSERT INTO fragments (name, node, asked_s) VALUES ('n1#1', 'n1', 1.0);"
    "INSERT INTO notes (at_s, kind, subject, text) VALUES (1.0, 'x', '', '');"
    "INSERT INTO trainers (name, spec, owner, spool_name, submitted_s, status) VALUES ('zz', "
    "'{}', 'me', 'zz', 1.0, 'done');"
)


def shared_pages(path: Path, levels: int, rows: int = 20) -> None:
    """Notes of which every page above the leaves has a hundred times the same child: 100 ** levels
    times as many rows.
    """
    with closing(sqlite3.connect(path)) as database:
        for number in range(rows):
            database.execute(
                "INSERT INTO notes (at_s, kind, subject, text) VALUES (?, 'x', '', 'y')",
                (float(number),),
            )
        database.commit()
        (root,) = database.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = 'notes'"
        ).fetchone()
        (size,) = database.execute("PRAGMA page_size").fetchone()
    data = bytearray(path.read_bytes())
    pages = [data[at : at + size] for at in range(0, len(data), size)]
    pages.append(pages[root - 1])
    for _ in range(levels):
        cell = struct.pack(">IB", len(pages), rows)
        count = 100
        head = struct.pack(">BHHHBI", 5, 0, count, size - 5 * count, 0, len(pages))
        places = b"".join(struct.pack(">H", size - 5 * (n + 1)) for n in range(count))
        pages.append(bytearray((head + places).ljust(size - 5 * count, b"\0") + cell * count))
    pages[root - 1] = pages.pop()
    data = bytearray(b"".join(bytes(page) for page in pages))
    data[28:32] = struct.pack(">I", len(pages))
    path.write_bytes(bytes(data))


def test_pages_that_share_their_children_end(tmp_path: Path) -> None:
    folder = written(tmp_path / "state")
    shared_pages(folder / DB_NAME, levels=6)
    with closing(open_store(folder)) as store:
        with pytest.raises(StoreError, match="yields more than the file has"):
            store.read("SELECT * FROM notes")
        with pytest.raises(StoreError, match="cannot be read"):
            store.read("SELECT * FROM notes WHERE subject = 'z'")


def hot_journal(path: Path, names: Path) -> None:
    """A rollback journal that SQLite rolls back when it opens the database, and then deletes the
    file that it names.
    """
    data = path.read_bytes()
    size = struct.unpack(">H", data[16:18])[0]
    head = bytes.fromhex("d9d505f920a163d7") + struct.pack(
        ">5I", 1, 0, len(data) // size, 512, size
    )
    checksum = sum(data[place] for place in range(size - 200, 0, -200))
    page = struct.pack(">I", 1) + data[:size] + struct.pack(">I", checksum)
    name = str(names).encode()
    ending = (
        struct.pack(">I", (1 << 30) // size + 1) + name + struct.pack(">II", len(name), sum(name))
    )
    journal = path.with_name(f"{path.name}-journal")
    journal.write_bytes(head.ljust(512, b"\0") + page + ending + bytes.fromhex("d9d505f920a163d7"))


@pytest.mark.parametrize("create", [False, True])
def test_a_journal_that_names_another_file_deletes_nothing(tmp_path: Path, create: bool) -> None:
    mine = tmp_path / "thesis.tex"
    mine.write_text("all my work")
    folder = written(tmp_path / "state")
    hot_journal(folder / DB_NAME, mine)
    with (
        pytest.raises(StateDirError, match="names another file"),
        closing(open_store(folder, create=create)),
    ):
        pass
    assert mine.read_text() == "all my work"  # SQLite 3.40.1 by itself deletes it


def _pipe(folder: Path) -> None:
    (folder / DB_NAME).unlink()
    os.mkfifo(folder / DB_NAME)


def _pipe_as_journal(folder: Path) -> None:
    os.mkfifo(folder / f"{DB_NAME}-journal")


@pytest.mark.parametrize("change", [_pipe, _pipe_as_journal])
def test_a_pipe_is_not_opened(tmp_path: Path, change: Callable[[Path], None]) -> None:
    folder = written(tmp_path / "state")
    change(folder)
    with pytest.raises(StateDirError), closing(open_store(folder)):
        pass
