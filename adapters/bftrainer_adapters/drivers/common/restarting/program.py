"""Where the restarting drivers differ: the workers' environment, and what must be open while the workers run."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from bftrainer.protocol.environment import HOSTS
from bftrainer.protocol.hosts import HostSlots
from bftrainer.protocol.paths import TrainerDirectory

Rank = tuple[HostSlots, int, dict[str, str]]
"""A worker to be started: its host, its slot there, and the environment with its rank."""


class Program(Protocol):
    """How a trainer's command is started on some nodes."""

    @property
    def name(self) -> str:
        """The launcher's name."""

    @property
    def warm(self) -> Sequence[str] | None:
        """The command that does its imports and waits for its environment; None: workers start cold."""

    @property
    def collective(self) -> bool:
        """Whether the loss of one worker leaves the others unable to do anything, even to save."""

    def first_variables(self, host: HostSlots) -> dict[str, str]:
        """What a warm worker needs before its imports; all other variables follow with its rank."""

    def begin(self, incarnation: int, hosts: Sequence[HostSlots]) -> list[Rank]:
        """Open the meeting point of this incarnation's workers; the workers, in the order of their ranks."""

    def end(self) -> None:
        """Close the meeting point: the workers have ended."""


@dataclass(frozen=True, slots=True)
class PlainProgram:
    """Launcher ``restart``: one worker per slot, or (``per_trainer``) one on the first node, which starts its own workers.

    Workers get RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT, as torch's ``env://`` needs
    them, and BFTRAINER_HOSTS (``node:slots,node:slots``).
    """

    directory: TrainerDirectory
    per_trainer: bool
    name: str = "restart"
    warm: Sequence[str] | None = None
    collective: bool = False

    def first_variables(self, host: HostSlots) -> dict[str, str]:
        """None: the program's own."""
        return {}

    def begin(self, incarnation: int, hosts: Sequence[HostSlots]) -> list[Rank]:
        """The port depends on the trainer's path and the incarnation: two incarnations do not meet at one port."""
        port = 20000 + zlib.crc32(f"{self.directory.path}/{incarnation}".encode()) % 10000
        found = ranks(hosts, {"MASTER_ADDR": hosts[0].node, "MASTER_PORT": str(port)})
        return found[:1] if self.per_trainer else found

    def end(self) -> None:
        """Nothing was opened."""


def ranks(hosts: Sequence[HostSlots], common: Mapping[str, str]) -> list[Rank]:
    """One worker per slot, host by host, with the variables that every framework needs."""
    size = sum(host.slots for host in hosts)
    listed = ",".join(f"{host.node}:{host.slots}" for host in hosts)
    found: list[Rank] = []
    for host in hosts:
        for slot in range(host.slots):
            own = {"RANK": str(len(found)), "WORLD_SIZE": str(size), "LOCAL_RANK": str(slot)}
            own |= {"LOCAL_WORLD_SIZE": str(host.slots), HOSTS: listed}
            found.append((host, slot, {**common, **own}))
    return found
