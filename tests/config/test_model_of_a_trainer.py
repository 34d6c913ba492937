"""A trainer's model is what its file says, and nothing else: launchers are no models."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.live_house import spec

from bftrainer.config.trainer_file import read_trainer_file

TEXT = 'name = "{name}"\ncommand = ["true"]\nmax_nodes = 4\nlauncher = "torchrun"\n'


@pytest.mark.parametrize("model", ["resnet", ""])
def test_the_model_is_the_files(model: str, tmp_path: Path) -> None:
    path = tmp_path / "t.toml"
    path.write_text(TEXT.format(name="a") + (f'model = "{model}"\n' if model else ""))
    assert read_trainer_file(path).trainer().model == model


def test_two_without_a_model_are_not_of_one_model() -> None:
    first, second = spec("a").trainer(), spec("b", launcher="horovod").trainer()
    assert first.model == second.model == "", (
        "unknown; not the launcher's name, which many trainers share"
    )
