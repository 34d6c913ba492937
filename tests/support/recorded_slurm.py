"""Recorded answers of Slurm, without the lines that say where they come from."""

from __future__ import annotations

import io
import re
import tarfile
from pathlib import Path

from support.data import data_file

RECORDED = Path(__file__).parents[1] / "recorded"
OLDEST = "22.05.8"
VERSIONS = tuple(sorted(path.name.partition("-")[2] for path in RECORDED.glob("slurm-*")))
MARK = "0123456789abcdef"
"""That ends the records of squeue in these recordings; a pilot draws one for each call."""


def recorded(name: str, version: str = OLDEST) -> str:
    text = (RECORDED / f"slurm-{version}" / name).read_bytes().decode()
    return re.sub(r"\A(?:# [^\n]*\n)*", "", text)


def foreign(archive: str, ending: str) -> str:
    """A file of the archives of other sites' outputs (tests marked ``data``), by the end of its
    path.
    """
    content = data_file(f"slurm-formats/{archive}.tar.gz").read_bytes()
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        (member,) = [m for m in tar.getmembers() if m.isfile() and m.name.endswith(ending)]
        file = tar.extractfile(member)
        assert file is not None
        return file.read().decode()
