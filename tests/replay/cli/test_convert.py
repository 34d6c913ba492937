"""replay convert, and job logs through the commands that take LOG."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest
from replay.commands import executed
from support.command_line import bftrainer, complaint
from support.log_examples import EXAMPLES

from bftrainer.errors import UserError
from bftrainer_replay.cli.record import seconds
from bftrainer_replay.logs.event_log import read_event_log


@pytest.mark.parametrize("name", EXAMPLES)
def test_any_log_becomes_an_event_log_that_says_the_same(tmp_path: Path, name: str) -> None:
    log, out = tmp_path / "log", tmp_path / "idle.csv.gz"
    log.write_bytes(EXAMPLES[name])
    options = ("--warm-up-h", 0, "--cool-down-h", 0, "--debounce-s", 0, "--machine-nodes", 4)
    ended = executed("replay", "convert", log, "--out", out, *options)
    assert "read, " in ended.err
    assert "skipped" in ended.err
    written = read_event_log(out)
    told = f"{len(written.events)} events, {len(written.nodes())} nodes idle at some time"
    assert ended.out == f"{out}: {told}\n"
    found, again = (
        json.loads(bftrainer("replay", "characterize", each, "--json", *options).out)
        for each in (log, out)
    )
    for key in (
        "start",
        "end",
        "note",
        "node_hours",
        "eq_nodes",
        "increases",
        "decreases",
        "fragments",
    ):
        assert found[key] == again[key], key
    assert again["idle_while"] is None


def test_simulated_nodes_stay_marked(tmp_path: Path) -> None:
    log, out = tmp_path / "log.swf", tmp_path / "idle.csv"
    log.write_bytes(EXAMPLES["swf"])
    executed("replay", "convert", log, "--out", out)
    assert "firstfit-" in out.read_text()
    found = json.loads(bftrainer("replay", "characterize", out, "--json").out)
    assert found["note"].startswith("nodes simulated by first-fit")
    assert "simulated" in found["log"]
    assert "simulated by first-fit" in bftrainer("replay", "characterize", out).out


def test_the_queue_is_in_table_and_json(tmp_path: Path) -> None:
    log = tmp_path / "sacct.txt"
    log.write_bytes(EXAMPLES["sacct"])
    ended = bftrainer("replay", "characterize", log)
    assert "Waiting jobs while nodes were idle" in ended.out
    assert "only larger jobs wait" in ended.out
    shares = json.loads(bftrainer("replay", "characterize", log, "--json").out)["idle_while_shares"]
    assert sum(shares.values()) == pytest.approx(1)
    chosen = bftrainer("replay", "characterize", log, "--json", "--nodes", 1)
    assert json.loads(chosen.out)["idle_while"] is None
    assert "the queue is ignored" in chosen.err


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--timezone", "Mars/Olympus"), "--timezone Mars/Olympus: unknown"),
        (("--format", "slrm"), "unknown format 'slrm'"),
        (("--debounce-s", "-1"), "--debounce-s -1: expected 0 or more"),
        (("--warm-up-h", "nan"), "--warm-up-h nan"),
        (("--machine-nodes", "0"), "--machine-nodes 0: expected 1 or more"),
        (("--machine-nodes", "1"), "names 3 nodes"),
        (("--outage", "never"), "--outage 'never': expected START/END, auto or none"),
        (("--outage", "never/ever"), "('never' is not a time"),
        (("--format", "pbs"), "not an accounting record"),
        (("--columns", "JobID"), "lack start"),
        (("--max-bytes", "100"), "has more than 100 bytes"),
        (("--max-bytes", "0"), "--max-bytes 0: expected a number of bytes"),
        (("--out", "/proc/no/such"), "cannot be written"),
    ],
)
def test_mistakes_are_one_line(tmp_path: Path, options: tuple[str, str], expected: str) -> None:
    log = tmp_path / "log"
    log.write_bytes(EXAMPLES["sacct"])
    out = () if options[0] == "--out" else ("--out", tmp_path / "idle.csv")
    ended = bftrainer("replay", "convert", log, *out, *options)
    assert ended.status == 2
    assert expected in ended.err.splitlines()[-1]
    assert not (tmp_path / "idle.csv").exists()


@pytest.mark.parametrize(
    "old", [b"COMPLETED", b"2026-02-01T00:00:00|2026-02-01T01", b"|1|cn1", b"\n1|"]
)
def test_bytes_that_are_no_text_reach_no_terminal(tmp_path: Path, old: bytes) -> None:
    log, out = tmp_path / "log", tmp_path / "idle.csv"
    odd = old.replace(b"0", b"\xfc").replace(b"1", b"\xe4[\x1b").replace(b"E", b"\xfc")
    log.write_bytes(EXAMPLES["sacct"].replace(old, odd, 1))
    ended = bftrainer("replay", "convert", log, "--out", out, "--skip-bad")
    ended.err.encode("ascii")
    assert "\x1b" not in ended.err
    assert ended.status in (0, 2)


def test_a_bad_line_is_one_complaint_and_with_skip_bad_a_count(tmp_path: Path) -> None:
    log, out = tmp_path / "log", tmp_path / "idle.csv"
    log.write_bytes(EXAMPLES["sacct"] + b"7|half a line\n")
    assert f"{log}:6: has 2 fields, expected 9" in complaint(
        bftrainer("replay", "convert", log, "--out", out)
    )
    ended = bftrainer("replay", "convert", log, "--out", out, "--skip-bad")
    assert "5 records read, 3 used, 1 ignored (1 steps), 1 skipped as bad" in ended.err
    assert f"note: skipped {log}:6: has 2 fields" in ended.err


# --- The command line of ``bftrainer record``: what it refuses, what it says, its times


@pytest.mark.parametrize(
    ("text", "expected"),
    [("10s", 10), ("5m", 300), ("2h", 7200), ("2d", 172_800), ("90", 90), ("0.5h", 1800)],
)
def test_lengths_of_time(text: str, expected: float) -> None:
    option = click.Option(["--for"])
    assert seconds(click.Context(click.Command("x")), option, text) == expected


@pytest.mark.parametrize("text", ["", "0s", "-3", "soon", "1w", "1e9", "٣s", "1h30m", "9" * 50])
def test_what_is_no_length_of_time(text: str) -> None:
    with pytest.raises(UserError, match="expected a duration above 0, like 10s, 5m, 2h or 2d"):
        seconds(click.Context(click.Command("x")), click.Option(["--for"]), text)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--for", "soon"], "--for 'soon': expected a duration"),
        (["--every", "0.1s"], "--every 0.1s: expected 1 s or more"),
        (["--scheduler", "slrum"], "unknown scheduler 'slrum', did you mean 'slurm'?"),
        (
            ["--slots-per-node", "4"],
            "--slots-per-node 4: Slurm reports the size of a node; remove the option",
        ),
        (["--unit", "gpu", "--scheduler", "lsf"], "--unit gpu: lsf does not tell the idle GPUs"),
        (["--config", "none.toml"], "none.toml: cannot be read"),
    ],
)
def test_mistakes(tmp_path: Path, options: list[str], words: str) -> None:
    assert words in complaint(bftrainer("record", "--out", tmp_path / "idle.csv", *options))
    assert not (tmp_path / "idle.csv").exists()


def test_no_slurm_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert complaint(bftrainer("record", "--out", tmp_path / "idle.csv", "--for", "1m")) == (
        "squeue: not found; run this on a login node of the cluster"
    )


def test_a_name_that_cannot_grow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = complaint(bftrainer("record", "--out", tmp_path / "idle.csv.gz", "--for", "1m"))
    assert said.endswith("expected a name ending in .csv; compress the file when it is complete")
