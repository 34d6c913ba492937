"""Slurm's answers that one process publishes for all pilots (``bftrainer broker``): files that only
it can write.

A file is one line of JSON, the head, and the text. Before the text of the list of jobs, there may
be a line with the weights of users: it grows with the users of a site, and the head, which pilots
read twice a second, does not. A reader that finds no file that counts asks Slurm itself, so nothing
depends on the publisher.
"""

from __future__ import annotations

import json
import math
import os
import stat
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from bftrainer.errors import SchedulerError
from bftrainer.system.regular import open_regular
from bftrainer.system.shared_files import while_replaced
from bftrainer_clusters.slurm.job_list import JobList, parse_jobs

JOBS = "squeue"
"""Its file is replaced last, and no other file counts without it."""
COUNTERS = ("sdiag",)
"""The command whose answer tells that a job has come, started or ended. It is published after the
list and the nodes that show what has happened.
"""
COUNTERS_S = 4.0
"""A broker that has not counted jobs for so long is dead, as far as main jobs are concerned: four
looks of a pilot (nodes.yield_poll_s).
"""
MOST_BYTES = 64 << 20
MOST_S = 60.0
CLOCKS_S = 1.0
"""The most seconds by which the clocks of two hosts may differ."""
_HEAD_BYTES = 1 << 16


class NotPublishedError(ValueError):
    """Why a published answer does not count, in one line."""


@dataclass(frozen=True, slots=True)
class Head:
    """The first line of a published file. ``at_s``: when the command began, by the publisher's
    clock; ``for_s``: how long the answer counts. ``size``: bytes of the text. ``mark`` ends the
    records of jobs. ``news`` changes with the jobs, their comments, and the weights of users.
    ``weights_size``: bytes of these before the text (0: none, ask for them). ``cluster``: the one
    that was asked.
    """

    at_s: float
    for_s: float
    size: int
    mark: str = ""
    news: str = ""
    weights_size: int = 0
    cluster: str = ""


def name_of(argv: Sequence[str]) -> str:
    """Return the name of the file with the answer to a command."""
    return "-".join(word.lstrip("-") for word in argv)


def packed(head: Head, body: bytes) -> bytes:
    """Return the content of a file to publish: the head as a line of JSON, then ``body``.

    Raises ``SchedulerError`` where pilots would refuse the file.
    """
    first = json.dumps(asdict(head)).encode() + b"\n"
    size = len(first) + len(body)
    if len(first) > _HEAD_BYTES or size > MOST_BYTES:
        raise SchedulerError(
            f"not published, so pilots ask Slurm themselves: {size:,} bytes, pilots read at "
            f"most {MOST_BYTES:,}"
        )
    return first + body


def packed_weights(weights: Mapping[str, int] | None) -> bytes:
    """Return the line of users' weights that stands before a text; nothing if pilots are to ask for
    them.
    """
    return b"" if weights is None else json.dumps(weights).encode() + b"\n"


def parse_head(line: str) -> Head:
    """Parse the first line of a file. Raises what JSON and numbers do."""
    values = json.loads(line)
    at_s, for_s, size = (float(values[key]) for key in ("at_s", "for_s", "size"))
    mark, news, cluster = (str(values[key]) for key in ("mark", "news", "cluster"))
    weights_size = max(int(values["weights_size"]), 0)
    return Head(at_s, for_s, int(size), mark, news, weights_size, cluster)


def parse_weights(line: bytes) -> Mapping[str, int] | None:
    """Parse what :func:`packed_weights` has written. Raises what JSON and numbers do."""
    if not line:
        return None
    return {str(user): max(int(weight), 0) for user, weight in dict(json.loads(line)).items()}


@dataclass(frozen=True, slots=True)
class _File:
    """What was read of a file; without its text, the weights are None as well."""

    head: Head
    weights: Mapping[str, int] | None
    text: str


@dataclass
class Published:
    """Reads the answers that a broker, who is user ``uid``, publishes in ``folder``. Answers of
    another cluster than ``cluster`` do not count; empty: it is not known yet.
    """

    folder: Path
    uid: int
    now_s: Callable[[], float] = time.time
    elapsed_s: Callable[[], float] = time.monotonic
    _jobs: tuple[Head, JobList] | None = None
    cluster: str = ""
    _ahead_s: float = -math.inf
    """When an answer came from the future last: then others may be older than they look."""

    def head(self, name: str = JOBS) -> Head:
        """Return the head of a file, if it counts. Raises :class:`NotPublishedError`."""
        return self._read_published(name, with_text=False).head

    def text(self, argv: Sequence[str]) -> str:
        """Return the answer to a command, which counts only beside a list of :meth:`jobs`. Raises
        :class:`NotPublishedError`.
        """
        return self._read_published(name_of(argv)).text

    def counters(self) -> str:
        """Return sdiag's output, which counts for :data:`COUNTERS_S`. Raises
        :class:`NotPublishedError`.
        """
        file = self._read_published(name_of(COUNTERS))
        age_s = self.now_s() - file.head.at_s
        if age_s > COUNTERS_S:
            raise NotPublishedError(
                f"{self.folder / name_of(COUNTERS)}: is {age_s:.1f} s old, expected at most "
                f"{COUNTERS_S:g}"
            )
        return file.text

    def jobs(self) -> JobList:
        """Return the published list: all jobs that wait, and all jobs of pilots. Raises
        :class:`NotPublishedError`.
        """
        head = self.head()
        if self._jobs is None or self._jobs[0] != head:
            file = self._read_published(JOBS)
            at_s = self.elapsed_s() - (self.now_s() - file.head.at_s)
            jobs = replace(parse_jobs(file.text, file.head.mark), at_s=at_s, weights=file.weights)
            self._jobs = file.head, jobs
        return self._jobs[1]

    def age_s(self, jobs: JobList) -> float:
        """Return the age, at most, of a published list in seconds; 0 for a list of the
        pilot's own.
        """
        return 0.0 if jobs.at_s is None else self.elapsed_s() - jobs.at_s + CLOCKS_S

    def _read_published(self, name: str, with_text: bool = True) -> _File:
        """Read a file. Raises :class:`NotPublishedError` if it does not count: too old, of another
        cluster, incomplete, or from a host whose clock is ahead.
        """
        path = self.folder / name
        try:
            first, rest, size = while_replaced(lambda: self._file_content(path, with_text))
            head = parse_head(first.decode())
            weights = parse_weights(rest[: head.weights_size])
        except (OSError, ArithmeticError, ValueError, KeyError, TypeError, RecursionError) as error:
            why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            raise NotPublishedError(
                why if isinstance(error, NotPublishedError) else f"{path}: {why}"
            ) from error
        age_s = self.now_s() - head.at_s
        if age_s < -CLOCKS_S:
            self._ahead_s = self.elapsed_s()
        if not -CLOCKS_S <= age_s <= min(head.for_s, MOST_S):
            raise NotPublishedError(
                f"{path}: is {age_s:.1f} s old, expected at most {min(head.for_s, MOST_S):.1f}"
            )
        if self.elapsed_s() - self._ahead_s < MOST_S:
            raise NotPublishedError(
                f"{path}: the clock of its host is more than {CLOCKS_S:g} s ahead of this one's"
            )
        if head.cluster and self.cluster and head.cluster != self.cluster:
            raise NotPublishedError(
                f"{path}: is of cluster {head.cluster!r}, expected {self.cluster!r}"
            )
        expected = head.weights_size + head.size
        if size != expected:
            raise NotPublishedError(f"{path}: has {size:,} bytes of text, expected {expected:,}")
        return _File(head, weights, rest[head.weights_size :].decode(errors="replace"))

    def _file_content(self, path: Path, with_text: bool) -> tuple[bytes, bytes, int]:
        """Return the head, the rest of the file (empty without ``with_text``), and the size of the
        rest in bytes. Raises :class:`NotPublishedError` if other users could have written the file.
        """
        with os.fdopen(open_regular(path), "rb") as file:
            status = os.fstat(file.fileno())
            if status.st_uid != self.uid:
                raise NotPublishedError(
                    f"{path}: belongs to uid {status.st_uid}, expected {self.uid}"
                )
            if status.st_nlink != 1 or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                raise NotPublishedError(f"{path}: others can write it, or it has several links")
            if status.st_size > MOST_BYTES:
                raise NotPublishedError(
                    f"{path}: has {status.st_size:,} bytes, expected at most {MOST_BYTES:,}"
                )
            first = file.readline(_HEAD_BYTES)
            return first, file.read(MOST_BYTES) if with_text else b"", status.st_size - len(first)
