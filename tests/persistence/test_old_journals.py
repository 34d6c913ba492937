"""Journals that the version before wrote, and journals of policies that are not ours, decided
again.
"""

from __future__ import annotations

import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest
from support.live_house import house, spec
from support.ran import python

from bftrainer.decide.domain.state import Active, State
from bftrainer.decide.policies.guard import StarvationClock
from bftrainer.errors import InvalidValueError, Reason
from bftrainer.pilot.explain import explain
from bftrainer.pilot.persistence import codec
from bftrainer.pilot.persistence.journal import entries, last_state
from bftrainer.pilot.persistence.registry import TrainerStatus
from bftrainer.pilot.persistence.store import DB_NAME, Store, open_store
from bftrainer.pilot.rerun import decide_again
from bftrainer_papers.policies.flowcon import Lists
from bftrainer_papers.policies.loss_phase import TrainingPhase

RECORDED = sorted((Path(__file__).parents[1] / "recorded" / "journal-before").glob("*.sql"))


def restored(path: Path, folder: Path) -> Store:
    """A state directory with this journal."""
    folder.mkdir(mode=0o700, exist_ok=True)
    with closing(sqlite3.connect(folder / DB_NAME)) as database:
        database.executescript(path.read_text())
    return open_store(folder)


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_its_decisions_are_made_again_and_its_rows_are_written_the_same(
    path: Path, tmp_path: Path
) -> None:
    with closing(restored(path, tmp_path)) as store:
        verdicts = list(decide_again(store))
        assert len(verdicts) > 10
        assert [v for v in verdicts if v.differs] == []
        for row in store.read("SELECT event, plan, answers FROM journal"):
            assert [codec.dumps(codec.loads(text)) for text in row] == list(row)
        for row in store.read("SELECT state FROM last_state"):
            assert codec.dumps(codec.loads(row["state"])) == row["state"]


def last(name: str, folder: Path) -> State:
    (path,) = (path for path in RECORDED if path.stem == name)
    with closing(restored(path, folder)) as store:
        state = last_state(store)
    assert state is not None
    return state


def test_memories_measurements_and_fallbacks_are_among_them(tmp_path: Path) -> None:
    state = last("bftrainer-learning", tmp_path / "learning")
    assert any(
        key.startswith("model stepper of ") and known.points for key, known in state.measurements
    )
    assert all(isinstance(a, Active) and a.submitted is not None for a in state.active)
    memory = last("flowcon-guarded-classes", tmp_path / "classes").memory
    for name in ("fast", "slow"):
        clock = dict(memory.by_class)[name]
        assert isinstance(clock, StarvationClock)
        assert isinstance(clock.inner, Lists)
    assert isinstance(last("loss-phase", tmp_path / "phase").memory, TrainingPhase)
    (path,) = (path for path in RECORDED if path.stem == "bftrainer-no-license")
    with closing(restored(path, tmp_path / "license")) as store:
        reasons = {
            f.reason
            for entry in entries(store)
            for answer in entry.answers
            for f in answer.fallbacks
        }
    assert reasons == {Reason.NO_LICENSE, Reason.TIME_LIMIT}


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
    (path,) = (path for path in RECORDED if path.stem == "loss-phase")
    text = path.read_text().replace('"bftrainer.policies.loss_phase:Phase"', '"subprocess:Popen"')
    (tmp_path / "foreign.sql").write_text(text)
    with closing(restored(tmp_path / "foreign.sql", tmp_path / "state")) as store:
        with pytest.raises(InvalidValueError, match="subprocess:Popen"):
            list(decide_again(store))
        assert isinstance(next(entries(store)).plan.memory, codec.Unread)
    refused = replayed(tmp_path / "state", tmp_path)
    assert refused.returncode == 2
    assert refused.stderr.splitlines() == [
        "bftrainer: the journal names a class 'subprocess:Popen', which is not an allowed class"
    ]


@pytest.mark.parametrize("column", ["policy", "objective"])
def test_no_module_is_imported_because_a_row_names_it(tmp_path: Path, column: str) -> None:
    state, mark = tmp_path / "state", tmp_path / "imported"
    code = f"import pathlib; pathlib.Path({str(mark)!r}).touch()\ndef f(*args): raise OSError\n"
    (tmp_path / "evil.py").write_text(code)
    (path,) = (path for path in RECORDED if path.stem == "bftrainer")
    with closing(restored(path, state)):
        pass
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


def test_the_other_spelling_of_a_status_is_read() -> None:
    assert TrainerStatus("cancelled") is TrainerStatus.CANCELED
    with pytest.raises(ValueError, match="lost"):
        TrainerStatus("lost")
