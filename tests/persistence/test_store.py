"""The store: one writer, durable or nothing, schema versions."""

from __future__ import annotations

import math
import os
import resource
import sqlite3
import threading
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from support.live_house import spec
from support.ran import python

from bftrainer.decide.core.coordinator import decide, observe
from bftrainer.decide.domain.events import Event
from bftrainer.decide.domain.measurements import Measurements, RatePoint
from bftrainer.decide.domain.state import Active, Losses, State
from bftrainer.decide.policies.equal_share import EqualShare
from bftrainer.errors import LeaseLostError, StateDirError, StoreError
from bftrainer.pilot.persistence import store
from bftrainer.pilot.persistence.journal import JournalWriter, Settings, entries
from bftrainer.pilot.persistence.registry import Registry, Submission
from bftrainer.pilot.persistence.registry_writer import RegistryWriter
from bftrainer.pilot.persistence.spool import open_state_dir
from bftrainer.pilot.persistence.store import DB_NAME, Store, open_store
from bftrainer.pilot.persistence.usable import usable
from bftrainer.system.processes import ProcessId, this_process

GONE = ProcessId(2**22, "1@never")
OTHER_HOST = "INSERT OR REPLACE INTO lease VALUES (1, 'elsewhere', 7, '1@boot', ?, 0, ?)"


def opened(path: Path, process: ProcessId | None = None, now_s: float = 0.0) -> Store:
    it = open_store(path, create=True)
    it.take_lease(process or this_process(), "", now_s, 60.0, lambda _: None)
    return it


def test_a_live_process_keeps_others_off_and_a_dead_one_does_not(tmp_path: Path) -> None:
    held, second = opened(tmp_path), open_store(tmp_path, create=True)
    with (
        closing(held),
        closing(second),
        pytest.raises(StateDirError, match=f"in use by the pilot with pid {os.getpid()}"),
    ):
        second.take_lease(GONE, "", 1e9, 60.0, lambda _: None)
    with closing(open_store(tmp_path, create=True)) as third:
        third._connection.execute("UPDATE lease SET pid_started = 'another@boot'")
        assert third.take_lease(GONE, "", 0.0, 60.0, lambda _: None) is not None


def test_who_reads_while_the_first_pilot_begins_finds_no_database_or_a_whole_one(
    tmp_path: Path,
) -> None:
    folders = [tmp_path / str(number) for number in range(20)]
    said: set[str] = set()

    def read() -> None:
        for folder in folders:
            while True:
                try:
                    open_store(folder).close()
                    break
                except StateDirError as error:
                    said.add(str(error).partition("(")[0].replace(str(folder), ""))

    for folder in folders:
        folder.mkdir()
    reader = threading.Thread(target=read)
    reader.start()
    for folder in folders:
        open_store(folder, create=True).close()
        assert [path.name for path in folder.iterdir()] == [DB_NAME]
    reader.join()
    assert said <= {": no pilot has run here "}


@pytest.mark.parametrize(
    ("job", "gone", "heartbeat_s", "taken"),
    [
        ("12", True, 99.0, True),
        ("12", False, -1e9, False),
        ("12", None, -1e9, False),
        ("", None, 99.0, False),
        ("", None, -100.0, True),
    ],
)
def test_a_pilot_on_another_host(
    tmp_path: Path, job: str, gone: bool | None, heartbeat_s: float, taken: bool
) -> None:
    with closing(open_store(tmp_path, create=True)) as it:
        it._connection.execute(OTHER_HOST, (job, heartbeat_s))
        if taken:
            it.take_lease(this_process(), "", 100.0, 60.0, lambda _: gone)
        else:
            with pytest.raises(StateDirError, match="elsewhere"):
                it.take_lease(this_process(), "", 100.0, 60.0, lambda _: gone)


def test_a_job_that_was_requeued_to_another_host_is_not_kept_off_by_its_former_self(
    tmp_path: Path,
) -> None:
    with closing(open_store(tmp_path, create=True)) as it:
        it._connection.execute(OTHER_HOST, ("12", 99.0))
        it.take_lease(this_process(), "12", 100.0, 60.0, lambda _: False)


def test_who_lost_the_lease_writes_nothing_more(tmp_path: Path) -> None:
    with closing(opened(tmp_path)) as first, closing(open_store(tmp_path, create=True)) as second:
        second._connection.execute(OTHER_HOST, ("", 0.0))
        with pytest.raises(LeaseLostError):
            RegistryWriter(first).note(0.0, "kind", "", "text")
        assert Registry(second).notes() == ()


def test_a_newer_schema_is_refused_and_an_older_one_is_migrated_after_a_backup(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(tmp_path).close()
    now = store.SCHEMA_VERSION
    monkeypatch.setattr(store, "SCHEMA_VERSION", now + 1)
    migration = "INSERT INTO notes (at_s, kind, subject, text) VALUES (1, 'migrated', '', '');"
    monkeypatch.setitem(store.MIGRATIONS, now, migration)
    with pytest.raises(StateDirError, match=f"has schema {now}, expected {now + 1}"):
        open_store(tmp_path)
    with closing(open_store(tmp_path, create=True)) as it:
        assert [note.kind for note in Registry(it).notes()] == ["migrated"]
    with closing(sqlite3.connect(tmp_path / f"{DB_NAME}.schema-{now}")) as backup:
        assert backup.execute("SELECT schema_version FROM meta").fetchone() == (now,)
    monkeypatch.setattr(store, "SCHEMA_VERSION", now)
    with pytest.raises(StateDirError, match="expected the same or a newer version"):
        open_store(tmp_path, create=True)


def test_the_first_schema_becomes_todays_and_keeps_its_trainers(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / DB_NAME)) as old:
        old.executescript(
            (Path(__file__).parents[1] / "recorded" / "store" / "schema-1.sql").read_text()
        )
        old.execute("INSERT INTO meta VALUES (1, 1, '0.1.0')")
        old.execute(
            "INSERT INTO trainers (name, spec, owner, spool_name, submitted_s, status, failures) "
            "VALUES ('a', ?, 'me', '1.json', 1.0, 'queued', 3)",
            (spec("a").model_dump_json(),),
        )
        old.commit()
    (tmp_path / "new").mkdir()

    def shape(it: Store) -> list[tuple[object, ...]]:
        names = [
            row["name"]
            for row in it.read("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
        ]
        columns = (it.read(f"PRAGMA table_info({name})") for name in names)
        return sorted(
            (n, c["name"], c["type"], c["notnull"], c["dflt_value"])
            for n, t in zip(names, columns, strict=True)
            for c in t
        )

    with closing(opened(tmp_path)) as migrated, closing(opened(tmp_path / "new")) as fresh:
        assert shape(migrated) == shape(fresh)
        (trainer,) = Registry(migrated).trainers()
        assert (trainer.name, trainer.failures, trainer.samples_at_failure) == ("a", 3, None)


def test_a_failed_migration_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(tmp_path).close()
    now = store.SCHEMA_VERSION
    monkeypatch.setattr(store, "SCHEMA_VERSION", now + 1)
    monkeypatch.setitem(store.MIGRATIONS, now, "CREATE TABLE fresh (x); SELECT no_such_function();")
    with pytest.raises(StoreError):
        open_store(tmp_path, create=True)
    monkeypatch.setattr(store, "SCHEMA_VERSION", now)
    with closing(open_store(tmp_path)) as it:
        assert it.read("SELECT count(*) AS n FROM sqlite_master WHERE name = 'fresh'")[0]["n"] == 0


def test_rollback_journal_whose_removal_is_synchronised(tmp_path: Path) -> None:
    with closing(opened(tmp_path)) as it:
        assert it.read("PRAGMA journal_mode")[0][0] == "delete"
        assert it.read("PRAGMA synchronous")[0][0] == 3, "EXTRA"


FULL = """
import resource, sys
from pathlib import Path
from bftrainer.errors import StoreError
from bftrainer.system.processes import this_process
from bftrainer.pilot.persistence.registry_writer import RegistryWriter
from bftrainer.pilot.persistence.store import open_store
store = open_store(Path(sys.argv[1]), create=True)
store.take_lease(this_process(), "", 0.0, 60.0, lambda _: None)
registry = RegistryWriter(store)
registry.note(0.0, "before", "", "x")
size = Path(sys.argv[1], "pilot.db").stat().st_size
resource.setrlimit(resource.RLIMIT_FSIZE, (size + 4096, resource.RLIM_INFINITY))
try:
    for i in range(100):
        registry.note(float(i), "filling", str(i), "x" * 1000)
        print(i, flush=True)
except StoreError as error:
    print("refused", error)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
registry.note(0.0, "after", "", "y")
"""


def test_a_full_disk_refuses_the_write_and_keeps_what_was_written(tmp_path: Path) -> None:
    ended = python("-c", FULL, tmp_path, check=True)
    *written, refused = ended.stdout.splitlines()
    assert refused.startswith("refused")
    assert "cannot be written (note)" in refused
    with closing(open_store(tmp_path)) as it:
        kinds = [n.kind for n in Registry(it).notes(1000)]
    assert kinds == ["before", *(["filling"] * len(written)), "after"], (
        "all that was confirmed, and nothing else"
    )
    assert resource.getrlimit(resource.RLIMIT_FSIZE)


def test_the_same_submission_twice_is_one_and_a_taken_name_is_refused(tmp_path: Path) -> None:
    with closing(opened(tmp_path)) as it:
        writer = RegistryWriter(it)
        assert writer.add_all([Submission(spec("a"), "me", "1.json")], 1.0) == (True,)
        again = Submission(spec("a"), "me", "1.json")  # the pilot died before it took the file away
        assert writer.add_all([again, Submission(spec("a", max_nodes=2), "me", "2.json")], 2.0) == (
            True,
            False,
        )
        assert [(t.name, t.submitted_s) for t in Registry(it).trainers()] == [("a", 1.0)]


def test_text_that_is_no_unicode_is_noted(tmp_path: Path) -> None:
    """A file name in the spool, or half a surrogate pair in JSON."""
    with closing(opened(tmp_path)) as it:
        RegistryWriter(it).note(0.0, "spool", "\udcff.json", "\ud800")
        assert [(n.subject, n.text) for n in Registry(it).notes()] == [("\\udcff.json", "\\ud800")]


def test_a_state_with_what_was_no_number_is_made_usable() -> None:
    trainer = spec("a").trainer()
    bad = Measurements(
        (RatePoint(1, (math.inf,), 1.0, math.inf), RatePoint(2, (1.0,), 1.0, 1.0)), (math.nan, 2.0)
    )
    good = Active(trainer, samples_done=5.0, losses=Losses(1.0, 2.0, 3.0))
    state = State(2, active=(good,), memory=(1,))
    assert usable(state) is state
    ill = Active(trainer, samples_done=math.inf, losses=Losses(1.0, math.nan, 3.0))
    assert usable(replace(state, active=(good, ill), measurements=(("k", bad),))) == State(
        2,
        active=(good, Active(trainer)),
        measurements=(("k", Measurements((RatePoint(2, (1.0,), 1.0, 1.0),), (2.0,))),),
    )


# --- A journal that is read while its pilot writes


def test_settings_that_begin_while_the_journal_is_read(tmp_path: Path) -> None:
    with closing(open_store(open_state_dir(tmp_path / "state", create=True), create=True)) as store:
        store.take_lease(this_process(), "", 0.0, 60.0, lambda _: None)
        journal, policy, state = JournalWriter(store), EqualShare(), State(1)

        def row(at_s: float) -> None:
            journal.begin(Settings("equal-share", "exact", "throughput", at_s, 0, 1), at_s)
            event = Event(at_s, ())
            journal.record(event, observe(state, event), decide(state, policy, event), (), 0.0)

        row(1.0)
        reading = entries(store)
        read = [next(reading)]
        row(2.0)
        read += reading
    assert [entry.settings.forward_s for entry in read] == [1.0, 2.0]
