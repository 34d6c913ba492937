"""Receives hints: datagrams that say "poll now". Any host may send them, so their content is
ignored.

UDP, and no Unix socket: an Epilog runs on another host; bash alone can send a datagram there; and
its sender never waits, not for a pilot that is stopped, gone, or flooded. A datagram that is lost
costs what polling costs.

The pilot counts what arrives and writes the counts to ``hints.json``, where `bftrainer doctor`
reads them.
"""

from __future__ import annotations

import json
import socket
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from ipaddress import ip_network
from pathlib import Path
from typing import Protocol

from bftrainer.config.pilot import HintsConfig, WorkersConfig
from bftrainer.errors import InvalidValueError, UserError
from bftrainer.system.clock import Clock
from bftrainer.system.files import write_atomically
from bftrainer.system.network import datagram_listener, interface_address
from bftrainer.system.regular import read_regular

FILE = "hints.json"
TEST = b"t"
"""The first byte of a datagram of `bftrainer doctor`: it is counted, and no hint."""
MAX_DATAGRAMS_PER_TICK = 64
"""Datagrams that a tick reads; the kernel keeps a few more and drops the rest."""
_WRITE_S = 1.0
_MAX_FILE_BYTES = 10_000


class Hints(Protocol):
    """Where hints come from."""

    def take(self) -> int:
        """The number of hints since the last call; never waits."""


class NoHints:
    """Stands for a listener where no hints are configured."""

    def take(self) -> int:
        return 0


@dataclass(frozen=True, slots=True)
class HintCounts:
    """Counts of the datagrams that arrived at ``address``:``port`` since ``since_s``: ``received``
    hints, the last at ``last_s`` (0: none yet), and ``tests``. Times are seconds since 1970 by the
    host's clock.
    """

    address: str
    port: int
    since_s: float
    received: int = 0
    last_s: float = 0.0
    tests: int = 0

    @classmethod
    def read(cls, state_dir: Path) -> HintCounts | None:
        """Return the counts that a pilot wrote to its state directory; None if there is nothing
        that can be read.
        """
        with suppress(OSError, ValueError, TypeError, RecursionError):
            data = json.loads(read_regular(state_dir / FILE, _MAX_FILE_BYTES))
            types = {
                "address": str,
                "port": int,
                "since_s": float,
                "received": int,
                "last_s": float,
                "tests": int,
            }
            return cls(**{key: kind(data[key]) for key, kind in types.items() if key in data})
        return None


class HintListener:
    """Listens for hints from its creation to ``close``. Raises ``UserError`` if the port cannot be
    had.
    """

    def __init__(
        self, config: HintsConfig, workers: WorkersConfig, state_dir: Path, clock: Clock
    ) -> None:
        """Open the UDP port and write the first counts. Raises ``UserError`` if the port cannot be
        had.
        """
        assert config.port is not None
        try:
            address = config.address or interface_address(workers.interface)
            self._socket = datagram_listener(
                address, config.port, map(ip_network, workers.allow_from)
            )
        except (OSError, InvalidValueError, ValueError) as error:
            where = f"{config.address or workers.interface}, port {config.port}"
            why = error.strerror if isinstance(error, OSError) else error
            raise UserError(f"hints: cannot listen on {where}: {why}") from error
        self._clock = clock
        self._file = state_dir / FILE
        self._counts = self._written_counts = HintCounts(
            address, self._socket.getsockname()[1], clock.now_s()
        )
        self._next_write_s: float = clock.elapsed_s()
        self._write()

    @property
    def counts(self) -> HintCounts:
        return self._counts

    def take(self) -> int:
        """Read the datagrams that have come since the last call, :data:`MAX_DATAGRAMS_PER_TICK` at
        most, and return how many of them are hints, that is, not tests of ``doctor``.

        The file of counts is written at most once a second.
        """
        hint_count = test_count = 0
        for _ in range(MAX_DATAGRAMS_PER_TICK):
            try:
                is_test = self._socket.recv(len(TEST)) == TEST
            # No datagram is left; or an error that a datagram sent from here would have caused, and
            # none is.
            except OSError:
                break
            if is_test:
                test_count += 1
            else:
                hint_count += 1
        counts = self._counts
        if hint_count:
            counts = replace(
                counts, received=counts.received + hint_count, last_s=self._clock.now_s()
            )
        if test_count:
            counts = replace(counts, tests=counts.tests + test_count)
        self._counts = counts
        # The same object as long as no datagram came: counts are frozen.
        if (
            self._counts is not self._written_counts
            and self._clock.elapsed_s() >= self._next_write_s
        ):
            self._write()
        return hint_count

    def close(self) -> None:
        self._socket.close()
        self._write()

    def _write(self) -> None:
        self._written_counts = self._counts
        self._next_write_s = self._clock.elapsed_s() + _WRITE_S
        with suppress(OSError):  # a full disk: only doctor reads it
            write_atomically(self._file, json.dumps(asdict(self._counts)).encode() + b"\n")


def send_test(counts: HintCounts) -> bool:
    """Send a test to the listener that wrote these counts; return whether it was sent."""
    family = socket.AF_INET6 if ":" in counts.address else socket.AF_INET
    with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as sender:
        sender.settimeout(1.0)
        return sender.sendto(TEST, (counts.address, counts.port)) == len(TEST)
    return False
