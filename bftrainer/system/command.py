"""Runs another program and returns its output: a list of words, a time limit, no shell.

Variables of the pilot's own batch job are removed from the environment first. Programs that inherit them fail or are limited
without a message (Slurm 22.05.8): SLURM_MEM_PER_CPU and SLURM_MEM_PER_NODE become limits of steps or make Slurm reject them,
SLURM_GPUS hides GPUs, SLURM_HINT hides cores. LSF's LSB_* variables can change the output of bjobs and bhosts
(LSB_BJOBS_FORMAT).
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress

from bftrainer.errors import CommandError

DROPPED_PREFIXES = (
    "SLURM_", "SBATCH_", "SRUN_", "SQUEUE_", "SINFO_", "SCONTROL_", "SCANCEL_", "LSB_", "LSF_UNIT_FOR_LIMITS", "LS_SUBCWD",
)  # fmt: skip
KEPT = ("SLURM_CONF",)
_LAST_LINES = 3
_DRAIN_S = 1.0


def scrubbed(environment: Mapping[str, str]) -> dict[str, str]:
    """``environment`` without the variables of a batch job, with a locale in which parsers know the output."""
    kept = {k: v for k, v in environment.items() if k in KEPT or not k.startswith(DROPPED_PREFIXES)}
    return {**kept, "LC_ALL": "C.UTF-8"}


def run(
    argv: Sequence[str], *, timeout_s: float, env: Mapping[str, str] | None = None, stdin: str | None = None
) -> str:
    """The standard output of ``argv``; ``env`` is added to the scrubbed environment.

    Raises :class:`~bftrainer.errors.CommandError` if the program does not exist, takes longer than ``timeout_s``
    (its process group is then killed) or exits with a nonzero status.
    """
    environment = {**scrubbed(os.environ), **(env or {})}
    try:
        process = subprocess.Popen(  # noqa: S603  # a list, no shell
            argv,
            stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            text=True,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
        )
    except FileNotFoundError as error:
        raise CommandError(argv, "not found") from error
    except OSError as error:
        raise CommandError(argv, f"cannot be started: {error.strerror}") from error
    try:
        out, err = process.communicate(stdin, timeout=timeout_s)
    except subprocess.TimeoutExpired as error:
        _end(process)
        raise CommandError(argv, f"no response within {timeout_s:g} s, killed") from error
    except BaseException:
        _end(process)
        raise
    if process.returncode:
        said = " / ".join((err.strip() or out.strip() or "said nothing").splitlines()[-_LAST_LINES:])
        ended = f"exit status {process.returncode}" if process.returncode > 0 else _signal_name(-process.returncode)
        raise CommandError(argv, f"{ended}: {said}", process.returncode)
    return out


def _end(process: subprocess.Popen[str]) -> None:
    """Kill the process group. A process that has left the group and keeps the pipes open does not block us."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with suppress(subprocess.TimeoutExpired):
        process.communicate(timeout=_DRAIN_S)
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()
    with suppress(subprocess.TimeoutExpired):
        process.wait(_DRAIN_S)


def _signal_name(number: int) -> str:
    with suppress(ValueError):
        return f"ended by {signal.Signals(number).name}"
    return f"ended by signal {number}"
