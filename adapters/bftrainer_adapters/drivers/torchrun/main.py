"""Driver ``torchrun``: programs written for torchrun, on a changing set of nodes (docs/torchrun.md).

Workers get torchrun's environment (RANK, LOCAL_RANK, GROUP_RANK, MASTER_ADDR, TORCHELASTIC_RUN_ID, ...) and meet at a store
that the driver holds. torchrun's own agents are not used: with torch 2.13 their stalls are four to six times as long, because
their store detects missing nodes by silence (``make stalls``), and they unpickle data that an outsider may have written. Here
a change of nodes is prepared while training continues: workers of the next size do their imports; then the trainer
checkpoints, ends, and resumes from the checkpoint.

Run as ``python -m bftrainer_adapters.drivers.torchrun.main TRAINER_DIR``.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bftrainer.errors import InvalidValueError
from bftrainer.protocol.hosts import HostSlots
from bftrainer.protocol.messages import DriverSettings, TrainerMessage
from bftrainer.protocol.paths import TrainerDirectory
from bftrainer_adapters.drivers.common.restarting.program import Program, Rank, ranks
from bftrainer_adapters.drivers.common.restarting.restarter import run_driver
from bftrainer_adapters.drivers.common.warm_command import warm_command
from bftrainer_adapters.drivers.torchrun.store import StoreHost


@dataclass(slots=True)
class TorchProgram:
    """Launcher ``torchrun``: torchrun's environment for each worker, and a store for each incarnation."""

    trainer: TrainerMessage
    interface: str
    warm: Sequence[str] | None
    allow_from: Sequence[str]
    name: str = "torchrun"
    collective: bool = True
    store: StoreHost | None = None

    def first_variables(self, host: HostSlots) -> dict[str, str]:
        """As torchrun sets it: workers on one node share its cores. OpenMP reads it when torch is imported."""
        return {"OMP_NUM_THREADS": "1"} if host.slots > 1 and "OMP_NUM_THREADS" not in self.trainer.environment else {}

    def begin(self, incarnation: int, hosts: Sequence[HostSlots]) -> list[Rank]:
        """The variables are those of torch/distributed/elastic/agent/server/local_elastic_agent.py (2.13)."""
        self.store = self.store or StoreHost(self.interface, self.allow_from)
        common = {
            "MASTER_ADDR": self.store.address,
            "MASTER_PORT": str(self.store.open()),
            "TORCHELASTIC_USE_AGENT_STORE": "True",
            "TORCHELASTIC_RUN_ID": f"{self.trainer.id}-{incarnation}",
            "TORCHELASTIC_RESTART_COUNT": "0",
            "TORCHELASTIC_MAX_RESTARTS": "0",
            "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1",
            "GLOO_SOCKET_IFNAME": self.interface,
            "NCCL_SOCKET_IFNAME": self.interface,
            "ROLE_NAME": "default",
            "GROUP_WORLD_SIZE": str(len(hosts)),
        }
        for host in hosts:
            common |= self.first_variables(host)
        common = {k: v for k, v in common.items() if k not in dict(self.trainer.environment)}
        group = {host: str(number) for number, host in enumerate(hosts)}
        return [
            (host, slot, env | _role(env, group[host])) for host, slot, env in ranks(hosts, common)
        ]  # fmt: skip

    def end(self) -> None:
        if self.store is not None:
            self.store.close_store()


def _role(env: dict[str, str], group: str) -> dict[str, str]:
    return {"ROLE_RANK": env["RANK"], "ROLE_WORLD_SIZE": env["WORLD_SIZE"], "GROUP_RANK": group}


def make(directory: TrainerDirectory, trainer: TrainerMessage, settings: DriverSettings) -> Program:
    """The program of a training script. Raises :class:`InvalidValueError` if the command is torchrun itself."""
    if Path(trainer.command[0]).name == "torchrun" or "torch.distributed.run" in trainer.command[:4]:
        raise InvalidValueError(
            f"command {trainer.command[0]}: the launcher torchrun starts the workers itself; expected the script alone, as in "
            '["python", "train.py"], and `slots` for the workers per node'
        )
    return TorchProgram(trainer, settings.interface, warm_command(trainer.command), settings.allow_from)


if __name__ == "__main__":
    sys.exit(run_driver(sys.argv[1:], make))
