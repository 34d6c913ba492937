"""Small traces and profiles, made by hand after the real ones."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

PHILLY = (
    "timestamp,duration,num_gpus,gpu_time,cluster\n"
    "2017-10-09 07:00:00,3600.0,1,3600.0,a\n"
    "2017-10-09 06:00:00,1800.0,8,14400.0,b\n"
    "2017-10-10 06:00:00,60.0,4,240.0,b\n"
    "2017-10-09 06:30:00,0.0,2,0.0,b\n\n"
)
POLLUX = (
    "name,time,application,num_replicas,batch_size\n"
    "cifar10-0,107,cifar10,6,2048\nbert-1,110,bert,4,32\nncf-2,135,ncf,1,32768\n"
)
GAVEL = """{
  "v100": {
    "('ResNet-50 (batch size 64)', 1)": {"null": 4.0, "('A3C', 1)": [1.0, 2.0]},
    "('ResNet-50 (batch size 64)', 2)": {"null": 7.0},
    "('ResNet-50 (batch size 64)', 4)": {"null": 0.0},
    "('ResNet-50 (batch size 64)', 8)": {"null": 20.0},
    "('A3C', 1)": {"null": 5.0}
  },
  "k80": {"('A3C', 1)": {"null": 2.0}}
}
"""
SIA = {
    # Batch 10 was measured on six counts, batch 20 on two, batch 5 on six, too: 10 counts.
    "sia/cifar10/placements-aws.csv": "placement,local_bsz,step_time,sync_time\n"
    "1,10,0.1,0\n1,5,0.1,0\n1,20,0.1,0\n11,10,0.5,0\n2,10,0.125,0\n2,5,1,0\n3,10,0.1,0\n3,5,1,0\n4,10,0.1,0\n4,5,1,0\n22,10,9,0\n",
    "sia/cifar10/scalability-aws.csv": "num_nodes,num_replicas,local_bsz,step_time,sync_time\n"
    "2,8,10,0.2,0\n8,8,10,7,0\n2,8,5,1,0\n4,16,10.0,0.25,0\n4,16,5,1,0\n4,16,20,1,0\n",
    "sia/bert/placements-aws.csv": "placement,local_bsz,step_time\n1,4,1.0\n2,4,1.0\n4,4,1.0\n",
    "sia/bert/placements-dgx.csv": "placement,local_bsz,step_time\n1,4,0.5\n",
}


def sia(folder: Path, **changed: str | bytes) -> Path:
    path = folder / "sia.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name, text in {**SIA, **changed}.items():
            data = text.encode() if isinstance(text, str) else text
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path
