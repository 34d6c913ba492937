"""Launchers that rescale by checkpoint, stop and start on the new nodes: ``restart`` and
``torchrun``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from bftrainer.wires.environment import HOSTS
from bftrainer.wires.hosts_file import HostSlots, parts_of
from bftrainer_drivers.common.command_line import visible_gpus
from bftrainer_drivers.common.core import Heard, Terms, WorkerEnded
from bftrainer_drivers.common.legal_sizes import LegalSizes
from bftrainer_drivers.common.membership import Member
from bftrainer_drivers.common.run_loop import Backend, Run
from bftrainer_drivers.common.warm_command import warm_command

Rank = tuple[HostSlots, int, dict[str, str]]
"""A worker to be started: its host, its slot there, and the environment with its rank."""


class RestartBackend(Backend, ABC):
    """The base of launchers whose workers start together and end together. Those of the next
    incarnation do their imports while the present one trains.
    """

    def __init__(self, run: Run, *, collective: bool, warm: bool = True) -> None:
        self.run = run
        trainer = run.trainer
        self.terms = Terms(
            False,
            LegalSizes.of(trainer),
            trainer.stop_s,
            run.settings.hang_s,
            collective=collective,
            stop_signal=run.stop_signal,
            samples=trainer.samples_total,
            first_step_s=run.first_step_s,
        )
        self._warm = warm_command(trainer.command) if warm else None
        self._left: int | None = None

    def first_variables(self, host: HostSlots) -> dict[str, str]:
        """Return what a warm worker needs before its imports; all other variables follow with its
        rank.
        """
        return {}

    @abstractmethod
    def ranks(self, incarnation: int, hosts: Sequence[HostSlots]) -> list[Rank]:
        """Open the meeting point of this incarnation's workers; return the workers in the order of
        their ranks.
        """

    def start(self, member: Member) -> None:
        self.run.warm_up(member, self._warm, self.first_variables(member.host), ahead=True)

    def begin(self, members: Sequence[Member]) -> None:
        at = {member.host: member for member in members}
        ranks = self.ranks(self.run.events.incarnation, list(at))
        self._left = len(ranks)
        for host, slot, environment in ranks:
            self.run.crew.join(at[host], slot, environment)

    def note(self, heard: Heard) -> None:
        if isinstance(heard, WorkerEnded) and self._left is not None:
            self._left -= 1

    def is_over(self) -> bool:
        return self._left == 0


def numbered(hosts: Sequence[HostSlots], common: Mapping[str, str]) -> list[Rank]:
    """Return one worker per slot, host by host, with RANK, WORLD_SIZE and the other variables that
    every framework needs. The GPUs of one holder count as one host.
    """
    size = sum(host.slots for host in hosts)
    parts = parts_of(hosts)
    listed = ",".join(
        f"{node}:{sum(host.slots for host in part)}" for (node, _), part in parts.items()
    )
    ranks: list[Rank] = []
    for part in parts.values():
        local = [(host, slot) for host in part for slot in range(host.slots)]
        shared = {
            "WORLD_SIZE": str(size),
            "LOCAL_WORLD_SIZE": str(len(local)),
            HOSTS: listed,
            **visible_gpus(part),
        }
        for local_rank, (host, slot) in enumerate(local):
            own = {"RANK": str(len(ranks)), "LOCAL_RANK": str(local_rank)}
            ranks.append((host, slot, {**common, **shared, **own}))
    return ranks
