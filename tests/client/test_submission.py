"""The gate and the spool, from the command line and from Python: one validation, whole sweeps, reruns without doubles."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from command_line import bftrainer, complaint

import bftrainer as api
from bftrainer.errors import UserError
from bftrainer.persistence.spool import MAX_FILES_AT_ONCE, Spool

FILE = """
name = "t"
command = ["python3", "-c", "pass", "{lr}", "{seed}"]
max_nodes = 2
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "t.toml").write_text(FILE)
    return tmp_path / "t.toml"


@pytest.fixture
def state(tmp_path: Path) -> Path:
    (tmp_path / "state").mkdir(mode=0o700)
    return tmp_path / "state"


def spooled(state: Path) -> list[dict[str, object]]:
    return [json.loads(path.read_text()) for path in sorted((state / "spool").glob("*.json"))]


def test_the_same_submission_from_both_sides(file: Path, tmp_path: Path) -> None:
    states = [tmp_path / name for name in ("a", "b")]
    assert bftrainer("submit", file, "--grid", "lr=0.1,0.2", "--grid", "seed=0..1", "--state", states[0]).status == 0
    handles = api.sweep(str(file), grid={"lr": [0.1, 0.2], "seed": range(2)}, state=states[1])
    first, second = map(spooled, states)
    assert first == second
    assert [one["trainer"] for one in second] == [handle.name for handle in handles]
    assert os.stat(states[1]).st_mode & 0o777 == 0o700  # noqa: PTH116


def test_the_same_error_from_both_sides(file: Path, state: Path) -> None:
    text = complaint(bftrainer("submit", file, "--set", "max_nodes=0", "--state", state))
    with pytest.raises(UserError) as raised:
        api.submit(file, max_nodes=0, state=state)
    assert str(raised.value) == text


def test_a_sweep_is_submitted_whole_or_not_at_all(file: Path, state: Path) -> None:
    bad = ["submit", file, "--grid", "lr=1,2", "--array", file.with_name("t.csv"), "--state", state]
    file.with_name("t.csv").write_text("seed,x\n1,\n")
    assert "'x' is not used" in complaint(bftrainer(*bad))
    assert spooled(state) == []


def test_a_sweep_that_is_submitted_again_continues(file: Path, state: Path) -> None:
    grid = ["--grid", "lr=0.1", "--grid"]
    assert "submitted 2 trainers of group t" in bftrainer("submit", file, *grid, "seed=0..1", "--state", state).out
    again = bftrainer("submit", file, *grid, "seed=0..3", "--state", state)
    assert again.out == "submitted 2 trainers of group t: t-lr0.1-seed2 to t-lr0.1-seed3; 2 were submitted before\n"
    assert len(spooled(state)) == 4
    rows = bftrainer("submit", file, *grid, "seed=3..4", "--state", state, "--json").out.splitlines()
    assert [json.loads(row)["spool"] is None for row in rows] == [True, False]
    text = complaint(bftrainer("submit", file, *grid, "seed=0..9", "--max-nodes", "5", "--state", state))
    assert "'t-lr0.1-seed0' is taken by a trainer with another max_nodes" in text
    assert len(spooled(state)) == 5


def test_more_submissions_than_a_listing_has_are_all_known(file: Path, state: Path) -> None:
    """Before, only the first 200 pending submissions were: a name could be taken twice, and the rest not be canceled."""
    many = MAX_FILES_AT_ONCE + 10
    argv = ["submit", file, "--grid", "lr=1", "--grid", f"seed=1..{many}", "--state", state]
    assert bftrainer(*argv).status == 0
    last = f"t-lr1-seed{many}"
    taken = bftrainer("submit", "--name", last, "--max-nodes", "1", "--state", state, "--", "true")
    assert "is taken" in complaint(taken)
    assert "0 trainers" in bftrainer(*argv).out
    assert bftrainer("cancel", last, "--state", state).out == f"cancel {last}: requested\n"


def test_patterns_and_groups(file: Path, state: Path) -> None:
    bftrainer("submit", file, "--grid", "lr=1,2", "--grid", "seed=0..1", "--state", state)
    bftrainer("submit", "--name", "t-other", "--max-nodes", "1", "--state", state, "--", "true")
    asked = complaint(bftrainer("cancel", "t-lr1-*", "--state", state))
    assert asked == "2 trainers would be canceled (t-lr1-seed0, t-lr1-seed1); add --yes to cancel them"
    assert bftrainer("cancel", "t-lr1-*", "--yes", "--state", state).out.count("requested") == 2
    assert bftrainer("pause", "t-*", "--group", "t", "--state", state).out.count("requested") == 4
    assert "no trainer of group 't' named 't-other'" in complaint(
        bftrainer("cancel", "t-other", "--group", "t", "--state", state)
    )
    assert "matches 'x*'" in complaint(bftrainer("cancel", "x*", "--yes", "--state", state))
    assert "no trainer is named" in complaint(bftrainer("cancel", "--state", state))
    rows = bftrainer("list", "--group", "t", "--state", state, "--json").out.splitlines()
    assert len(rows) == 4


def test_an_error_of_the_disk_leaves_nothing(file: Path, state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (state / "spool").mkdir(mode=0o700)
    synced: list[int] = []

    def fails(handle: int) -> None:
        synced.append(handle)
        if len(synced) == 3:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(Exception, match=r"4 requests cannot be written: No space left on device; nothing has changed"):
        api.sweep(file, grid={"lr": [1], "seed": range(4)}, state=state)
    assert list((state / "spool").iterdir()) == []
    assert Spool(state).names() == frozenset()
