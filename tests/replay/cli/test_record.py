"""The command line of ``bftrainer record``: what it refuses, what it says, its times."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from command_line import bftrainer, complaint

from bftrainer.errors import UserError
from bftrainer_replay.cli.record import seconds


@pytest.mark.parametrize(
    ("text", "expected"), [("10s", 10), ("5m", 300), ("2h", 7200), ("2d", 172_800), ("90", 90), ("0.5h", 1800)]
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
        (["--slots-per-node", "4"], "--slots-per-node 4: Slurm reports the size of a node; remove the option"),
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
