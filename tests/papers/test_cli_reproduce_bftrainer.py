"""replay reproduce bftrainer, through the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bftrainer.console.cli.main import run
from bftrainer_replay.generation.generate import generate
from bftrainer_replay.logs.event_log import write_event_log


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.csv.gz"
    write_event_log(path, generate(24, 0.25, 1))
    return path


@pytest.mark.slow
def test_rows_as_json_and_files_then_the_same_again(
    log: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    command = [
        "replay",
        "reproduce",
        "bftrainer",
        "--log",
        str(log),
        "--out",
        str(tmp_path / "out"),
        "--jobs",
        "1",
    ]
    assert run([*command, "--json"]) == 0
    out, err = capfd.readouterr()
    first = json.loads(out)
    assert "computations" in err, "it says first how long it takes"
    assert all(
        {"what", "paper", "ours", "tolerance", "verdict", "why"} <= row.keys()
        for row in first["rows"]
    )
    assert (tmp_path / "out" / "fig-09-efficiency-over-forward-s.png").stat().st_size > 0
    assert run(command) == 0
    out, err = capfd.readouterr()
    assert "computations" not in err, "nothing is left to do"
    assert "Fig. 9: U of equal share" in out
    assert "Table 4" in out


def test_what_is_missing_or_out_of_place_is_said(
    log: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "out")
    for arguments, told in (
        (["bftrainer"], "--log LOG"),
        (["bftrainer", "--log", str(log), "--out", out, "--workers", "0"], "--workers 0"),
        (["bftrainer", "--log", str(tmp_path / "none"), "--out", out], "none"),
        (["afs", "--out", out], "--out is an option of"),
        (["specon", "--arrivals", out], "--arrivals is an option of"),
    ):
        assert run(["replay", "reproduce", *arguments]) == 2
        assert told in capfd.readouterr().err
