"""The container of a worker: Apptainer's for a ``.sif`` file, that of Slurm's pyxis for a ``.sqsh`` file. Pure.

Nothing is copied to a node that its next job would find there. Apptainer mounts the file, and a node reads it once. pyxis
unpacks it for a step and removes it with the step, or mounts it as well (``use_squashfuse=1``); its named containers, which are
unpacked once, outlive the job by default.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import bftrainer

PACKAGES = "/opt/bftrainer"
"""Where bftrainer is in the container, alone: other packages of its folder are for another Python."""
_APPTAINER = "apptainer exec $([ -e /dev/nvidiactl ] && echo --nv) "


class WorkerContainer(NamedTuple):
    """``of_step``: options of srun; ``runtime`` starts ``arguments`` and the command; ``variables`` of its environment."""

    of_step: tuple[str, ...] = ()
    runtime: str = ""
    arguments: tuple[str, ...] = ()
    variables: Mapping[str, str] = {}


def container(image: str | None, cwd: Path, directory: Path, environment: Mapping[str, str]) -> WorkerContainer:
    """How a worker is started in its image; without one, as it is. ``directory``: the trainer directory."""
    if image is None:
        return WorkerContainer()
    adapters, package = Path(__file__).resolve().parents[2], Path(bftrainer.__file__).resolve().parent
    mounts = (
        f"{directory}:{directory}",
        f"{cwd}:{cwd}",
        f"{adapters}:{adapters}:ro",
        f"{package}:{PACKAGES}/bftrainer:ro",
    )
    python_path = ":".join(filter(None, [PACKAGES, environment.get("PYTHONPATH")]))
    variables = {"PYTHONPATH": python_path}
    if image.endswith(".sqsh"):
        options = (f"--container-image={image}", f"--container-mounts={','.join(mounts)}", f"--container-workdir={cwd}")
        return WorkerContainer(of_step=options, variables=variables)
    binds = tuple(word for mount in mounts for word in ("--bind", mount))
    return WorkerContainer((), _APPTAINER, (*binds, "--pwd", str(cwd), image), variables)
