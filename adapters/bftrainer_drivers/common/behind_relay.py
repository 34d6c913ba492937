"""Runs on a node, in a worker: starts the relay to the driver's store (``store_relay.py``), and
sets torch's variables to it.

    python behind_relay.py COMMAND [ARGUMENT ...]     does so, and becomes the command

Only the standard library is used, of Python 3.8 and later: bftrainer may be missing in the user's
environment.
"""

from __future__ import annotations

import os
import subprocess
import sys

STORE = "BFTRAINER_STORE"
"""``host:port:key`` of the driver's store, in the worker's environment until the relay is open;
empty: it comes later.
"""
_RELAY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "store_relay.py")  # noqa: PTH100, PTH118, PTH120 - pathlib would be one import more

_running: list[subprocess.Popen[bytes]] = []
"""The relay of this process, which lasts as long as the pipe to it is open."""


def start_relay() -> None:
    """Start the relay if the environment names a store, perhaps an empty one that is filled in
    later: :func:`open_relay` gives the relay its place.
    """
    if STORE in os.environ and not _running:
        relay = subprocess.Popen(  # noqa: S603 - our own file
            [sys.executable, "-I", "-S", _RELAY],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        _running.append(relay)


def open_relay() -> None:
    """Tell the relay where the store is, and set MASTER_ADDR and MASTER_PORT to the relay. Nothing
    is done if the environment names no store.
    """
    start_relay()
    place = os.environ.pop(STORE, "")
    if not place:
        return
    (relay,) = _running
    assert relay.stdin is not None
    assert relay.stdout is not None
    try:
        relay.stdin.write(place.encode() + b"\n")
        relay.stdin.flush()
        port = relay.stdout.readline().decode().strip()
    except OSError:
        port = ""
    if not port:
        raise SystemExit(
            f"bftrainer: {sys.executable} {_RELAY}: the relay to the trainer's store has ended"
        )
    relay.stdout.close()
    # The command that this process becomes keeps the pipe to the relay open.
    os.set_inheritable(relay.stdin.fileno(), True)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port)


def main() -> None:
    """Open the relay, then become the command that the arguments give."""
    open_relay()
    try:
        os.execvp(sys.argv[1], sys.argv[1:])  # noqa: S606 - the user's own command
    except OSError as error:
        raise SystemExit(f"{sys.argv[1]}: {error.strerror}") from None


if __name__ == "__main__":
    main()
