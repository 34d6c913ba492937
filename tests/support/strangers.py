"""A crowd at a port: connections of another user, who sends a request one byte at a time and
connects again when hung up on.

As root the crowd runs as ``nobody``; TCP does not tell the server whose connections they are, so
without root it is this user.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

NOBODY = 65534


def as_stranger(*argv: str) -> list[str]:
    """A command as another user: as ``nobody``, where this is root."""
    if os.geteuid() != 0:
        return list(argv)
    return [
        "setpriv",
        f"--reuid={NOBODY}",
        f"--regid={NOBODY}",
        "--clear-groups",
        "--no-new-privs",
        *argv,
    ]


_CROWD = """
import resource, select, socket, sys, time
address, port, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
made, there = 0, []
while True:
    for one in list(there):
        try:
            one.send(b"x")
        except OSError:
            one.close()
            there.remove(one)
    while len(there) < size:
        one = socket.socket()
        one.setblocking(False)
        try:
            one.connect((address, port))
        except BlockingIOError:
            pass
        except OSError:
            one.close()
            break
        made += 1
        there.append(one)
        if made % 50 == 0:
            time.sleep(0.01)
    _, writable, _ = select.select([], there[:500], [], 0.05)
    for one in writable:
        try:
            one.send(b"GET /metrics HTTP/1.1\\r\\nHost: a\\r\\nX: ")
        except OSError:
            pass
    print(made, flush=True)
    time.sleep(0.1)
"""


class Crowd:
    """``made``: connections that it has made so far."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def made(self) -> int:
        assert self._process.stdout is not None
        return int(self._process.stdout.readline())

    def is_there(self) -> bool:
        return self._process.poll() is None


@contextmanager
def crowd(address: str, port: int, size: int = 600) -> Iterator[Crowd]:
    """A crowd of this size, from now to the end of the block."""
    process = subprocess.Popen(
        as_stranger(sys.executable, "-I", "-S", "-c", _CROWD, address, str(port), str(size)),
        stdout=subprocess.PIPE,
        text=True,
        cwd="/",
    )
    try:
        yield Crowd(process)
    finally:
        process.kill()
        process.communicate()
