"""What a group has written: lines of all logs, and all checkpoints in one directory."""

from __future__ import annotations

from pathlib import Path

import pytest
from replay.commands import executed
from support.command_line import bftrainer
from support.live_house import House, house, spec

from bftrainer.wires.paths import TrainerDirectory
from bftrainer.wires.progress_line import Phase, ProgressLine, format_progress


@pytest.fixture
def home(tmp_path: Path) -> House:
    it = house(tmp_path / "state")
    it.cluster.give("n1", "n2")
    for name, checkpoint in (("a", "a.pt"), ("b", "shards")):
        it.submit(
            spec(
                name,
                1,
                group="g",
                cwd=str(it.path),
                parameters={"lr": "0.1"},
                command=["true", "{lr}"],
            )
        )
        directory = TrainerDirectory.of(it.path, name)
        directory.incarnation_logs(1).mkdir(parents=True)
        directory.worker_log(1, "n1", "1", 0).write_text(
            f"begun\nstep 1\nloss nan of {name}\nstep 2\n"
        )
        line = ProgressLine(20.5, Phase.CHECKPOINTED, step=2, samples=200, checkpoint=checkpoint)
        directory.progress.write_text(f"{format_progress(line)}\n")
    (it.path / "a.pt").write_text("weights")
    (it.path / "shards").mkdir()
    (it.path / "shards" / "0.distcp").write_text("shard")
    it.pilot(8)
    return it


def test_a_pattern_is_looked_for_in_all_logs_of_a_group(home: House) -> None:
    found = bftrainer("logs", "--group", "g", "--grep", "nan|Err", "--state", home.path)
    assert found.out == "a n1.1.0: loss nan of a\nb n1.1.0: loss nan of b\n"
    assert (
        bftrainer("logs", "a", "--grep", "begun", "--state", home.path).out == "a n1.1.0: begun\n"
    )
    assert (
        bftrainer("logs", "--group", "g", "-n", "1", "--state", home.path).out.count("step 2") == 2
    )
    for wrong, words in (
        (("--group", "g", "--grep", "("), "not a regular expression"),
        (("--group", "h"), "no training of group 'h'"),
        ((), "expected the NAME"),
        (("a", "--grep", "x", "-f"), "--follow prints all lines"),
    ):
        ended = bftrainer("logs", *wrong, "--state", home.path)
        assert (ended.status, words in ended.err) == (2, True), ended


def test_checkpoints_and_the_table_are_collected_and_replaced(home: House, tmp_path: Path) -> None:
    for _ in range(2):
        ended = executed("collect", "g", tmp_path / "all", "--state", home.path)
    assert "checkpoints of 2 of 2 trainings" in ended.out
    assert (tmp_path / "all/a/a.pt").read_text() == "weights"
    assert (tmp_path / "all/b/shards/0.distcp").read_text() == "shard"
    assert (
        (tmp_path / "all/results.csv")
        .read_text()
        .splitlines()[0]
        .startswith("name,status,lr,samples")
    )
    assert sorted(path.name for path in (tmp_path / "all").rglob("*")) == [
        "0.distcp",
        "a",
        "a.pt",
        "b",
        "results.csv",
        "shards",
    ]
    (home.path / "a.pt").unlink()
    assert (
        "is not there any more"
        in bftrainer("collect", "g", tmp_path / "all", "--state", home.path).err
    )
    assert bftrainer("collect", "h", tmp_path / "all", "--state", home.path).status == 2
