"""Recorded journals, and journals of policies that are not ours, decided again."""

from __future__ import annotations

import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from support.journals import JOURNALS, journal_script, write_database, write_journal
from support.live_house import house, spec
from support.ran import python

from bftrainer.decide.domain.state import Active, ClassMemories, State
from bftrainer.decide.policies.cohort import Cohorts
from bftrainer.decide.policies.gather import GatheringArrivals
from bftrainer.decide.policies.guard import StarvationClock
from bftrainer.errors import InvalidValueError
from bftrainer.pilot.explain import explain
from bftrainer.pilot.persistence import codec
from bftrainer.pilot.persistence.journal import entries, last_state
from bftrainer.pilot.persistence.store import DB_NAME, open_store
from bftrainer.pilot.rerun import decide_again, decisions_with_states
from bftrainer_papers.policies.flowcon import Lists
from bftrainer_papers.policies.loss_phase import TrainingPhase


@pytest.mark.parametrize("name", JOURNALS)
def test_its_decisions_are_made_again_and_its_rows_are_written_the_same(
    name: str, tmp_path: Path
) -> None:
    with closing(open_store(write_journal(name, tmp_path / "state"))) as store:
        verdicts = list(decide_again(store))
        assert len(verdicts) > 10
        assert [v for v in verdicts if v.differs] == []
        for row in store.read("SELECT event, plan, answers FROM journal"):
            assert [codec.dumps(codec.loads(text)) for text in row] == list(row)
        for row in store.read("SELECT state FROM last_state"):
            assert codec.dumps(codec.loads(row["state"])) == row["state"]


def states_of(name: str, folder: Path) -> Iterator[State]:
    """The state before each decision of a recorded journal."""
    with closing(open_store(write_journal(name, folder))) as store:
        yield from (state for _, state in decisions_with_states(store))


def test_every_kind_of_memory_and_measurements_are_among_them(tmp_path: Path) -> None:
    *_, learning = states_of("bftrainer-learning", tmp_path / "learning")
    assert any(measured.points for _, measured in learning.measurements)
    assert all(isinstance(a, Active) and a.submitted is not None for a in learning.active)
    *_, by_class = states_of("flowcon-guarded-classes", tmp_path / "classes")
    assert isinstance(by_class.memory, ClassMemories)
    clocks = dict(by_class.memory.by_class)
    for name in ("fast", "slow"):
        assert isinstance(clocks[name], StarvationClock)
        assert isinstance(clocks[name].inner, Lists)
    memories = [state.memory for state in states_of("loss-phase", tmp_path / "phase")]
    assert any(isinstance(memory, GatheringArrivals) for memory in memories)
    assert any(isinstance(memory, TrainingPhase) for memory in memories)
    *_, cohort = states_of("cohort", tmp_path / "cohort")
    assert isinstance(cohort.memory, Cohorts)


THEIRS = '''
"""A policy of another package: first come, first served, and a count of its decisions."""
from dataclasses import dataclass
from bftrainer.decide.domain.sizes import largest_legal
from bftrainer.decide.domain.state import Decision

@dataclass(frozen=True)
class Tally:
    decisions: int = 0

@dataclass(frozen=True)
class Counting:
    name: str = "counting"

    def decide(self, state, event):
        tally = state.memory if isinstance(state.memory, Tally) else Tally()
        free, counts = len(state.pool), []
        for active in state.active:
            counts.append(largest_legal(active.trainer, free))
            free -= counts[-1]
        return Decision(tuple(counts)), Tally(tally.decisions + 1)
'''


def replayed(state: Path, cwd: Path, *more: str) -> subprocess.CompletedProcess[str]:
    return python("-m", "bftrainer", "replay", "journal", state, *more, cwd=cwd)


def test_memories_of_another_packages_policy_are_read_where_the_policy_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = f"theirs_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{module}.py").write_text(THEIRS)
    monkeypatch.syspath_prepend(tmp_path)
    policy = f"{module}:Counting"
    home = house(tmp_path / "state", decisions={"policy": f"{policy}?guard_hours=1"})
    home.cluster.give("n1", "n2")
    home.submit(spec("a", max_nodes=2))
    home.pilot(5)
    home.pilot(5)
    with closing(home.store()) as store:
        assert not any(v.differs for v in decide_again(store, [policy]))
        state = last_state(store)
        assert isinstance(state.memory, StarvationClock)
        assert state.memory.inner.decisions > 2  # type: ignore[attr-defined]
        assert explain(store, "a", may_import=[policy]).share.after == 2
    proved = replayed(tmp_path / "state", tmp_path, "--import", policy)
    assert (proved.returncode, proved.stderr) == (0, "")
    assert "0 differ" in proved.stdout
    refused = replayed(tmp_path / "state", tmp_path)
    assert refused.returncode == 2
    assert f"allow it with --import {policy}" in refused.stderr
    # A command that does not look at memories needs no policy.
    shown = python("-m", "bftrainer", "events", "--state", tmp_path / "state", cwd="/", check=True)
    assert "decision" in shown.stdout


def test_a_journal_that_names_a_foreign_class_is_refused_in_one_line(tmp_path: Path) -> None:
    script = journal_script("loss-phase").replace(
        '"bftrainer_papers.policies.loss_phase:TrainingPhase"', '"subprocess:Popen"'
    )
    with closing(open_store(write_database(script, tmp_path / "state"))) as store:
        with pytest.raises(InvalidValueError, match="subprocess:Popen"):
            list(decide_again(store))
        assert any(isinstance(e.plan.memory, codec.Unread) for e in entries(store))
    refused = replayed(tmp_path / "state", tmp_path)
    assert refused.returncode == 2
    assert refused.stderr.splitlines() == [
        "bftrainer: the journal names a class 'subprocess:Popen', which is not an allowed class"
    ]


@pytest.mark.parametrize("column", ["policy", "objective"])
def test_no_module_is_imported_because_a_row_names_it(tmp_path: Path, column: str) -> None:
    state, mark = write_journal("bftrainer", tmp_path / "state"), tmp_path / "imported"
    code = f"import pathlib; pathlib.Path({str(mark)!r}).touch()\ndef f(*args): raise OSError\n"
    (tmp_path / "evil.py").write_text(code)
    with closing(sqlite3.connect(state / DB_NAME)) as database:
        database.execute(f"UPDATE settings SET {column} = 'evil:f'")
        database.commit()
    refused = replayed(state, tmp_path)
    assert not mark.exists()
    assert refused.returncode == 2
    assert "'evil:f', which is code outside of bftrainer" in refused.stderr
    with (
        closing(open_store(state)) as store,
        pytest.raises(InvalidValueError, match="allow it with --import evil:f"),
    ):
        explain(store, "a")
    replayed(state, tmp_path, "--import", "evil:f")
    assert mark.exists(), "what the user allows is imported"
