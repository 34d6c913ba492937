"""A Slurm of programs that answer as recorded: scontrol, sacctmgr, sbatch, squeue."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from support.recorded_slurm import recorded

_PROGRAM = """#!{python}
import os, pathlib, sys
words = sys.argv[1:]
with open({log!r}, "a") as log:
    print(*sys.argv, file=log)
name = pathlib.Path(sys.argv[0]).name
answers = pathlib.Path({answers!r})
if name == "sbatch":
    refusal = answers / "refusal"
    if refusal.exists():
        sys.exit(refusal.read_text())
    if "--test-only" not in words:
        if not (answers / "job").exists():
            sys.exit("submitted")
        print((answers / "job").read_text())
        (answers / "folder").write_text(os.getcwd())
        (answers / "state").write_text(os.environ.get("BFTRAINER_STATE", ""))
    sys.exit()
for path in answers.iterdir():
    if path.name.replace("_", " ") in " ".join([name, *words]):
        print(path.read_text(), end="")
        break
else:
    sys.exit("unexpected: " + " ".join(words))
"""


def answering_slurm(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a Slurm on PATH whose partition ``main`` preempts ``scavenge``; return the folder of its
    answers. sbatch takes jobs only if the file ``job`` has an id. ``folder`` gets the file
    ``calls``.
    """
    answers, programs = folder / "answers", folder / "bin"
    for path in (answers, programs):
        path.mkdir()
    (answers / "show_config").write_text(recorded("site-recommended.config.txt"))
    (answers / "show_partition").write_text(recorded("site-recommended.partitions.txt"))
    (answers / "show_node").write_text(recorded("empty.nodes.txt"))
    text = _PROGRAM.format(python=sys.executable, log=str(folder / "calls"), answers=str(answers))
    for name in ("scontrol", "sbatch", "sacctmgr", "squeue"):
        program = programs / name
        program.write_text(text)
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    return answers
