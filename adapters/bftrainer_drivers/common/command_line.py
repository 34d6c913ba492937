"""Command line, container and environment of a worker. Pure.

A container is Apptainer's for a ``.sif`` file, that of Slurm's pyxis for a ``.sqsh`` file. Nothing
is copied to a node that its next job would find there. Apptainer mounts the file, and a node reads
it once. pyxis unpacks it for a step and removes it with the step, or mounts it as well
(``use_squashfuse=1``); its named containers, unpacked once, outlive the job by default.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import bftrainer
from bftrainer.fragment_names import job_of
from bftrainer.wires.environment import PREEMPTION_SIGNAL
from bftrainer.wires.hosts_file import HostSlots
from bftrainer.wires.messages import DriverSettings, TrainerMessage


def filled_prefix(template: Sequence[str], host: HostSlots) -> list[str]:
    """Return the prefix of a worker's command for one host: ``{fragment_id}``, ``{job_id}`` and
    ``{node}`` are replaced, other braces stay.
    """
    job = job_of(host.fragment)
    return [
        word.replace("{fragment_id}", host.fragment)
        .replace("{job_id}", job)
        .replace("{node}", host.node)
        for word in template
    ]


def thread_variables(host: HostSlots, environment: Mapping[str, str]) -> dict[str, str]:
    """Return OMP_NUM_THREADS=1 for workers that share the cores of a node, as torchrun sets it;
    empty for other workers, and if ``environment`` (the trainer's variables) sets it. OpenMP reads
    it when torch is imported.
    """
    shares_cores = host.slots > 1 or host.is_gpu
    if shares_cores and "OMP_NUM_THREADS" not in environment:
        return {"OMP_NUM_THREADS": "1"}
    return {}


VISIBLE_GPUS = "CUDA_VISIBLE_DEVICES"


def visible_gpus(part: Sequence[HostSlots], first_gpu: HostSlots | None = None) -> dict[str, str]:
    """Return CUDA_VISIBLE_DEVICES for one worker: all GPUs of its part, because NCCL finds NVLink
    only between GPUs that a process sees. Empty on whole nodes.

    LOCAL_RANK selects among them. A worker that is alone on its host for its framework finds its
    own GPU, ``first_gpu``, at the head of the list.
    """
    gpus = sorted(
        (host for host in part if host.is_gpu), key=lambda host: (host != first_gpu, host.gpu)
    )
    if not gpus:
        return {}
    return {VISIBLE_GPUS: ",".join(str(host.gpu) for host in gpus)}


EXPORTS = "BFTRAINER_GIVEN"


def exports_after_profiles(environment: Mapping[str, str], names: Iterable[str]) -> str:
    """Return shell lines that set variables of ``environment`` again after a login shell's
    profiles: the variables ``names``, and PATH with its value in ``environment`` before the
    profiles'.
    """
    lines = [
        f"export {name}={shlex.quote(environment[name])}"
        for name in names
        if name.isidentifier() and name != "PATH"
    ]
    if environment.get("PATH"):
        lines.append(f'export PATH={shlex.quote(environment["PATH"])}"${{PATH:+:$PATH}}"')
    return "\n".join(lines)


SETUP = "BFTRAINER_SETUP"


def setup_script(setup: Sequence[str]) -> str:
    """Return the value of :data:`SETUP`: the user's setup lines, of which the first to fail ends
    the shell. The worker does not inherit the variable.

    Lines may set secrets (``export HF_TOKEN=...``). In the environment they are the user's own;
    srun's command line, with the lines in it, would stand in every user's ``ps`` for the whole
    training.
    """
    return "\n".join([f"unset {SETUP}", *(f"{line} || exit" for line in setup)])


def step_command(
    command: Sequence[str], gpus: str = "", runtime: str = "", *, has_setup: bool = False
) -> list[str]:
    """Return the command line that runs in the step: a shell that forbids core files, runs the
    user's setup lines (:data:`SETUP`), and becomes ``command``, under a container runtime if there
    is one.

    The limit is set here because the driver's limits do not apply to a Slurm step. One core file of
    an aborted worker was 594 MB (Horovod 0.28.1 aborts removed workers). ``module`` and ``conda
    activate`` are functions of a login shell, whose profiles set PATH and may activate another
    environment: then :data:`EXPORTS` is evaluated. ``gpus`` are set here because Slurm sets
    CUDA_VISIBLE_DEVICES of a step to all GPUs of its job, whatever srun's environment says.
    """
    shell = ["/bin/bash", "-l"] if has_setup else ["/bin/bash"]
    visible = [f"export {VISIBLE_GPUS}={shlex.quote(gpus)}"] if gpus else []
    lines = [
        "ulimit -c 0",
        f"trap '' {PREEMPTION_SIGNAL}",
        *([f'eval "${EXPORTS}"', f"unset {EXPORTS}"] if has_setup else []),
        *visible,
        *([f'eval "${SETUP}" || exit'] if has_setup else []),
        f'exec {runtime}"$@"',
    ]
    return [*shell, "-c", "\n".join(lines), "bftrainer-worker", *command]


def worker_environment(
    inherited: Mapping[str, str],
    settings: DriverSettings,
    trainer: TrainerMessage,
    additions: Mapping[str, str],
) -> dict[str, str]:
    """Return a worker's environment: the driver's own without variables that disturb a step, then
    the trainer's variables, then ``additions``.

    Python writes its output as it comes: into a pipe it would come in blocks of 8 KiB, minutes
    apart. srun takes the SLURM variables of the pilot's own job for options: with
    SLURM_MEM_PER_NODE, 22.05 rejected steps; with SLURM_HINT a worker saw one core of two.
    """
    kept = {
        name: value
        for name, value in inherited.items()
        if name in settings.keep_environment or not name.startswith(settings.drop_environment)
    }
    return {"PYTHONUNBUFFERED": "1", **kept, **dict(trainer.environment), **additions}


PACKAGES = "/opt/bftrainer"
"""Where bftrainer is in the container, alone: other packages of its folder are for another
Python.
"""
_APPTAINER = "apptainer exec $([ -e /dev/nvidiactl ] && echo --nv) "


class WorkerContainer(NamedTuple):
    """How a worker is started in a container. pyxis: srun gets ``srun_options``. Apptainer: the
    shell line ``runtime`` gets ``arguments`` and the command. ``variables`` are added to the
    environment.
    """

    srun_options: tuple[str, ...] = ()
    runtime: str = ""
    arguments: tuple[str, ...] = ()
    variables: Mapping[str, str] = {}


def container(
    image: str | None, cwd: Path, directory: Path, environment: Mapping[str, str]
) -> WorkerContainer:
    """Return how a worker is started in the trainer's image, by Apptainer or pyxis; empty without
    an image. ``directory``: the trainer directory, which the container sees as well.
    """
    if image is None:
        return WorkerContainer()
    adapters = Path(__file__).resolve().parents[2]
    package = Path(bftrainer.__file__).resolve().parent
    mounts = (
        f"{directory}:{directory}",
        f"{cwd}:{cwd}",
        f"{adapters}:{adapters}:ro",
        f"{package}:{PACKAGES}/bftrainer:ro",
    )
    python_path = ":".join(filter(None, [PACKAGES, environment.get("PYTHONPATH")]))
    variables = {"PYTHONPATH": python_path}
    if image.endswith(".sqsh"):
        options = (
            f"--container-image={image}",
            f"--container-mounts={','.join(mounts)}",
            f"--container-workdir={cwd}",
        )
        return WorkerContainer(srun_options=options, variables=variables)
    binds = tuple(word for mount in mounts for word in ("--bind", mount))
    return WorkerContainer(
        runtime=_APPTAINER, arguments=(*binds, "--pwd", str(cwd), image), variables=variables
    )
