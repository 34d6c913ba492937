"""A journal that is read while its pilot writes."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from bftrainer.core.coordinator import decide, observe
from bftrainer.domain.events import Event
from bftrainer.domain.state import State
from bftrainer.persistence.journal import JournalWriter, Settings, entries
from bftrainer.persistence.spool import open_state_dir
from bftrainer.persistence.store import open_store
from bftrainer.policies.equal_share import EqualShare
from bftrainer.system.processes import this_process


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
