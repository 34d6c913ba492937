"""What is executed for a worker, and with which environment. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bftrainer.protocol.hosts import HostSlots
from bftrainer.protocol.messages import DriverSettings, TrainerMessage
from bftrainer_adapters.on_node.payload import NOTICE


def filled_prefix(template: Sequence[str], place: HostSlots) -> list[str]:
    """The prefix for one place: ``{fragment_id}`` and ``{node}`` filled in, any other brace left as it is."""
    return [word.replace("{fragment_id}", place.fragment).replace("{node}", place.host) for word in template]


def inside_step(setup: Sequence[str], command: Sequence[str]) -> list[str]:
    """``command`` after the user's setup lines, without core files.

    The limit is set here because limits of the driver do not reach a Slurm step; a core of one aborted worker (Horovod
    0.28.1 aborts removed ones) was 594 MB. ``module`` and ``conda activate`` are functions of a login shell.
    """
    shell = ["/bin/bash", "-l"] if setup else ["/bin/bash"]
    lines = ["ulimit -c 0", f"trap '' {NOTICE}", *(f"{line} || exit" for line in setup), 'exec "$@"']
    return [*shell, "-c", "\n".join(lines), "bftrainer-worker", *command]


def worker_environment(
    inherited: Mapping[str, str], settings: DriverSettings, trainer: TrainerMessage, further: Mapping[str, str]
) -> dict[str, str]:
    """The inherited environment without what cripples a step, the trainer's own, then the driver's.

    Slurm's variables of the pilot's own job would be taken for options of srun (22.05: SLURM_MEM_PER_NODE made it refuse
    steps, with SLURM_HINT a worker saw one core of two).
    """
    kept = {
        name: value
        for name, value in inherited.items()
        if name in settings.keep_environment or not name.startswith(settings.drop_environment)
    }
    return {**kept, **dict(trainer.environment), **further}
