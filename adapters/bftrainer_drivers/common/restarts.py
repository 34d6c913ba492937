"""Launchers that rescale by checkpoint, stop and start on the new nodes: ``restart`` and
``torchrun``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from bftrainer.wires.environment import HOSTS
from bftrainer.wires.hosts_file import HostSlots, parts_of
from bftrainer_drivers.common.command_line import visible_gpus
from bftrainer_drivers.common.core import News, Terms, WorkerEnded
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
            is_elastic=False,
            sizes=LegalSizes.of(trainer),
            stop_s=trainer.stop_s,
            hang_s=run.settings.hang_s,
            is_collective=collective,
            stop_signal=run.stop_signal,
            samples=trainer.samples_total,
            first_step_s=run.first_step_s,
        )
        self._warm = warm_command(trainer.command) if warm else None
        self._running_count: int | None = None
        """How many workers of the present incarnation run; None before the first one."""

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
        member_on = {member.host: member for member in members}
        ranks = self.ranks(self.run.events.incarnation, list(member_on))
        self._running_count = len(ranks)
        for host, slot, environment in ranks:
            self.run.crew.join(member_on[host], slot, environment)

    def note(self, news: News) -> None:
        if isinstance(news, WorkerEnded) and self._running_count is not None:
            self._running_count -= 1

    def is_over(self) -> bool:
        return self._running_count == 0


def ranked_workers(hosts: Sequence[HostSlots], common: Mapping[str, str]) -> list[Rank]:
    """Return one worker per slot in the order of the ranks, host by host, with RANK, WORLD_SIZE and
    the other variables that every framework needs, and the variables ``common`` to all workers.
    The GPUs of one holder count as one host.
    """
    world_size = sum(host.slots for host in hosts)
    parts = parts_of(hosts)
    slots_of_nodes = ",".join(
        f"{node}:{sum(host.slots for host in part)}" for (node, _), part in parts.items()
    )
    ranks: list[Rank] = []
    for part in parts.values():
        local_slots = [(host, slot) for host in part for slot in range(host.slots)]
        part_variables = {
            "WORLD_SIZE": str(world_size),
            "LOCAL_WORLD_SIZE": str(len(local_slots)),
            HOSTS: slots_of_nodes,
            **visible_gpus(part),
        }
        for local_rank, (host, slot) in enumerate(local_slots):
            rank_variables = {"RANK": str(len(ranks)), "LOCAL_RANK": str(local_rank)}
            ranks.append((host, slot, {**common, **part_variables, **rank_variables}))
    return ranks
