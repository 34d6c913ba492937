"""Runs another program and returns its output: a list of words, a time limit, no shell.

Variables of the pilot's own batch job are removed from the environment first. Programs that inherit
them fail or are limited without a message (Slurm 22.05.8): SLURM_MEM_PER_CPU and SLURM_MEM_PER_NODE
become limits of steps or make Slurm reject them, SLURM_GPUS hides GPUs, SLURM_HINT hides cores.
LSF's LSB_* variables can change the output of bjobs and bhosts (LSB_BJOBS_FORMAT).
"""

from __future__ import annotations

import os
import selectors
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TypeVar

from bftrainer.errors import CommandError, SchedulerError
from bftrainer.system.printable import printable
from bftrainer.system.umask import users_umask

DROPPED_PREFIXES = (
    "SLURM_",
    "SBATCH_",
    "SRUN_",
    "SQUEUE_",
    "SINFO_",
    "SCONTROL_",
    "SCANCEL_",
    "LSB_",
    "LSF_UNIT_FOR_LIMITS",
    "LS_SUBCWD",
)
KEPT = ("SLURM_CONF",)
_FIRST_LINES, _LAST_LINES = 1, 3
_MOST_CHARACTERS = 400
_DRAIN_S = 1.0
_CHUNK_BYTES = 65_536
MOST_BYTES = 64 * 2**20
"""How much of one answer is held where most of its lines are dropped."""

Parsed = TypeVar("Parsed")


@dataclass(frozen=True, slots=True)
class Output:
    """What a program that has ended printed, and its exit status (negative: the signal that ended
    it).
    """

    out: str
    err: str
    status: int


def scrubbed(environment: Mapping[str, str]) -> dict[str, str]:
    """Return ``environment`` without the variables of a batch job (:data:`DROPPED_PREFIXES`, but
    for :data:`KEPT`), and with the locale whose output the parsers know.
    """
    variables = {
        name: value
        for name, value in environment.items()
        if name in KEPT or not name.startswith(DROPPED_PREFIXES)
    }
    return {**variables, "LC_ALL": "C.UTF-8"}


def run(
    argv: Sequence[str],
    *,
    timeout_s: float,
    env: Mapping[str, str] | None = None,
    stdin: str | None = None,
    cwd: str | None = None,
) -> str:
    """Run ``argv`` and return its standard output. ``env`` is added to the scrubbed environment;
    ``cwd`` is where it runs (None: here).

    Raises :class:`~bftrainer.errors.CommandError` if the program does not exist, takes longer than
    ``timeout_s`` (its process group is then killed) or exits with a nonzero status.
    """
    output = outcome(argv, timeout_s=timeout_s, env=env, stdin=stdin, cwd=cwd)
    if output.status:
        raise failure(argv, output)
    return output.out


def outcome(
    argv: Sequence[str],
    *,
    timeout_s: float,
    env: Mapping[str, str] | None = None,
    stdin: str | None = None,
    cwd: str | None = None,
) -> Output:
    """Run ``argv`` as :func:`run` does, but return a nonzero exit status instead of raising. Line
    ends stay as they are: a CR in the output is no new line.
    """
    process = _started(argv, env, stdin is not None, cwd)
    with _killed_on_error(process, argv, timeout_s):
        out, err = process.communicate(None if stdin is None else stdin.encode(), timeout=timeout_s)
    return Output(out.decode(errors="replace"), err.decode(errors="replace"), process.returncode)


def outcome_of_lines(
    argv: Sequence[str],
    keep: Callable[[bytes], bool],
    *,
    timeout_s: float,
    env: Mapping[str, str] | None = None,
    most_bytes: int = MOST_BYTES,
) -> Output:
    """Run ``argv`` as :func:`outcome` does, and return only those lines of its standard output that
    ``keep`` takes: the others are dropped while the program runs, however many there are.

    Raises :class:`~bftrainer.errors.CommandError` also where the lines to keep, a single line, or
    the standard error have more than ``most_bytes``; the program is then killed.
    """
    until_s = time.monotonic() + timeout_s
    process = _started(argv, env, False, None)
    assert process.stdout is not None
    assert process.stderr is not None
    kept, errors = _LineFilter(keep), bytearray()
    with _killed_on_error(process, argv, timeout_s), selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ, kept.feed)
        selector.register(process.stderr, selectors.EVENT_READ, errors.extend)
        while selector.get_map():
            for key, _ in selector.select(max(until_s - time.monotonic(), 0.0)):
                chunk = os.read(key.fd, _CHUNK_BYTES)
                key.data(chunk)
                if not chunk:
                    selector.unregister(key.fileobj)
            if max(kept.size, len(errors)) > most_bytes:
                raise CommandError(argv, f"printed more than {most_bytes} bytes, killed")
            if time.monotonic() >= until_s:
                raise subprocess.TimeoutExpired(argv, timeout_s)
        process.wait(max(until_s - time.monotonic(), 0.0))
    process.stdout.close()
    process.stderr.close()
    text = kept.text().decode(errors="replace")
    return Output(text, errors.decode(errors="replace"), process.returncode)


@contextmanager
def _killed_on_error(
    process: subprocess.Popen[bytes], argv: Sequence[str], timeout_s: float
) -> Iterator[None]:
    """Kill the program's process group if the block raises; a time limit is a ``CommandError``."""
    try:
        yield
    except subprocess.TimeoutExpired as error:
        _kill_group(process)
        raise CommandError(argv, f"no response within {timeout_s:g} s, killed") from error
    except BaseException:
        _kill_group(process)
        raise


class _LineFilter:
    """Takes output in pieces and holds the lines that are kept, and the line that is not over."""

    def __init__(self, keep: Callable[[bytes], bool]) -> None:
        self._keep = keep
        self._lines: list[bytes] = []
        self._begun: list[bytes] = []  # the pieces of the line that is not over
        self.size = 0
        """The bytes that are held."""

    def feed(self, chunk: bytes) -> None:
        first, *others = chunk.split(b"\n")
        self._begun.append(first)
        self.size += len(first)
        for beginning in others:
            self._end_line()
            self._begun = [beginning]
            self.size += len(beginning)

    def _end_line(self) -> None:
        line = b"".join(self._begun)
        if self._keep(line):
            self._lines.append(line + b"\n")
            self.size += 1
        else:
            self.size -= len(line)

    def text(self) -> bytes:
        """Return the lines that are kept; one at the end without a line end always is, so that a
        parser sees that the output was cut.
        """
        return b"".join((*self._lines, *self._begun))


def _started(
    argv: Sequence[str], env: Mapping[str, str] | None, has_input: bool, cwd: str | None
) -> subprocess.Popen[bytes]:
    """Start a program as :func:`outcome` runs it. Raises ``CommandError``."""
    environment = {**scrubbed(os.environ), **(env or {})}
    try:
        return subprocess.Popen(  # noqa: S603  # a list, no shell
            argv,
            stdin=subprocess.PIPE if has_input else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            cwd=cwd,
            # the pilot's next job must not take the pilot's own for its user's
            umask=users_umask(),
            start_new_session=True,
        )
    except FileNotFoundError as error:
        raise CommandError(argv, "not found") from error
    except OSError as error:
        # A folder on PATH that cannot be searched hides that the program is in none of the others.
        if "/" not in argv[0] and shutil.which(argv[0], path=environment.get("PATH")) is None:
            raise CommandError(argv, "not found") from error
        raise CommandError(argv, f"cannot be started: {error.strerror}") from error


def failure(argv: Sequence[str], output: Output) -> CommandError:
    """Build the error of a program that failed, from the first and the last lines that it
    printed.
    """
    lines = (output.err.strip() or output.out.strip() or "said nothing").split("\n")
    if len(lines) > _FIRST_LINES + _LAST_LINES:
        lines = [*lines[:_FIRST_LINES], "...", *lines[-_LAST_LINES:]]
    summary = " / ".join(printable(line.strip())[:_MOST_CHARACTERS] for line in lines)
    end = f"exit status {output.status}" if output.status > 0 else _signal_text(-output.status)
    return CommandError(argv, f"{end}: {summary}", output.status)


def parsed(argv: Sequence[str], text: str, parse: Callable[[str], Parsed]) -> Parsed:
    """Apply ``parse`` to the ``text`` that ``argv`` printed.

    Whatever goes wrong (a number too long, nesting too deep, a missing key) becomes a
    :class:`~bftrainer.errors.SchedulerError` here and nowhere else: other users write parts of
    these answers.
    """
    try:
        return parse(text)
    except SchedulerError as error:
        error.answer = (tuple(argv), text)
        error.args = (printable(str(error))[:_MOST_CHARACTERS],)  # it quotes the text
        raise
    except (  # AttributeError: a document of another shape
        ArithmeticError,
        AttributeError,
        LookupError,
        RecursionError,
        TypeError,
        ValueError,
    ) as error:
        message = printable(str(error))[:80]
        parse_error = SchedulerError(
            f"{' '.join(argv[:3])}: the output cannot be parsed: {type(error).__name__}: {message}"
        )
        parse_error.answer = (tuple(argv), text)
        raise parse_error from error


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill the program's process group, and wait a moment at most: a process that has left the
    group and keeps the pipes open does not block us.
    """
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


def _signal_text(number: int) -> str:
    """Say by which signal a program was ended."""
    with suppress(ValueError):  # no signal of this number has a name
        return f"ended by {signal.Signals(number).name}"
    return f"ended by signal {number}"
