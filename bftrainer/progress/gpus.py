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
_LOCAL_RANK_VARIABLES = ("LOCAL_RANK", "HOROVOD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", SLOT)


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

    def _open_nvml(self) -> None:
        """Open NVML and find this worker's GPU by its local rank and ``CUDA_VISIBLE_DEVICES``.
        Raises whatever NVML raises where there is none.
        """
        self._nvml = nvml = import_module("pynvml")
        nvml.nvmlInit()
        environment = self._environment
        ranks = (environment[name] for name in _LOCAL_RANK_VARIABLES if name in environment)
        local_rank = int(next(ranks, "0"))
        visible = [name for name in environment.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]
        # Workers with a local rank beyond the visible GPUs use the last one.
        gpu = visible[min(local_rank, len(visible) - 1)] if visible else str(local_rank)
        if gpu.isdecimal():
            self._gpu = nvml.nvmlDeviceGetHandleByIndex(int(gpu))
        else:
            self._gpu = nvml.nvmlDeviceGetHandleByUUID(gpu)

    def look(self, rank: int, now_s: float) -> None:
        """Write the file if it is due; called after each step. After an error, which is not raised,
        it never is. ``now_s``: seconds since 1970.
        """
        if now_s < self._due_s:
            return
        self._due_s = now_s + EVERY_S
        try:
            if self._gpu is None:
                self._open_nvml()
            used_bytes = self._nvml.nvmlDeviceGetMemoryInfo(self._gpu).used
            percent = self._nvml.nvmlDeviceGetUtilizationRates(self._gpu).gpu
            node = self._environment.get(NODE, os.uname().nodename)
            write_json(
                self._directory.gpu_use / f"{rank}.json",
                GpuUse(now_s, node, float(used_bytes), float(percent)),
                0o600,
            )
        except Exception:  # no package, no driver, no such GPU, a full disk: the script goes on
            self._due_s = math.inf
