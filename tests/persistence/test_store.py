"""The store: one writer, durable or nothing, one format."""

from __future__ import annotations

import os
import resource
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest
from support.live_house import spec
from support.ran import python

from bftrainer import __version__
from bftrainer.decide.core.coordinator import decide, observe
from bftrainer.decide.domain.events import Event
from bftrainer.decide.domain.state import State
from bftrainer.decide.policies.equal_share import EqualShare
from bftrainer.errors import LeaseLostError, StateDirError
from bftrainer.pilot.persistence.journal import JournalWriter, Settings, entries
from bftrainer.pilot.persistence.registry import Registry, Submission
from bftrainer.pilot.persistence.registry_writer import RegistryWriter
from bftrainer.pilot.persistence.spool import open_state_dir
from bftrainer.pilot.persistence.store import DB_NAME, Store, open_store
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


OTHER_FORMATS = {
    "a later format": "UPDATE meta SET format = 2, written_by = '9.0';",
    "an unreleased one": "DROP TABLE meta; CREATE TABLE meta (only_row INTEGER PRIMARY KEY, "
    "schema_version INTEGER NOT NULL, written_by TEXT NOT NULL); "
    "INSERT INTO meta VALUES (1, 2, '0.1.0');",
    "a column of tomorrow": "ALTER TABLE trainers ADD COLUMN more REAL;",
}


@pytest.mark.parametrize("name", OTHER_FORMATS)
@pytest.mark.parametrize("create", [False, True])
def test_another_format_is_refused_in_one_line_that_says_what_to_do(
    tmp_path: Path, name: str, create: bool
) -> None:
    opened(tmp_path).close()
    with closing(sqlite3.connect(tmp_path / DB_NAME)) as database:
        database.executescript(OTHER_FORMATS[name])
    before = (tmp_path / DB_NAME).read_bytes()
    with pytest.raises(StateDirError) as refused:
        open_store(tmp_path, create=create)
    (line,) = str(refused.value).splitlines()
    assert f"expected format 1 of bftrainer {__version__}; let the bftrainer that wrote it" in line
    assert line.endswith("finish its trainers, then specify a new --state")
    assert (tmp_path / DB_NAME).read_bytes() == before


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
