"""Memory and utilization of this worker's GPU, by NVML where its Python has ``pynvml`` (``pip
install nvidia-ml-py``).
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from bftrainer.wires.environment import NODE, SLOT
from bftrainer.wires.gpu_use import GpuUse
from bftrainer.wires.paths import TrainerDirectory
from bftrainer.wires.typed_json import write_json

EVERY_S = 30.0
_LOCAL = ("LOCAL_RANK", "HOROVOD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", SLOT)


class GpuWatch:
    """Writes the memory and the utilization of this worker's GPU to ``gpu_use/RANK.json`` every 30
    s.

    Does nothing without NVML or a GPU.
    """

    def __init__(self, directory: TrainerDirectory, environment: Mapping[str, str]) -> None:
        self._directory, self._environment = directory, environment
        self._nvml: Any = None
        self._gpu: Any = None
        self._due_s = 0.0

    def _open(self) -> None:
        """Open NVML and find this worker's GPU by its local rank and ``CUDA_VISIBLE_DEVICES``."""
        self._nvml = nvml = import_module("pynvml")
        nvml.nvmlInit()
        local = int(
            next((self._environment[name] for name in _LOCAL if name in self._environment), "0")
        )
        visible = [
            name for name in self._environment.get("CUDA_VISIBLE_DEVICES", "").split(",") if name
        ]
        name = visible[min(local, len(visible) - 1)] if visible else str(local)
        by_index = name.isdecimal()
        self._gpu = (
            nvml.nvmlDeviceGetHandleByIndex(int(name))
            if by_index
            else nvml.nvmlDeviceGetHandleByUUID(name)
        )

    def look(self, rank: int, now_s: float) -> None:
        """Write the file if it is due; called after each step."""
        if now_s < self._due_s:
            return
        self._due_s = now_s + EVERY_S
        try:
            if self._gpu is None:
                self._open()
            used = self._nvml.nvmlDeviceGetMemoryInfo(self._gpu).used
            percent = self._nvml.nvmlDeviceGetUtilizationRates(self._gpu).gpu
            node = self._environment.get(NODE, os.uname().nodename)
            write_json(
                self._directory.gpu_use / f"{rank}.json",
                GpuUse(now_s, node, float(used), float(percent)),
                0o600,
            )
        except Exception:  # no package, no driver, no such GPU, a full disk: the script goes on
            self._due_s = math.inf
