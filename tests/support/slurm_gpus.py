"""GPUs for the nodes of slurm_lab.py: device files that nobody opens, as Slurm lists them. Making
them takes root.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Gpus:
    """What every node has: its Gres= in slurm.conf, and ``lines`` of gres.conf with {} for the
    folder of the devices.
    """

    types: str
    gres: str
    lines: str
    devices: int

    def slurm_conf(self) -> str:
        return f"GresTypes={self.types}\n"

    def gres_conf(self, folder: Path) -> str:
        """gres.conf, once the devices are there. Of regular files, Slurm would set no
        CUDA_VISIBLE_DEVICES.
        """
        folder.mkdir(exist_ok=True)
        for number in range(self.devices):
            if not (path := folder / f"nvidia{number}").exists():
                os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        return self.lines.replace("{}", str(folder))


A100 = Gpus("gpu", "gpu:a100:4", "Name=gpu Type=a100 File={}/nvidia[0-3]\n", 4)
OF_8 = Gpus("gpu", "gpu:a100:8", "Name=gpu Type=a100 File={}/nvidia[0-7]\n", 8)
MIG = Gpus(
    "gpu",
    "gpu:a100_3g.20gb:1,gpu:a100_1g.5gb:2",
    "Name=gpu Type=a100_3g.20gb MultipleFiles={}/nvidia0,{}/nvidia1\n"
    "Name=gpu Type=a100_1g.5gb MultipleFiles={}/nvidia0,{}/nvidia2\n"
    "Name=gpu Type=a100_1g.5gb MultipleFiles={}/nvidia0,{}/nvidia3\n",
    4,
)
SHARD = Gpus(
    "gpu,shard",
    "gpu:a100:2,shard:8",
    "Name=gpu Type=a100 File={}/nvidia[0-1]\nName=shard Count=8\n",
    2,
)
