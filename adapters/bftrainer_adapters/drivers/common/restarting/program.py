"""What the restarting drivers differ in: who gets which environment, and what must be open while the workers run."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from bftrainer.protocol.environment import HOSTS
from bftrainer.protocol.hosts import HostSlots
from bftrainer.protocol.paths import TrainerDirectory

Rank = tuple[HostSlots, int, dict[str, str]]
"""A worker to be: its place, its slot there, and the environment that tells it who it is."""


class Program(Protocol):
    """How a trainer's command is started on some nodes."""

    @property
    def name(self) -> str:
        """The launcher's name."""

    @property
    def warm(self) -> Sequence[str] | None:
        """The command that does its imports and waits for its environment; None: started cold."""

    @property
    def collective(self) -> bool:
        """Whether workers that have lost one of them can do nothing more, not even save."""

    def begin(self, incarnation: int, places: Sequence[HostSlots]) -> list[Rank]:
        """Open what this incarnation's workers meet at; the workers, in the order of their ranks."""

    def end(self) -> None:
        """Its workers have ended: close that again."""


@dataclass(frozen=True, slots=True)
class PlainProgram:
    """Launcher ``restart``: once per slot, or (``per_trainer``) once on the first node for programs that start their own.

    RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT as torch's ``env://`` wants them, and
    BFTRAINER_HOSTS (``node:slots,node:slots``).
    """

    directory: TrainerDirectory
    per_trainer: bool
    name: str = "restart"
    warm: Sequence[str] | None = None
    collective: bool = False

    def begin(self, incarnation: int, places: Sequence[HostSlots]) -> list[Rank]:
        """The first node's port is made of the trainer's path and the incarnation: two never meet at one."""
        port = 20000 + zlib.crc32(f"{self.directory.path}/{incarnation}".encode()) % 10000
        found = ranks(places, {"MASTER_ADDR": places[0].host, "MASTER_PORT": str(port)})
        return found[:1] if self.per_trainer else found

    def end(self) -> None:
        """Nothing was opened."""


def ranks(places: Sequence[HostSlots], common: Mapping[str, str]) -> list[Rank]:
    """One per slot, place by place, with what every framework wants to know."""
    size = sum(place.slots for place in places)
    hosts = ",".join(f"{place.host}:{place.slots}" for place in places)
    found: list[Rank] = []
    for place in places:
        for slot in range(place.slots):
            own = {"RANK": str(len(found)), "WORLD_SIZE": str(size), "LOCAL_RANK": str(slot)}
            own |= {"LOCAL_WORLD_SIZE": str(place.slots), HOSTS: hosts}
            found.append((place, slot, {**common, **own}))
    return found
