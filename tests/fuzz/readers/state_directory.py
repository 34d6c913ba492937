"""What survives a crash: the journal and the spool."""

from __future__ import annotations

import functools
import json
import re
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

from fuzz.readers.reader import Reader, of_file
from support.command_line import bftrainer
from support.journals import JOURNALS, journal_script, write_journal

from bftrainer.errors import BFTrainerError, UserError

AUDIT = (
    b'{"at_s": 1.5, "decision": 8, "place": 0, "result": "equal", "solver": "highs", "value": 1885.7, "optimum": 1885.7, '
    b'"reason": "", "took_s": 0.02, "totals": {"equal": 8, "differing": 0, "skipped": {"too large in 10 s": 3}}}\n'
)
_SETTINGS = ("policy", "solver", "objective", "forward_s", "seed", "max_parallel", "gather_s")


@functools.cache
def _journals() -> list[tuple[dict[str, object], list[sqlite3.Row]]]:
    """The settings and the rows of each recorded journal."""
    journals = []
    for name in JOURNALS:
        with closing(sqlite3.connect(":memory:")) as database:
            database.row_factory = sqlite3.Row
            database.executescript(journal_script(name))
            row = database.execute(f"SELECT {', '.join(_SETTINGS)} FROM settings").fetchone()
            journals.append((dict(row), database.execute("SELECT * FROM journal").fetchall()))
    return journals


def _row_samples() -> Iterator[bytes]:
    for _, rows in _journals():
        for row in rows[1:12:5]:
            for column in ("event", "plan", "answers"):
                yield row[column].encode()
    yield _answer_with_fallbacks()


def _answer_with_fallbacks() -> bytes:
    from bftrainer.decide.domain.problem import Answer, Fallback, Status
    from bftrainer.errors import Reason
    from bftrainer.pilot.persistence import codec

    fallbacks = (
        Fallback("gurobi", Reason.NO_LICENSE, "no license"),
        Fallback("highs", Reason.TIME_LIMIT, "no optimum within 0.1 s"),
    )
    return codec.dumps((Answer((1, 2), 3.0, "exact", Status.OPTIMAL, 0.1, fallbacks),)).encode()


def _journal_row(data: bytes, folder: Path) -> None:
    from bftrainer.pilot.persistence import codec

    text = data.decode("utf-8", "replace")
    for strict in (False, True):
        codec.dumps(codec.loads(text, strict=strict))


def _journal_samples() -> Iterator[bytes]:
    """The rows of a journal, for :func:`_journal`: a JSON object with the settings and a list of
    [at_s, event, plan, answers].
    """
    for settings, journal in _journals():
        rows = [
            [row["at_s"], *(json.loads(row[column]) for column in ("event", "plan", "answers"))]
            for row in journal[:6]
        ]
        yield json.dumps({"settings": settings, "rows": rows}).encode()


def _journal(data: bytes, folder: Path) -> None:
    """A foreign pilot.db, decided again and explained."""
    from bftrainer.pilot.explain import explain
    from bftrainer.pilot.persistence.store import DB_NAME, open_store
    from bftrainer.pilot.rerun import decide_again, decisions_with_states

    try:
        document = json.loads(data)
        settings, rows = dict(document["settings"]), list(document["rows"])
    except (ValueError, TypeError, KeyError, RecursionError):
        return
    state = folder / "state"
    shutil.rmtree(state, ignore_errors=True)
    write_journal("bftrainer", state)
    with closing(sqlite3.connect(state / DB_NAME)) as database:
        database.executescript("DELETE FROM journal; DELETE FROM last_state; DELETE FROM states;")
        with suppress(sqlite3.Error, TypeError, OverflowError, RecursionError, ValueError):
            for key, value in settings.items():
                if key in _SETTINGS:
                    database.execute(f"UPDATE settings SET {key} = ?", (value,))
            for number, row in enumerate(rows, start=1):
                at_s, *texts = row
                values = [json.dumps(each) for each in texts]
                database.execute(
                    "INSERT INTO journal VALUES (?, ?, 1, ?, ?, ?, 0.1)", (number, at_s, *values)
                )
        database.commit()
    with closing(open_store(state)) as store:
        list(decide_again(store))
        for entry, seen in list(decisions_with_states(store)):
            for active in seen.active[:1]:
                explain(store, active.trainer.id, entry.event.at_s)


_COMMANDS = (
    ("list", "--all"),
    ("nodes",),
    ("events",),
    ("show", "a"),
    ("explain", "a"),
    ("results",),
)


@functools.cache
def _tables() -> dict[str, list[list[object]]]:
    """The rows of a small registry, for :func:`_registry`: a JSON object with a list of rows for
    each table.
    """
    spec = json.loads(_spool_sample())["spec"]
    with closing(sqlite3.connect(":memory:")) as database:
        database.executescript(journal_script("bftrainer"))
        names = [
            row[0]
            for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        ]
        found = {
            name: [list(row) for row in database.execute(f"SELECT * FROM {name} LIMIT 3")]
            for name in names
            if name not in ("meta", "states")
        }
    now_s = 1.79e9
    found["trainers"] = [
        _trainer_row(
            1, spec, "running", admitted_s=now_s, started_s=now_s, samples_done=1e6, held_node_s=9.0
        ),
        _trainer_row(
            2,
            {**spec, "name": "b"},
            "queued",
            failures=1,
            samples_at_failure=5.0,
            not_before_s=now_s,
        ),
    ]
    found["fragments"] = [
        [1, "n1#1", "n1", now_s, now_s, None, None, ""],
        [2, "n2#1", "n2", now_s, None, now_s, now_s, "gone"],
    ]
    found["notes"] = [
        [1, now_s, "pilot", "", "started with pid 1"],
        [2, now_s, "refused", "a", "no such file"],
    ]
    found["lease"] = [[1, "host", 1, "1", "", now_s, now_s]]
    return found


def _trainer_row(
    number: int, spec: dict[str, object], status: str, **values: object
) -> list[object]:
    from bftrainer.pilot.persistence.database_checks import columns

    known = {
        "number": number,
        "name": spec["name"],
        "spec": json.dumps(spec),
        "owner": "me",
        "spool_name": f"{number}.json",
        "submitted_s": 1.79e9,
        "status": status,
        "reason": "",
        "samples_done": 0.0,
        "failures": 0,
        "not_before_s": 0.0,
        "ended_incarnation": 0,
        "held_node_s": 0.0,
        "trained_node_s": 0.0,
        "stalled_node_s": 0.0,
        "repeated_samples": 0.0,
    }
    return [(known | values).get(column) for column in columns()["trainers"]]


def _registry(data: bytes, folder: Path) -> None:
    """A foreign pilot.db without its constraints, as the commands show it."""
    from bftrainer.pilot.persistence.store import DB_NAME

    try:
        document = json.loads(data)
        rows = [
            (name, list(row))
            for name, listed in document.items()
            for row in listed
            if name in _tables()
        ]
    except (ValueError, TypeError, AttributeError, RecursionError):
        return
    state = folder / "state"
    shutil.rmtree(state, ignore_errors=True)
    state.mkdir(mode=0o700)
    with closing(sqlite3.connect(state / DB_NAME)) as database:
        script = journal_script("bftrainer")
        database.executescript(re.sub(r" (NOT NULL|UNIQUE|CHECK \([^)]*\))", "", script))
        for name in _tables():
            database.execute(f"DELETE FROM {name}")
        for name, values in rows:
            values = [
                json.dumps(each) if isinstance(each, (list, dict)) else each for each in values
            ]
            with suppress(sqlite3.Error, OverflowError, ValueError):
                database.execute(
                    f"INSERT INTO {name} VALUES ({', '.join('?' * len(values))})", values
                )
        database.commit()
    refused = ""
    for command in _COMMANDS:
        ended = bftrainer(*command, "--state", state)
        assert ended.status in (0, 1, 2), ended
        assert ended.status == 0 or len(ended.err.splitlines()) == 1, ended
        refused = refused or ended.err
    if refused:
        raise UserError(refused.splitlines()[0])


def _spool_sample() -> bytes:
    from bftrainer.config.trainer_file import TrainerSpec
    from bftrainer.config.validation import check_table
    from bftrainer.pilot.persistence.spool import Request, RequestKind

    table = {
        "name": "a",
        "command": ["true"],
        "max_nodes": 4,
        "samples_per_s": 10.0,
        "env": {"A": "1"},
        "cwd": "/",
    }
    spec = check_table(table, TrainerSpec, "sample")
    return Request(kind=RequestKind.SUBMIT, trainer="a", spec=spec).model_dump_json().encode()


def _spool(data: bytes, folder: Path) -> None:
    from bftrainer.pilot.persistence.spool import Spool

    (folder / "spool").mkdir(exist_ok=True)
    (folder / "spool" / "1.json").write_bytes(data)
    (received,) = Spool(folder).pending()
    assert received.request is not None or "\n" not in received.rejection
    if received.request is not None and received.request.spec is not None:
        received.request.spec.trainer()


def _audit(path: Path) -> None:
    from bftrainer.pilot.audit.totals import read_totals

    totals = read_totals(path.parent)
    if totals is None:
        raise UserError("no totals")
    assert len(str(totals)) < 10_000


def readers() -> Iterator[Reader]:
    """The readers of a state directory."""
    yield Reader("journal row", _journal_row, tuple(_row_samples()), is_json=True)
    yield Reader("journal", _journal, tuple(_journal_samples()), is_json=True, clean=BFTrainerError)
    yield Reader("audit", of_file(_audit, "audit.jsonl"), (AUDIT,), is_json=True)
    yield Reader("registry", _registry, (json.dumps(_tables()).encode(),), is_json=True)
    yield Reader(
        "spool", _spool, (_spool_sample(), b'{"kind": "cancel", "trainer": "a"}'), is_json=True
    )
