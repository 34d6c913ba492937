"""Driver ``torchrun``: programs written for torchrun, on a changing set of nodes
(docs/torchrun.md).

Workers get torchrun's environment (RANK, LOCAL_RANK, GROUP_RANK, MASTER_ADDR, TORCHELASTIC_RUN_ID,
...) and meet at a store that the driver holds; each reaches it through a relay beside it, which
knows the key.

torchrun's own agents are not used: with torch 2.13 their stalls are four to six times as long,
because their store detects missing nodes by silence (``make stalls``), and they unpickle data that
an outsider may have written. Here a change of nodes is prepared while training continues: workers
of the next size do their imports; then the trainer checkpoints, ends, and resumes from the
checkpoint.

Run as ``python -m bftrainer_drivers.torchrun.main TRAINER_DIR``.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bftrainer.errors import InvalidValueError
from bftrainer.wires.hosts_file import HostSlots, parts_of
from bftrainer_drivers.common.behind_relay import STORE
from bftrainer_drivers.common.command_line import thread_variables
from bftrainer_drivers.common.group_guards import guard_variables, refuse_unguarded
from bftrainer_drivers.common.rendezvous_store import StoreHost
from bftrainer_drivers.common.restarts import Rank, RestartBackend, ranked_workers
from bftrainer_drivers.common.run_loop import Run, drive


class TorchBackend(RestartBackend):
    """torchrun's environment for each worker, and a store for each incarnation.

    Raises :class:`InvalidValueError` if the command is torchrun itself, or if strangers could not
    be kept out of its groups.
    """

    def __init__(self, run: Run) -> None:
        command = run.trainer.command
        if Path(command[0]).name == "torchrun" or "torch.distributed.run" in command[:4]:
            raise InvalidValueError(
                f"command {command[0]}: the launcher torchrun starts the workers itself; "
                "expected the script alone, as in "
                '["python", "train.py"], and `slots` for the workers per node'
            )
        super().__init__(run, collective=True)
        self._store: StoreHost | None = None
        self._has_own_store = "MASTER_ADDR" in run.trainer.environment
        refuse_unguarded(command, run.settings)

    def first_variables(self, host: HostSlots) -> dict[str, str]:
        """Return what a warm worker needs before its imports. The empty place of a store starts its
        relay now; the relay hears of the store with the worker's rank.
        """
        relay = {} if self._has_own_store else {STORE: ""}
        return thread_variables(host, self.run.trainer.environment) | relay

    def ranks(self, incarnation: int, hosts: Sequence[HostSlots]) -> list[Rank]:
        """Open a store and return the workers with the variables that torchrun sets, as of
        torch/distributed/elastic/agent/server/local_elastic_agent.py (2.13).
        """
        trainer, settings = self.run.trainer, self.run.settings
        if self._store is None:
            self._store = StoreHost(settings.interface, settings.allow_from)
        common = {
            STORE: str(self._store.open()),
            **guard_variables(settings),
            "TORCHELASTIC_USE_AGENT_STORE": "True",
            "TORCHELASTIC_RUN_ID": f"{trainer.id}-{incarnation}",
            "TORCHELASTIC_RESTART_COUNT": "0",
            "TORCHELASTIC_MAX_RESTARTS": "0",
            "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1",
            "GLOO_SOCKET_IFNAME": settings.interface,
            "NCCL_SOCKET_IFNAME": settings.interface,
            "ROLE_NAME": "default",
            "GROUP_WORLD_SIZE": str(len(parts_of(hosts))),
        }
        for host in hosts:
            common |= thread_variables(host, trainer.environment)
        common = {name: value for name, value in common.items() if name not in trainer.environment}
        if self._has_own_store:  # the trainer names a store of its own in MASTER_ADDR
            del common[STORE]
        group_ranks = {part: str(number) for number, part in enumerate(parts_of(hosts))}
        workers: list[Rank] = []
        for host, slot, environment in ranked_workers(hosts, common):
            torchrun_variables = {
                "ROLE_RANK": environment["RANK"],
                "ROLE_WORLD_SIZE": environment["WORLD_SIZE"],
                "GROUP_RANK": group_ranks[host.part],
            }
            workers.append((host, slot, environment | torchrun_variables))
        return workers

    def close(self) -> None:
        if self._store is not None:
            self._store.close_store()


if __name__ == "__main__":
    drive("torchrun", TorchBackend)
