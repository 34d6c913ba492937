"""Where results go without --out, and that no message about --out hides a log that cannot be
read.
"""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from replay.commands import executed
from support.command_line import bftrainer, complaint

from bftrainer_papers.cli.commands import TABLE as OF_PAPERS
from bftrainer_replay.cli.choices import folder_beside
from bftrainer_replay.cli.commands import TABLE as OF_REPLAY

LOG = (
    "time,joined,left\n2021-01-01T00:00:00,a b c,\n2021-01-01T02:00:00,,a\n2021-01-01T04:00:00,a,\n"
)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "july.csv").write_text(LOG)
    return tmp_path


@pytest.mark.parametrize("path", [entry.path for entry in (*OF_REPLAY, *OF_PAPERS) if entry.target])
def test_no_command_has_to_be_told_where_to_write(path: str) -> None:
    (target,) = (
        entry.target for entry in (*OF_REPLAY, *OF_PAPERS) if entry.path == path and entry.target
    )
    module, _, name = target.partition(":")
    command = getattr(__import__(module, fromlist=[name]), name)
    assert isinstance(command, click.Command)
    assert [
        option.name for option in command.params if option.required and option.name == "out"
    ] == []


@pytest.mark.parametrize(
    "command",
    [
        ("replay", "report"),
        ("replay", "report", "--jobs", "0"),
        ("replay", "characterize", "--hours", "many"),
        ("replay", "convert"),
        ("advise",),
        ("replay", "run"),
        ("replay", "compare"),
    ],
)
@pytest.mark.parametrize(
    ("log", "problem"),
    [("june.csv", "No such file or directory"), (".", "Is a directory")],
    ids=["no file", "folder"],
)
def test_a_log_that_cannot_be_read_is_told_first(
    here: Path, command: tuple[str, ...], log: str, problem: str
) -> None:
    assert complaint(bftrainer(*command, log)) == f"{log}: cannot be read: {problem}"
    assert [path.name for path in here.iterdir()] == ["july.csv"]


def test_help_is_shown_whatever_the_log_is() -> None:
    ended = bftrainer("replay", "report", "june.csv", "--help")
    assert (ended.status, ended.err) == (0, "")
    assert "[default: LOG-report in the current directory, like july-report" in " ".join(
        ended.out.split()
    )


@pytest.mark.parametrize(
    ("log", "folder"),
    [
        ("july.csv.gz", "july-report"),
        ("/logs/sacct.2026.txt", "sacct.2026-report"),
        ("lsb.acct.1.xz", "lsb.acct-report"),
        ("accounting", "accounting-report"),
    ],
)
def test_a_folder_is_named_after_its_log(log: str, folder: str) -> None:
    assert folder_beside(Path(log), "report") == Path(folder)


def test_the_last_line_names_the_place(here: Path) -> None:
    executed("replay", "workload", "hpo", "--count", 20)
    assert executed("replay", "convert", "july.csv").out.startswith("july-idle.csv.gz: 3 events")
    ended = executed("replay", "run", "july.csv", "--trainers", "trainers.csv")
    assert "july-replay/summary.json" in ended.out.splitlines()[-1]
    ended = executed("advise", "july.csv", "--jobs", 1)
    assert ended.out.splitlines()[-1].startswith("Written: july-advice/bftrainer.toml")
    ended = executed("replay", "report", "july.csv", "--jobs", 1)
    assert ended.out.splitlines()[-1].startswith("july-report/report.html: ")
    assert (here / "july-report" / "report.html").exists()


def test_only_a_named_file_is_overwritten(here: Path) -> None:
    for arguments, name in (
        (("generate", "--nodes", 8, "--days", 0.1), "sample.csv.gz"),
        (("workload", "hpo", "--count", 2), "trainers.csv"),
        (("convert", "july.csv"), "july-idle.csv.gz"),
    ):
        executed("replay", *arguments)
        before = (here / name).read_bytes()
        told = complaint(bftrainer("replay", *arguments))
        assert told.startswith(f"{name} exists already; ")
        assert (here / name).read_bytes() == before
        executed("replay", *arguments, "--out", name)
