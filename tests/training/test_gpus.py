"""Memory and utilization of a worker's GPU, from a stand-in for NVML."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bftrainer.progress import Reporter
from bftrainer.wires.gpu_use import GpuUse, gpu_uses
from bftrainer.wires.paths import TrainerDirectory

NVML = SimpleNamespace(
    nvmlInit=lambda: None,
    nvmlDeviceGetHandleByIndex=lambda index: index,
    nvmlDeviceGetHandleByUUID={"GPU-5": 5}.get,
    nvmlDeviceGetMemoryInfo=lambda gpu: SimpleNamespace(used=gpu * 1e9),
    nvmlDeviceGetUtilizationRates=lambda gpu: SimpleNamespace(gpu=90 + gpu),
)
"""Functions of pynvml: GPU N has N GB in use."""


@pytest.mark.parametrize(("visible", "gpu"), [("", 1), ("2,3", 3), ("7", 7), ("GPU-4,GPU-5", 5)])
def test_the_gpu_of_a_worker(
    visible: str, gpu: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", NVML)
    worker = {
        "BFTRAINER_TRAINER_DIR": str(tmp_path),
        "BFTRAINER_NODE": "n1",
        "RANK": "9",
        "LOCAL_RANK": "1",
    }
    now: dict[str, Any] = {"s": 100.0}
    report = Reporter({**worker, "CUDA_VISIBLE_DEVICES": visible}, lambda: now["s"])
    for at_s in (100.0, 129.0, 131.0):
        now["s"] = at_s
        report.step(step=1, samples=1, world_size=1)
    directory = TrainerDirectory(tmp_path)
    assert gpu_uses(directory, 132.0) == {"n1:9": GpuUse(131.0, "n1", gpu * 1e9, 90.0 + gpu)}
    assert not gpu_uses(directory, 300.0)


def test_a_worker_without_nvml_reports_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    report = Reporter({"BFTRAINER_TRAINER_DIR": str(tmp_path)}, lambda: 1.0)
    report.step(step=1, samples=1, world_size=1)
    assert (tmp_path / "progress.jsonl").exists()
    assert not gpu_uses(TrainerDirectory(tmp_path), 1.0)
