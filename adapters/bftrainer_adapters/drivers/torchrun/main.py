"""Driver ``torchrun``: what runs under torchrun runs here, on nodes that come and go (docs/torchrun.md).

Workers get torchrun's environment (RANK, LOCAL_RANK, GROUP_RANK, MASTER_ADDR, TORCHELASTIC_RUN_ID, ...) and meet at a store
that the driver holds. torchrun's own agents are left out: with torch 2.13 they stall training four to six times as long, since
their store finds missing nodes by silence (``make stalls``), and they unpickle what an outsider may have put there. Here a
change of nodes is prepared while training goes on: workers of the next size do their imports; then the trainer checkpoints,
ends, and starts again from there.

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
    name: str = "torchrun"
    collective: bool = True
    store: StoreHost | None = None

    def begin(self, incarnation: int, places: Sequence[HostSlots]) -> list[Rank]:
        """Names as in torch/distributed/elastic/agent/server/local_elastic_agent.py (2.13)."""
        self.store = StoreHost(self.interface)
        common = {
            "MASTER_ADDR": self.store.address,
            "MASTER_PORT": str(self.store.port),
            "TORCHELASTIC_USE_AGENT_STORE": "True",
            "TORCHELASTIC_RUN_ID": f"{self.trainer.id}-{incarnation}",
            "TORCHELASTIC_RESTART_COUNT": "0",
            "TORCHELASTIC_MAX_RESTARTS": "0",
            "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1",
            "GLOO_SOCKET_IFNAME": self.interface,
            "NCCL_SOCKET_IFNAME": self.interface,
            "ROLE_NAME": "default",
            "GROUP_WORLD_SIZE": str(len(places)),
        }
        if any(place.slots > 1 for place in places):
            common["OMP_NUM_THREADS"] = "1"  # as torchrun does: workers that share a node share its cores
        common = {k: v for k, v in common.items() if k not in dict(self.trainer.environment)}
        group = {place: str(number) for number, place in enumerate(places)}
        return [
            (place, slot, env | _role(env, group[place])) for place, slot, env in ranks(places, common)
        ]  # fmt: skip

    def end(self) -> None:
        """The store goes with its incarnation."""
        if self.store is not None:
            self.store.close()
            self.store = None


def _role(env: dict[str, str], group: str) -> dict[str, str]:
    return {"ROLE_RANK": env["RANK"], "ROLE_WORLD_SIZE": env["WORLD_SIZE"], "GROUP_RANK": group}


def make(directory: TrainerDirectory, trainer: TrainerMessage, settings: DriverSettings) -> Program:
    """For the script itself: its workers are started here."""
    if Path(trainer.command[0]).name == "torchrun" or "torch.distributed.run" in trainer.command[:4]:
        raise InvalidValueError(
            f"command {trainer.command[0]}: the launcher torchrun starts the workers itself; expected the script alone, as in "
            '["python", "train.py"], and `slots` for the workers per node'
        )
    return TorchProgram(trainer, settings.interface, warm_command(trainer.command))


if __name__ == "__main__":
    sys.exit(run_driver(sys.argv[1:], make))
