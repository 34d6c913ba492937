"""The commands characterize and generate, through the real command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from replay.commands import executed
from support.command_line import bftrainer, complaint
from support.patience import PATIENCE

from bftrainer.decide.domain.events import PoolChanged
from bftrainer_replay.logs.event_log import parse_time, write_event_log
from bftrainer_replay.logs.model import EventLog, PoolEvent

START_S = parse_time("2021-01-01T00:00:00")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Ten hours: a idle for all of it, b and c from 1 h on, c to 2 h; the last change at 10 h."""
    path = tmp_path / "log.csv"
    rows = ((0, "a", ""), (1, "bc", ""), (2, "", "c"), (10, "d", "b"))
    events = (
        PoolEvent(START_S + hour * 3600, PoolChanged(frozenset(j), frozenset(x)))
        for hour, j, x in rows
    )
    write_event_log(path, EventLog(tuple(events), ""))
    return path


def as_json(*arguments: object) -> dict[str, object]:
    ended = executed("replay", "characterize", "--json", *arguments)
    return json.loads(ended.out)


def refused(*arguments: object) -> str:
    return complaint(bftrainer("replay", *arguments))


def test_the_whole_log_as_json(log: Path) -> None:
    found = as_json(log)
    assert found["log"] == str(log)
    assert (found["start"], found["end"]) == ("2021-01-01T00:00:00", "2021-01-01T10:00:00")
    assert found["events"] == 4
    assert found["machine_nodes"] == 4
    assert found["node_hours"] == pytest.approx(10 + 9 + 1)
    assert found["events_per_h"] == pytest.approx(0.4)


def test_a_reader_who_has_seen_enough_is_no_failure(log: Path) -> None:
    read, write = os.pipe()
    os.close(read)  # `| head` has ended before the first line
    with os.fdopen(write, "wb") as out:
        command = [sys.executable, "-m", "bftrainer", "replay", "characterize", str(log)]
        ended = subprocess.run(
            command,
            stdout=out,
            stderr=subprocess.PIPE,
            text=True,
            timeout=120 * PATIENCE,
            check=False,
        )
    assert ended.returncode == 0
    assert all(line.startswith("note: ") for line in ended.stderr.splitlines())


def test_a_part_of_it(log: Path) -> None:
    found = as_json(log, "--start", "2021-01-01T01:30:00", "--hours", "2", "--machine-nodes", "10")
    assert (found["start"], found["end"]) == ("2021-01-01T01:30:00", "2021-01-01T03:30:00")
    assert found["node_hours"] == pytest.approx(3 * 0.5 + 2 * 1.5)
    assert found["idle_share"] == pytest.approx(4.5 / 2 / 10)


def test_a_log_that_ends_early_is_used_and_told(log: Path) -> None:
    ended = bftrainer(
        "replay", "characterize", log, "--json", "--start", "2021-01-01T02:00:00", "--hours", 12
    )
    assert (ended.status, json.loads(ended.out)["span_h"]) == (0, 8)
    assert ended.err == "note: the log ends at 2021-01-01T10:00:00; using 8.00 h instead of 12 h\n"


def test_nodes_from_a_list(log: Path, tmp_path: Path) -> None:
    listed = tmp_path / "nodes.txt"
    listed.write_text("never-idle\nb\n\nc\na\n")
    assert as_json(log, "--node-list", listed)["machine_nodes"] == 4
    found = as_json(log, "--node-list", listed, "--nodes", 2)
    assert found["node_hours"] == pytest.approx(9)
    assert found["idle_share"] == pytest.approx(9 / 10 / 2)


def test_nodes_without_a_list_are_the_first_by_hash(log: Path) -> None:
    # SHA-256 begins d: 18ac, c: 2e7d, b: 3e23, a: ca97.
    found = as_json(log, "--nodes", 2)
    assert found["machine_nodes"] == 2
    assert found["node_hours"] == pytest.approx(1)


@pytest.mark.parametrize(
    ("text", "options", "problem"),
    [
        ("a\nb\na\n", (), ":3: duplicate node a, first on line 1"),
        ("a\nb c\n", (), ":2: 'b c' contains a space, expected one node name per line"),
        ("\n", (), ": has no node names, expected one per line"),
        ("x\ny\na\n", ("--nodes", "2"), "none of the 2 nodes of "),
        ("a\nb\n", ("--nodes", "3"), "--nodes 3: "),
    ],
)
def test_a_bad_node_list(
    log: Path, tmp_path: Path, text: str, options: tuple[str, ...], problem: str
) -> None:
    listed = tmp_path / "nodes.txt"
    listed.write_text(text)
    assert problem in refused("characterize", log, "--node-list", listed, *options)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (
            ("--start", "noon"),
            "--start 'noon' is not ISO 8601, expected a time like 2021-01-01T00:00:00",
        ),
        (
            ("--start", "2022-01-01T00:00:00"),
            "outside the log, which covers 2021-01-01T00:00:00 .. 2021-01-01T10:00:00",
        ),
        (("--start", "2020-12-31T00:00:00"), "outside the log"),
        (("--hours", "0"), "--hours 0: expected a number above 0"),
        (("--hours", "nan"), "--hours nan: expected a number above 0"),
        (("--nodes", "0"), "--nodes 0: expected 1 or more"),
        (("--nodes", "5"), "has only 4 nodes"),
        (("--machine-nodes", "0"), "--machine-nodes 0: expected 1 or more"),
        (("--machine-nodes", "2"), "--machine-nodes 2: expected at least 3"),
        (("--node-list", "missing.txt"), "missing.txt: cannot be read: No such file"),
    ],
)
def test_what_cannot_be_had_is_one_line(log: Path, options: tuple[str, ...], problem: str) -> None:
    assert problem in refused("characterize", log, *options)


def test_a_missing_or_one_row_log_is_one_line(tmp_path: Path) -> None:
    assert "gone.csv: cannot be read" in refused("characterize", tmp_path / "gone.csv")
    path = tmp_path / "one.csv"
    path.write_text("time,joined,left\n2021-01-01T00:00:00,a,\n")
    assert "has only one row" in refused("characterize", path)


def test_out_gets_the_numbers_and_both_pictures(log: Path, tmp_path: Path) -> None:
    out = tmp_path / "new" / "week"
    printed = as_json(log, "--out", out)
    names = ["characterize.json", "characterize.prom", "fragments.png"]
    assert sorted(file.name for file in out.iterdir()) == names
    lines = (out / "characterize.prom").read_text().splitlines()
    gauges = {
        name: float(value)
        for name, value in (line.split() for line in lines if not line.startswith("#"))
    }
    assert gauges["bftrainer_log_idle_ratio"] == printed["idle_share"]
    assert gauges["bftrainer_log_idle_node_hours"] == printed["node_hours"]
    assert json.loads((out / "characterize.json").read_text()) == printed
    data = (out / "fragments.png").read_bytes()
    assert data.startswith(b"\x89PNG")
    assert len(data) > 10_000
    as_json(log, "--out", out)
    assert (out / "fragments.png").read_bytes() == data


def test_out_that_cannot_be_made_is_one_line(log: Path) -> None:
    assert "cannot be written" in refused("characterize", log, "--out", log / "below")


def test_generate_writes_a_log_that_characterize_reads(tmp_path: Path) -> None:
    out = tmp_path / "sample.csv.gz"
    line = bftrainer(
        "replay", "generate", "--nodes", 64, "--days", 2, "--seed", 3, "--out", out
    ).out
    assert line.startswith(f"wrote {out}: 64 nodes, 2 days, ")
    assert line.count("\n") == 1
    found = as_json(out, "--hours", 48, "--machine-nodes", 64)
    assert found["span_h"] == 48
    assert f"{found['idle_share']:.1%} idle" in line
