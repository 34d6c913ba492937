"""A checkpoint of the Trainer of Transformers is one that can be read, not one that exists."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from support.needs import need_package


def saved(folder: Path, step: int) -> Path:
    """A checkpoint as the Trainer writes one: the files' formats, not all of their content."""
    import torch
    from safetensors.torch import save_file

    checkpoint = folder / f"checkpoint-{step}"
    checkpoint.mkdir(parents=True)
    save_file({"w": torch.zeros(100)}, checkpoint / "model.safetensors")
    for name in ("optimizer.pt", "scheduler.pt", "rng_state.pth"):
        torch.save({"state": torch.zeros(100)}, checkpoint / name)
    (checkpoint / "config.json").write_text("{}")
    (checkpoint / "trainer_state.json").write_text(json.dumps({"global_step": step}))
    return checkpoint


def halved(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


def without_a_shard(checkpoint: Path) -> None:
    index = {"weight_map": {"w": "model.safetensors", "v": "model-00002-of-00002.safetensors"}}
    (checkpoint / "model.safetensors.index.json").write_text(json.dumps(index))


HARM: dict[str, Callable[[Path], None]] = {
    "weights": lambda folder: halved(folder / "model.safetensors"),
    "optimizer": lambda folder: halved(folder / "optimizer.pt"),
    "random numbers of a rank": lambda folder: halved(folder / "rng_state.pth"),
    "empty": lambda folder: (folder / "optimizer.pt").write_bytes(b""),
    "state": lambda folder: halved(folder / "trainer_state.json"),
    "not complete": lambda folder: (folder / "trainer_state.json").unlink(),
    "header": lambda folder: (folder / "model.safetensors").write_bytes(b"\xff" * 8),
    "short": lambda folder: (folder / "model.safetensors").write_bytes(b"abc"),
    "a shard": without_a_shard,
}


@pytest.mark.parametrize("name", HARM)
def test_a_checkpoint_that_cannot_be_read_is_passed_over(name: str, tmp_path: Path) -> None:
    need_package("transformers")
    from bftrainer.progress.transformers import last_checkpoint

    assert last_checkpoint(tmp_path) is None
    older, newer = saved(tmp_path, 9), saved(tmp_path, 10)
    assert last_checkpoint(tmp_path) == str(newer)
    HARM[name](newer)
    assert last_checkpoint(tmp_path) == str(older)
    shutil.rmtree(older)
    assert last_checkpoint(tmp_path) is None


def test_a_checkpoint_that_is_passed_over_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    need_package("transformers")
    from bftrainer.progress.transformers import last_checkpoint

    halved(saved(tmp_path, 9) / "optimizer.pt")
    assert last_checkpoint(tmp_path) is None
    (line,) = capsys.readouterr().err.splitlines()
    assert "checkpoint-9: optimizer.pt is incomplete" in line
