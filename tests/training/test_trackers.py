"""Trackers, each in its offline mode: one run over restarts, from rank 0 only; none can harm a
training.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.needs import need_package

from bftrainer.config.trainer_file import TrainerSpec
from bftrainer.config.validation import check_table
from bftrainer.errors import InputFileError
from bftrainer.pilot.trainers.trainer_message import trainer_message
from bftrainer.wires.paths import TrainerDirectory
from bftrainer.wires.typed_json import write_json

SCRIPT = """
import sys
from bftrainer import progress
from bftrainer.progress import trackers
trackers.CLOSE_S = 200.0  # a busy machine
first, last = map(int, sys.argv[1:3])
report = progress.Reporter()
for step in range(first, last):
    report.step(step=step, samples=10 * step, loss=1 / (1 + step), force=True, metrics={"accuracy": step / 10})
"""
KEYS = {
    "name": "digits",
    "command": ["true", "{lr}"],
    "max_nodes": 1,
    "group": "g",
    "parameters": {"lr": 0.1},
}


def train(
    folder: Path, tracker: str, first: int, last: int, rank: int = 0, **environment: str
) -> str:
    """Steps of a script whose trainer file names the tracker; its stderr."""
    home = folder / "trainer"
    home.mkdir(exist_ok=True)
    spec = check_table(KEYS | {"trackers": [tracker], "cwd": str(folder)}, TrainerSpec, "test")
    write_json(TrainerDirectory(home).trainer, trainer_message(spec))
    given = {"BFTRAINER_TRAINER_DIR": str(home), "RANK": str(rank), **environment}
    ended = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(first), str(last)],
        env={**os.environ, **given},
        cwd=folder,
        timeout=300,
        capture_output=True,
        text=True,
        check=True,
    )
    return ended.stderr


@pytest.mark.slow
def test_tensorboard_s_own_reader_finds_each_step_once(tmp_path: Path) -> None:
    need_package("tensorboard")
    for first, last, rank in ((0, 4, 0), (0, 4, 1), (2, 6, 0)):
        assert not train(tmp_path, "tensorboard", first, last, rank)
    reader = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator"
    ).EventAccumulator(str(tmp_path / "runs/digits"))
    reader.Reload()
    assert [event.step for event in reader.Scalars("loss")] == [0, 1, 2, 3, 4, 5]
    assert [event.value for event in reader.Scalars("samples")] == [0, 10, 20, 30, 40, 50]


OFFLINE = {
    "wandb": {"WANDB_MODE": "offline", "WANDB_SILENT": "true"},
    "mlflow": {"MLFLOW_TRACKING_URI": "file:mlruns", "MLFLOW_ALLOW_FILE_STORE": "true"},
}


@pytest.mark.slow
@pytest.mark.parametrize("package", OFFLINE)
def test_the_real_ones_offline(package: str, tmp_path: Path) -> None:
    need_package(package)
    for first, rank in ((0, 1), (0, 0), (2, 0)):
        assert "is not used" not in train(tmp_path, package, first, 4, rank, **OFFLINE[package])
    if package == "wandb":
        (one, other) = sorted((tmp_path / "trainer/wandb").glob("offline-run-*"))
        assert one.name.rpartition("-digits-")[2] == other.name.rpartition("-digits-")[2], "one run"
    else:
        (losses,) = (tmp_path / "mlruns/0").glob("*/metrics/loss")
        assert [line.split()[2] for line in losses.read_text().splitlines()] == [
            "0",
            "1",
            "2",
            "3",
            "2",
            "3",
        ]


def test_a_tracker_that_fails_is_told_in_a_line_and_a_wrong_one_is_refused(tmp_path: Path) -> None:
    environment = {"PYTHONPATH": os.pathsep.join((str(tmp_path), os.environ.get("PYTHONPATH", "")))}
    (tmp_path / "wandb.py").write_text("def init(**_):\n    raise RuntimeError('no key')\n")
    assert train(tmp_path, "wandb", 0, 3, **environment) == (
        "bftrainer: tracker wandb is not used: RuntimeError: no key\n"
    )
    assert len((tmp_path / "trainer/progress.jsonl").read_text().splitlines()) == 3
    with pytest.raises(InputFileError, match="trackers"):
        check_table(KEYS | {"trackers": ["wandbb"]}, TrainerSpec, "test")
