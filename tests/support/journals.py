"""The recorded journals as state directories."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from bftrainer.pilot.persistence.store import DB_NAME

RECORDED = Path(__file__).parents[1] / "recorded" / "journal"
JOURNALS = sorted(path.stem for path in RECORDED.glob("*.sql"))


def journal_script(name: str) -> str:
    """The SQL that makes the database of a recorded journal."""
    return (RECORDED / f"{name}.sql").read_text(encoding="utf-8")


def write_journal(name: str, folder: Path) -> Path:
    """Make a state directory with a recorded journal. Returns the folder."""
    return write_database(journal_script(name), folder)


def write_database(script: str, folder: Path) -> Path:
    """Make a state directory whose database a script makes. Returns the folder."""
    folder.mkdir(mode=0o700, exist_ok=True)
    with closing(sqlite3.connect(folder / DB_NAME)) as database:
        database.executescript(script)
        database.commit()
    return folder
