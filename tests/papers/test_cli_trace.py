"""``bftrainer replay trace``: tables of trainers, what is printed of them, what is refused.
(tests/fuzz mutates the files.)
"""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest
from replay.commands import executed
from support.command_line import bftrainer
from support.data import data_file
from support.trace_examples import GAVEL, PHILLY, POLLUX, sia

from bftrainer.errors import InputFileError
from bftrainer_papers.traces.profiles import read_profiles


def test_an_archive_that_would_not_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bftrainer_papers.traces.texts.TABLE_BYTES", 2_000_000)
    path = tmp_path / "bomb.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for number in range(3):
            info = tarfile.TarInfo(f"bert/placements-{number}.csv")
            info.size = 1_000_000
            archive.addfile(info, io.BytesIO(b"7" * info.size))
    with pytest.raises(InputFileError, match="more than 2,000,000 bytes"):
        read_profiles(path)


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    (tmp_path / "philly.csv").write_text(PHILLY)
    return [
        "--arrivals",
        str(tmp_path / "philly.csv"),
        "--curves",
        str(sia(tmp_path)),
        "--hardware",
        "aws",
    ]


def test_a_trace_becomes_trainers_and_curves_that_a_replay_takes(
    tmp_path: Path, files: list[str]
) -> None:
    out, log = tmp_path / "trainers.csv", tmp_path / "log.csv.gz"
    made = ["replay", "trace", *files, "--gpus-per-node", "4", "--seed", "2"]
    ended = executed(*made, "--start", "2021-01-01T00:00:00", "--out", out)
    assert ended.out.splitlines() == [
        f"{tmp_path}/trainers.curves.csv: 2 curves; use this file as --curves together with "
        f"--trainers {out}",
        f"{out}: 3 trainers (trace), first submission at 2021-01-01T00:00:00",
    ]
    notes = ended.err.splitlines()
    assert notes[0].endswith(
        "is Sia's step times: 21 measurements read; 3 combinations of model and hardware, 2 used, "
        "1 ignored (1 of other hardware)"
    )
    assert notes[1].endswith(
        "4 records read, 3 used, 1 ignored (1 with too short a run time), 0 skipped as bad"
    )
    first = out.read_bytes()
    executed(*made, "--start", "2021-01-01T00:00:00", "--out", out)
    assert out.read_bytes() == first
    executed("replay", "generate", "--nodes", 16, "--days", 1, "--out", log)
    ended = executed(
        "replay",
        "run",
        log,
        "--trainers",
        out,
        "--curves",
        tmp_path / "trainers.curves.csv",
        "--out",
        tmp_path,
    )


def test_a_trace_keeps_its_own_time_and_curves_say_what_they_are(tmp_path: Path) -> None:
    (tmp_path / "philly.csv").write_text(PHILLY)
    (tmp_path / "gavel.json").write_text(GAVEL)
    ended = executed(
        "replay",
        "trace",
        "--arrivals",
        tmp_path / "philly.csv",
        "--curves",
        tmp_path / "gavel.json",
        "--hardware",
        "v100",
        "--models",
        "resnet-50-bs64",
        "--extrapolate-to",
        16,
        "--out",
        tmp_path / "t.csv",
    )
    assert "first submission at 2017-10-09T06:00:00" in ended.out
    assert (
        "6 measurements read, 1 of them 0; 3 combinations of model and hardware, 1 used"
        in ended.err
    )
    assert "3 trainers, 1 to 16 nodes, batch size 64; extrapolated from 8 to 16 nodes" in ended.err
    assert "ResNet-50-bs64-v100-extrapolated" in (tmp_path / "t.csv").read_text()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--arrivals", "none.csv"], "none.csv: cannot be read: No such file"),
        (["--hardware", "awx"], "unknown hardware 'awx', did you mean 'aws'?"),
        (["--models", "bret"], "unknown model 'bret', did you mean 'bert'?"),
        (["--shape", "round"], "'round' is not one of 'measured', 'monotone', 'concave'"),
        (["--gpus-per-node", "0"], "--gpus-per-node 0: expected 1 or more"),
        (["--hours", "0"], "--hours 0: expected a number above 0"),
        (
            ["--from", "soon"],
            "--from 'soon' is not ISO 8601; the trace covers 2017-10-09T06:00:00 .. "
            "2017-10-10T06:00:00",
        ),
        (["--gpu-hours", "5-1"], "--gpu-hours '5-1': expected LOW-HIGH"),
        (["--gpus-per-node", "64"], "no model was measured on the 64 GPUs of one node"),
        (["--from", "2020-01-01T00:00:00"], "no job of the trace is selected"),
    ],
)
def test_mistakes_with_traces(
    tmp_path: Path, files: list[str], options: list[str], words: str
) -> None:
    ended = bftrainer("replay", "trace", *files, *options, "--out", tmp_path / "t.csv")
    assert (ended.status, ended.out) == (2, "")
    assert words in ended.err.splitlines()[-1]
    assert not (tmp_path / "t.csv").exists()


def test_a_trace_without_durations(tmp_path: Path, files: list[str]) -> None:
    out = ["--out", tmp_path / "t.csv"]
    (tmp_path / "pollux.csv").write_text(POLLUX)
    ended = bftrainer("replay", "trace", *files, "--arrivals", tmp_path / "pollux.csv", *out)
    assert "this trace has no durations" in ended.err


@pytest.mark.data
def test_the_worked_example_of_the_documentation(tmp_path: Path) -> None:
    """The command of docs/workloads.md."""
    ended = executed(
        "replay",
        "trace",
        "--arrivals",
        data_file("dl-job-arrivals/sia_philly.csv.gz"),
        "--from",
        "2017-10-09",
        "--hours",
        168,
        "--least-s",
        600,
        "--curves",
        data_file("dl-throughput-profiles/sia-traces.tar.gz"),
        "--hardware",
        "aws",
        "--gpus-per-node",
        4,
        "--start",
        "2021-01-01T00:00:00",
        "--out",
        tmp_path / "trainers.csv",
    )
    assert "82,247 records read, 11,034 used, 71,213 ignored" in ended.err
    assert "23,444 measurements read; 38 combinations of model and hardware, 6 used" in ended.err
    assert "11,034 trainers (trace)" in ended.out
