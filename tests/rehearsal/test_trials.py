"""Trials with half of a file: each begins with the folder as the save left it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from bftrainer.console.rehearsal.record import Line, Played, Record, Saved, TrialOutcome
from bftrainer.console.rehearsal.scenario import Act, ActKind
from bftrainer.console.rehearsal.trials import try_halves
from bftrainer.console.rehearsal.writes import Writes


class Script:
    """A script that keeps its two latest checkpoints, as folders, and resumes from the latest.

    ``reads`` returns the step of a checkpoint folder, or raises ``ValueError``.
    """

    def __init__(self, folder: Path, reads: Callable[[Path], int]) -> None:
        self.folder = folder
        self.reads = reads
        self.lines: list[Line] = []
        self.seen: list[list[str]] = []

    def save(self, step: int) -> None:
        checkpoint = self.folder / f"checkpoint-{step:03}"
        checkpoint.mkdir()
        for number, name in enumerate(("weights", "optimizer", "state")):
            (checkpoint / name).write_text(f"{step:03}" * (100 if name == "weights" else 10))
            os.utime(checkpoint / name, (100.0 + number, 100.0 + number))
        for old in sorted(self.folder.glob("checkpoint-*"))[:-2]:
            for path in old.iterdir():
                path.unlink()
            old.rmdir()

    def play(self, act: Act) -> Played:
        """Resume, make two steps, and save twice."""
        self.seen.append(sorted(str(p.relative_to(self.folder)) for p in self.folder.glob("*/*")))
        latest = sorted(self.folder.glob("checkpoint-*"))[-1]
        outcome = TrialOutcome.OK
        try:
            step = self.reads(latest)
        except ValueError:
            outcome = TrialOutcome.FAILED
        else:
            for number in (step + 1, step + 2):
                self.lines.append({"step": number})
                self.save(number)
        return Played(act, time.time(), time.time(), outcome)

    def end(self) -> None:
        return


def trusting(checkpoint: Path) -> int:
    """Take existence for completeness."""
    return int(checkpoint.name.rpartition("-")[2])


def careful(checkpoint: Path) -> int:
    """Fail for a file that is too short or missing."""
    for name, length in (("weights", 300), ("optimizer", 30), ("state", 30)):
        if not (checkpoint / name).exists() or len((checkpoint / name).read_text()) != length:
            raise ValueError(name)
    return trusting(checkpoint)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "work"
    path.mkdir()
    return path


def saved(script: Script) -> Record:
    script.save(1)
    with Writes(script.folder) as writes:
        script.save(2)
        files = writes.saved()
    return Record((Act(ActKind.START, 1),), (), (), (), saved=files)


def content(folder: Path) -> dict[str, str]:
    return {str(p.relative_to(folder)): p.read_text() for p in folder.rglob("*") if p.is_file()}


def test_a_trial_does_not_find_the_checkpoints_of_the_trial_before(
    folder: Path, tmp_path: Path
) -> None:
    script = Script(folder, careful)
    record = saved(script)
    assert record.saved.created == record.saved.in_place
    before = content(folder)
    trials = try_halves(script, record, folder, tmp_path / "kept", lambda _: None)
    names = ["checkpoint-002/state", "checkpoint-002/weights", "checkpoint-002/optimizer"]
    assert [trial.file for trial in trials] == names
    assert {trial.outcome for trial in trials} == {TrialOutcome.FAILED}
    assert content(folder) == before


def test_a_file_that_is_gone_after_a_trial_is_restored(folder: Path, tmp_path: Path) -> None:
    """The script keeps two checkpoints, so a trial removes the one whose file was cut."""
    script = Script(folder, trusting)
    record = saved(script)
    before = content(folder)
    trials = try_halves(script, record, folder, tmp_path / "kept", lambda _: None)
    assert [trial.step for trial in trials] == [3, 3, 3]
    assert content(folder) == before


def test_files_that_the_save_would_have_made_later_are_missing(
    folder: Path, tmp_path: Path
) -> None:
    script = Script(folder, trusting)
    record = saved(script)
    try_halves(script, record, folder, tmp_path / "kept", lambda _: None)
    of_latest = [
        [name for name in names if name.startswith("checkpoint-002")] for names in script.seen
    ]
    assert [len(names) for names in of_latest] == [3, 1, 2]


def test_in_the_user_s_own_folder_one_file_is_tried_and_nothing_removed(
    folder: Path, tmp_path: Path
) -> None:
    script = Script(folder, trusting)
    record = saved(script)
    before = content(folder)
    trials = try_halves(script, record, folder, tmp_path / "kept", lambda _: None, in_place=True)
    assert [trial.file for trial in trials] == ["checkpoint-002/state"]
    after = content(folder)
    assert {name: after[name] for name in record.saved.in_place} == {
        name: before[name] for name in record.saved.in_place
    }
    assert "checkpoint-004/state" in after


def test_an_environment_that_the_script_made_stays(folder: Path, tmp_path: Path) -> None:
    script = Script(folder, trusting)
    record = saved(script)
    (folder / "env").mkdir()
    (folder / "env/pyvenv.cfg").touch()
    (folder / "link").symlink_to(folder / "checkpoint-002")
    try_halves(script, record, folder, tmp_path / "kept", lambda _: None)
    assert (folder / "env/pyvenv.cfg").exists()
    assert not (folder / "env").is_symlink()
    assert (folder / "link/state").exists()


def test_nothing_written_in_place_needs_no_trial(folder: Path, tmp_path: Path) -> None:
    script = Script(folder, careful)
    record = Record((Act(ActKind.START, 1),), (), (), (), saved=Saved(renamed=("c.pt",)))
    assert try_halves(script, record, folder, tmp_path / "kept", lambda _: None) == ()
    assert not (tmp_path / "kept").exists()
