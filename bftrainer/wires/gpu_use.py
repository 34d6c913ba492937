"""``gpu_use/RANK.json``: memory and utilization of each worker's GPU, for ``bftrainer show``."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from bftrainer.errors import InputFileError
from bftrainer.wires.paths import TrainerDirectory
from bftrainer.wires.typed_json import read_json

MOST_AGE_S = 120.0


@dataclass(frozen=True)
class GpuUse:
    """At a time in seconds since 1970: bytes used by all processes on the GPU, and the percentage
    of time that it computed.
    """

    at_s: float
    node: str
    used_bytes: float
    percent: float


def gpu_uses(directory: TrainerDirectory, now_s: float) -> dict[str, GpuUse]:
    """Read the latest GPU use of each worker, by ``node:rank``; values older than
    :data:`MOST_AGE_S` are left out.
    """
    uses: dict[str, GpuUse] = {}
    paths = directory.gpu_use.glob("*.json")
    for path in sorted(paths, key=lambda path: (len(path.name), path.name)):  # by rank
        with suppress(InputFileError):
            use = read_json(GpuUse, path)
            if use.at_s > now_s - MOST_AGE_S:
                uses[f"{use.node}:{path.stem}"] = use
    return uses
