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
    """Return which memory was too small, ``GPU`` or ``host``, by the first line of a log that says
    so; empty if no line does.
    """
    for line in lines:
        for kind, pattern in _OUT_OF_MEMORY.items():
            if pattern.search(line):
                return kind
    return ""


def oom_killed(lines: Iterable[str]) -> bool:
    """Return whether Slurm says that the kernel killed the worker for its memory: then no node was
    lost.
    """
    return any(_OOM_KILLED.match(line) for line in lines)


def has_no_holder(lines: Sequence[str]) -> bool:
    """Return whether a log ends with srun's message that the holder's job has ended, or that
    slurmctld does not answer: then no program was started.
    """
    return bool(lines) and _NO_HOLDER.match(lines[-1]) is not None


def last_lines(path: Path, count: int = 20, max_bytes: int = 8192, since: int = 0) -> list[str]:
    """Return the last lines of a log, and of its older part if the log is short: ``count`` lines
    and ``max_bytes`` bytes at most. Empty without a log. ``since``: bytes at the beginning of the
    log to leave out, the older part with them.
    """
    data = b""
    parts = (path,) if since else (older_part(path), path)
    for part in parts:
        with suppress(FileNotFoundError), os.fdopen(open_regular(part), "rb") as file:
            file.seek(max(since, part.stat().st_size - max_bytes))
            data += file.read(max_bytes)
    return data[-max_bytes:].decode(errors="replace").splitlines()[-count:]


def last_exception(path: Path, since: int = 0) -> str:
    """Return the last line of the last Python traceback in a log (``ValueError: ...``), printable;
    empty if there is no traceback.
    """
    exception = ""
    is_in_traceback = False
    for log_line in last_lines(path, count=10_000, max_bytes=1 << 16, since=since):
        line = _RANK.sub("", log_line, count=1)
        if line.startswith("Traceback (most recent call last):"):
            exception, is_in_traceback = "", True
        elif is_in_traceback and _EXCEPTION.match(line):
            exception, is_in_traceback = line.rstrip(), False
    return printable(exception)[:300]
