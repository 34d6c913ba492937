"""The end of a worker's or a driver's log."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from bftrainer.system.printable import printable
from bftrainer.system.regular import open_regular
from bftrainer.wires.paths import older_part

_EXCEPTION = re.compile(r"[A-Za-z_][\w.]*(:|$)")
"""The line after a traceback."""
_RANK = re.compile(r"\[rank\d+\]: ")
"""torch.distributed puts it before each line of a traceback."""
_OUT_OF_MEMORY = {
    "GPU": re.compile(r"(CUDA|HIP|XPU) (error: )?out of memory|torch\.(cuda\.)?OutOfMemoryError"),
    # srun and slurmstepd since 20.11; the kernel's and Python's words.
    "host": re.compile(
        r"oom[-_]kill|\bOut [Oo]f [Mm]emory\b|\bMemoryError\b|Cannot allocate memory"
    ),
}
_OOM_KILLED = re.compile(r"(\[\S+\] )?(srun|slurmstepd)(-\S+)?: .*(oom[-_]kill|: Out Of Memory)")
"""How Slurm says that the kernel has killed a process of the step for its memory."""

_NO_HOLDER = re.compile(
    r"srun: (Check SLURM_JOB_ID environment variable\. Expired or invalid job"
    r"|error: Unable to create step for job \d+: (Job/step already completing|Invalid job "
    r"id|Unable to contact|.*timed out))"
)


def out_of_memory(lines: Iterable[str]) -> str:
    """Which memory was too small, ``GPU`` or ``host``, by the first line that says so; empty if it
    was none.
    """
    return next(
        (
            kind
            for line in lines
            for kind, pattern in _OUT_OF_MEMORY.items()
            if pattern.search(line)
        ),
        "",
    )


def oom_killed(lines: Iterable[str]) -> bool:
    """Whether Slurm says that the worker's SIGKILL was the kernel's, for its memory: no node was
    lost.
    """
    return any(_OOM_KILLED.match(line) for line in lines)


def has_no_holder(lines: Sequence[str]) -> bool:
    """Whether srun's last words are that the holder's job has ended, or slurmctld does not answer:
    no program was started.
    """
    return bool(lines) and _NO_HOLDER.match(lines[-1]) is not None


def last_lines(path: Path, count: int = 20, max_bytes: int = 8192, since: int = 0) -> list[str]:
    """The last lines of a log, which may begin before the last rotation; empty without a log.
    ``since``: bytes to leave out.
    """
    data = b""
    for part in (path,) if since else (older_part(path), path):
        with suppress(FileNotFoundError), os.fdopen(open_regular(part), "rb") as file:
            file.seek(max(since, part.stat().st_size - max_bytes))
            data += file.read(max_bytes)
    return data[-max_bytes:].decode(errors="replace").splitlines()[-count:]


def last_exception(path: Path, since: int = 0) -> str:
    """The line of the last exception in a log (``ValueError: ...``), on one printable line; empty
    without one.
    """
    exception, in_traceback = "", False
    lines = last_lines(path, count=10_000, max_bytes=1 << 16, since=since)
    for line in (_RANK.sub("", line, count=1) for line in lines):
        if line.startswith("Traceback (most recent call last):"):
            exception, in_traceback = "", True
        elif in_traceback and _EXCEPTION.match(line):
            exception, in_traceback = line.rstrip(), False
    return printable(exception)[:300]
