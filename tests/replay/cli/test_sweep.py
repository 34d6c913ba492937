"""``bftrainer replay sweep``: tables, shards, a dry run, progress, and mistakes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.command_line import bftrainer, complaint

from bftrainer_replay.cli.sweeping import MinuteLines
from bftrainer_replay.generation.generate import generate
from bftrainer_replay.logs.event_log import write_event_log

GRID = '[[logs]]\npath = "log.csv"\n[grid]\nforward_s = [30, 120]\nmax_parallel = [3, 6]\n'


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("grid")
    write_event_log(folder / "log.csv", generate(24, 0.1, 1))
    (folder / "grid.toml").write_text(GRID)
    return folder / "grid.toml"


def test_four_shards_are_the_whole(grid: Path, tmp_path: Path) -> None:
    whole = bftrainer("replay", "sweep", grid, "--out", tmp_path / "whole", "--workers", 1)
    assert (whole.status, whole.out) == (0, f"Written: {tmp_path / 'whole/results.csv'}, 4 rows\n")
    out = tmp_path / "shards"
    for number in (1, 2, 3):
        ended = bftrainer("replay", "sweep", grid, "--out", out, "--shard", f"{number}/4")
        assert (ended.status, ended.out) == (0, "")
        assert f"4 cells, 1 replay of shard {number}/4: 0 done, 1 to do" in ended.err
    early = bftrainer("replay", "sweep", grid, "--out", out, "--collect")
    assert "note: 1 of 4 cells have no result yet" in early.err
    assert len((out / "results.csv").read_text().splitlines()) == 1 + 3
    bftrainer("replay", "sweep", grid, "--out", out, "--shard", "4/4")
    ended = bftrainer("replay", "sweep", grid, "--out", out, "--collect", "--json")
    assert ended.status == 0
    assert len(json.loads(ended.out)) == 4
    assert (out / "results.csv").read_bytes() == (tmp_path / "whole/results.csv").read_bytes()


def test_a_second_run_and_a_larger_grid_compute_what_is_missing(grid: Path, tmp_path: Path) -> None:
    bftrainer("replay", "sweep", grid, "--out", tmp_path, "--workers", 1)
    assert len(list((tmp_path / "cells").iterdir())) == 4
    larger = grid.with_name("larger.toml")
    larger.write_text(f"{GRID}seed = [0, 1]\n")
    ended = bftrainer("replay", "sweep", larger, "--out", tmp_path, "--workers", 1)
    assert "8 cells, 8 replays: 4 done, 4 to do" in ended.err


def test_the_directory_is_named_after_the_grid(
    grid: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ended = bftrainer("replay", "sweep", grid, "--collect")
    assert ended.out == "Written: grid-sweep/results.csv, 0 rows\n"


def test_a_dry_run_does_nothing(grid: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    ended = bftrainer("replay", "sweep", grid, "--out", out, "--dry-run", "--workers", "mpi")
    assert (ended.status, ended.out) == (0, "")
    assert "4 cells, 4 replays: 0 done, 4 to do, about " in ended.err
    assert " core-hours" in ended.err
    assert not out.exists()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--shard", "5/4"), "--shard 5/4: expected i from 1 to n"),
        (("--workers", "0"), "--workers 0: expected 1 or more"),
        (("--shard", "1/2", "--collect"), "--shard cannot be combined with --collect"),
        (("--workers", "fast"), "--workers fast: expected a number, mpi, dask:ADDRESS"),
    ],
)
def test_mistakes_leave_nothing_behind(
    grid: Path, tmp_path: Path, options: tuple[str, ...], expected: str
) -> None:
    out = tmp_path / "out"
    ended = bftrainer("replay", "sweep", grid, "--out", out, *options)
    assert ended.status == 2
    assert expected in ended.err.splitlines()[-1]
    assert not out.exists()


def test_a_mistake_in_the_grid_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "grid.toml").write_text("[grid]\n")
    ended = bftrainer("replay", "sweep", tmp_path / "grid.toml", "--out", tmp_path / "out")
    assert complaint(ended) == f"{tmp_path / 'grid.toml'}: logs: is missing"


def test_a_line_a_minute(capsys: pytest.CaptureFixture[str]) -> None:
    times_s = iter((0.0, 10.0, 60.0, 70.0, 121.0, 200.0))
    lines = MinuteLines("sweep", lambda: next(times_s))
    for part in (0.1, 0.25, 0.3, 0.5, 1.0):
        lines.show(part)
    assert capsys.readouterr().err == (
        "sweep: 25 %, about 3 min left\nsweep: 50 %, about 2 min left\n"
    )
